"""Read-only analysis of models and views."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.analysis.attention import (
        AttentionMaps,
        PairInformation,
        Sinks,
        attention_histograms,
        attention_map_figure,
        attention_sinks,
        information_scatter,
        pair_information,
        sentence_attention,
        sink_figure,
    )
    from tertium.analysis.augmentation import (
        Augmented,
        Step,
        augment,
        drop_by_attention,
        dropped_figure,
    )
    from tertium.analysis.curves import (
        low_shot_curves,
        low_shot_gains,
        training_curves,
        variant_figure,
    )
    from tertium.analysis.grades import (
        Calibration,
        calibration,
        calibration_figure,
        gold_scatter,
        interval_figure,
    )
    from tertium.analysis.inspection import (
        Inspection,
        Place,
        alignment_uniformity_plane,
        energy_against_scores,
        energy_curves,
        inspect_encoders,
        layer_energies,
    )

__all__ = [
    "AttentionMaps",
    "Augmented",
    "Calibration",
    "Inspection",
    "PairInformation",
    "Place",
    "Sinks",
    "Step",
    "alignment_uniformity_plane",
    "attention_histograms",
    "attention_map_figure",
    "attention_sinks",
    "augment",
    "calibration",
    "calibration_figure",
    "drop_by_attention",
    "dropped_figure",
    "energy_against_scores",
    "energy_curves",
    "gold_scatter",
    "information_scatter",
    "inspect_encoders",
    "interval_figure",
    "layer_energies",
    "low_shot_curves",
    "low_shot_gains",
    "pair_information",
    "sentence_attention",
    "sink_figure",
    "training_curves",
    "variant_figure",
]

__getattr__ = lazy(__name__)
