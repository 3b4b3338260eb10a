"""Looking at what models and views do, without changing anything."""

from tertium.analysis.agreement import gold_scatter
from tertium.analysis.attention_figures import (
    PairInformation,
    attention_histograms,
    information_scatter,
    pair_information,
)
from tertium.analysis.attention_maps import (
    AttentionMaps,
    attention_map_figure,
    sentence_attention,
)
from tertium.analysis.augmentation import Augmented, Step, augment, drop_by_attention
from tertium.analysis.calibration import Calibration, calibration, calibration_figure
from tertium.analysis.curves import low_shot_curves, low_shot_gains
from tertium.analysis.dropped import dropped_figure
from tertium.analysis.inspection import Inspection, inspect_encoders, layer_energies
from tertium.analysis.intervals import interval_figure
from tertium.analysis.plane import (
    Place,
    alignment_uniformity_plane,
    energy_against_scores,
    energy_curves,
)
from tertium.analysis.sinks import Sinks, attention_sinks, sink_figure
from tertium.analysis.training_curves import training_curves, variant_figure

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
