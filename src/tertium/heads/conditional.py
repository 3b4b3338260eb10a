"""SEAVER's head: reallocated attention, self-augmentation, and a regressor."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tertium.errors import TertiumError
from tertium.functional.pooling import masked_mean
from tertium.functional.reallocation import PADDING, augment_states, reweighting

__all__ = ["Gradient", "Learnable", "Positions", "Regressor", "SelfAugmentation"]

Learnable = float | Literal["learned"]
Gradient = Literal["states", "states_and_weights"]
Positions = Literal["flatten", "mean", "cls"]


class SelfAugmentation(nn.Module):
    """States reweighted by attention across sentence and condition, added to the states.

    ``AO = Linear([W_1·O, …, W_h·O]) + alpha·O``: SEAVER, Eq. 2 to 6.

    Args:
        dimension: width of a state.
        heads: attention heads of the layer.
        alpha: weight of the states themselves, or ``learned``, which starts from 1.
        temperature: inside the softmax of the weights; ``learned`` starts from 1 and stays
            positive.
        gradient: let gradients reach the attention through the weights; the authors' code does not.
    """

    def __init__(
        self,
        *,
        dimension: int,
        heads: int,
        alpha: Learnable = 1.0,
        temperature: Learnable = 1.0,
        gradient: Gradient = "states",
    ) -> None:
        super().__init__()
        if temperature != "learned" and not temperature > 0:
            raise TertiumError(f"temperature must be positive, got {temperature}.")
        self.compressor = nn.Linear(heads * dimension, dimension)
        self.alpha = nn.Parameter(torch.tensor(1.0)) if alpha == "learned" else alpha
        learned = temperature == "learned"
        self.log_temperature = nn.Parameter(torch.tensor(0.0)) if learned else None
        self.fixed_temperature = 1.0 if temperature == "learned" else temperature
        self.gradient = gradient

    def forward(
        self,
        states: Float[Tensor, "n t d"],
        attention: Float[Tensor, "n h t t"],
        segments: Int[Tensor, "n t"],
    ) -> Float[Tensor, "n t d"]:
        """The augmented states."""
        if self.gradient == "states":
            attention = attention.detach()
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
        pooling: ``flatten`` takes all positions of a fixed length, padding included, as the paper
            does; ``mean`` and ``cls`` take any length.
        length: positions, for ``flatten``.
        dropout: before the first map.
        activation: after it.
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
