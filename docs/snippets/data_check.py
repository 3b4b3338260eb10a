from tertium.data import check_file
from tertium.data.samples import PAIRS

check = check_file(PAIRS)
print(check.kind, check.rows, [str(problem) for problem in check.problems])
