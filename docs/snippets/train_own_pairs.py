from pathlib import Path

from sentence_transformers import SentenceTransformer

import tertium
from tertium.data.samples import PAIRS
from tertium.recipes.train import train

trained = train(
    "sts-regression-minilm",
    Path("my-model"),
    overrides=[
        f"stages.stsb.data.sources=[{{file: '{PAIRS}'}}]",
        "stages.stsb.select=null",  # no benchmark data needed
        "stages.stsb.train.max_steps=2",  # only to be quick here
        "encoder.adapter_rank=null",
    ],
    evaluate_after=False,
)

model = tertium.load(trained.folder)
print(model.scale, model.encode(["A cat sleeps."]).shape)

stock = SentenceTransformer("./my-model", device="cpu")
print(abs(stock.encode(["A cat sleeps."]) - model.encode(["A cat sleeps."])).max() < 1e-5)
