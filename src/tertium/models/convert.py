"""Any model that can be loaded, as an ordinary sentence-transformers folder."""

import os
from pathlib import Path

from tertium.errors import TertiumError
from tertium.files import check_new_folder
from tertium.models import Encoder
from tertium.models.ensemble import Ensemble
from tertium.models.loading import load_embedder
from tertium.models.pair import PairScorer
from tertium.models.towers import tower_encoders
from tertium.types import Pooling

__all__ = ["convert", "write_towers"]


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    pooling: Pooling | str | None = None,
    revision: str | None = None,
) -> Encoder | PairScorer | Ensemble:
    """Write a model as a sentence-transformers folder with ``tertium.json``, and return it.

    Args:
        source: whatever :func:`tertium.load` takes.
        output: a folder that does not exist yet, or is empty.
        pooling: the pooling to save, instead of the model's own.
        revision: branch, tag or commit of a hub model.
    """
    folder = Path(output)
    check_new_folder(folder)
    model = load_embedder(source, pooling=pooling, revision=revision)
    model.save(folder)
    return model


def write_towers(
    source: str | os.PathLike[str], output: str | os.PathLike[str], *, revision: str | None = None
) -> tuple[Path, Path]:
    """Write both towers of a twin as two plain encoders, ``first`` and ``second``.

    Args:
        source: a twin, by anything that :func:`tertium.load` takes.
        output: a folder that does not exist yet, or is empty.
        revision: branch, tag or commit of a hub model.
    """
    folder = Path(output)
    check_new_folder(folder)
    twin = load_embedder(source, revision=revision)
    if not isinstance(twin, Encoder):
        raise TertiumError(f"{source} is not a twin: it has no towers.")
    first, second = tower_encoders(twin)
    first.save(folder / "first")
    second.save(folder / "second")
    return folder / "first", folder / "second"
