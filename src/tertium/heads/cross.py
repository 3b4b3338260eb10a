"""Heads on one sequence of two sentences and a condition: cross-encoders, SEAVER, Rand-Aug."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tertium.errors import TertiumError
from tertium.functional.pooling import masked_mean
from tertium.functional.reallocation import (
    PADDING,
    augment_states,
    displaced_condition,
    reweighting,
)
from tertium.heads.layout import HeadLayout, ModelShape, layout_of
from tertium.types import Encoded, HeadOutput

__all__ = [
    "ClassifierHead",
    "ConditionalHead",
    "CrossHead",
    "Gradient",
    "Learnable",
    "Positions",
    "RandAugHead",
    "Regressor",
    "SeaverHead",
    "SelfAugmentation",
]

Learnable = float | Literal["learned"]
Gradient = Literal["states", "states_and_weights"]
Positions = Literal["flatten", "mean", "cls"]


class SelfAugmentation(nn.Module):
    """States reweighted by attention across sentence and condition, added to the states.

    ``AO = Linear([W_1·O, …, W_h·O]) + alpha·O``: SEAVER, Eq. 1 to 6.

    Args:
        dimension: width of a state.
        heads: attention heads of the layer.
        alpha: weight of the states themselves, or ``learned``, starting from 1.
        temperature: temperature of the softmax; ``learned`` starts from 1 and stays positive.
    """

    def __init__(
        self,
        *,
        dimension: int,
        heads: int,
        alpha: Learnable = 1.0,
        temperature: Learnable = 1.0,
    ) -> None:
        super().__init__()
        if temperature != "learned" and not temperature > 0:
            raise TertiumError(f"temperature must be positive, got {temperature}.")
        self.compressor = nn.Linear(heads * dimension, dimension)
        self.alpha = nn.Parameter(torch.tensor(1.0)) if alpha == "learned" else alpha
        learned = temperature == "learned"
        self.log_temperature = nn.Parameter(torch.tensor(0.0)) if learned else None
        self.fixed_temperature = 1.0 if temperature == "learned" else temperature

    def forward(
        self,
        states: Float[Tensor, "n t d"],
        attention: Float[Tensor, "n h t t"],
        segments: Int[Tensor, "n t"],
    ) -> Float[Tensor, "n t d"]:
        """The augmented states."""
        weights = reweighting(attention, segments, temperature=self.temperature)
        augmented: Tensor = self.compressor(augment_states(states, weights)) + self.alpha * states
        return augmented

    @property
    def temperature(self) -> float | Float[Tensor, ""]:
        """What divides the products inside the softmax."""
        if self.log_temperature is None:
            return self.fixed_temperature
        return self.log_temperature.exp()


class Regressor(nn.Module):
    """Dropout, a linear map with the model's activation, and a linear map to one score.

    Args:
        dimension: width of a state.
        pooling: ``flatten`` reads all positions of a fixed length, including padding, as the paper
            does; ``mean`` and ``cls`` read any length.
        length: number of positions, for ``flatten``.
        dropout: dropout before the first map.
        activation: activation after it.
    """

    def __init__(
        self,
        *,
        dimension: int,
        pooling: Positions = "flatten",
        length: int = 128,
        dropout: float = 0.1,
        activation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.length = length
        self.dropout = nn.Dropout(dropout)
        self.transform = nn.Linear(dimension, dimension)
        self.activation = activation or nn.GELU()
        self.classifier = nn.Linear(dimension * (length if pooling == "flatten" else 1), 1)

    def forward(
        self, states: Float[Tensor, "n t d"], segments: Int[Tensor, "n t"]
    ) -> Float[Tensor, "n 1"]:
        """One score per row."""
        if self.pooling == "flatten" and states.shape[1] != self.length:
            raise TertiumError(
                f"This regressor reads exactly {self.length} positions, got {states.shape[1]}."
            )
        changed = self.activation(self.transform(self.dropout(states)))
        if self.pooling == "flatten":
            pooled = changed.flatten(1)
        elif self.pooling == "mean":
            pooled = masked_mean(changed, (segments != PADDING).to(torch.long))
        else:
            pooled = changed[:, 0]
        score: Tensor = self.classifier(pooled)
        return score


Layers = Literal["last", "mix"]
_GOLDEN = 0.6180339887498949


class ConditionalHead(nn.Module, ABC):
    """From the encoded sequences of a batch of triples to their similarities.

    Attributes:
        kind: its name in recipes and saved models.
        compares_vectors: it compares a vector of each sentence by cosine.
        reallocates: it reallocates attention; see :class:`SeaverHead`.

    Args:
        settings: all of its settings, as they are saved.
        depth: number of layers of the model.
    """

    kind: ClassVar[str]
    compares_vectors: ClassVar[bool] = False
    reallocates: ClassVar[bool] = False

    def __init__(self, settings: dict[str, Any], *, depth: int = 0) -> None:
        super().__init__()
        self._settings = settings
        self._depth = depth

    @property
    def layout(self) -> HeadLayout:
        """How it reads a triple; kinds that are not in ``HEAD_KINDS`` override this."""
        return layout_of(self.config(), depth=self._depth)

    @abstractmethod
    def forward(self, sides: Sequence[Encoded]) -> HeadOutput:
        """The similarity, from one encoded batch per sequence."""

    @contextlib.contextmanager
    def full_gradient(self) -> Iterator[None]:
        """Inside the block, gradients reach everything that the score depends on."""
        yield

    def config(self) -> dict[str, Any]:
        """Arguments that build this head again, ``kind`` included."""
        return {"kind": self.kind, **self._settings}


class CrossHead(ConditionalHead):
    """The plain cross-encoder: a regressor on the states of one sequence.

    Args:
        shape: shape of the model.
        regressor: ``cls`` reads the first token, ``mean`` all of them, ``flatten`` every position
            of a fixed length as the paper does.
        length: number of positions, for ``flatten``.
        dropout: dropout before the regressor's first map.
        seed: of the initial weights.
    """

    kind: ClassVar[str] = "cross"

    def __init__(
        self,
        shape: ModelShape,
        *,
        regressor: Positions = "cls",
        length: int = 128,
        dropout: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__({"regressor": regressor, "length": length, "dropout": dropout})
        with seeded(seed):
            self.regressor = _regressor(shape, regressor, length, dropout)

    def forward(self, sides: Sequence[Encoded]) -> HeadOutput:
        """The regressor's score."""
        (side,) = sides
        return HeadOutput(self.regressor(side.tokens, segments_of(side)).squeeze(1))


class ClassifierHead(ConditionalHead):
    """The classifier of transformers with one output: how published cross-encoders grade pairs.

    The first token's state goes through a linear map with an activation and a linear map to a
    logit, whose sigmoid is the score. It reads pairs as their tokenizer joins them, and no
    condition.

    Args:
        shape: of the model.
        dense_activation: after the first map: ``tanh`` in BERT's and RoBERTa's, ``relu`` in
            DistilBERT's, ``gelu`` in ELECTRA's.
        dropout: before the second map.
        seed: of the initial weights.
    """

    kind: ClassVar[str] = "classifier"

    def __init__(
        self,
        shape: ModelShape,
        *,
        dense_activation: Literal["tanh", "relu", "gelu"] = "tanh",
        dropout: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__({"dense_activation": dense_activation, "dropout": dropout})
        self.activation = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}[dense_activation]()
        self.dropout = nn.Dropout(dropout)
        with seeded(seed):
            self.dense = nn.Linear(shape.dimension, shape.dimension)
            self.out = nn.Linear(shape.dimension, 1)

    def forward(self, sides: Sequence[Encoded]) -> HeadOutput:
        """The sigmoid of the logit."""
        (side,) = sides
        changed = self.activation(self.dense(side.tokens[:, 0]))
        return HeadOutput(self.out(self.dropout(changed)).squeeze(1).sigmoid())


class SeaverHead(ConditionalHead):
    """SEAVER: states augmented by reallocated attention, then a regressor.

    Beyond the paper: a learned ``alpha``, a ``temperature`` in the softmax, and a learned mix of
    all layers' attention, which its authors suggest as future work.

    Args:
        shape: shape of the model.
        alpha: weight of the states themselves, or ``learned``.
        temperature: temperature of the softmax, or ``learned``; the paper uses 1.
        layers: attention of the ``last`` layer, or a learned ``mix`` of all.
        gradient: ``states_and_weights`` lets gradients reach the attention through the weights; the
            authors' code does not.
        regressor: as for :class:`CrossHead`.
        length: as for :class:`CrossHead`.
        dropout: as for :class:`CrossHead`.
        seed: of the initial weights.
    """

    kind: ClassVar[str] = "seaver"
    reallocates: ClassVar[bool] = True

    def __init__(
        self,
        shape: ModelShape,
        *,
        alpha: Learnable = 1.0,
        temperature: Learnable = 1.0,
        layers: Layers = "last",
        gradient: Gradient = "states",
        regressor: Positions = "mean",
        length: int = 128,
        dropout: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__(
            {
                "alpha": alpha,
                "temperature": temperature,
                "layers": layers,
                "gradient": gradient,
                "regressor": regressor,
                "length": length,
                "dropout": dropout,
            },
            depth=shape.depth,
        )
        with seeded(seed):
            self.augmentation = SelfAugmentation(
                dimension=shape.dimension,
                heads=shape.heads,
                alpha=alpha,
                temperature=temperature,
            )
            self.regressor = _regressor(shape, regressor, length, dropout)
        self.gradient = gradient
        self.mix = nn.Parameter(torch.zeros(shape.depth)) if layers == "mix" else None

    def forward(self, sides: Sequence[Encoded]) -> HeadOutput:
        """The regressor's score of the augmented states."""
        (side,) = sides
        segments = segments_of(side)
        augmented = self.augmentation(side.tokens, self.attention(side), self.pieces(segments))
        return HeadOutput(self.regressor(augmented, segments).squeeze(1))

    def attention(self, side: Encoded) -> Float[Tensor, "n h t t"]:
        """The attention to reallocate: of one layer, or a mix with weights that sum to 1."""
        if side.attention is None:
            raise TertiumError(
                f"{self.kind} needs the attention of layers {self.layout.attention_layers}."
            )
        maps = side.attention.detach() if self.gradient == "states" else side.attention
        if self.mix is None:
            return maps[-1]
        return torch.einsum("l,lnhqk->nhqk", self.mix.softmax(dim=0), maps)

    @contextlib.contextmanager
    def full_gradient(self) -> Iterator[None]:
        """Include the attention: SEAVER does not learn through it, but its score depends on it."""
        before, self.gradient = self.gradient, "states_and_weights"
        try:
            yield
        finally:
            self.gradient = before

    def pieces(self, segments: Int[Tensor, "n t"]) -> Int[Tensor, "n t"]:
        """The segments that count as sentences and as condition."""
        return segments


class RandAugHead(SeaverHead):
    """Rand-Aug: SEAVER with random tokens in place of the condition; SEAVER, section 4.3.

    In training the tokens are drawn anew in every pass; in inference they depend only on the
    lengths of the texts, so that a triple always has the same score.
    """

    kind: ClassVar[str] = "rand_aug"

    def pieces(self, segments: Int[Tensor, "n t"]) -> Int[Tensor, "n t"]:
        """A random run of tokens as long as the condition takes its place."""
        if self.training:
            place = torch.rand(len(segments), device=segments.device)
        else:
            real, wide = (segments != PADDING).sum(dim=1), (segments == 1).sum(dim=1)
            place = ((real * 31 + wide).double() * _GOLDEN).frac().float()
        return displaced_condition(segments, place)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Initialise weights inside the block from ``seed``, without affecting the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def segments_of(side: Encoded) -> Int[Tensor, "n t"]:
    """The segments of an encoded side; raises if it has none."""
    if side.segments is None:
        raise TertiumError("A conditional head needs to know where the condition is.")
    return side.segments


def _regressor(shape: ModelShape, pooling: Positions, length: int, dropout: float) -> Regressor:
    return Regressor(
        dimension=shape.dimension,
        pooling=pooling,
        length=length,
        dropout=dropout,
        activation=shape.activate(),
    )
