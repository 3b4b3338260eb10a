from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.engines.loading import needs_engine
from tertium.errors import ModelNotFoundError
from tertium.models import NAMES
from tertium.models.base import TripleScorer
from tertium.models.tokens import TokenizationStats
from tests.engines.models import write

PAIRS = [("the cat sleeps .", "a b"), ("", "a"), ("a b c d e f g h", "the dog")]
TRIPLES = [(*pair, condition) for pair in PAIRS for condition in ("c d", "the cat")]
VECTORS = ["mean", "cls", "mix", "pair", "twin", "ensemble"]
HEADS = ["cross", "seaver", "rand_aug", "bi", "asked", "tri", "average"]


@pytest.mark.parametrize("kind", [*VECTORS, *HEADS])
def test_the_same_answers_as_torch(kind: str, tmp_path: Path) -> None:
    folder = write(kind, tmp_path)
    light, torch = tertium.load(folder), tertium.load(folder, engine="torch")
    assert needs_engine(light) and not needs_engine(torch)
    assert light.fingerprint == torch.fingerprint and light.scale == torch.scale
    items = TRIPLES if isinstance(light, TripleScorer) else PAIRS
    np.testing.assert_allclose(light.score(items), torch.score(items), atol=1e-5)
    asked = {"condition": "c d"} if light.takes_conditions else {}
    found, expected = (model.explain(*PAIRS[0], **asked, most=0) for model in (light, torch))
    assert found.notes == ()
    np.testing.assert_allclose(found.alignment, expected.alignment, atol=1e-5)
    assert (found.focus is None) == (expected.focus is None)
    if found.focus is not None and expected.focus is not None:
        assert found.focus.marked == expected.focus.marked
        for one, other in zip(found.focus.steps, expected.focus.steps, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


SHIPPED = ["default", "sts", "judge", "conditional", "turbo", "sts-base-fast", "conditional-base"]


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_gives_the_same_answers(name: str) -> None:
    if "-base" in name:
        try:
            NAMES["base"].folder()
        except ModelNotFoundError as error:
            pytest.skip(str(error))
    light, torch = tertium.load(name), tertium.load(name, engine="torch")
    pairs = [("A cat sleeps.", "A cat is asleep."), ("Stocks fell.", "Ärger [SEP] 猫 " * 90)]
    items = [(*pair, "The animal.") for pair in pairs] if light.takes_conditions else pairs
    found, expected = (
        model.score_items(items, truncation=TokenizationStats()) for model in (light, torch)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert light.fingerprint == torch.fingerprint
