from tertium.models.checkpoints import PUBLISHED

for name, pooling in PUBLISHED.items():
    print(f"{pooling:<7} {name}")
