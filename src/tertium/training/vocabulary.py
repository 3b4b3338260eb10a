"""The vocabulary of a tokenizer, for views."""

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tertium.errors import TertiumError
from tertium.views import Vocabulary

__all__ = ["read_vocabulary"]

_PIECE_MARKS = ("##", "Ġ", "▁")


def read_vocabulary(
    tokenizer: PreTrainedTokenizerBase, backbone: PreTrainedModel | None = None
) -> Vocabulary:
    """Special ids, length of each token in characters, and the maximum number of tokens.

    Args:
        tokenizer: the model's tokenizer.
        backbone: the model, whose positions limit the tokens (default: no limit).
    """
    if tokenizer.pad_token_id is None:
        raise TertiumError("This model's tokenizer has no padding token.")
    size = len(tokenizer)
    words = tokenizer.convert_ids_to_tokens(list(range(size)))
    named = ("cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id")
    boundaries = {int(at) for name in named if (at := getattr(tokenizer, name, None)) is not None}
    return Vocabulary(
        size=size,
        padding=tokenizer.pad_token_id,
        mask=tokenizer.mask_token_id,
        boundaries=tuple(sorted(boundaries)),
        characters=torch.tensor([_characters(str(word)) for word in words]),
        longest=None if backbone is None else _positions(backbone),
    )


def _positions(backbone: PreTrainedModel) -> int | None:
    """Maximum tokens by learned positions, which in RoBERTa start after that of padding."""
    table = getattr(getattr(backbone, "embeddings", None), "position_embeddings", None)
    if not isinstance(table, nn.Embedding):
        return None
    return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)


def _characters(word: str) -> int:
    for mark in _PIECE_MARKS:
        word = word.removeprefix(mark)
    return max(len(word), 1)
