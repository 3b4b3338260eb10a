import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import tertium
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.surgery import join_towers, tower_encoders
from tertium.records.manifest import read_manifest
from tertium.types import Kind, Pooling, Tokens
from tests.fakes import tiny_model

TEXTS = ["the cat sleeps .", "a b", "the dog barks , the cat sleeps ."]


def other_weights(encoder: Encoder) -> Encoder:
    """The same encoder with weights of its own."""
    changed = encoder.copy()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in changed.backbone.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return changed


def loaded(folder: Path, pooling: Pooling = Pooling.CLS) -> Encoder:
    encoder = tertium.load(folder, pooling=pooling, engine="torch")
    assert isinstance(encoder, Encoder)
    return encoder


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("pooling", [Pooling.CLS, Pooling.MEAN, Pooling.MEAN_FIRST_LAST])
def test_a_twin_is_the_sum_of_its_towers(
    model: str, pooling: Pooling, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    first = loaded(request.getfixturevalue(model), pooling)
    second = other_weights(first)
    twin = join_towers(first, second)
    expected = first.encode(TEXTS) + second.encode(TEXTS)
    np.testing.assert_allclose(twin.encode(TEXTS), expected, atol=1e-5)
    twin.save(tmp_path / "twin")
    manifest = read_manifest(tmp_path / "twin")
    assert manifest is not None and manifest.kind == Kind.TWIN
    again = loaded(tmp_path / "twin", pooling)
    np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-5)


def test_towers_are_plain_encoders_with_the_twins_weights(tiny_bert: Path, tmp_path: Path) -> None:
    first = loaded(tiny_bert)
    second = other_weights(first)
    twin = join_towers(first, second)
    towers = tower_encoders(twin)
    for tower, encoder in zip(towers, (first, second), strict=True):
        np.testing.assert_allclose(tower.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    before = twin.encode(TEXTS)
    with torch.no_grad():
        next(towers[1].backbone.parameters()).mul_(0.5)
    assert np.abs(twin.encode(TEXTS) - before).max() > 1e-3
    towers[0].save(tmp_path / "first")
    manifest = read_manifest(tmp_path / "first")
    assert manifest is not None and manifest.kind == Kind.ENCODER
    np.testing.assert_allclose(
        loaded(tmp_path / "first").encode(TEXTS), first.encode(TEXTS), atol=1e-6
    )


def test_only_a_twin_has_towers(tiny_bert: Path) -> None:
    with pytest.raises(TertiumError, match="it has one tower"):
        tower_encoders(loaded(tiny_bert))


def test_towers_that_do_not_fit_are_refused(
    tiny_bert: Path, tiny_roberta: Path, tmp_path: Path
) -> None:
    first = loaded(tiny_bert)
    with pytest.raises(TertiumError, match="different vocabularies"):
        join_towers(first, loaded(tiny_roberta))
    with pytest.raises(TertiumError, match="same pooling, not cls and mean"):
        join_towers(first, loaded(tiny_bert, Pooling.MEAN))
    with pytest.raises(TertiumError, match="must not be normalized"):
        join_towers(first, first.with_pooling(Pooling.CLS, normalize=True))
    with pytest.raises(TertiumError, match="hidden_size: 32 and 16"):
        join_towers(first, loaded(tiny_model(tmp_path / "narrow", width=16)))


def test_a_twin_has_no_attention_of_its_own(tiny_bert: Path) -> None:
    encoder = loaded(tiny_bert)
    twin = join_towers(encoder, encoder)
    features = twin.features(TEXTS)
    with pytest.raises(TertiumError, match="attention of two towers"):
        twin.attention(Tokens(features["input_ids"], features["attention_mask"]))


PLAIN = """
{imports}
import sys, numpy, torch
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
numpy.save(sys.argv[2], model.encode({texts!r}))
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import tertium",
        pytest.param("import sentence_transformers\nimport tertium", marks=pytest.mark.long),
    ],
)
def test_after_import_tertium_a_twin_is_a_plain_sentence_transformer(
    imports: str, tiny_bert: Path, tmp_path: Path
) -> None:
    first = loaded(tiny_bert)
    twin = join_towers(first, other_weights(first))
    twin.save(tmp_path / "twin")
    code = PLAIN.format(imports=imports, texts=TEXTS)
    found = tmp_path / "found.npy"
    subprocess.run([sys.executable, "-c", code, tmp_path / "twin", found], check=True)
    assert_close(torch.from_numpy(np.load(found)), torch.from_numpy(twin.encode(TEXTS)))


def test_import_tertium_imports_nothing_heavy() -> None:
    code = "import sys, tertium; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"
