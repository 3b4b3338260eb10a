from tertium.models.checkpoints import PUBLISHED

for name, pooling in PUBLISHED.items():
    if not name.startswith("UCASzty/"):  # TNCSE's and JTCSE's folders
        print(f"{pooling:<7} {name}")
