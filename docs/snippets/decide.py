import tempfile
from pathlib import Path

import tertium
from tertium.data import sample_pairs

folder = Path(tempfile.mkdtemp())
lines = ["sentence1\tsentence2\tscore"]
lines += [f"{pair.sentence1}\t{pair.sentence2}\t{pair.score}" for pair in sample_pairs()]
(folder / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")

fitted = tertium.fit("default", folder / "pairs.tsv", folder / "mine", positive=4)
model = tertium.load(folder / "mine")
pairs = [("A cat sleeps.", "A cat is asleep."), ("A cat sleeps.", "Stocks fell.")]
for verdict in model.decide(pairs):
    print(verdict.answer, round(verdict.probability, 1), round(verdict.grade))
