"""Models whose vectors are known, and small benchmark folders in the flat layout."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from tests.fakes import HashEncoder

Row = tuple[object, ...]


class Placed(HashEncoder):
    """Puts every text where a function of it says."""

    def __init__(self, place: Callable[[str], object], name: str = "placed") -> None:
        super().__init__(name, dimension=len(np.asarray(place("1"))))
        self._place = place

    def _vector(self, text: str) -> np.ndarray:
        return np.asarray(self._place(text), dtype=float)


def by_angle(text: str) -> tuple[float, float]:
    """The text is a number of degrees, whatever letters stand before it."""
    radians = np.deg2rad(float("".join(c for c in text if c.isdigit())))
    return np.cos(radians), np.sin(radians)


class Folder:
    """A benchmark folder that tests fill."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, file: str, header: str, rows: Iterable[Row]) -> Path:
        lines = ["\t".join(map(str, row)) for row in rows]
        path = self.path / file
        path.write_text("\n".join(["\t".join(header.split()), *lines]) + "\n", encoding="utf-8")
        return path

    def sts(self, file: str, rows: Iterable[tuple[float, str, str]], *, part: str = "") -> Path:
        """Graded pairs, all of one split or subset."""
        column = "subset" if file[:5] in ("sts12", "sts13", "sts14", "sts15", "sts16") else "split"
        return self.write(file, f"{column} score sentence1 sentence2", [(part, *r) for r in rows])

    def all_sts(self, rows: list[tuple[float, str, str]]) -> None:
        """The same pairs in all seven tasks, in both forms of the text."""
        for stem in ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sick"):
            for file in (f"{stem}.tsv", f"{stem}_raw.tsv"):
                self.sts(file, rows, part="test")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path / "data"
    path.mkdir()
    return Folder(path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Small folders do not have the rows that the benchmarks have, which is said each time."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:.* are expected:UserWarning"))
