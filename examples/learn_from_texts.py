"""Learn from texts without labels, then ask whether it helped.

python examples/learn_from_texts.py

On a few sample sentences and a few steps: enough to see every part, too few to learn much.
"""

import tempfile
from pathlib import Path

import tertium
from tertium.data.samples import sample_pairs, sample_sentences
from tertium.evaluation import spearman
from tertium.models import Encoder


def main() -> None:
    """Train on sentences, show what chose the checkpoint, compare with the model as it was."""
    pairs = sample_pairs()
    sides = [text for pair in pairs for text in (pair.sentence1, pair.sentence2)]
    texts = list(dict.fromkeys([*sample_sentences(), *sides]))  # your own: one sentence a line
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "my_sentences.txt"
        file.write_text("\n".join(texts), encoding="utf-8")
        trained = tertium.train(
            "simcse-minilm",
            folder / "my-model",
            settings={
                "stages.contrast.data": {"kind": "texts", "sources": [{"file": str(file)}]},
                "stages.contrast.select": {"task": "held-out", "every": 2},
                "stages.contrast.train.batch_size": 16,
                "stages.contrast.train.max_steps": 6,  # only to be quick here
            },
            evaluate_after=False,
        )
        after = tertium.load(trained.folder)

    print(f"{len(texts)} sentences, a tenth held out, {trained.seconds:.0f} s of training\n")
    print("step   recognition of held-out sentences (0 is perfect)")
    for entry in trained.log["contrast"]:
        if "eval_score" in entry:
            print(f"{entry['step']:>4}   {entry['eval_score']:.4f}")

    gold = [pair.score for pair in pairs]
    models: dict[str, Encoder] = {
        "CLS before": tertium.load(pooling="cls"),
        "CLS after": after,
        "mean pooling, untouched": tertium.load(),
    }
    print(f"\nSpearman on {len(pairs)} graded pairs")
    for label, model in models.items():
        found = model.score([(pair.sentence1, pair.sentence2) for pair in pairs])
        print(f"{label:<25}{100 * spearman(gold, found):>5.1f}")
    print("\nSo few pairs decide nothing. Compare on pairs of your own before you switch models.")


if __name__ == "__main__":
    main()
