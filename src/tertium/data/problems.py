"""What is wrong with a file, where, and how to put it right."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from tertium.errors import TertiumError

__all__ = ["DataError", "Problem"]

_SHOWN = 60  # characters of a bad value that are worth showing


@dataclass(frozen=True)
class Problem:
    """One fault in one file.

    Attributes:
        file: path as the user gave it.
        line: counted from 1; for Parquet the row; 0 when the whole file is meant.
        column: name of the column, or empty when the whole line is meant.
        value: what was found there, or None when nothing was.
        remedy: what to do about it.
    """

    file: str
    line: int
    column: str
    value: str | None
    remedy: str

    def __str__(self) -> str:
        """One line.

        >>> print(Problem("pairs.tsv", 3, "score", "abc", "write a number such as 3.5"))
        pairs.tsv:3: column 'score': 'abc': write a number such as 3.5
        """
        parts = [f"{self.file}:{self.line}" if self.line else self.file]
        if self.column:
            parts.append(f"column '{self.column}'")
        if self.value is not None:
            long = len(self.value) > _SHOWN
            parts.append(repr(f"{self.value[:_SHOWN]}…" if long else self.value))
        return ": ".join([*parts, self.remedy])


class DataError(TertiumError):
    """A file with bad rows.

    Attributes:
        problems: what was found before reading stopped; ``check_file`` finds all of them.
    """

    def __init__(self, problems: Sequence[Problem], *, column: str | None = None) -> None:
        """Say the first problem, and the command that lists all of them.

        Args:
            problems: at least one.
            column: the one that was asked for by name, if any.
        """
        self.problems = tuple(problems)
        first, more = self.problems[0], len(self.problems) - 1
        also = f" (and {more} more)" if more else ""
        command = ["tertium", "data", "check", first.file]
        command += [] if column is None else ["--column", column]
        super().__init__(f"{first}{also}. Run: {shlex.join(command)}")
