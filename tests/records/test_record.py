from pathlib import Path
from typing import ClassVar

import pytest

from tertium.errors import TertiumError
from tertium.records.record import FileMark, InputMark, Record, read_record, write_record


class Note(Record):
    remedy: ClassVar[str] = "Write it again."

    format: int = 2
    text: str


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_record(tmp_path / "note.json", Note(text="a"), durable=True)
    assert read_record(tmp_path / "note.json", Note) == Note(text="a")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            '{"format": 3, "tertium": "9.0"}',
            r"format 3 .*tertium 9\.0; .* up to format 2\. Upgrade",
        ),
        ('{"format": 1}', r"note\.json: text: Field required\. Write it again\."),
        ('{"format": "x", "text": "a"}', r"note\.json: format: .*Write it again"),
        ("{", r"note\.json: the file: .*Write it again"),
        ("[]", r"note\.json: the file: .*Write it again"),
    ],
)
def test_what_cannot_be_read_says_why(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text(content)
    with pytest.raises(TertiumError, match=said):
        read_record(tmp_path / "note.json", Note)


def test_an_earlier_format_is_read(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text('{"format": 1, "text": "a"}')
    assert read_record(tmp_path / "note.json", Note).text == "a"


def test_a_mark_tells_what_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"one")
    mark = FileMark.of(path, durable=True)
    assert mark.fault(path) is None
    path.write_bytes(b"two")
    assert mark.fault(path) == "has changed (its sha256 differs)"
    assert mark.fault(path, contents=False) is None
    path.write_bytes(b"three")
    assert mark.fault(path, contents=False) == "has 5 bytes instead of 3"
    path.unlink()
    with pytest.raises(FileNotFoundError):
        mark.fault(path)


def test_an_input_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    known = InputMark.of(path)
    path.touch()
    assert known.matches(path)
    path.write_text("two")
    assert not known.matches(path)
    path.write_text("longer")
    assert not known.matches(path)
    with pytest.raises(TertiumError, match=r"gone\.txt: no such file"):
        known.matches(tmp_path / "gone.txt")
