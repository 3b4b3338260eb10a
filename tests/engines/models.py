"""A tiny model of every kind that has a graph; one layer each, for an export takes seconds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

import tertium
from tertium.heads import SiameseHead
from tertium.models import ConditionalAverage, Encoder, Ensemble, PairScorer
from tertium.models.light import LightEncoder
from tertium.models.surgery import join_towers
from tertium.probe import UnusableError
from tests.fakes import tiny_model
from tests.models.test_conditional import GRADES, scorer_of

# Heads whose graphs differ: fixed and free length, attention of layers or none, two or three
# sequences a triple.
HEADS: dict[str, dict[str, Any]] = {
    "cross": {"kind": "cross", "regressor": "flatten", "length": 24},
    "seaver": {"kind": "seaver", "temperature": "learned", "layers": "mix"},
    "rand_aug": {"kind": "rand_aug", "regressor": "cls"},
    "bi": {"kind": "bi", "pooling": "condition", "projection": "hyper", "subtract": 0.5},
    "asked": {"kind": "bi", "pooling": "asked", "subtract": 0.5},
    "tri": {"kind": "tri", "combine": "concat"},
}
KINDS = ["mean", "mix", "pair", "twin", "ensemble", *HEADS, "average"]


def write(kind: str, folder: Path) -> Path:
    """Save a model of this kind in ``folder``, and say where."""
    bert = tiny_model(folder / "bert", layers=1)
    roberta = tiny_model(folder / "roberta", "roberta", layers=1)
    target = folder / kind
    if kind in HEADS:
        scorer_of(bert, HEADS[kind]).save(target)
    elif kind == "average":
        heads = (HEADS["tri"], {"kind": "bi"})
        members = [scorer_of(f, h) for f, h in zip((bert, roberta), heads, strict=True)]
        ConditionalAverage(members, weights=[0.7, 0.3]).save(target)
    elif kind == "ensemble":
        Ensemble([encoder(bert), encoder(roberta)], weights=[1.0, -0.5]).save(target)
    elif kind == "twin":
        join_towers(encoder(bert, pooling="cls"), encoder(other(bert), pooling="cls")).save(target)
    elif kind == "pair":
        pooled = encoder(bert, pooling="cls_mlp")
        PairScorer(pooled, SiameseHead(dimension=32, seed=3), GRADES).save(target)
    else:
        pooling = "mean_first_last" if kind == "mix" else kind
        encoder(bert, pooling=pooling).save(target)
    return target


def encoder(folder: Path, **options: Any) -> Encoder:
    """An encoder, as the type checker should know."""
    loaded = tertium.load(folder, **{"engine": "torch", **options})
    assert isinstance(loaded, Encoder)
    return loaded


def light(folder: Path, **options: Any) -> LightEncoder:
    """An encoder that was read without torch."""
    loaded = tertium.load(folder, **options)
    assert isinstance(loaded, LightEncoder)
    return loaded


@contextmanager
def runs_here() -> Iterator[None]:
    """Skip, with the sentence that says why, if an engine does not run on this processor."""
    try:
        yield
    except UnusableError as error:
        pytest.skip(str(error))


def other(folder: Path) -> Path:
    """The same model with other weights."""
    target = folder.with_name(f"{folder.name}-other")
    encoder(folder).save(target)
    model = AutoModel.from_pretrained(target)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    model.save_pretrained(target)
    return target
