"""One item per golden case file, dispatched on its method and kind."""

from collections.abc import Callable

import pytest

from tests.golden import add, jtcse, losses, metrics, micse, seaver, simcse
from tests.golden.cases import FOLDER, Case, cases

HANDLERS: dict[tuple[str, str], Callable[[Case], None]] = {
    ("add", "aggregate"): add.aggregate,
    ("add", "drop"): add.drop,
    ("add", "padding_dependence"): add.padding_dependence,
    ("add", "training_step"): add.training_step,
    ("jtcse", "cross_attention"): jtcse.cross_attention,
    ("jtcse", "infonce_icnce"): jtcse.infonce_icnce,
    ("jtcse", "ltn"): jtcse.ltn,
    ("losses", "param_groups"): losses.param_groups,
    ("losses", "siamese"): losses.siamese,
    ("losses", "smooth_k2"): losses.loss,
    ("losses", "translated_relu"): losses.loss,
    ("metrics", "alignment_uniformity"): metrics.alignment_uniformity,
    ("metrics", "sts_file_parsing"): metrics.sts_file_parsing,
    ("metrics", "sts_multi_subset"): metrics.sts_multi_subset,
    ("micse", "ami"): micse.ami,
    ("micse", "training_step"): micse.training_step,
    ("seaver", "cross_encoder"): seaver.cross_encoder,
    ("simcse", "poolers"): simcse.poolers,
    ("simcse", "step_sup"): simcse.step,
    ("simcse", "step_unsup"): simcse.step,
    ("simcse", "step_unsup_mlm"): simcse.step,
    ("simcse", "z_sup_hard_negatives"): simcse.z_sup_hard_negatives,
    ("simcse", "z_unsup"): simcse.z_unsup,
}

pytestmark = pytest.mark.golden


@pytest.mark.skipif(bool(cases()), reason="golden cases are there")
def test_golden_folder() -> None:
    pytest.skip(f"no golden cases in {FOLDER} (set TERTIUM_GOLDEN)")


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert case.key in HANDLERS, f"{case.id}: no handler for {'/'.join(case.key)}"
    HANDLERS[case.key](case)
