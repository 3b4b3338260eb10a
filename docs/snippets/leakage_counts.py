# needs: benchmark data
from tertium.data import find_folder, load, pair_key, pair_keys

folder = find_folder()
seen = {split: pair_keys(folder / "stsb.tsv", split=split) for split in ("train", "dev", "test")}
for name in ("STS12", "STS13", "STS14", "STS15", "STS16", "SICK-R"):
    keys = [pair_key(row.sentence1, row.sentence2) for row in load(name, folder=folder).rows]
    found = {split: sum(key in known for key in keys) for split, known in seen.items()}
    print(name, len(keys), found)
