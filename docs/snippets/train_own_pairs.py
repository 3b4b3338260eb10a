from sentence_transformers import SentenceTransformer

import tertium
from tertium.data.samples import PAIRS

trained = tertium.train(
    "sts-regression-minilm",
    "my-model",
    settings={
        "stages.stsb.data.sources": [{"file": str(PAIRS)}],
        "stages.stsb.select": None,  # no benchmark data needed
        "stages.stsb.train.max_steps": 2,  # only to be quick here
        "encoder.adapter_rank": None,
    },
    evaluate_after=False,
)

model = tertium.load(trained.folder)
print(model.scale, model.encode(["A cat sleeps."]).shape)

stock = SentenceTransformer("./my-model", device="cpu")
print(abs(stock.encode(["A cat sleeps."]) - model.encode(["A cat sleeps."])).max() < 1e-5)
