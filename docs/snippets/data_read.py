from tertium.data import Pair, read_rows
from tertium.data.samples import PAIRS

rows = read_rows(PAIRS, Pair)
print(rows[0].sentence1, rows[0].score)
