"""Ids of texts: given, or counted; no two texts of an index share one."""

from collections.abc import Iterable, Iterator

import numpy as np

from tertium.corpus.segments import Entry, StoredTexts
from tertium.corpus.snapshot import Snapshot
from tertium.errors import TertiumError

__all__ = ["check_ids", "entries"]


def entries(texts: Iterable[str], ids: Iterable[str] | None, *, start: int) -> Iterator[Entry]:
    """Texts with their ids; without ids they are numbered from ``start`` on.

    >>> [entry.id for entry in entries(["a", "b"], None, start=8)]
    ['8', '9']
    """
    if ids is None:
        for number, text in enumerate(texts, start):
            yield Entry(str(number), _checked(text, number - start))
        return
    try:
        for row, (name, text) in enumerate(zip(ids, texts, strict=True)):
            yield Entry(str(name), _checked(text, row))
    except ValueError as error:
        raise TertiumError("There must be as many ids as texts.") from error


def check_ids(new: StoredTexts, before: Snapshot | None) -> None:
    """Raise if two of the new texts have the same id, or if one has that of a text before.

    Hashes find the candidates, the ids themselves decide.
    """
    order = np.argsort(new.ids, kind="stable")
    same = np.flatnonzero(new.ids[order][1:] == new.ids[order][:-1])
    for first, second in zip(order[same].tolist(), order[same + 1].tolist(), strict=True):
        if new.entry(first).id == new.entry(second).id:
            raise TertiumError(
                f"The id '{new.entry(first).id}' is there twice, for texts {first + 1} and "
                f"{second + 1}. Give every text an id of its own."
            )
    if before is None:
        return
    known = before.hashes()
    for at in np.flatnonzero(np.isin(new.ids, known)).tolist():
        name = new.entry(at).id
        for position in np.flatnonzero(known == new.ids[at]).tolist():
            if before.entry(position).id == name:
                raise TertiumError(
                    f"The id '{name}' of text {at + 1} is in {before.folder} already. Give every "
                    "text an id of its own, or leave ids out to have texts numbered."
                )


def _checked(text: str, row: int) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text {row} is {type(text).__name__}, not str")
    return text
