"""Training against embeddings that a teacher made before."""

from collections.abc import Mapping

from torch import Tensor, nn

from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.training.module import TrainingModule, WeightedObjective
from tertium.types import Encoded, Tokens, ViewPair

__all__ = ["DistillationModule"]


class DistillationModule(TrainingModule):
    """One pass per text: its embedding is the first view, the teacher's vector the second.

    The labels of the examples are the teacher's vectors.

    Args:
        encoder: the student.
        objectives: by name, with their weights.
        to_teacher: from the student's width to the teacher's, in training only (default: both have
            the same).
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
