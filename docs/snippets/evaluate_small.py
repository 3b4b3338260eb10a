# needs: benchmark data
from pathlib import Path

import tertium
from tertium.data import find_folder
from tertium.evaluation import run

model = tertium.load()
report = run(model, {"mine": ["STS16"]}, folder=find_folder(), text="raw", resamples=200)
print(f"{report['mine'].tasks[0].values['spearman']:.2f}")
report.save(Path("report.json"))
report.save(Path("report.md"))
