from pathlib import Path

import pytest
import torch

import tertium
from tertium.corpus.identity import check_identity, identify
from tertium.engines.loading import load_embedder
from tertium.errors import TertiumError
from tertium.models import Ensemble
from tests.fakes import HashEncoder


def test_the_same_weights_under_any_name(tiny_bert: Path, tmp_path: Path) -> None:
    model = load_embedder(tiny_bert)
    known = identify(model)
    assert (known.name, known.pooling, known.dimension) == (str(tiny_bert), "mean", 32)
    model.save(tmp_path / "copy")
    copy = load_embedder(tmp_path / "copy")
    assert identify(copy).fingerprint == known.fingerprint
    check_identity(copy, known, index="x")


def test_other_weights_pooling_or_width(tiny_bert: Path, tiny_roberta: Path) -> None:
    model = tertium.load(tiny_bert, engine="torch")
    known = identify(model)
    with pytest.raises(TertiumError, match="has the pooling cls, the index has mean"):
        check_identity(tertium.load(tiny_bert, pooling="cls"), known, index="x")
    with pytest.raises(TertiumError, match=r"x was built with .* and .*roberta has other weights"):
        check_identity(tertium.load(tiny_roberta), known, index="x")
    with torch.no_grad():
        next(model.backbone.parameters())[0, 0] += 1
    with pytest.raises(TertiumError, match="other weights"):
        check_identity(model, known, index="x")
    with pytest.raises(TertiumError, match="vectors of width 16, the index has 32"):
        check_identity(HashEncoder(), known, index="x")


def test_the_same_model_by_another_engine(tiny_bert: Path) -> None:
    known = identify(load_embedder(tiny_bert)).model_copy(update={"dimension": 16})
    with pytest.raises(TertiumError, match=r"Name the engine .* such as --engine static, or build"):
        check_identity(load_embedder(tiny_bert), known, index="x")


def test_members_and_their_weights_count(tiny_bert: Path, tiny_roberta: Path) -> None:
    one, other = tertium.load(tiny_bert), tertium.load(tiny_roberta)
    found = [
        identify(model).fingerprint
        for model in (
            Ensemble([one, other]),
            Ensemble([other, one]),
            Ensemble([one, other], weights=[1, 2]),
            one,
        )
    ]
    assert len(set(found)) == 4
    assert identify(Ensemble([one, other], name="x")).fingerprint == found[0]


def test_a_grading_model_is_its_encoder() -> None:
    scorer = tertium.load("sts")
    assert identify(scorer).fingerprint == identify(tertium.load("sts-fast")).fingerprint
    assert identify(scorer).fingerprint == identify(scorer.encoder).fingerprint
    assert identify(scorer).fingerprint != identify(tertium.load()).fingerprint


def test_a_model_of_another_kind_tells_itself() -> None:
    assert identify(HashEncoder("a")) == identify(HashEncoder("a"))
    assert identify(HashEncoder("a")).fingerprint != identify(HashEncoder("b")).fingerprint

    class Told(HashEncoder):
        fingerprint = "v1"

    assert identify(Told("a")).fingerprint == identify(Told("b")).fingerprint
