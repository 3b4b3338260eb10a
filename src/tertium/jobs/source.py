"""The rows of a job: read from a file, checked in advance, and split into shards."""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, TypeVar

from tertium.data.columns import Columns
from tertium.data.readers import scan_rows, scan_texts
from tertium.data.rows import Question, SentencePair
from tertium.data.shards import Content, Shard
from tertium.data.tables import DataError, Problem
from tertium.errors import TertiumError
from tertium.files import atomic_path
from tertium.progress import bar

__all__ = ["SKIPPED", "OnError", "Prescan", "Source", "SourceRow", "pick", "prescan", "shard_size"]

SKIPPED = "_skipped.jsonl"
_SHOWN = 1000  # characters of a bad value in the log


class OnError(StrEnum):
    """How to treat rows that cannot be read."""

    FAIL = "fail"
    SKIP_AND_LOG = "skip-and-log"


class SourceRow(NamedTuple):
    """The texts of one row, and its line number."""

    line: int
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A file and how to read it.

    Attributes:
        path: text, TSV, CSV, JSONL or Parquet.
        content: what a row contains.
        column: the column with the texts; only for ``Content.TEXTS``.
        columns: columns of pairs and triples that have unusual names.
        strip_html: strip HTML markup; only for ``Content.TEXTS``.
    """

    path: Path
    content: Content
    column: str | None = None
    columns: Columns = field(default_factory=Columns)
    strip_html: bool = False

    def scan(self) -> Iterator[SourceRow | Problem]:
        """Good rows, and a problem in place of each bad one."""
        if self.content is Content.TEXTS:
            for found in scan_texts(self.path, column=self.column, strip_html=self.strip_html):
                yield found if isinstance(found, Problem) else SourceRow(found[0], (found[1],))
            return
        row_type = SentencePair if self.content is Content.PAIRS else Question
        for row in scan_rows(self.path, row_type, columns=self.columns):
            if isinstance(row, Problem):
                yield row
            else:
                texts = (getattr(row[1], name) for name in self.content.columns)
                yield SourceRow(row[0], tuple(texts))

    def rows(self) -> Iterator[SourceRow]:
        """Good rows only."""
        return (item for item in self.scan() if isinstance(item, SourceRow))


@dataclass(frozen=True)
class Prescan:
    """The number of good and of bad rows in a file."""

    rows: int
    skipped: int


def prescan(
    source: Source, folder: Path, *, on_error: OnError, progress: bool | None = None
) -> Prescan:
    """Read the whole file once, before anything is computed.

    A bad row ends the job here and not after hours; with ``SKIP_AND_LOG`` bad rows are listed in
    ``_skipped.jsonl`` in ``folder``.

    Raises:
        DataError: a row is bad and ``on_error`` is ``FAIL``, or no row is good.
    """
    rows, skipped = 0, 0
    first: Problem | None = None
    bad_line = -1
    log = folder / SKIPPED
    with (
        bar(total=None, label="reading", unit="row", show=progress) as shown,
        atomic_path(log, durable=True) as temporary,
        temporary.open("w", encoding="utf-8") as stream,
    ):
        for item in source.scan():
            if isinstance(item, SourceRow):
                rows += 1
                shown.update()
                continue
            if on_error is OnError.FAIL:
                raise DataError([item], column=source.column)
            first = first or item
            skipped += item.line != bad_line  # one row may have two problems
            bad_line = item.line
            stream.write(_logged(item) + "\n")
    if not skipped:
        log.unlink()
    if first and not rows:
        raise DataError([first], column=source.column)
    return Prescan(rows, skipped)


def _logged(problem: Problem) -> str:
    value = None if problem.value is None else problem.value[:_SHOWN]
    entry = {"line": problem.line, "column": problem.column or None, "value": value}
    return json.dumps({**entry, "reason": problem.remedy})


T = TypeVar("T")

_PARTS = 64  # minimum shards, rows permitting, so that the last ones end at about the same time
_STEP, _MOST = 1024, 65_536


def shard_size(rows: int) -> int:
    """Default rows per shard; it depends only on the number of rows.

    >>> [shard_size(rows) for rows in (10, 100_000, 1_000_000, 10**9)]
    [1024, 2048, 16384, 65536]
    """
    return min(max(-(-rows // _PARTS // _STEP) * _STEP, _STEP), _MOST)


def pick(items: Iterable[T], shards: Sequence[Shard]) -> Iterator[tuple[Shard, list[T]]]:
    """Each of ``shards`` with its items, from a stream of all items; one shard is in memory.

    >>> from tertium.data.shards import plan
    >>> [(shard.index, items) for shard, items in pick("abcde", plan(5, size=2)[1:])]
    [(1, ['c', 'd']), (2, ['e'])]
    """
    stream, place = iter(items), 0
    for shard in sorted(shards, key=lambda shard: shard.start):
        next(itertools.islice(stream, shard.start - place, shard.start - place), None)
        found = list(itertools.islice(stream, len(shard)))
        if len(found) < len(shard):
            raise TertiumError(
                f"The input ended before row {shard.stop:,}: it changed while it was being read. "
                "Rerun the command."
            )
        place = shard.stop
        yield shard, found
