import tertium
from tertium.evaluation.mteb import run_mteb

found = run_mteb(tertium.load(), ["STS16"])["STS16"]
print(f"{found['main_score']:.2f} {found['metric']}")
print(found["protocol"], "·", found["data"])
