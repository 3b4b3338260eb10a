"""Views: one batch of sentences to another form of it; ids and mask change together."""

from collections.abc import Callable

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

VIEWS: dict[str, Callable[..., View]] = {
    "dropout": DropoutTwin,
    "add": AttentionDropout,
    "span_mask": SpanMask,
    "repeat": Repetition,
    "delete": Deletion,
}
