"""Any model that can be loaded, as an ordinary sentence-transformers folder."""

import os
from pathlib import Path

from tertium.encoders import Encoder
from tertium.errors import TertiumError
from tertium.inference.loading import load
from tertium.inference.pair import PairScorer
from tertium.types import Pooling

__all__ = ["convert"]


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    pooling: Pooling | str | None = None,
    revision: str | None = None,
) -> Encoder | PairScorer:
    """Write a model as a sentence-transformers folder with ``tertium.json``, and return it.

    Args:
        source: whatever :func:`tertium.load` takes.
        output: a folder that does not exist yet, or is empty.
        pooling: the pooling to save, instead of the model's own.
        revision: branch, tag or commit of a hub model.
    """
    folder = Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TertiumError(f"{folder} exists and is not empty. Name another folder, or remove it.")
    model = load(source, pooling=pooling, revision=revision)
    model.save(folder)
    return model
