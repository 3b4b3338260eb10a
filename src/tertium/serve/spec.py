"""What a worker is told: its models and its limits."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tertium.serve.settings import Settings

__all__ = ["LOADER", "Spec", "short_name", "spec_of"]

LOADER = "tertium.engines.loading:load"


@dataclass(frozen=True)
class Spec:
    """The models of a worker, and its limits.

    Attributes:
        model: gives vectors and scores pairs.
        conditional: takes conditions, if there is one.
        index: folder to search, if there is one.
        engine: what runs the models.
        threads: of this worker.
        batch_tokens: what is run together.
        max_tokens: of a request.
        max_explained_words: of the texts together.
        max_explained_characters: the same in characters.
        index_retry: seconds between two looks at an index that is damaged.
        loader: ``module:function`` that gives a model by its name.
    """

    model: str
    conditional: str | None = None
    index: str | None = None
    engine: str = "torch"
    threads: int = 1
    batch_tokens: int = 4096
    max_tokens: int = 65_536
    max_explained_words: int = 128
    max_explained_characters: int = 2048
    index_retry: float = 2.0
    loader: str = LOADER


def spec_of(settings: "Settings", *, loader: str = LOADER) -> Spec:
    """What the settings say to a worker."""
    return Spec(
        model=settings.model,
        conditional=None if settings.conditional_model == "none" else settings.conditional_model,
        index=None if settings.index is None else str(settings.index),
        engine=settings.engine,
        threads=settings.threads or max((os.cpu_count() or 1) // settings.workers, 1),
        batch_tokens=settings.batch_tokens,
        max_tokens=settings.max_tokens,
        max_explained_words=settings.max_explained_words,
        max_explained_characters=settings.max_explained_characters,
        index_retry=settings.index_retry,
        loader=loader,
    )


def short_name(name: str) -> str:
    """A model's name without its folders.

    >>> short_name("/models/my-model/"), short_name("sts")
    ('my-model', 'sts')
    """
    return name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or name
