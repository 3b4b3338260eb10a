from pathlib import Path

import pytest

from tertium.data import DataError
from tertium.data.readers import read_translation
from tertium.errors import TertiumError


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_rows_belong_together(tmp_path: Path) -> None:
    original = write(tmp_path / "en.txt", "one", "", "two")
    translated = write(tmp_path / "de.tsv", "id\ttext", "1\teins", "2\t ", "3\tzwei")
    assert read_translation(original, translated) == [("one", "eins"), ("two", "zwei")]


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        (("a", "b"), ("c",), r"de\.txt ends after 1 texts, and .*en\.txt has more"),
        (("a",), ("c", "d"), r"en\.txt ends after 1 texts, and .*de\.txt has more"),
        (("a",), ("c", ""), r"en\.txt ends after 1 texts"),
    ],
)
def test_files_of_different_length(
    tmp_path: Path, one: tuple[str, ...], two: tuple[str, ...], said: str
) -> None:
    original, translated = write(tmp_path / "en.txt", *one), write(tmp_path / "de.txt", *two)
    with pytest.raises(TertiumError, match=said):
        read_translation(original, translated)


def test_a_text_without_its_counterpart(tmp_path: Path) -> None:
    filled, holed = write(tmp_path / "en.txt", "a", "b"), write(tmp_path / "de.txt", "c", " ")
    with pytest.raises(DataError, match=r"de\.txt:2: blank, and row 2 of .*en\.txt is not"):
        read_translation(filled, holed)
    with pytest.raises(DataError, match=r"de\.txt:2: blank"):
        read_translation(holed, filled)
