"""What CONTRIBUTING promises: a new part of each kind is one class and one line of a registry.

Each test writes a toy, adds the line, and uses the toy as a user would: in a recipe, in a saved
model, in an evaluation, over HTTP.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tertium
from tertium.data.benchmarks import Loaded
from tertium.errors import TertiumError
from tertium.evaluation import run
from tertium.evaluation.tasks import TASKS, Outcome
from tertium.evaluation.tasks.base import Context
from tertium.functional import cosine_pairs
from tertium.heads import (
    CONDITIONAL_HEADS,
    HEADS,
    ConditionalHead,
    HeadLayout,
    ModelShape,
    PairHead,
)
from tertium.objectives import OBJECTIVES, Objective
from tertium.recipes.files import read_recipe
from tertium.recipes.train import train
from tertium.types import Encoded, HeadOutput, Term, Tokens, ViewPair
from tertium.views import VIEWS, View, Vocabulary
from tests.fakes import HashEncoder, tiny_model
from tests.recipes.test_conditional import triple_stage
from tests.recipes.toys import (
    contrast_stage,
    toy_pairs,
    toy_recipe,
    toy_stage,
    toy_text_file,
    toy_triples,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::tertium.errors.TertiumWarning"),
]
PAIRS = [("a b c", "a b c"), ("a b", "x y z"), ("the cat sleeps .", "the dog barks .")]
TRIPLES = [(*pair, "the cat") for pair in PAIRS]


def trained(folder: Path, model: Path, stage: dict[str, Any]) -> tuple[Any, dict[str, float]]:
    """What a recipe with this one stage leaves, loaded, and the last line of its log."""
    recipe = toy_recipe(folder / "toy.yaml", model, stage)
    done = train(recipe, folder / "model", evaluate_after=False, progress=False)
    log = [entry for entry in done.log[stage["name"]] if "loss" in entry]
    return tertium.load(folder / "model"), log[-1]


def mistake(folder: Path, model: Path, stage: dict[str, Any]) -> str:
    """What is said about a recipe that has one."""
    with pytest.raises(TertiumError) as raised:
        read_recipe(toy_recipe(folder / "wrong.yaml", model, stage))
    return str(raised.value)


# objectives


class Nearness(Objective):
    """Pulls two views together."""

    def __init__(self, *, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength

    def terms(self, views: ViewPair) -> dict[str, Term]:
        distance = (views.first.embedding - views.second.embedding).square().mean(dim=1)
        return {"nearness": Term(self.strength * distance)}


def test_an_objective(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OBJECTIVES, "nearness", Nearness)
    texts = toy_text_file(tmp_path / "texts.txt")
    stage = contrast_stage(texts, objectives=[{"kind": "nearness", "strength": "5e-1"}])
    _, log = trained(tmp_path, tiny_bert, stage)
    assert np.isfinite(log["nearness"])
    wrong = contrast_stage(texts, objectives=[{"kind": "nearness", "force": 1}])
    assert "force" in mistake(tmp_path, tiny_bert, wrong)


# heads


class Shifted(PairHead):
    """The cosine on the scale of the labels, with a learned shift."""

    def __init__(self, *, dimension: int, high: float = 1.0, start: float = 0.0) -> None:
        super().__init__()
        self.settings = {"high": high, "start": start}
        self.shift = nn.Parameter(torch.full((dimension,), start))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        return (self.settings["high"] * cosine_pairs(u, v) + self.shift.mean())[:, None]

    def config(self) -> dict[str, Any]:
        return {"kind": "shifted", **self.settings}


def test_a_head(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HEADS, "shifted", Shifted)
    stage = toy_stage(toy_pairs(tmp_path / "pairs.tsv"))
    stage["objectives"] = [{"kind": "l1", "head": {"kind": "shifted", "start": 0.25}}]
    model, _ = trained(tmp_path, tiny_bert, stage)
    assert isinstance(model.head, Shifted) and model.head.settings == {"high": 5.0, "start": 0.25}
    model.save(tmp_path / "again")
    np.testing.assert_allclose(tertium.load(tmp_path / "again").score(PAIRS), model.score(PAIRS))


# views


class Backwards(View):
    """The words between the first and the last token in reverse order."""

    def __init__(self, vocabulary: Vocabulary, *, every: int = 1) -> None:
        self.every = every

    def __call__(self, tokens: Tokens, **given: Any) -> Tokens:
        ids = tokens.ids.clone()
        for row, length in enumerate(tokens.mask.sum(dim=1).tolist()):
            if row % self.every == 0:
                ids[row, 1 : length - 1] = ids[row, 1 : length - 1].flip(0)
        return Tokens(ids, tokens.mask)


def test_a_view(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VIEWS, "backwards", Backwards)
    texts = toy_text_file(tmp_path / "texts.txt")
    _, log = trained(
        tmp_path, tiny_bert, contrast_stage(texts, views=[{"kind": "backwards", "every": 2}])
    )
    assert np.isfinite(log["loss"])
    wrong = contrast_stage(texts, views=[{"kind": "backwards", "each": 2}])
    assert "each" in mistake(tmp_path, tiny_bert, wrong)


# conditional heads


class Between(ConditionalHead):
    """The cosine of both sentences, each read with the condition."""

    kind: ClassVar[str] = "between"

    def __init__(self, shape: ModelShape, *, factor: float = 1.0, seed: int = 0) -> None:
        super().__init__({"factor": factor})
        self.factor = nn.Parameter(torch.tensor(factor))

    @property
    def layout(self) -> HeadLayout:
        return HeadLayout(((0, 2), (1, 2)))

    def forward(self, sides: Sequence[Encoded]) -> HeadOutput:
        one, two = sides
        return HeadOutput(self.factor * cosine_pairs(one.embedding, two.embedding))


def test_a_conditional_head(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONDITIONAL_HEADS, "between", Between)
    head = {"kind": "between", "factor": 0.5}
    stage = triple_stage(toy_triples(tmp_path / "own.csv"), head=head)
    model, _ = trained(tmp_path, tiny_bert, stage)
    assert model.takes_conditions and isinstance(model.head, Between)
    model.save(tmp_path / "again")
    again = tertium.load(tmp_path / "again")
    np.testing.assert_allclose(again.score(TRIPLES), model.score(TRIPLES), atol=1e-5)


# tasks


@dataclass(frozen=True)
class Lengths:
    """How well the cosine tells texts that are as long as each other."""

    name: str
    headline: str = "accuracy"

    def run(self, context: Context) -> Outcome:
        first, second = (context.cache.embed([pair[side] for pair in PAIRS]) for side in (0, 1))
        same = [len(a.split()) == len(b.split()) for a, b in PAIRS]
        alike = (first * second).sum(axis=1) > 0
        values = {"accuracy": 100.0 * float(np.mean(alike == same)), "pairs": len(PAIRS)}
        return Outcome(
            values,
            "cosine above 0",
            Loaded("made up", "test", "raw", (), "nowhere", None, None, "free"),
        )


def test_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "LENGTHS", Lengths("LENGTHS"))
    report = run(HashEncoder(), {"toys": ["LENGTHS"]}, resamples=0)
    (result,) = report.suites
    assert 0 <= result.tasks[0].values["accuracy"] <= 100
    assert "LENGTHS" in str(report)


# poolings and engines: their names are members of an enumeration, so a copy of the source is edited

ADDITIONS = {
    "types.py": [
        ('    POOLER = "pooler"', '    MAX = "max"\n'),
        ('    ONNX = "onnx"', '    PLAIN = "plain"\n'),
    ],
    "models/pooling.py": [
        ("    Pooling.POOLER: _pooler,", '    Pooling.MAX: lambda origin: [origin.stock("max")],\n')
    ],
    "engines/__init__.py": [
        (
            '    EngineName.ONNX: EngineKind("',
            '    EngineName.PLAIN: EngineKind("its graph without settings", ("onnx",)),\n',
        )
    ],
    "engines/runtimes.py": [
        ('    "openvino": OpenVinoEngine,', '    "onnx": PlainEngine,\n'),
        (
            "# By package.",
            """

class PlainEngine:
    def __init__(self, name, path, *, threads):
        import onnxruntime

        self.name = name
        self._graph = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(self, inputs):
        return np.asarray(self._graph.run(None, dict(inputs))[0])


""",
        ),
    ],
}
USE = """
import sys
import numpy as np
import tertium

folder, target = sys.argv[1:]
texts = ["a b c", "the cat sleeps ."]
model = tertium.load(folder, pooling="max")
vectors = model.encode(texts)
assert not np.allclose(vectors, tertium.load(folder, pooling="mean").encode(texts))
model.save(target)
again = tertium.load(target)
assert again.pooling == "max"
np.testing.assert_allclose(again.encode(texts), vectors, atol=1e-6)
fast = tertium.load(target, engine="plain")
assert [part.engine.name for part in fast.parts] == ["plain"]
np.testing.assert_allclose(fast.encode(texts), vectors, atol=1e-4)
"""


def test_a_pooling_and_an_engine(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'fast' is not installed")
    source = Path(tertium.__file__).parent
    copy = tmp_path / "src" / "tertium"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    for name, lines in ADDITIONS.items():
        text = (copy / name).read_text(encoding="utf-8")
        for before, line in lines:
            assert text.count(before) == 1, f"{name}: {before}"
            text = text.replace(before, line + before)
        (copy / name).write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", USE, tiny_model(tmp_path / "bert", layers=1), tmp_path / "saved"],
        env={**os.environ, "PYTHONPATH": str(copy.parent), "TERTIUM_CACHE": str(tmp_path / "c")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
