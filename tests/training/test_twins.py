from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.models.surgery import join_towers, tower_encoders
from tertium.models.twin import TwinModel
from tertium.objectives import CrossTowerContrast, ModulusConstraint, TowerContrast
from tertium.training import Schedule, train_stage
from tertium.training.passes import encode_towers, toss
from tertium.types import Crossing, Pooling, Tokens
from tests.models.test_towers import TEXTS, loaded, other_weights
from tests.training.processes import by_two
from tests.training.toys import (
    StoppedError,
    contrastive_module,
    stop_at,
    stopped,
    towers_together,
    toy_texts,
    weights,
)


@pytest.fixture
def twin_folder(tiny_bert: Path, tmp_path: Path) -> Path:
    first = loaded(tiny_bert)
    join_towers(first, other_weights(first)).save(tmp_path / "twin")
    return tmp_path / "twin"


@pytest.mark.parametrize("budget", [None, 16])
def test_the_main_streams_are_those_of_two_encoders(twin_folder: Path, budget: int | None) -> None:
    twin = loaded(twin_folder)
    assert isinstance(twin.backbone, TwinModel)
    features = twin.features([*TEXTS, *TEXTS[::-1]])
    tokens = Tokens(features["input_ids"], features["attention_mask"])
    found = encode_towers(twin.backbone, tokens, budget=budget, crossing=Crossing(3, "stream"))
    assert found.crossed is not None and found.pooled is not None
    assert found.crossed.shape == found.pooled.shape == found.cls.shape == (2, 2, 3, 32)
    for tower, states in zip(tower_encoders(twin), found.cls, strict=True):
        alone = torch.from_numpy(tower.encode(TEXTS))
        assert_close(states[0], alone, atol=1e-6, rtol=1e-5)
        assert_close(states[1], alone.flip(0), atol=1e-6, rtol=1e-5)
    whole = encode_towers(twin.backbone, tokens, crossing=Crossing(3, "stream"))
    assert whole.crossed is not None and whole.pooled is not None
    assert_close(found.crossed, whole.crossed, atol=1e-5, rtol=1e-5)
    assert_close(found.pooled, whole.pooled, atol=1e-5, rtol=1e-5)
    assert encode_towers(twin.backbone, tokens).crossed is None


def test_the_coin_is_fair_and_comes_from_the_runs_generator() -> None:
    device = torch.device("cpu")
    torch.manual_seed(0)
    tosses = [toss(device) for _ in range(400)]
    assert 150 < sum(tosses) < 250
    torch.manual_seed(0)
    assert [toss(device) for _ in range(400)] == tosses


def test_the_towers_of_an_encoder_with_one_are_not_to_be_had(tiny_bert: Path) -> None:
    module = contrastive_module(tiny_bert, TowerContrast())
    ids = torch.tensor([[2, 7, 3], [2, 8, 3]])
    with pytest.raises(TertiumError, match="the encoder has only one"):
        module(input_ids=ids, attention_mask=torch.ones_like(ids))


def test_a_run_that_was_stopped_ends_like_one_that_was_not(
    twin_folder: Path, tmp_path: Path
) -> None:
    objectives = [TowerContrast(), CrossTowerContrast(cross_layers=3), ModulusConstraint()]
    schedule = Schedule(epochs=2, batch_size=6, learning_rate=1e-3, checkpoint_every=2, seed=5)
    whole = contrastive_module(twin_folder, *objectives)
    before = weights(whole)
    log = train_stage(whole, toy_texts(), schedule, tmp_path / "whole", progress=False)
    assert {"tower_nce", "icnce", "ictm"} <= log[0].keys()
    module = contrastive_module(twin_folder, *objectives)
    stop_at(module, 6, stopped)
    with pytest.raises(StoppedError):
        train_stage(module, toy_texts(), schedule, tmp_path / "part", progress=False)
    module = contrastive_module(twin_folder, *objectives)
    train_stage(module, toy_texts(), schedule, tmp_path / "part", resume=True, progress=False)
    after = weights(whole)
    assert weights(module).keys() == after.keys()
    for name, tensor in weights(module).items():
        assert torch.equal(tensor, after[name]), name
    for tower in ("first", "second"):
        name = next(n for n in after if f".{tower}." in n and n.endswith("query.weight"))
        assert not torch.equal(before[name], after[name])


@pytest.mark.integration
def test_two_processes_toss_one_coin_and_are_one(twin_folder: Path, tmp_path: Path) -> None:
    folders = by_two(towers_together, twin_folder, tmp_path)
    expected, found = (load_file(folder / "towers.safetensors") for folder in folders)
    assert found.keys() == expected.keys() and len(expected) > 20
    for key, tensor in expected.items():
        assert_close(found[key], tensor, atol=1e-5, rtol=1e-4, msg=key)


def test_other_poolings_stay_what_they_are(tiny_bert: Path) -> None:
    first = loaded(tiny_bert, Pooling.MEAN)
    twin = join_towers(first, other_weights(first))
    assert twin.pooling is Pooling.MEAN
