from pathlib import Path

import tertium

pairs = [
    ("A man in red rides a horse.", "A woman in red rides a bike."),
    ("Two dogs run on a beach.", "Two cats sleep on a beach."),
    ("A girl plays the violin indoors.", "A boy plays the violin outdoors."),
    ("Three men cook soup.", "Three men cook rice."),
]
labels = {"the color": [5, 3, 3, 3], "the number": [5, 5, 5, 5], "the action": [2, 1, 5, 4]}
lines = ["sentence1\tsentence2\tcondition\tscore"]
for condition, scores in labels.items():
    lines += [f"{a}\t{b}\t{condition}\t{s}" for (a, b), s in zip(pairs, scores, strict=True)]
Path("my_triples.tsv").write_text("\n".join(lines) + "\n")

trained = tertium.train(
    "csts-bi-minilm",
    "my-model",
    settings={
        "stages.csts.data.sources": [{"file": "my_triples.tsv"}],
        "stages.csts.data.folds": None,  # too few to hold any out
        "stages.csts.select": None,
        "stages.csts.train.max_steps": 2,  # only to be quick here
        "stages.csts.train.batch_size": 4,
    },
    evaluate_after=False,
)
model = tertium.load(trained.folder)
one, two = "Four dogs run.", "Four dogs sleep."
found = model.score([(one, two, "the number"), (one, two, "the action")])
print(len(found), "scores from", *model.scale)
