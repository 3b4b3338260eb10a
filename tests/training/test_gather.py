from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from tertium.training.negatives import gather_views
from tertium.types import Encoded, ViewPair
from tests.training.processes import by_two
from tests.training.toys import gathered


def test_a_single_process_keeps_its_views() -> None:
    embedding = torch.randn(2, 3)
    side = Encoded(embedding, embedding[:, None], torch.ones(2, 1, dtype=torch.long))
    views = ViewPair(side, side)
    assert gather_views(views) is views


@pytest.mark.integration
def test_two_processes_are_one_on_the_joined_batch(tiny_bert: Path, tmp_path: Path) -> None:
    folders = by_two(gathered, tiny_bert, tmp_path)
    for name in ("info_nce", "nt_xent", "cosent"):
        expected, found = (load_file(folder / f"{name}.safetensors") for folder in folders)
        assert found.keys() == expected.keys() and len(expected) > 20
        for key, tensor in expected.items():
            assert_close(found[key], tensor, atol=1e-5, rtol=1e-4, msg=f"{name}: {key}")
        learned = "head" if name == "cosent" else "projection"
        gradients = [value for key, value in expected.items() if key.startswith(f"grad.{learned}")]
        gradients = gradients or [value for key, value in expected.items() if "grad" in key]
        assert max(value.abs().max() for value in gradients) > 1e-4
