"""Further negatives: from other processes, and from earlier batches (momentum contrast)."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, distributed, nn
from torch.nn.functional import pad

from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.types import Encoded, Graded, HeadOutput, Tokens, Towers, ViewPair

__all__ = ["MomentumQueue", "gather_graded", "gather_views"]


def gather_views(views: ViewPair) -> ViewPair:
    """Gather embeddings and labels from all processes, in the order of ranks, with gradients.

    Every process then computes the same loss of the joined batch. Its gradient reaches a process
    once from each of them, and data-parallel training divides by their number, so the result is
    that of one process with the whole batch. Token states and attention are not gathered.
    """
    if not _several_processes():
        return views
    return replace(
        views,
        first=_gather(views.first),
        second=_gather(views.second),
        negatives=None if views.negatives is None else _gather(views.negatives),
        labels=None if views.labels is None else _joined(views.labels, dim=0),
        towers=None if views.towers is None else _gather_towers(views.towers),
    )


def gather_graded(graded: Graded) -> Graded:
    """The scored triples of all processes, as :func:`gather_views`; their numbers may differ.

    Rows of several passes count as triples of their own.
    """
    if not _several_processes():
        return graded
    rows = torch.tensor([len(graded.labels)], device=graded.labels.device)
    counts = [int(count) for count in _joined(rows, dim=0)]
    before = sum(counts[: distributed.get_rank()])  # group numbers are below the number of rows

    def joined(tensor: Tensor) -> Tensor:
        parts = _joined(pad(tensor, (0, max(counts) - len(tensor))), dim=0).chunk(len(counts))
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    score, cosine = graded.compared.score, graded.compared.cosine
    return Graded(
        HeadOutput(joined(score), None if cosine is None else joined(cosine)),
        joined(graded.labels),
        joined(graded.groups + before),
    )


def _several_processes() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def _gather(encoded: Encoded) -> Encoded:
    return replace(encoded, embedding=_joined(encoded.embedding, dim=0))


def _gather_towers(towers: Towers) -> Towers:
    """Gather the contrasted states; pooled ones are only compared within a sentence."""
    return replace(
        towers,
        cls=_joined(towers.cls, dim=2),
        pooled=None,
        crossed=None if towers.crossed is None else _joined(towers.crossed, dim=2),
    )


def _joined(tensor: Tensor, *, dim: int) -> Tensor:
    from torch.distributed.nn.functional import all_gather

    parts: tuple[Tensor, ...] = all_gather(tensor.contiguous())  # type: ignore[no-untyped-call]
    return torch.cat(list(parts), dim=dim)


class MomentumQueue(nn.Module):
    """A first-in, first-out queue of embeddings by a moving average of the encoder.

    Momentum Contrast (He et al., 2020) as in miCSE. Everything is part of the state dict, so a
    resumed run has the same queue and the same slow encoder.

    Args:
        encoder: the encoder in training; the slow one starts as its copy.
        size: number of embeddings in the queue.
        decay: weight of the slow encoder in its moving average.
        dropout: dropout of the slow encoder.
    """

    def __init__(self, encoder: Encoder, *, size: int, decay: float, dropout: float) -> None:
        super().__init__()
        if size < 1 or not 0 <= decay <= 1 or not 0 <= dropout < 1:
            raise TertiumError(
                "momentum needs a queue of at least 1, a decay from 0 to 1 and a dropout below 1."
            )
        self.decay = decay
        self.slow = encoder.copy()
        self.slow_model = self.slow.model.requires_grad_(requires_grad=False)
        for module in self.slow_model.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout
        self.register_buffer("rows", torch.zeros(size, encoder.dimension, device=encoder.device))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long, device=encoder.device))
        self.rows: Tensor
        self.filled: Tensor

    @property
    def negatives(self) -> Float[Tensor, "q d"] | None:
        """The queue, newest first; None while it is empty."""
        filled = int(self.filled)
        return self.rows[:filled].clone() if filled else None

    @torch.no_grad()
    def follow(self, encoder: Encoder) -> None:
        """Update the moving average."""
        for slow, fast in zip(
            self.slow_model.parameters(), encoder.model.parameters(), strict=True
        ):
            slow.lerp_(fast, 1 - self.decay)

    @torch.no_grad()
    def push(self, tokens: Tokens, projection: nn.Module | None) -> None:
        """Embed a batch with the slow encoder and enqueue it; the oldest are dropped.

        In distributed training the batches of all processes are enqueued, in the order of ranks, so
        that all have the same queue.
        """
        features = {"input_ids": tokens.ids, "attention_mask": tokens.mask}
        new = self.slow.forward(features).embedding
        new = new if projection is None else projection(new)
        if _several_processes():
            parts = [torch.empty_like(new) for _ in range(distributed.get_world_size())]
            distributed.all_gather(parts, new.contiguous())
            new = torch.cat(parts)
        size = len(self.rows)
        self.rows.copy_(torch.cat([new, self.rows])[:size])
        self.filled.copy_((self.filled + len(new)).clamp(max=size))
