"""Texts with their ids and vectors from files, and tables of what was found."""

import contextlib
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tertium.data.readers import iter_texts, scan_texts
from tertium.data.rows import Sentence
from tertium.data.shards import iter_texts as stored_texts
from tertium.data.shards import read_vectors as read_shards
from tertium.data.tables import (
    DataError,
    Problem,
    check_stored_vectors,
    column_key,
    header_line,
    no_formula,
    one_line,
    read_records,
    row_writer,
    to_json,
)
from tertium.errors import TertiumError, require
from tertium.files import atomic_path, check_ending
from tertium.models.tokens import valid_text

__all__ = [
    "TABLES",
    "Distinct",
    "Write",
    "distinct",
    "iter_columns",
    "iter_filled",
    "iter_ids",
    "normal_form",
    "read_corpus",
    "read_vectors",
    "table",
    "typed",
    "write_kept",
]

TABLES = (".tsv", ".csv", ".jsonl")
Write = Callable[[Sequence[Any]], object]
Row = dict[str, Any]


def read_corpus(
    path: Path,
    *,
    column: str | None = None,
    id_column: str | None = None,
    strip_html: bool = False,
) -> tuple[list[str], list[str]]:
    """Texts and ids of a file; without ``id_column`` rows are numbered from 1 on.

    In a text file the number is that of the line.
    """
    texts = list(iter_texts(path, column=column, strip_html=strip_html))
    if id_column is None:
        return texts, [str(number) for number in range(1, len(texts) + 1)]
    ids = list(iter_ids(path, id_column))
    seen: dict[str, int] = {}
    for row, name in enumerate(ids, 1):
        if seen.setdefault(name, row) != row:
            raise TertiumError(
                f"{path}: the id '{name}' occurs twice, in rows {seen[name]} and {row}. Give "
                "every text an id of its own."
            )
    return texts, ids


def iter_filled(path: Path, *, column: str | None = None, remedy: str) -> Iterator[str]:
    """Texts of a file, of which none may be empty; ``remedy`` says what to do about such a one."""
    for item in scan_texts(path, column=column):
        if not isinstance(item, Problem) and not item[1].strip():
            item = Problem(str(path), item[0], "", None, f"the text is empty; {remedy}")
        if isinstance(item, Problem):
            raise DataError([item], column=column)
        yield item[1]


def iter_ids(path: Path, column: str) -> Iterator[str]:
    """The ids in a column of a file, one a row."""
    wanted = column_key(column)
    for line, values, _ in read_records(path):
        value = values.get(wanted)
        if value is None or not str(value).strip():
            remedy = f"needs an id in column {wanted}; found: {', '.join(values)}"
            raise DataError([Problem(str(path), line, wanted, None, remedy)])
        yield str(value)


def iter_columns(path: Path, *, column: str | None, id_column: str | None) -> Iterator[Row]:
    """What the rows of a file hold beside texts and ids; of a .txt file, nothing.

    Files of text know no types: a whole number there becomes one, and what is empty is missing.
    """
    used = {column_key(id_column)} if id_column else set()
    if column is not None:
        used |= {column_key(name) for name in column.split(",")}
    untyped = header_line(path) == 1
    for _, values, _ in read_records(path):
        usual = next((name for name in Sentence.names("sentence") if name in values), None)
        left_out = used if column is not None else used | {usual}
        yield {
            name: typed(value) if untyped and isinstance(value, str) else value
            for name, value in values.items()
            if name not in left_out
        }


def typed(value: str) -> str | int | None:
    """A value of a file of text: a whole number if writing it again gives the same.

    >>> [typed(value) for value in ("12", "012", "1.50", "-3", "")]
    [12, '012', '1.50', -3, None]
    """
    if not value:
        return None
    digits = value.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and (digits[0] != "0" or value == "0")
    return int(value) if plain and len(digits) < 19 else value


@contextlib.contextmanager
def table(
    output: Path, columns: Sequence[str], *, spreadsheet_safe: bool = False
) -> Iterator[Write]:
    """Write rows to a .tsv, .csv or .jsonl file, whole or not at all.

    Args:
        output: where to.
        columns: their names.
        spreadsheet_safe: let no text of a .tsv or .csv file begin as a formula does.
    """
    check_ending(output, TABLES)
    ending = output.suffix.lower()
    with atomic_path(output) as temporary, _stream(temporary) as stream:
        write = row_writer(stream, ending, columns, cells=_cells)
        if not spreadsheet_safe or ending == ".jsonl":
            yield write
        else:
            yield lambda row: write([no_formula(v) if isinstance(v, str) else v for v in row])


def write_kept(source: Path, output: Path, kept: Sequence[int], *, column: str | None) -> None:
    """Copy rows of a file: with all their columns into a table, as texts into a .txt file.

    Args:
        source: where the rows are.
        output: .txt, .tsv, .csv or .jsonl.
        kept: which rows, from 0 on.
        column: the column of texts.
    """
    wanted = set(kept)
    with atomic_path(output) as temporary, _stream(temporary) as stream:
        if output.suffix.lower() == ".txt":
            texts = enumerate(iter_texts(source, column=column))
            stream.writelines(one_line(text) + "\n" for row, text in texts if row in wanted)
            return
        records = (record for row, record in enumerate(read_records(source)) if row in wanted)
        if output.suffix.lower() == ".jsonl":
            stream.writelines(to_json(record.as_spelled()) + "\n" for record in records)
            return
        first = next(read_records(source))
        columns = tuple(first.values)
        names = tuple(first.as_spelled())
        write = row_writer(stream, output.suffix.lower(), names, cells=_cells)
        for line, values, _ in records:
            if values.keys() - set(columns):
                extra = ", ".join(sorted(values.keys() - set(columns)))
                raise TertiumError(
                    f"{source}: line {line} has {extra}, which the first row does not have. Write "
                    "to a .jsonl file, whose rows may differ."
                )
            write([values.get(name) for name in columns])


def read_vectors(path: Path, *, texts: Iterable[str] | None = None) -> NDArray[Any]:
    """Vectors as ``tertium encode`` writes them: a .npy or .parquet file, or a folder.

    Args:
        path: the file, or the folder of shards.
        texts: what they must have been made of, row by row: a folder holds its texts, which are
            compared. A file of another number of rows is refused, if ``texts`` has a length.
    """
    own: Iterable[str] | None = None
    if path.is_dir():
        found, own = read_shards(path), stored_texts(path)
    elif path.suffix == ".parquet":
        found, own = _read_parquet(path)
    else:
        found = _read_file(path)
    if isinstance(texts, Sized) and len(found) != len(texts):
        raise TertiumError(
            f"{path} holds {len(found):,} vectors for {len(texts):,} texts: row i must belong to "
            "text i. Encode the same file again."
        )
    if texts is not None and own is not None:
        _compare(path, own, texts)
    return found


def _read_parquet(path: Path) -> tuple[NDArray[Any], list[str]]:
    """Vectors and texts of a .parquet file."""
    require("scale", purpose="Reading Parquet", packages=("pyarrow",))
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    check_stored_vectors(path)
    try:
        stored = read_table(path)
        name = next(each for each in ("embedding", "vector") if each in stored.column_names)
        column = stored.column(name).combine_chunks()
        found = np.asarray(column.flatten(), np.float32).reshape(len(column), -1)
        return found, stored.column("text").to_pylist()
    except (ArrowException, OSError, StopIteration, KeyError, ValueError) as error:
        raise TertiumError(
            f"{path} does not hold texts and vectors as tertium encode writes them ({error})."
        ) from error


def _compare(folder: Path, own: Iterable[str], texts: Iterable[str]) -> None:
    """Raise at the first text that is another one in ``folder``, as far as both go."""
    for row, (stored, text) in enumerate(zip(own, texts, strict=False), 1):
        if stored != valid_text(text):
            raise TertiumError(
                f"{folder}: vector {row:,} is that of {stored[:60]!r}, and text {row:,} is "
                f"{text[:60]!r}: row i must belong to text i. Encode the same file again."
            )


def _read_file(path: Path) -> NDArray[Any]:
    check_stored_vectors(path)
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        message = f"{path} is not a .npy file of vectors, or is cut short. Encode again."
        raise TertiumError(message) from error
    if found.ndim != 2 or found.dtype.kind not in "fi":
        raise TertiumError(
            f"{path} holds {found.dtype} of shape {found.shape}, not a matrix of vectors."
        )
    return found


def _stream(path: Path) -> IO[str]:
    return path.open("w", encoding="utf-8", errors="replace", newline="")


def _cells(row: Sequence[Any]) -> list[str]:
    return [_shown(value) for value in row]


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6f}"
    return value if isinstance(value, str) else to_json(value)


def normal_form(text: str) -> str:
    r"""What must agree for two texts to be the same: all but white space and Unicode spelling.

    >>> normal_form("Cafe\u0301  au lait\n") == normal_form("Café au\tlait")
    True
    >>> normal_form("US") == normal_form("us")
    False
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass(frozen=True)
class Distinct:
    """The first of each text, and where the others repeat it.

    Attributes:
        rows: of the first ones, ascending.
        repeats: row of each repetition, and the row that it repeats.
    """

    rows: tuple[int, ...]
    repeats: dict[int, int]


def distinct(texts: Sequence[str], keys: Sequence[Hashable] | None = None) -> Distinct:
    """Find texts that are the same, and whose keys are, if there are any.

    >>> distinct(["a b", "c", " a  b "])
    Distinct(rows=(0, 1), repeats={2: 0})
    """
    first: dict[Hashable, int] = {}
    repeats: dict[int, int] = {}
    for row, text in enumerate(texts):
        plain = normal_form(text)
        seen = first.setdefault(plain if keys is None else (plain, keys[row]), row)
        if seen != row:
            repeats[row] = seen
    return Distinct(tuple(first.values()), repeats)
