"""Distillation: the student's embedding moves to where the teacher's is."""

from jaxtyping import Float
from torch import Tensor

from tertium.objectives.base import Objective
from tertium.types import Term, ViewPair

__all__ = ["Distillation", "embedding_error"]


def embedding_error(
    student: Float[Tensor, "n d"], teacher: Float[Tensor, "n d"]
) -> Float[Tensor, " n"]:
    """Mean squared difference of two embeddings, one value per text.

    JTCSE-D (Zong et al., 2025, section IV) and EDFSE distil an ensemble into one encoder by it.
    """
    return (student - teacher).square().mean(dim=1)


class Distillation(Objective):
    """Mean squared error between the first view, the student's, and the second, the teacher's."""

    def __init__(self) -> None:  # no settings, which nn.Module's own signature does not say
        super().__init__()

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The one term ``distil``, a value per text."""
        return {"distil": Term(embedding_error(views.first.embedding, views.second.embedding))}
