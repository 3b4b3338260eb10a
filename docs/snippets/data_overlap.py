from tertium.data import pair_key, pair_keys, parse_spec
from tertium.data.samples import PAIRS

path, split = parse_spec(f"{PAIRS}")  # FILE or FILE:SPLIT
seen = pair_keys(path, split=split)
print(
    pair_key("A young engineer designed the bridge", "the bridge was designed by a young engineer!")
    in seen
)
