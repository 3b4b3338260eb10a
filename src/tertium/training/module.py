"""Encoder and objectives as one module, so that a checkpoint holds everything that learns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tertium.encoders import Encoder
from tertium.encoders.batching import token_budget_batches
from tertium.errors import TertiumError
from tertium.heads import Projection
from tertium.objectives import Objective
from tertium.training.gather import gather_views
from tertium.training.vocabulary import read_vocabulary
from tertium.types import Encoded, Masked, Tokens, ViewPair
from tertium.views import View
from tertium.views.base import Attend
from tertium.views.masking import mask_tokens

__all__ = ["TrainingModule", "WeightedObjective"]


@dataclass(frozen=True)
class WeightedObjective:
    """An objective and the weight of its terms in the loss."""

    objective: Objective
    weight: float = 1.0


class TrainingModule(nn.Module):
    """One merged forward pass for all sides of a batch, then every objective's terms.

    Args:
        encoder: what is trained.
        objectives: by name, with their weights.
        sides: texts per example; a single text gets its second side from the views.
        views: make the second side, one after another.
        projection: put on every embedding in training, left out in use.
        attend: attention weights of a batch, for views that score tokens (default: those of the
            encoder as it is now).
        tokens_per_pass: on a processor, encode a batch in groups of like length of at most so many
            tokens: short texts are not padded to the longest of the batch. Of no use where
            batches are bucketed by length.
    """

    def __init__(
        self,
        encoder: Encoder,
        objectives: Mapping[str, WeightedObjective],
        *,
        sides: int,
        views: Sequence[View] = (),
        projection: Projection | None = None,
        attend: Attend | None = None,
        tokens_per_pass: int | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.sides = sides
        self.views = tuple(views)
        self.attend = attend or encoder.attention
        self.vocabulary = read_vocabulary(encoder.tokenizer)
        self.model = encoder.model
        self.projection = projection
        self._budget = tokens_per_pass
        self.objectives = nn.ModuleDict({n: o.objective for n, o in objectives.items()})
        self._weights = {name: o.weight for name, o in objectives.items()}
        parts = [o.objective for o in objectives.values()]
        self._stride = max(part.anchor_stride for part in parts)
        self._hidden = next((p.mask_probability for p in parts if p.mask_probability), None)
        self.partner = encoder.copy() if any(part.two_encoders for part in parts) else None
        self.partner_model = None if self.partner is None else self.partner.model

    def forward(self, labels: Tensor | None = None, **features: Tensor) -> dict[str, Tensor]:
        """The loss, and each weighted term under its name."""
        tokens = Tokens(features["input_ids"], features["attention_mask"])
        views = self._encode(tokens, labels)
        exchanged = gather_views(views) if self._exchanges() else views
        terms = {
            term: self._weights[name] * value
            for name, objective in self.objectives.items()
            for term, value in objective(exchanged if objective.in_batch else views).items()
        }
        total = sum(terms.values(), start=views.first.embedding.new_zeros(()))
        return {"loss": total, **terms}

    def _encode(self, tokens: Tokens, labels: Tensor | None) -> ViewPair:
        if self.sides == 1:
            second = self._changed(tokens)
            if self.partner is not None:
                return ViewPair(
                    self._forward(self.partner, _rows(tokens, self._stride)),
                    self._forward(self.encoder, second),
                    masked=self._masked(tokens),
                )
            batch, sides = _join(tokens, second, padding=self.vocabulary.padding), 2
            masked = self._masked(_join(tokens, tokens, padding=self.vocabulary.padding))
        else:
            batch, sides = tokens, self.sides
            masked = self._masked(tokens)
        encoded = self._forward(self.encoder, batch)
        first, other, *others = (_side(encoded, at, sides) for at in range(sides))
        return ViewPair(first, other, others[0] if others else None, labels, masked)

    def _changed(self, tokens: Tokens) -> Tokens:
        """The second side of single texts."""
        for view in self.views:
            tokens = view(tokens, attend=self.attend)
        return tokens

    def _masked(self, tokens: Tokens) -> Masked | None:
        """A pass with hidden tokens, where an objective asks for it."""
        if self._hidden is None:
            return None
        changed, labels = mask_tokens(tokens, self.vocabulary, probability=self._hidden)
        return Masked(self._states(self.encoder, changed).tokens, labels)

    def _forward(self, encoder: Encoder, tokens: Tokens) -> Encoded:
        encoded = self._states(encoder, tokens)
        if self.projection is None:
            return encoded
        return replace(encoded, embedding=self.projection(encoded.embedding))

    def _states(self, encoder: Encoder, tokens: Tokens) -> Encoded:
        """Encode the batch, on a processor in groups of like length: the result is the same."""
        if self._budget is None or encoder.device.type != "cpu":
            return _encoded(encoder, tokens)
        lengths = tokens.mask.sum(dim=1).numpy()
        batches = token_budget_batches(lengths, budget=self._budget)
        groups = [torch.from_numpy(rows) for rows in batches]
        if len(groups) == 1:
            return _encoded(encoder, tokens)
        parts = [_encoded(encoder, _trimmed(tokens, rows)) for rows in groups]
        back = torch.cat(groups).argsort()
        width = tokens.ids.shape[1]
        states = [pad(part.tokens, (0, 0, 0, width - part.tokens.shape[1])) for part in parts]
        return Encoded(
            embedding=torch.cat([part.embedding for part in parts])[back],
            tokens=torch.cat(states)[back],
            mask=tokens.mask,
        )

    def _exchanges(self) -> bool:
        return any(objective.in_batch for objective in self.objectives.values())


def _join(first: Tokens, second: Tokens, *, padding: int) -> Tokens:
    """Both sides as one batch, padded to the same width."""
    sides = (first, second)
    width = max(side.ids.shape[1] for side in sides)
    ids = [pad(side.ids, (0, width - side.ids.shape[1]), value=padding) for side in sides]
    masks = [pad(side.mask, (0, width - side.mask.shape[1])) for side in sides]
    return Tokens(torch.cat(ids), torch.cat(masks))


def _encoded(encoder: Encoder, tokens: Tokens) -> Encoded:
    return encoder.forward({"input_ids": tokens.ids, "attention_mask": tokens.mask})


def _trimmed(tokens: Tokens, rows: Tensor) -> Tokens:
    """Some rows of a batch, no wider than the longest of them."""
    ids, mask = tokens.ids[rows], tokens.mask[rows]
    width = max(int(mask.sum(dim=1).max()), 1)
    return Tokens(ids[:, :width], mask[:, :width])


def _rows(tokens: Tokens, stride: int) -> Tokens:
    """Every ``stride``-th example; a batch that cannot be cut evenly is refused."""
    if len(tokens.ids) % stride:
        raise TertiumError(
            f"A batch of {len(tokens.ids)} examples cannot be cut into groups of {stride}: choose "
            f"a batch size that is a multiple of {stride}."
        )
    return Tokens(tokens.ids[::stride], tokens.mask[::stride])


def _side(encoded: Encoded, at: int, sides: int) -> Encoded:
    """One side of a merged batch."""
    n = len(encoded.embedding) // sides
    rows = slice(at * n, (at + 1) * n)
    return Encoded(
        embedding=encoded.embedding[rows],
        tokens=encoded.tokens[rows],
        mask=encoded.mask[rows],
        attention=None if encoded.attention is None else encoded.attention[:, rows],
        layers=encoded.layers,
    )
