"""The masked-language-model term, an auxiliary objective of SimCSE and ADD."""

from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tertium.errors import TertiumError
from tertium.objectives.base import Objective
from tertium.types import Term, ViewPair

__all__ = ["MaskedLM", "masked_lm"]


def masked_lm(
    tokens: Float[Tensor, "n t d"], labels: Int[Tensor, "n t"], *, head: nn.Module
) -> Float[Tensor, " m"]:
    """Cross-entropy of each hidden token: SimCSE (Gao et al., 2021), section 3, "MLM".

    The language-model head runs on the hidden positions only. A batch without any hidden token
    gives a single zero.

    Args:
        tokens: last hidden states of the masked input.
        labels: the original id where a token was hidden, a negative number elsewhere.
        head: hidden states to vocabulary scores.
    """
    hidden = labels >= 0
    if not hidden.any():
        return 0.0 * tokens[0, 0, :1]
    return cross_entropy(head(tokens[hidden]), labels[hidden], reduction="none")


class MaskedLM(Objective):
    """Predict hidden tokens as well, so that the model keeps its knowledge of tokens.

    Args:
        head: hidden states to vocabulary scores.
        probability: share of tokens to hide.
    """

    needs_head: ClassVar[Literal["none", "pair", "language"]] = "language"
    pairs_rows: ClassVar[bool] = False
    auxiliary: ClassVar[bool] = True

    def __init__(self, *, head: nn.Module, probability: float = 0.15) -> None:
        super().__init__()
        if not 0 < probability < 1:
            raise TertiumError(f"probability must be between 0 and 1, got {probability}.")
        self.head = head
        self.mask_probability = probability

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The term ``masked_lm``, one value per hidden token."""
        if views.masked is None:
            raise TertiumError("masked_lm needs a pass with hidden tokens.")
        return {
            "masked_lm": Term(masked_lm(views.masked.tokens, views.masked.labels, head=self.head))
        }
