from pathlib import Path

import tertium
from tertium.data.samples import sample_sentences
from tertium.recipes.distil import distil

Path("texts.txt").write_text("\n".join(sample_sentences()))
trained = distil(
    ["default"],
    "default",
    Path("texts.txt"),
    Path("one"),
    pooling="cls",
    schedule={"max_steps": 2, "batch_size": 16},  # only to be quick here
    settings={"stages.distil.select": None},
    evaluate_after=False,
)
model = tertium.load(trained.folder)
print(model.pooling, model.dimension)
