"""Values that cross folders, and the engine protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from tertium.errors import TertiumError

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float, Int
    from torch import Tensor

__all__ = [
    "LAYER_MIXES",
    "Aggregation",
    "Branch",
    "Crossing",
    "DataKind",
    "Encoded",
    "Engine",
    "EngineName",
    "ExplanationMethod",
    "Graded",
    "HeadOutput",
    "Hit",
    "Kind",
    "Masked",
    "Pooling",
    "Term",
    "TextPair",
    "TextTriple",
    "Tokens",
    "Towers",
    "ViewName",
    "ViewPair",
]

TextPair = tuple[str, str]
TextTriple = tuple[str, str, str]  # two sentences, and the condition to compare them under
Branch = Literal["side", "stream"]
DataKind = Literal["graded", "texts", "positives", "triplets", "conditional"]  # a stage's data


class Pooling(StrEnum):
    """How token vectors become one sentence vector."""

    CLS = "cls"  # last hidden state of the first token
    CLS_MLP = "cls_mlp"  # the same through Linear(d, d) and tanh
    MEAN = "mean"  # mask-weighted mean of the last layer
    MEAN_FIRST_LAST = "mean_first_last"  # mean of the first encoder layer's output and the last
    MEAN_EMBEDDING_LAST = "mean_embedding_last"  # mean of the embedding output and the last layer
    MEAN_TOP2 = "mean_top2"  # mean of the last two layers
    LAST = "last"  # last hidden state of the last token, for decoder-style encoders
    POOLER = "pooler"  # the checkpoint's own pretrained pooler


# Poolings that average several hidden states: indices into (embedding output, layer 1, …, layer L).
LAYER_MIXES: dict[Pooling, tuple[int, int]] = {
    Pooling.MEAN_FIRST_LAST: (1, -1),
    Pooling.MEAN_EMBEDDING_LAST: (0, -1),
    Pooling.MEAN_TOP2: (-2, -1),
}


class Kind(StrEnum):
    """The kind of model in a folder; written to its ``tertium.json``."""

    ENCODER = "encoder"
    PAIR = "pair"
    TWIN = "twin"
    ENSEMBLE = "ensemble"
    CONDITIONAL = "conditional"
    STATIC = "static"
    CROSS = "cross"
    CAREFUL = "careful"


class EngineName(StrEnum):
    """The runtimes for a model."""

    DEFAULT = "default"  # ONNX Runtime for models that can be read without torch, else torch
    TORCH = "torch"
    ONNX = "onnx"
    ONNX_INT8 = "onnx-int8"
    OPENVINO = "openvino"
    OPENVINO_INT8 = "openvino-int8"
    STATIC = "static"  # averaged token vectors: a different model, distilled from this one
    AUTO = "auto"  # the one that ``tertium tune`` chose


class ExplanationMethod(StrEnum):
    """How word contributions are computed."""

    OCCLUSION = "occlusion"  # each word is left out in turn
    GRADIENTS = "gradients"  # integrated gradients as well


class ViewName(StrEnum):
    """The ways to make another view of a batch of sentences."""

    DROPOUT = "dropout"
    ADD = "add"
    SPAN_MASK = "span_mask"
    REPEAT = "repeat"
    DELETE = "delete"


class Aggregation(StrEnum):
    """How attention maps become one score per token."""

    NAIVE = "naive"
    ROLLOUT = "rollout"


@dataclass(frozen=True)
class Hit:
    """A text that a search found, and its score.

    Attributes:
        id: its id in an index, or its position in a list.
        text: the text itself.
        score: what hits are ranked by: the cosine with the query, a model's score, or in a hybrid
            search the sum of reciprocal ranks.
        cosine: the cosine with the query, for a hit from an index.
        columns: further columns of the text in an index.
        passage: the part of a long text that is nearest to the query.
    """

    id: str
    text: str
    score: float
    cosine: float | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    passage: str | None = None

    def _repr_html_(self) -> str:
        """The display in a notebook."""
        return f"<b>{self.score:.3f}</b> {escape(self.text)} <small>({escape(self.id)})</small>"


@dataclass(frozen=True)
class Tokens:
    """A batch before the encoder: ids and mask change together.

    Attributes:
        ids: token ids, padded on the right.
        mask: 1 for real tokens, 0 for padding.
        sources: each token's position before views moved it; None if none did.
    """

    ids: Int[Tensor, "n t"]
    mask: Int[Tensor, "n t"]
    sources: Int[Tensor, "n t"] | None = None


@dataclass(frozen=True)
class Masked:
    """A batch with some tokens hidden, after the encoder.

    Attributes:
        tokens: last hidden states of the masked input.
        labels: the hidden ids, and a negative number wherever nothing was hidden.
    """

    tokens: Float[Tensor, "n t width"]
    labels: Int[Tensor, "n t"]


@dataclass(frozen=True)
class Encoded:
    """A batch after the encoder.

    Attributes:
        embedding: one vector per text.
        tokens: last hidden states.
        mask: 1 for real tokens, 0 for padding.
        attention: weights before dropout of the captured layers, or None if none were requested.
        layers: which layers ``attention`` holds, counted from 0.
        segments: 0 for sentences, 1 for a condition, -1 for padding; None without a condition.
    """

    embedding: Float[Tensor, "n d"]
    tokens: Float[Tensor, "n t width"]
    mask: Int[Tensor, "n t"]
    attention: Float[Tensor, "l n h t t"] | None = None
    layers: tuple[int, ...] = ()
    segments: Int[Tensor, "n t"] | None = None

    def split(self, sides: int) -> list[Encoded]:
        """The sides of a merged batch: all rows of the first, then all of the second, and so on."""
        n = len(self.mask) // sides
        return [self.rows(slice(at * n, (at + 1) * n)) for at in range(sides)]

    def rows(self, rows: slice | Tensor) -> Encoded:
        """Some rows, or all of them in another order."""
        return Encoded(
            embedding=self.embedding[rows],
            tokens=self.tokens[rows],
            mask=self.mask[rows],
            attention=None if self.attention is None else self.attention[:, rows],
            layers=self.layers,
            segments=None if self.segments is None else self.segments[rows],
        )


@dataclass(frozen=True)
class HeadOutput:
    """The output of a conditional head for a batch of triples.

    Attributes:
        score: similarity under the condition; 0 is the lowest label and 1 the highest, but scores
            may lie outside.
        cosine: cosine of the two sentences' vectors; None for a head without such vectors.
    """

    score: Float[Tensor, " n"]
    cosine: Float[Tensor, " n"] | None = None


@dataclass(frozen=True)
class Graded:
    """A batch of triples after the head, and its labels.

    Attributes:
        compared: the head's output.
        labels: from 0 for the lowest label to 1 for the highest.
        groups: rows with the same sentences share a number.
        passes: how often each triple occurs, one pass after the other.
    """

    compared: HeadOutput
    labels: Float[Tensor, " n"]
    groups: Int[Tensor, " n"]
    passes: int = 1


@dataclass(frozen=True)
class Crossing:
    """Where and how two towers cross; see :mod:`tertium.models.twin`.

    Attributes:
        count: how many layers have cross attention.
        branch: ``side`` starts each from the main streams, ``stream`` from the one before.
    """

    count: int
    branch: Branch


@dataclass(frozen=True)
class Towers:
    """Two towers' states for two views of the same sentences; each tensor ``[tower, view, ...]``.

    Attributes:
        cls: last hidden states of the first token.
        pooled: the same through the backbones' own poolers, or None if they have none.
        crossed: the first token after cross attention, or None if not requested.
        asks: which tower is compared with the other in this batch: 0 or 1.
    """

    cls: Float[Tensor, "2 2 n d"]
    pooled: Float[Tensor, "2 2 n d"] | None = None
    crossed: Float[Tensor, "2 2 n d"] | None = None
    asks: int = 0


@dataclass(frozen=True)
class ViewPair:
    """Two encoded sides of a batch, and whatever else the objectives need.

    Attributes:
        first: one view of the sentences, or the first sentence of each pair.
        second: the other view, or the second sentence.
        negatives: hard negatives, row by row.
        labels: graded labels of the pairs.
        masked: the same sentences with tokens hidden, if an objective needs them.
        sources: where each token of the second view stands in the first; None if in the same place.
        queue: embeddings of earlier batches, as further negatives.
        towers: both towers separately, if an objective needs them.
        weights: weights of the pairs in the loss; None if all count the same.
    """

    first: Encoded
    second: Encoded
    negatives: Encoded | None = None
    labels: Float[Tensor, " n"] | None = None
    masked: Masked | None = None
    sources: Int[Tensor, "n t"] | None = None
    queue: Float[Tensor, "q d"] | None = None
    towers: Towers | None = None
    weights: Float[Tensor, " n"] | None = None

    @property
    def targets(self) -> Float[Tensor, " n"]:
        """The labels; raises if the batch has none."""
        if self.labels is None:
            raise TertiumError("This objective needs labels, but the data has none.")
        return self.labels


@dataclass(frozen=True)
class Term:
    """One named part of a loss: unreduced values and their weight."""

    value: Float[Tensor, " n"]
    weight: float = 1.0


@runtime_checkable
class Engine(Protocol):
    """Runs the graph of a model on padded batches, instead of torch."""

    @property
    def name(self) -> str:
        """One of ``EngineName``."""
        ...

    @property
    def shows(self) -> Sequence[str]:
        """Further outputs of the graph, by name, for :meth:`look`."""
        ...

    def run(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """The graph's result for a batch of token ids and masks: a vector or score per row."""
        ...

    def look(self, inputs: Mapping[str, np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
        """The named further outputs for a batch."""
        ...
