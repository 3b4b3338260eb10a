"""Looking at what models and views do, without changing anything."""

from tertium.analysis.attention_figures import (
    PairInformation,
    attention_histograms,
    information_scatter,
    pair_information,
)
from tertium.analysis.augmentation import Augmented, Step, augment, drop_by_attention
from tertium.analysis.curves import low_shot_curves
from tertium.analysis.explanation_page import explanation_html
from tertium.analysis.explanations import explanation_figure
from tertium.analysis.focus import Focus, focus, focus_figure
from tertium.analysis.inspection import Inspection, inspect_encoders, layer_energies

__all__ = [
    "Augmented",
    "Focus",
    "Inspection",
    "PairInformation",
    "Step",
    "attention_histograms",
    "augment",
    "drop_by_attention",
    "explanation_figure",
    "explanation_html",
    "focus",
    "focus_figure",
    "information_scatter",
    "inspect_encoders",
    "layer_energies",
    "low_shot_curves",
    "pair_information",
]
