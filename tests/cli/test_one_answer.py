"""A model gives the same scores whichever way it is asked."""

import json
from collections.abc import Iterator
from itertools import groupby, product
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder

import tertium
from tertium.client import Client
from tertium.engines.static import distil_static
from tertium.heads import CosineHead
from tertium.jobs import iter_scores
from tertium.models import (
    CarefulScorer,
    Caution,
    ConditionalAverage,
    ConditionalScorer,
    CrossScorer,
    Encoder,
    Ensemble,
    PairScorer,
)
from tertium.models.surgery import join_towers
from tertium.serve.protocol import LOADER
from tests.cli.conftest import Run
from tests.engines.models import encoder, other
from tests.fakes import tiny_model
from tests.models.test_conditional import scorer_of
from tests.models.test_cross import judge_of
from tests.models.test_pair import GRADES
from tests.serve.live import live

LONG = "a cat and a dog " * 40  # more than the 64 tokens that tiny models read
FIRST = ("the cat sleeps .", "", LONG)
SECOND = ("the cat sleeps .", "a dog barks", "x y z", "q", "", LONG)
CONDITIONS = ("the dog", "a", "")
# kinds that read a pair together, so that vectors do not tell their scores
TOGETHER = {"careful", "cross", "published-cross"}
PAIRED = {"encoder", "pair", "twin", "ensemble", "static", *TOGETHER}  # kinds that compare pairs
KINDS = [*sorted(PAIRED), "conditional", "average"]
CLOSE = {"atol": 1e-4}  # batches differ, and heads here magnify the last bits

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::tertium.errors.TertiumWarning"),
]


@pytest.fixture(scope="module")
def berts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One layer each; kinds share them, and with them what is exported."""
    folder = tmp_path_factory.mktemp("one-answer")
    names = ("bert", "roberta")
    return {name: tiny_model(folder / name, name, layers=1) for name in names}


@pytest.fixture
def model(
    request: pytest.FixtureRequest, berts: dict[str, Path], tmp_path: Path
) -> tuple[str, Path]:
    kind: str = request.param
    _build(kind, berts).save(tmp_path / kind)
    return kind, tmp_path / kind


def _build(kind: str, berts: dict[str, Path]) -> Any:
    bert, roberta = encoder(berts["bert"]), encoder(berts["roberta"])
    match kind:
        case "pair":
            return _pair(bert)
        case "careful":
            return CarefulScorer(_pair(bert), _judge(berts["roberta"]), Caution(0.9, 0.0, 3))
        case "twin":
            return join_towers(
                encoder(berts["bert"], pooling="cls"), encoder(other(berts["bert"]), pooling="cls")
            )
        case "ensemble":
            return Ensemble([bert, roberta], weights=[1.0, -0.5])
        case "static":
            return distil_static(bert)
        case "cross":
            return _cross(berts["bert"])
        case "published-cross":
            return _published_cross(berts["bert"])
        case "conditional":
            return _conditional(berts["bert"])
        case "average":
            return ConditionalAverage(
                [_conditional(berts["bert"]), _conditional(berts["roberta"])], weights=[0.7, 0.3]
            )
    return bert


def _judge(folder: Path) -> CrossScorer:
    """Its answers lie on both sides of the scale."""
    judge = judge_of(folder)
    regressor = judge.members[0].model.head.regressor
    found = judge.score_items(list(product(FIRST, SECOND)))
    slope, offset = _beyond(found, low=0.0, high=1.0)
    with torch.no_grad():
        bias = slope * regressor.classifier.bias + offset
        regressor.classifier.weight.mul_(slope)
        regressor.classifier.bias.copy_(bias)
    return judge


def _pair(bert: Encoder) -> PairScorer:
    """Grades from 0 to 5, which the head leaves on both sides."""
    head = CosineHead()
    scorer = PairScorer(bert, head, GRADES)
    slope, offset = _beyond(bert.score(list(product(FIRST, SECOND))), low=0.0, high=5.0)
    with torch.no_grad():
        head.slope.fill_(slope)
        head.offset.fill_(offset)
    return scorer


def _cross(folder: Path) -> CrossScorer:
    """Both texts read together, in both orders."""
    scorer = scorer_of(folder, {"kind": "cross", "regressor": "mean"})
    plain = CrossScorer(scorer).score_items(_items("cross"))
    low, high = scorer.scale
    classifier = scorer.head.regressor.classifier  # type: ignore[union-attr]
    slope, offset = _beyond((plain - low) / (high - low), low=0.0, high=1.0)
    with torch.no_grad():
        classifier.bias.copy_(slope * classifier.bias + offset)  # type: ignore[operator, union-attr]
        classifier.weight.mul_(slope)  # type: ignore[operator, union-attr]
    return CrossScorer(scorer)


def _published_cross(folder: Path) -> CrossEncoder:
    """As sentence-transformers saves one, with scores all over its scale."""
    model = CrossEncoder(str(folder), num_labels=1, device="cpu", max_length=64)
    pairs = _items("published-cross")
    plain = model.predict(pairs, activation_fn=torch.nn.Identity())
    slope, offset = _beyond(plain, low=-1.0, high=1.0)
    with torch.no_grad():
        classifier = model.model.classifier
        classifier.bias.copy_(slope * classifier.bias + offset)
        classifier.weight.mul_(slope)
    return model


def _conditional(folder: Path) -> ConditionalScorer:
    """The same for triples, where a head gives 0 for the lowest grade and 1 for the highest."""
    scorer = scorer_of(folder, {"kind": "bi", "scale": "learned"})
    triples = list(product(FIRST, SECOND, CONDITIONS))
    low, high = scorer.scale
    plain = (scorer.score(triples, within_scale=False) - low) / (high - low)
    slope, offset = _beyond(plain, low=0.0, high=1.0)
    with torch.no_grad():
        scorer.head.slope.fill_(slope)  # type: ignore[operator, union-attr]
        scorer.head.offset.fill_(offset)  # type: ignore[operator, union-attr]
    return scorer


def _beyond(values: np.ndarray, *, low: float, high: float) -> tuple[float, float]:
    """A line that spreads the values over three times the scale, which is in their middle."""
    span = high - low
    slope = 3 * span / float(values.max() - values.min())
    return slope, low - span - slope * float(values.min())


def _items(kind: str) -> list[tuple[str, ...]]:
    return list(product(FIRST, SECOND, *([] if kind in PAIRED else [CONDITIONS])))


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_every_way_in_gives_the_same_scores(
    model: tuple[str, Path],
    berts: dict[str, Path],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tertium.jobs.workers.START_METHOD", "fork")
    kind, folder = model
    items = _items(kind)
    loaded: Any = tertium.load(folder)
    expected = loaded.score(items)
    low, high = loaded.scale
    assert np.ptp(expected) > 0.1 * (high - low)
    if kind in ("pair", "cross", "conditional", "average"):
        unclipped = loaded.score_items(items)
        assert unclipped.min() < low - 0.1 and unclipped.max() > high + 0.1
        assert expected.min() == low and expected.max() == high
        np.testing.assert_array_equal(expected, unclipped.clip(low, high))
    ways = [
        ("compare", _compared(run, folder, items)),
        *_served(kind, folder, berts["bert"], items, engine="torch"),
    ]
    if kind in PAIRED - TOGETHER:
        short = [at for at, item in enumerate(items) if LONG not in item]  # one vector, not many
        found = _from_vectors(loaded, [items[at] for at in short])
        np.testing.assert_allclose(found, expected[short], err_msg="score_vectors", **CLOSE)
    for way, found in ways:
        np.testing.assert_allclose(found, expected, err_msg=way, **CLOSE)
    filled = [at for at, item in enumerate(items) if all(item[:2])]  # see the last test
    for way, found in _files(run, folder, [items[at] for at in filled], tmp_path):
        np.testing.assert_allclose(found, expected[filled], err_msg=way, **CLOSE)


@pytest.mark.integration
@pytest.mark.parametrize(
    "model",
    [  # static embeddings and published cross-encoders have no graph; an export takes seconds
        pytest.param(kind, marks=[] if kind in ("pair", "conditional") else pytest.mark.long)
        for kind in KINDS
        if kind not in ("static", "published-cross")
    ],
    indirect=True,
)
def test_an_engine_gives_the_same_scores(model: tuple[str, Path], berts: dict[str, Path]) -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'fast' is not installed")
    kind, folder = model
    items = _items(kind)
    plain: Any = tertium.load(folder)
    fast: Any = tertium.load(folder, engine="onnx")
    expected = plain.score(items)
    np.testing.assert_allclose(fast.score(items), expected, atol=1e-3)
    for way, found in _served(kind, folder, berts["bert"], items, engine="onnx"):
        np.testing.assert_allclose(found, expected, err_msg=way, atol=1e-3)


@pytest.mark.parametrize("output", ["scores.jsonl", "scores/"])
@pytest.mark.parametrize("blank", ["", " \t"])
def test_files_refuse_an_empty_text(
    run: Run, berts: dict[str, Path], tmp_path: Path, output: str, blank: str
) -> None:
    source = tmp_path / "pairs.jsonl"
    source.write_text(json.dumps({"sentence1": blank, "sentence2": "a"}) + "\n")
    ran = run("score", source, "-o", f"{tmp_path}/{output}", "-m", berts["bert"])
    assert ran.code == 2 and "write some text, or remove the row" in ran.err
    assert not (tmp_path / output).exists()


def _from_vectors(model: Any, items: list[tuple[str, ...]]) -> np.ndarray:
    first, second = (model.encode(list(side)) for side in zip(*items, strict=True))
    return np.asarray(model.score_vectors(first, second))


def _compared(run: Run, folder: Path, items: list[tuple[str, ...]]) -> list[float]:
    found = []
    for a, group in groupby(items, key=lambda item: item[0]):
        rest = [item[1:] for item in group]
        others = dict.fromkeys(texts[0] for texts in rest)
        conditions = dict.fromkeys(texts[1] for texts in rest if len(texts) == 2)
        asked = [part for condition in conditions for part in ("--on", condition)]
        ran = run("compare", "--json", "-m", folder, *asked, "--", a, *others)
        assert ran.code == 0, ran.err
        found += [pair["score"] for pair in json.loads(ran.out)["pairs"]]
    return found


def _files(
    run: Run, folder: Path, items: list[tuple[str, ...]], place: Path
) -> Iterator[tuple[str, list[float]]]:
    """Scores of a file, in one file and in shards."""
    names = ("sentence1", "sentence2", "condition")
    rows = [dict(zip(names, item, strict=False)) for item in items]
    source = place / "items.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    single = place / "scores.jsonl"
    ran = run("score", source, "-o", single, "-m", folder)
    assert ran.code == 0, ran.err
    written = [json.loads(line) for line in single.read_text().splitlines()]
    yield "score to a file", [row["similarity"] for row in written]
    shards = place / "shards"
    ran = run("score", source, "-o", f"{shards}/", "-m", folder, "--shard-rows", 4, "--workers", 1)
    assert ran.code == 0, ran.err
    yield "score to shards", [float(x) for block in iter_scores(shards) for x in block.scores]


def _served(
    kind: str, folder: Path, plain: Path, items: list[tuple[str, ...]], *, engine: str
) -> Iterator[tuple[str, Any]]:
    pairs = kind in PAIRED
    flags = {"model": str(folder)} if pairs else {"model": str(plain)}
    flags["conditional_model"] = "none" if pairs else str(folder)
    path, field = ("similarity", "pairs") if pairs else ("conditional", "triples")
    with live(loader=LOADER, engine=engine, **flags) as site, Client(site.url, batch=7) as client:
        answer = httpx.post(f"{site.url}/v1/{path}", json={field: items}, timeout=60)
        assert answer.status_code == 200, answer.text
        yield f"/v1/{path}", answer.json()["scores"]
        asked: Any = client.similarity if pairs else client.conditional
        yield "client", asked(items).values
