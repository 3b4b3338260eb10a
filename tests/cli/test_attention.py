import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.recipes.toys import toy_text_file

pytestmark = pytest.mark.integration

FILES = [
    f"attention-{name}.{ending}"
    for name in ("information", "histograms")
    for ending in ("png", "svg")
]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return toy_text_file(tmp_path / "own.txt", 12, more="\n  \n")


def test_four_pictures_and_json(run: Run, texts: Path, tiny_bert: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "pictures"
    arguments = ("attention", texts, "-o", output, "-m", tiny_bert)
    ran = run(*arguments, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert list(found) == ["files", "texts", "information"]
    assert found["files"] == [str(output / name) for name in FILES]
    assert found["texts"] == 12  # blank ones are left out
    assert found["information"]["same"] > found["information"]["different"] > 0
    assert sorted(path.name for path in output.iterdir()) == sorted(FILES)
    for name in FILES:
        content = (output / name).read_bytes()
        assert content.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")
        assert len(content) > 5000
    ran = run(*arguments, "--seed", 1, "--limit", 5)  # for people
    assert ran.code == 0, ran.err
    assert all(name in ran.err for name in FILES)
    same = found["information"]["same"]
    assert ran.out.startswith("mean attention information: ") and "different texts" in ran.out
    assert f"{same:.3f} same text" not in ran.out


@pytest.mark.parametrize(
    ("content", "message"), [("one text\n", "at least two texts"), (None, "no such file")]
)
def test_mistakes_leave_nothing(
    content: str | None, message: str, run: Run, tiny_bert: Path, tmp_path: Path
) -> None:
    path = tmp_path / "own.txt"
    if content is not None:
        path.write_text(content)
    ran = run("attention", path, "-o", tmp_path / "pictures", "-m", tiny_bert)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ") and message in ran.err
    assert not (tmp_path / "pictures").exists()
