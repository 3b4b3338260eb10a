"""What all readings share: tokens that say nothing, and the tables of word vectors."""

from collections.abc import Sequence

from torch import nn
from transformers import PreTrainedTokenizerBase

from tertium.errors import TertiumError
from tertium.explain.readings import Owner
from tertium.explain.words import Word, word_of
from tertium.models.encoder import Encoder
from tertium.models.twin import TwinModel

__all__ = ["Owners", "check_offsets", "owner_of", "silent_token", "word_tables"]

Owners = tuple[Owner | None, ...]


def owner_of(text: int, offsets: tuple[int, int], words: Sequence[Word]) -> Owner | None:
    """The word of a text that a token is a piece of, if it is one."""
    word = word_of(offsets, words)
    return None if word is None else Owner(text, word)


def silent_token(tokenizer: PreTrainedTokenizerBase) -> int:
    """A token that says nothing. Not padding, which some models give no place in the sequence."""
    for token in (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id):
        if token is not None:
            return int(token)
    raise TertiumError("This model's tokenizer has no token that says nothing.")


def check_offsets(encoder: Encoder) -> None:
    """Raise unless the tokenizer tells the place of each token."""
    if not encoder.tokenizer.is_fast:
        raise TertiumError(
            f"The tokenizer of {encoder.name} does not say where a token stands in the text: only "
            "occlusion can explain it."
        )


def word_tables(encoder: Encoder) -> tuple[nn.Module, ...]:
    """Where ids are looked up: one table, or one for each tower."""
    twin = encoder.backbone
    towers = (twin.first, twin.second) if isinstance(twin, TwinModel) else (twin,)
    return tuple(tower.get_input_embeddings() for tower in towers)
