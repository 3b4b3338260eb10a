"""Encoder and objectives as one module, so that a checkpoint contains everything trainable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tertium.errors import TertiumError
from tertium.heads import ConditionalHead, PairHead, Projection
from tertium.models import Encoder
from tertium.models.conditional_model import ConditionalModel
from tertium.models.twin import TwinModel
from tertium.objectives import Objective
from tertium.objectives.base import reduce_terms
from tertium.training.examples import Collator, TripleCollator
from tertium.training.negatives import MomentumQueue, gather_graded, gather_views
from tertium.training.passes import encode_tokens, encode_towers
from tertium.training.vocabulary import read_vocabulary
from tertium.types import Encoded, Graded, HeadOutput, Masked, Tokens, ViewPair
from tertium.views import View
from tertium.views.base import Attend
from tertium.views.noise import mask_tokens

__all__ = ["ConditionalModule", "DistillationModule", "TrainingModule", "WeightedObjective"]


@dataclass(frozen=True)
class WeightedObjective:
    """An objective and the weight of its terms in the loss."""

    objective: Objective
    weight: float = 1.0


class TrainingModule(nn.Module):
    """One merged forward pass for all sides of a batch, then every objective's terms.

    Args:
        encoder: the encoder to train.
        objectives: objectives by name, with their weights.
        sides: texts per example; for a single text the views make the second side.
        views: make the second side, one after another.
        projection: applied to every embedding in training only.
        attend: attention weights of a batch, for views that score tokens (default: those of the
            encoder in training).
        momentum: fills a queue of further negatives.
        tokens_per_pass: on a CPU, encode a batch in groups of similar length of at most this many
            tokens, to reduce padding. Useless if batches are bucketed by length.
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
        momentum: MomentumQueue | None = None,
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
        self.momentum = momentum
        self._budget = tokens_per_pass
        self.objectives = nn.ModuleDict({n: o.objective for n, o in objectives.items()})
        self._weights = {name: o.weight for name, o in objectives.items()}
        parts = [o.objective for o in objectives.values()]
        self._stride = max(part.anchor_stride for part in parts)
        depth = int(encoder.backbone.config.num_hidden_layers)
        self._layers = sorted({layer for part in parts for layer in part.attention_layers(depth)})
        self._hidden = next((p.mask_probability for p in parts if p.mask_probability), None)
        self._crossing = next((p.crossing for p in parts if p.crossing is not None), None)
        self._apart = any(part.two_towers for part in parts)
        self.partner = encoder.copy() if any(part.two_encoders for part in parts) else None
        self.partner_model = None if self.partner is None else self.partner.model

    @property
    def collator(self) -> Any:
        """The collator for its examples."""
        return Collator(self.encoder.tokenizer, max_length=self.encoder.max_length)

    @property
    def trained_head(self) -> PairHead | ConditionalHead | None:
        """The head that becomes part of the model, if an objective trains one."""
        heads = (getattr(objective, "head", None) for objective in self.objectives.values())
        return next((head for head in heads if isinstance(head, PairHead)), None)

    def forward(self, labels: Tensor | None = None, **features: Tensor) -> dict[str, Tensor]:
        """The loss, and each weighted term by name."""
        tokens = Tokens(features["input_ids"], features["attention_mask"])
        views = self._encode(tokens, labels)
        exchanged = gather_views(views) if self._exchanges() else views
        terms = {
            term: self._weights[name] * value
            for name, objective in self.objectives.items()
            for term, value in objective(exchanged if objective.in_batch else views).items()
        }
        if self.momentum is not None and self.training:
            self.momentum.follow(self.encoder)
            self.momentum.push(tokens, self.projection)
        total = sum(terms.values(), start=views.first.embedding.new_zeros(()))
        return {"loss": total, **terms}

    def _encode(self, tokens: Tokens, labels: Tensor | None) -> ViewPair:
        queue = None if self.momentum is None else self.momentum.negatives
        if self.sides > 1:
            first, second, *others = self._sides(tokens, self.sides)
            negatives = others[0] if others else None
            weights = None
            if labels is not None and labels.ndim == 2:  # a label and its weight
                labels, weights = labels.unbind(dim=1)
            return ViewPair(
                *(first, second, negatives, labels),
                masked=self._masked(tokens),
                queue=queue,
                weights=weights,
            )
        changed = self._changed(tokens)
        if self._apart:
            return self._encode_towers(self._join(tokens, changed))
        if self.partner is None:
            first, second = self._sides(self._join(tokens, changed), 2)
            masked = self._masked(self._join(tokens, tokens))
        else:
            first = self._forward(self.partner, _rows(tokens, self._stride))
            second = self._forward(self.encoder, changed)
            masked = self._masked(tokens)
        return ViewPair(first, second, masked=masked, sources=changed.sources, queue=queue)

    def _encode_towers(self, batch: Tokens) -> ViewPair:
        """Encode both views with both towers; the embedding is their sum."""
        twin = self.encoder.backbone
        if not isinstance(twin, TwinModel):
            raise TertiumError("These objectives compare two towers, but the encoder has only one.")
        towers = encode_towers(twin, batch, budget=self._budget, crossing=self._crossing)
        sums, masks = towers.cls.sum(dim=0), batch.mask[:, :1].chunk(2)
        first, second = (
            Encoded(embedding, embedding[:, None], mask)
            for embedding, mask in zip(sums, masks, strict=True)
        )
        return ViewPair(first, second, towers=towers)

    def _sides(self, batch: Tokens, sides: int) -> list[Encoded]:
        """All sides in one merged pass."""
        return self._forward(self.encoder, batch).split(sides)

    def _join(self, first: Tokens, second: Tokens) -> Tokens:
        """Both sides as one batch, padded to the same width."""
        both, padding = (first, second), self.vocabulary.padding
        width = max(side.ids.shape[1] for side in both)
        ids = [pad(side.ids, (0, width - side.ids.shape[1]), value=padding) for side in both]
        masks = [pad(side.mask, (0, width - side.mask.shape[1])) for side in both]
        return Tokens(torch.cat(ids), torch.cat(masks))

    def _changed(self, tokens: Tokens) -> Tokens:
        """The second side of single texts, made by the views."""
        for view in self.views:
            tokens = view(tokens, attend=self.attend)
        return tokens

    def _masked(self, tokens: Tokens) -> Masked | None:
        """A pass with hidden tokens, if an objective needs it."""
        if self._hidden is None:
            return None
        changed, labels = mask_tokens(tokens, self.vocabulary, probability=self._hidden)
        states = encode_tokens(self.encoder, changed, budget=self._budget).tokens
        return Masked(states, labels)

    def _forward(self, encoder: Encoder, tokens: Tokens) -> Encoded:
        encoded = encode_tokens(encoder, tokens, budget=self._budget, layers=self._layers)
        if self.projection is None:
            return encoded
        return replace(encoded, embedding=self.projection(encoded.embedding))

    def _exchanges(self) -> bool:
        return any(objective.in_batch for objective in self.objectives.values())


class DistillationModule(TrainingModule):
    """One pass per text: its embedding is the first view, the teacher's vector the second.

    The labels of the examples are the teacher's vectors.

    Args:
        encoder: the student.
        objectives: objectives by name, with their weights.
        to_teacher: maps the student's width to the teacher's, in training only (default: both are
            equal).
        tokens_per_pass: see :class:`TrainingModule`.
    """

    def __init__(
        self,
        encoder: Encoder,
        objectives: Mapping[str, WeightedObjective],
        *,
        to_teacher: nn.Module | None = None,
        tokens_per_pass: int | None = None,
    ) -> None:
        super().__init__(encoder, objectives, sides=1, tokens_per_pass=tokens_per_pass)
        self.to_teacher = to_teacher or nn.Identity()

    def _encode(self, tokens: Tokens, labels: Tensor | None) -> ViewPair:
        if labels is None:
            raise TertiumError("Distillation needs the teacher's vectors as labels.")
        student = self._forward(self.encoder, tokens)
        own = Encoded(self.to_teacher(student.embedding), student.tokens, student.mask)
        return ViewPair(own, Encoded(labels, labels[:, None], student.mask[:, :1]))


class ConditionalModule(TrainingModule):
    """A conditional model and the objectives that compare its scores with labels.

    Args:
        model: encoder and head.
        objectives: objectives by name, with their weights; each learns from conditional data.
    """

    def __init__(
        self, model: ConditionalModel, objectives: Mapping[str, WeightedObjective]
    ) -> None:
        super().__init__(model.encoder, objectives, sides=3)
        self.passes = max(part.objective.passes for part in objectives.values())
        self.head = model.head
        self._conditional = (model,)  # in a tuple, since its parts are already registered

    @property
    def conditional(self) -> ConditionalModel:
        """The model that scores."""
        return self._conditional[0]

    @property
    def collator(self) -> Any:
        """The collator for triples."""
        return TripleCollator(self.conditional)

    @property
    def trained_head(self) -> ConditionalHead:
        """The head of the conditional model."""
        return self.conditional.head

    def train(self, mode: bool = True) -> "ConditionalModule":  # noqa: FBT001, FBT002 (torch's)
        """Set training or evaluation mode, also of the conditional model."""
        super().train(mode)
        self.conditional.train(mode)
        return self

    def forward(
        self,
        labels: Tensor | None = None,
        groups: Tensor | None = None,
        **features: Tensor,
    ) -> dict[str, Tensor]:
        """The loss, and each weighted term by name."""
        graded = self._graded(features, cast(Tensor, labels), cast(Tensor, groups))
        exchanged = gather_graded(graded) if self._exchanges() else graded
        terms: dict[str, Tensor] = {}
        for name, module in self.objectives.items():
            objective = cast(Objective, module)
            found = objective.terms_from_scores(exchanged if objective.in_batch else graded)
            means = reduce_terms(found)
            terms |= {term: self._weights[name] * value for term, value in means.items()}
        total = sum(terms.values(), start=graded.compared.score.new_zeros(()))
        return {"loss": total, **terms}

    def _graded(self, features: dict[str, Tensor], labels: Tensor, groups: Tensor) -> Graded:
        """Encode the batch as often as an objective needs; groups are distinct in each pass."""
        seen = [self.conditional(features) for _ in range(self.passes)]
        if self.passes == 1:
            return Graded(seen[0], labels, groups)
        cosines = [compared.cosine for compared in seen if compared.cosine is not None]
        apart = int(groups.max()) + 1
        return Graded(
            HeadOutput(
                torch.cat([compared.score for compared in seen]),
                torch.cat(cosines) if cosines else None,
            ),
            labels.repeat(self.passes),
            torch.cat([groups + apart * at for at in range(self.passes)]),
            self.passes,
        )


def _rows(tokens: Tokens, stride: int) -> Tokens:
    """Every ``stride``-th example; raises if the batch is not a multiple of it."""
    if len(tokens.ids) % stride:
        raise TertiumError(
            f"A batch of {len(tokens.ids)} examples cannot be split into groups of {stride}: use a "
            f"batch size that is a multiple of {stride}."
        )
    return Tokens(tokens.ids[::stride], tokens.mask[::stride])
