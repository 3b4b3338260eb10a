from pathlib import Path

from tertium.data.samples import PAIRS
from tertium.report import build_report

built = build_report(["sts"], Path("report"), pairs=[PAIRS], resamples=200)
figures = built.numbers["sections"]["results"]["figures"][PAIRS.name]
for name, found in figures.items():
    print(f"{name}: Spearman {found['spearman']:.1f} on {found['pairs']} pairs")
print(len(built.broken), "failures,", built.page)
