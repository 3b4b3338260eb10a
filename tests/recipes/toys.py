"""The benchmark sets in small, and recipes for tiny models."""

import csv
import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

import tertium
from tertium.data.labels import OrderedLabels
from tertium.heads import CONDITIONAL_HEADS
from tertium.models import ConditionalScorer, Encoder
from tertium.models.conditional import model_shape
from tertium.recipes.files import parse_settings
from tests.training.toys import toy_examples, toy_texts

STS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sick")
LABELS = ("contradiction", "neutral", "entailment")


def toy_benchmarks(folder: Path) -> Path:
    """STS and NLI files in the flat layout, a dozen rows of each split."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = toy_examples(12).texts
    for name in STS:
        lines = ["split\tsubset\tscore\tsentence1\tsentence2"]
        for split in ("train", "dev", "test"):
            for at, (first, second) in enumerate(texts):
                score = 5.0 - (at % 3) / 2 if first == second else 1 + (at % 4) / 4
                lines.append(f"{split}\tall\t{score}\t{first}\t{second}")
        for form in ("", "_raw"):
            (folder / f"{name}{form}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ["sentence1\tsentence2\tlabel"]
    for at, (first, second) in enumerate(texts):
        label = LABELS[2 * (first == second)] if at % 3 else LABELS[1]
        rows.append(f"{first}\t{second}\t{label}")
    triplets = ["anchor\tpositive\thard_negative"]
    triplets += [f"{a}\t{a} .\t{b}" for a, b in texts]
    sentences = [f"{a} , the {b}" for a, b in texts] + [a + " sleeps" for a, _ in texts]
    for name, lines in (
        ("nli_pairs.tsv.gz", rows),
        ("nli_triplets.tsv.gz", triplets),
        ("wiki_sentences.txt.gz", sentences),
    ):
        with gzip.open(folder / name, "wt", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
    for split in ("train", "validation", "test"):
        toy_triples(folder / f"csts_{split}.csv")
    for split in ("train", "validation"):
        toy_triples(folder / f"csts_{split}_reannotated.csv")
    denied = [f"toy\t{a} is here\t{a} is not here" for a, _ in texts]
    negated = "\n".join(["source\tsentence\tnegated", *denied]) + "\n"
    (folder / "negation_pairs.tsv").write_text(negated, encoding="utf-8")
    return folder


def toy_triples(path: Path, *scores: object, pairs: int = 24) -> Path:
    """A user's own triples: every pair under two conditions, one that it meets and one not."""
    rows = [("sentence1", "sentence2", "condition", "score")]
    for first, second in toy_examples(pairs).texts:
        rows.append((first, second, f"the {first.split()[0]}", "5" if first == second else "2"))
        rows.append((first, second, "dog barks", "4" if first == second else "1"))
    given = [(*row[:3], str(score)) for row, score in zip(rows[1:], scores, strict=False)]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerows([rows[0], *(given or rows[1:])])
    return path


def toy_grader(path: Path, model: Path) -> ConditionalScorer:
    """A conditional model with weights of its own."""
    encoder = tertium.load(model, engine="torch")
    assert isinstance(encoder, Encoder)
    head = CONDITIONAL_HEADS["cross"](model_shape(encoder), seed=3)
    scorer = ConditionalScorer(encoder, head, OrderedLabels(1.0, 5.0, 1.0))
    scorer.save(path)
    return scorer


def toy_pairs(path: Path, *scores: object) -> Path:
    """A user's own file of graded pairs."""
    texts = toy_examples(12).texts
    given = scores or [5.0 if a == b else float(at % 3) for at, (a, b) in enumerate(texts)]
    rows = ["sentence1\tsentence2\tscore"]
    rows += [f"{a}\t{b}\t{score}" for (a, b), score in zip(texts, given, strict=False)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def toy_stage(pairs: Path, name: str = "own", **train: Any) -> dict[str, Any]:
    return {
        "name": name,
        "data": {"sources": [{"file": str(pairs)}], "labels": {"low": 0, "high": 5}},
        "objectives": [{"kind": "smooth_k2", "head": "cosine", "threshold": 0.25}],
        "train": {
            "max_steps": 2,
            "batch_size": 4,
            "learning_rate": 0.001,
            "checkpoint_every": 2,
            **train,
        },
    }


def toy_text_file(path: Path, count: int = 24, *, more: str = "") -> Path:
    """A user's own texts, one per line."""
    lines = [text for (text,) in toy_texts(count).texts]
    path.write_text("\n".join(lines) + "\n" + more, encoding="utf-8")
    return path


def contrast_stage(texts: Path, name: str = "contrast", **parts: Any) -> dict[str, Any]:
    """A stage on single texts; ``parts`` replace its own."""
    return {
        "name": name,
        "data": {"kind": "texts", "sources": [{"file": str(texts)}]},
        "views": [{"kind": "dropout"}],
        "objectives": [{"kind": "info_nce"}],
        "train": {"max_steps": 2, "batch_size": 8, "learning_rate": 0.001, "checkpoint_every": 1},
        **parts,
    }


def triplet_stage(source: dict[str, Any]) -> dict[str, Any]:
    data = {"kind": "triplets", "sources": [source]}
    return contrast_stage(Path("x"), data=data, views=[])


class Trainings:
    """Stands for the training processes: each writes the report of a run."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.failing: str | None = None
        self.before: Callable[[Path], None] = lambda folder: None
        self.average: Callable[[list[str]], float | None] = lambda command: 70.0 + seed_of(command)

    @property
    def folders(self) -> list[str]:
        """The runs that were begun, in their order."""
        return [folder_of(command).name for command in self.commands]

    def __call__(self, command: list[str], *, stderr: Any, **_: Any) -> Any:
        self.commands.append(command)
        folder = folder_of(command)
        self.before(folder)
        if folder.name == self.failing:
            stderr.write("note: begun\nerror: no space left\n")
            return subprocess.CompletedProcess(command, 2)
        average = self.average(command)
        tasks = {"STS-B": {"spearman": average}}
        sts = {"average": average, "leak_free": {"spearman": 60.0}, "tasks": tasks}
        (folder / "run" / "0-own").mkdir(parents=True, exist_ok=True)
        (folder / "run" / "seconds.txt").write_text("90")
        self.record(command, folder / "run")
        for weights in ("model.safetensors", "run/0-own/model.safetensors"):
            (folder / weights).write_text("weights")
        (folder / "report.json").write_text(json.dumps({"results": {"sts": sts}}))
        return subprocess.CompletedProcess(command, 0)

    def record(self, command: list[str], run: Path) -> None:
        """What a run keeps of its recipe and data."""
        (run / "recipe.yaml").write_text("")


def folder_of(command: list[str]) -> Path:
    return Path(command[command.index("-o") + 1])


def seed_of(command: list[str]) -> int:
    return int(command[command.index("--seed") + 1])


def settings_of(command: list[str]) -> dict[str, Any]:
    return parse_settings([command[at + 1] for at, part in enumerate(command) if part == "--set"])


def toy_recipe(
    path: Path, model: Path, *stages: dict[str, Any], change: Callable[[Any], object] | None = None
) -> str:
    """Write a recipe for a tiny model; ``change`` may spoil it."""
    content: dict[str, Any] = {
        "summary": "a toy",
        "encoder": {"model": str(model)},
        "stages": list(stages),
    }
    if change is not None:
        change(content)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return str(path)
