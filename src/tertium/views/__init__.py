"""Views: transformations of a batch of sentences; ids and mask change together."""

from tertium.types import ViewName
from tertium.views.attention_dropout import AttentionDropout
from tertium.views.base import View, Vocabulary
from tertium.views.noise import Deletion, DropoutTwin, Repetition, SpanMask

__all__ = [
    "VIEWS",
    "AttentionDropout",
    "Deletion",
    "DropoutTwin",
    "Repetition",
    "SpanMask",
    "View",
    "Vocabulary",
]

VIEWS: dict[str, type[View]] = {
    ViewName.DROPOUT: DropoutTwin,
    ViewName.ADD: AttentionDropout,
    ViewName.SPAN_MASK: SpanMask,
    ViewName.REPEAT: Repetition,
    ViewName.DELETE: Deletion,
}
