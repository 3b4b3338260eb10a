"""What a view makes of one sentence, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.types import Tokens
from tertium.views import AttentionDropout, View
from tertium.views.attention_dropout import least_attended

__all__ = ["Augmented", "Step", "augment", "drop_by_attention"]


@dataclass(frozen=True)
class Step:
    """One token less.

    Attributes:
        position: of the token in the sentence, special tokens counted.
        token: as the tokenizer writes it.
        text: what is left.
    """

    position: int
    token: str
    text: str


@dataclass(frozen=True)
class Augmented:
    """A sentence under attention-driven dropout.

    Attributes:
        tokens: as the tokenizer cuts the sentence, special tokens included.
        scores: the attention each receives.
        droppable: which of them may go.
        steps: in the order in which tokens go.
    """

    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    droppable: tuple[bool, ...]
    steps: tuple[Step, ...]


def drop_by_attention(encoder: Encoder, view: AttentionDropout, text: str) -> Augmented:
    """Which tokens ``view`` would drop first, up to its k.

    The number depends on k alone, not on the view's rate, so that a short sentence shows as much
    as a long one.
    """
    tokens = _tokens(encoder, text)
    names = encoder.tokenizer.convert_ids_to_tokens(tokens.ids[0].tolist())
    scores = view.scores(tokens, encoder.attention)
    droppable = view.droppable(tokens)
    steps: list[Step] = []
    before = torch.zeros_like(droppable)
    for k in range(1, view.k + 1):
        count = torch.tensor([k], device=scores.device)
        dropped = least_attended(scores, count, droppable, spared=view.spared)
        new = (dropped & ~before)[0].nonzero().flatten().tolist()
        if not new:
            break
        left = tokens.ids[0][~dropped[0]]
        steps.append(Step(new[0], names[new[0]], _text(encoder, left)))
        before = dropped
    return Augmented(
        tuple(names), tuple(scores[0].tolist()), tuple(droppable[0].tolist()), tuple(steps)
    )


def augment(encoder: Encoder, views: Sequence[View], text: str, *, seed: int) -> str:
    """The sentence as a stack of views changes it."""
    generator = torch.Generator(device=encoder.device).manual_seed(seed)
    tokens = _tokens(encoder, text)
    for view in views:
        tokens = view(tokens, attend=encoder.attention, generator=generator)
    return _text(encoder, tokens.ids[0][tokens.mask[0].bool()])


def _tokens(encoder: Encoder, text: str) -> Tokens:
    if not text.strip():
        raise TertiumError("There is no text to change.")
    features = encoder.features([text])
    return Tokens(features["input_ids"], features["attention_mask"])


def _text(encoder: Encoder, ids: Tensor) -> str:
    tokenizer = encoder.tokenizer
    boundaries = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id}
    kept = [token for token in ids.tolist() if token not in boundaries]
    return str(tokenizer.decode(kept))
