from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from tertium.analysis import inspect_encoders, layer_energies
from tertium.analysis.inspection import efficiency
from tertium.errors import TertiumError
from tertium.models.surgery import join_towers, tower_encoders
from tests.fakes import tiny_model
from tests.models.test_towers import TEXTS, loaded, other_weights


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("tokens", [2, 7])
def test_the_cost_is_what_a_profiler_counts(
    model: str, tokens: int, request: pytest.FixtureRequest
) -> None:
    encoder = loaded(request.getfixturevalue(model))
    found = inspect_encoders([encoder], tokens=tokens)
    backbone: Any = encoder.backbone
    backbone.set_attn_implementation("eager")  # the counter does not know the fused kernel
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        backbone.encoder(backbone.embeddings(torch.full((1, tokens), 7)))
    assert 2 * found.macs == counter.get_total_flops()
    assert found.parameters == sum(p.numel() for p in encoder.backbone.parameters())
    assert found.energy == ()


def test_a_twin_costs_its_towers(tiny_bert: Path) -> None:
    encoder = loaded(tiny_bert)
    one = inspect_encoders([encoder])
    twin = inspect_encoders([join_towers(encoder, encoder)])
    both = inspect_encoders([encoder, encoder])
    assert twin == both
    assert (twin.backbones, twin.macs, twin.parameters) == (2, 2 * one.macs, 2 * one.parameters)


def test_a_point_of_score_has_its_price() -> None:
    assert efficiency(80.0, 2 * 10**9) == 40.0


def test_the_energy_is_that_of_attention_times_values(tiny_bert: Path) -> None:
    encoder = loaded(tiny_bert)
    backbone: Any = encoder.backbone
    found = layer_energies(encoder, TEXTS)
    expected = []
    for text in TEXTS:
        features = encoder.features([text])
        backbone.set_attn_implementation("eager")
        with torch.no_grad():
            out = backbone(features["input_ids"], output_attentions=True, output_hidden_states=True)
        energies = []
        for number, layer in enumerate(backbone.encoder.layer):
            values = layer.attention.self.value(out.hidden_states[number])
            split = values.view(1, -1, 4, 8).transpose(1, 2)
            context = (out.attentions[number] @ split).transpose(1, 2).flatten(2)[0]
            energies.append(context[0].norm() / context[1:].norm())
        expected.append(torch.stack(energies))
    assert_close(found, torch.stack(expected).mean(dim=0), atol=1e-5, rtol=1e-4)


def test_a_twins_energy_is_the_mean_of_its_towers(tiny_bert: Path) -> None:
    encoder = loaded(tiny_bert)
    twin = join_towers(encoder, other_weights(encoder))
    towers = [layer_energies(tower, TEXTS) for tower in tower_encoders(twin)]
    assert_close(layer_energies(twin, TEXTS), torch.stack(towers).mean(dim=0))
    assert_close(
        torch.tensor(inspect_encoders([twin], texts=TEXTS).energy), torch.stack(towers).mean(dim=0)
    )


def test_what_cannot_be_measured_is_said(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = loaded(tiny_bert)
    with pytest.raises(TertiumError, match="needs at least one text"):
        layer_energies(encoder, [])
    deep = loaded(tiny_model(tmp_path / "deep", layers=2))
    with pytest.raises(TertiumError, match="differ in depth"):
        inspect_encoders([encoder, deep], texts=TEXTS)


def test_cut_texts_are_told_once(tiny_bert: Path) -> None:
    long = [" ".join(["cat"] * 600)] * 40 + [" ".join(["dog"] * 600)] * 40  # several batches
    with pytest.warns(UserWarning, match="only the beginning was read") as told:
        layer_energies(loaded(tiny_bert), long)
    assert len(told) == 1
