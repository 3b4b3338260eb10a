"""Texts as bags of tokens, which is all that a static model reads, whatever averages them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.types import Pooling

__all__ = ["bags", "check_whole", "no_transformer"]


def bags(tokenizer: Any, texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """All tokens of some texts, how many each has, and how many texts hold none that is known."""
    found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    rows = [encoding.ids for encoding in found]
    ids = np.fromiter((token for row in rows for token in row), np.int64)
    lengths = np.array([len(row) for row in rows], np.int64)
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
    known = np.bincount(
        np.repeat(np.arange(len(rows)), lengths)[ids != unknown], minlength=len(rows)
    )
    return ids, lengths, int(((lengths > 0) & (known == 0)).sum())


def check_whole(name: str, pooling: Pooling | None, max_length: int | None) -> None:
    """Refuse what would change how a static model reads a text."""
    if pooling is not None or max_length is not None:
        raise TertiumError(
            f"{name} is static: it always takes the mean of a whole text. Leave pooling and "
            "max_length out."
        )


def no_transformer(name: str) -> TertiumError:
    """Why a static model cannot do something."""
    return TertiumError(
        f"{name} is static: it has no transformer to train, export or look into. Name the "
        "model that it was made of."
    )
