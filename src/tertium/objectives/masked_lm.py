"""The masked-language-model term that SimCSE adds as an auxiliary."""

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

__all__ = ["IGNORED", "masked_lm"]

IGNORED = -100  # label of positions that were not masked


def masked_lm(
    tokens: Float[Tensor, "n t d"], labels: Int[Tensor, "n t"], *, head: nn.Module
) -> Float[Tensor, " m"]:
    """Cross-entropy of each masked position: SimCSE (Gao et al., 2021), section 3, "MLM".

    The language-model head runs on the masked positions alone.

    Args:
        tokens: last hidden states of the masked input.
        labels: the original id where a token was masked, ``IGNORED`` elsewhere.
        head: hidden states to vocabulary scores.
    """
    masked = labels != IGNORED
    return cross_entropy(head(tokens[masked]), labels[masked], reduction="none")
