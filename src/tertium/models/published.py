"""Published checkpoints and the pooling each was trained for, which the hub does not tell."""

from pathlib import Path

from tertium.types import Pooling

__all__ = ["PUBLISHED", "published_pooling"]

_SIMCSE = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")

# After unsupervised training the MLP is left out; after supervised training it is part of the
# model. The hub's files hold it as the pooler.
PUBLISHED: dict[str, Pooling] = {
    **{f"princeton-nlp/unsup-simcse-{size}": Pooling.CLS for size in _SIMCSE},
    **{f"princeton-nlp/sup-simcse-{size}": Pooling.POOLER for size in _SIMCSE},
    "sap-ai-research/miCSE": Pooling.CLS,
}
_FOLDERS = {name.partition("/")[2]: pooling for name, pooling in PUBLISHED.items()}


def published_pooling(name: str, folder: Path) -> Pooling | None:
    """The pooling of a published model, or None for any other.

    Args:
        name: a model of this hub id is known.
        folder: a folder is known that is called like the model, or is its snapshot in the hub's
            cache (``models--organisation--model/snapshots/revision``).
    """
    path = folder.absolute()
    cached = path.parent.parent.name.split("--")
    return (
        PUBLISHED.get(name)
        or _FOLDERS.get(path.name)
        or (PUBLISHED.get("/".join(cached[1:])) if cached[0] == "models" else None)
    )
