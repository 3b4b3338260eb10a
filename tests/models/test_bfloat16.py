"""bfloat16 on a processor that does not let it run, or only below AMX."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

import tertium
from tertium.errors import TertiumError, TertiumWarning
from tertium.models import Encoder, bfloat16
from tertium.models import encoder as encoder_module
from tertium.models.bfloat16 import bfloat16_state, check_bfloat16
from tertium.probe import BELOW_AMX, VARIABLE
from tertium.recipes.files import own_data
from tertium.recipes.train import train
from tertium.training import Schedule, train_stage
from tertium.types import Tokens
from tests.fakes import tiny_model
from tests.probes import CHILDREN
from tests.training.toys import toy_examples, toy_module

Behave = Callable[[str], None]
SHORT = Schedule(max_steps=1, batch_size=4, precision="bf16")


@pytest.fixture
def behave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unprobed: None) -> Behave:
    """Replace the first use of bfloat16 by a child of some behaviour."""

    def replace(behaviour: str) -> None:
        path = tmp_path / "first_bfloat16.py"
        path.write_text(
            "import os, pathlib, signal, sys, time\n"
            "reply = pathlib.Path(sys.argv[-1]) / 'reply.json'\n"
            f"{CHILDREN[behaviour]}\n"
        )
        monkeypatch.setattr(bfloat16, "FIRST_RUN", path)

    return replace


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose weights are stored in bfloat16."""
    folder = tiny_model(tmp_path_factory.mktemp("stored") / "brain", layers=1)
    AutoModel.from_pretrained(folder).to(torch.bfloat16).save_pretrained(folder)
    return folder


def test_training(tiny_bert: Path, tmp_path: Path, behave: Behave) -> None:
    behave("ill")
    assert bfloat16_state() == "not tried yet"
    said = (
        r"^bfloat16 does not run on this processor \(Illegal instruction\); train with precision "
        r"float32\.$"
    )
    with pytest.raises(TertiumError, match=said):
        train_stage(toy_module(tiny_bert), toy_examples(), SHORT, tmp_path / "run")
    assert bfloat16_state() == "does not run: Illegal instruction"
    plain = replace(SHORT, precision="float32")
    train_stage(toy_module(tiny_bert), toy_examples(), plain, tmp_path / "run")


def test_a_recipe_is_refused_before_anything_is_written(
    tiny_bert: Path, tmp_path: Path, behave: Behave
) -> None:
    behave("segv")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("score\tsentence1\tsentence2\n" + "3\ta cat\ta dog\n1\ta\tb\n" * 8)
    settings = {
        **own_data("sts-regression-minilm", pairs=pairs),
        "encoder.model": str(tiny_bert),
        "stages.0.train.precision": "bf16",
        "stages.0.select": None,
    }
    with pytest.raises(TertiumError, match=r"\(Segmentation fault\); train with precision float32"):
        train("sts-regression-minilm", tmp_path / "out", settings=settings)
    assert not (tmp_path / "out").exists()


def test_a_model_that_is_stored_so(stored: Path, behave: Behave) -> None:
    behave("ill")
    said = r"brain is stored in bfloat16, which does not run on this .*; save the model in float32"
    with pytest.raises(TertiumError, match=said):
        tertium.load(stored, device="cpu")


@pytest.mark.parametrize("survives", [True, False])
def test_the_cap(survives: bool, behave: Behave, monkeypatch: pytest.MonkeyPatch) -> None:
    behave("capped")
    seen: list[str | None] = []

    def copy() -> bool:
        seen.append(os.environ.get(VARIABLE))
        return survives

    monkeypatch.setattr(bfloat16, "_survives", copy)
    if survives:
        check_bfloat16()
    else:  # torch has read the variable before
        said = rf"^bfloat16 runs .* only with {VARIABLE}={BELOW_AMX}, and torch has already"
        with pytest.raises(TertiumError, match=said):
            check_bfloat16()
    assert seen == [BELOW_AMX]


@pytest.mark.parametrize("fast", [False, True])
def test_emulation_is_slow(fast: bool, behave: Behave, monkeypatch: pytest.MonkeyPatch) -> None:
    behave("fine")
    monkeypatch.setattr(bfloat16, "fast_bfloat16", lambda: fast)
    said = r"several times slower than float32\. To be faster, train with precision float32\.$"
    with nullcontext() if fast else pytest.warns(TertiumWarning, match=said):
        check_bfloat16(remedy="train with precision float32")
    assert bfloat16_state() == ("runs" if fast else "runs by emulation, slower than float32")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("dies", [False, True])
def test_a_copy_of_this_process(dies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def ones(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        if dies:
            os.abort()
        return torch.full(shape, 1.0)

    monkeypatch.setattr(torch, "ones", ones)
    assert bfloat16._survives() is not dies


@pytest.mark.integration
def test_the_real_thing(stored: Path) -> None:
    """A process that encodes in bfloat16 ends well, or with a sentence."""
    script = "import sys, tertium; print(tertium.load(sys.argv[1], device='cpu').encode('a').shape)"
    command = [sys.executable, "-c", script, str(stored)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if "does not run on this processor" in ran.stderr:
        pytest.skip(ran.stderr.splitlines()[-1])
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "(32,)"


def test_attention_is_stored_as_the_model_is(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maps are in bfloat16 under autocast, as a recipe with that precision computes them."""
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    features = encoder.features(["a b c", "d"])
    tokens = Tokens(features["input_ids"], features["attention_mask"])
    expected, computed = encoder.attention(tokens), encoder_module.attention_maps
    monkeypatch.setattr(encoder_module, "attention_maps", lambda *a: computed(*a).bfloat16())
    found = encoder.attention(tokens)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=1e-2, rtol=0.0)
