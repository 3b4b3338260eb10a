"""Pairs of a corpus that were compared once, kept in a file to be decided on again and again."""

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tertium.corpus.duplicates import Deduped, decide, greedy
from tertium.corpus.exact import close_pairs
from tertium.corpus.hnsw import Method, check_threshold
from tertium.corpus.inputs import distinct
from tertium.corpus.rows import Positions, Scores, Source, distinct_rows
from tertium.errors import TertiumError
from tertium.files import atomic_path
from tertium.progress import bar

__all__ = ["Candidates", "find_candidates", "read_candidates"]

_MOST = 50_000_000  # pairs that are held


@dataclass(frozen=True)
class Candidates:
    """All pairs of distinct texts whose cosine reaches ``floor``.

    Attributes:
        digest: of the texts.
        floor: nothing below it was kept.
        first: places among the distinct texts.
        second: likewise, each greater than its first.
        scores: cosines.
    """

    digest: str
    floor: float
    first: Positions
    second: Positions
    scores: Scores

    def save(self, path: Path) -> None:
        """Write them to a .npz file."""
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez(
                stream,
                digest=np.array(self.digest),
                floor=np.array(self.floor),
                first=self.first,
                second=self.second,
                scores=self.scores,
            )

    def dedupe(self, texts: Sequence[str], *, threshold: float) -> Deduped:
        """What :func:`tertium.corpus.dedupe` gives for these texts, without comparing any."""
        check_threshold(threshold)
        found = distinct(texts)
        if _digest([texts[row] for row in found.rows]) != self.digest:
            raise TertiumError("These candidates were found among other texts. Find them again.")
        if threshold < self.floor:
            raise TertiumError(
                f"The candidates reach down to {self.floor:g}, not to {threshold:g}. Find them "
                "again with a lower floor."
            )
        pairs = greedy(self.first, self.second, self.scores, threshold)
        return decide(texts, found, pairs, Method.EXACT, threshold)


def find_candidates(
    texts: Sequence[str], source: Source, *, floor: float, progress: bool | None = None
) -> Candidates:
    """Compare all texts with all others once, and keep the pairs that reach ``floor``."""
    check_threshold(floor)
    found = distinct(texts)
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    held = 0
    if len(found.rows) > 1:
        rows = distinct_rows(texts, source, found.rows, progress=progress)
        with bar(total=len(rows), label="comparing", unit="text", show=progress) as shown:
            for first, second, _ in close_pairs(rows, floor, done=shown.update):
                scores = rows.similarity(first, second)
                near = scores >= floor
                parts.append((first[near], second[near], scores[near]))
                held += int(near.sum())
                if held > _MOST:
                    raise TertiumError(
                        f"More than {_MOST:,} pairs reach {floor:g}. Take a higher floor, or "
                        "dedupe without a file of candidates."
                    )
    first, second, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Candidates(_digest([texts[row] for row in found.rows]), floor, first, second, scores)


def read_candidates(path: Path) -> Candidates:
    """What :meth:`Candidates.save` wrote."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            first, second, scores = (stored[name] for name in ("first", "second", "scores"))
            digest, floor = str(stored["digest"]), float(stored["floor"])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise TertiumError(
            f"{path} is not a file of candidates. Name one that dedupe --candidates wrote, or a "
            "new file."
        ) from error
    return Candidates(digest, floor, first, second, scores)


def _digest(texts: Sequence[str]) -> str:
    found = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        found.update(f"{len(content)}\n".encode() + content)
    return found.hexdigest()
