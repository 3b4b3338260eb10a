import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from tertium.errors import TertiumError
from tertium.records.manifest import (
    FILE_NAME,
    FORMAT,
    Manifest,
    TrainingData,
    read_manifest,
    write_manifest,
)
from tertium.types import Kind, Pooling


@pytest.mark.parametrize("kind", Kind)
def test_what_is_written_is_read(tmp_path: Path, kind: Kind) -> None:
    manifest = Manifest(
        kind=kind,
        pooling=Pooling.MEAN_TOP2,
        scale=(0, 5),
        training_data=(TrainingData(name="STS-B", split="dev", use="selection"),),
        details={"heads": 2},
    )
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_folder_without_one(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None


def test_a_newer_format_is_refused_with_the_remedy(tmp_path: Path) -> None:
    content = {"format": FORMAT + 1, "kind": "encoder", "scale": [-1, 1], "tertium": "9.0"}
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    with pytest.raises(TertiumError, match=rf"format {FORMAT + 1} .*tertium 9\.0.*Upgrade"):
        read_manifest(tmp_path)


def test_a_newer_format_is_recognised_whatever_else_it_holds(tmp_path: Path) -> None:
    content = {"format": FORMAT + 1, "kind": "quantum", "shape": "new", "tertium": "9.0"}
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    with pytest.raises(TertiumError, match="Upgrade tertium"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "quantum"}, "kind"),
        ({"pooling": "median"}, "pooling"),
        ({"scale": [0]}, "scale"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_bad_value_is_named_with_its_file(
    tmp_path: Path, change: dict[str, object], field: str
) -> None:
    content = {"format": FORMAT, "kind": "encoder", "scale": [-1, 1], **change}
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    with pytest.raises(TertiumError, match=rf"{FILE_NAME}: {field}"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("content", ["", "{broken", "[]", "null"])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(TertiumError, match=f"{FILE_NAME}: the file"):
        read_manifest(tmp_path)


def test_a_manifest_does_not_change() -> None:
    manifest = Manifest(kind=Kind.ENCODER, scale=(-1, 1))
    with pytest.raises(ValidationError):
        manifest.kind = Kind.PAIR  # type: ignore[misc]
