import tertium
from tertium.recipes import read_recipe

wrong = {
    "encoder.poling": "cls",
    "stages.stsb.train.batch_size": 0,
    "stages.stsb.data.limit": "lots",
}
try:
    read_recipe("sts-regression-minilm", settings=wrong)
except tertium.TertiumError as error:
    print(error)
