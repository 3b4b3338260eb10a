"""The graded data of a report: benchmark sets, and the user's own files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.data import benchmarks
from tertium.data.readers import detect_kind, read_rows
from tertium.data.rows import GradedPair, GradedTriple
from tertium.errors import TertiumError
from tertium.files import sha256
from tertium.report.parts import LeftOut
from tertium.types import TextTriple

__all__ = ["CONDITIONAL", "GradedSet", "main_set", "read_benchmarks", "read_own"]

CONDITIONAL = "C-STS"
_MAIN = "STS-B"


@dataclass(frozen=True)
class GradedSet:
    """Pairs of texts, perhaps under conditions, with their grades by people.

    Attributes:
        name: what the page calls it.
        first: one text of each pair.
        second: the other.
        gold: the grades.
        scale: lowest and highest grade, stated or seen.
        stated: whether the scale is that of the benchmark or was given by the user; else it is
            what the grades happen to span.
        conditions: one for each pair, if the set has them.
        split: part of a benchmark set.
        source: name of the file.
        sha256: of the file.
        licence: terms of a benchmark set.
        whole: how many pairs there were before some were drawn.
    """

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    gold: NDArray[np.float64]
    scale: tuple[float, float]
    source: str
    sha256: str | None
    whole: int
    conditions: tuple[str, ...] | None = None
    split: str | None = None
    licence: str | None = None
    stated: bool = True

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Both texts of each pair."""
        return list(zip(self.first, self.second, strict=True))

    @property
    def triples(self) -> list[TextTriple]:
        """Both texts and the condition."""
        return list(zip(self.first, self.second, self.conditions or (), strict=True))

    @property
    def may_be_shown(self) -> bool:
        """C-STS's authors ask that its texts are not passed on."""
        return self.name != CONDITIONAL

    @property
    def close(self) -> NDArray[np.bool_]:
        """Pairs that mean the same: above four fifths of the scale, as > 4 of 0 to 5."""
        low, high = self.scale
        return np.asarray(self.gold > low + 0.8 * (high - low))

    def to_json(self) -> dict[str, Any]:
        """Where the data come from."""
        return {
            "name": self.name,
            "split": self.split,
            "pairs": len(self.gold),
            "of": self.whole,
            "conditions": self.conditions is not None,
            "source": self.source,
            "sha256": self.sha256,
            "licence": self.licence,
        }


def read_own(
    files: Sequence[Path], *, limit: int, seed: int, scale: tuple[float, float] | None = None
) -> list[GradedSet]:
    """Files of graded pairs; with a column ``condition``, of graded triples.

    Args:
        files: read whole.
        limit: at most so many pairs of each.
        seed: draws them.
        scale: lowest and highest grade; a grade outside is an error (default: as seen).
    """
    found: list[GradedSet] = []
    for file in files:
        kind = detect_kind(file)
        if kind not in ("graded", "conditional"):
            raise TertiumError(
                f"{file} holds {kind}; a report needs graded pairs: columns sentence1, sentence2 "
                "and score, and perhaps condition."
            )
        row_type = GradedTriple if kind == "conditional" else GradedPair
        rows: Sequence[Any] = read_rows(file, row_type, scale=scale)
        gold = np.array([row.score for row in rows], dtype=float)
        name = file.name if all(other.name != file.name for other in found) else str(file)
        own = GradedSet(
            name=name,
            first=tuple(row.sentence1 for row in rows),
            second=tuple(row.sentence2 for row in rows),
            gold=gold,
            scale=scale or (float(gold.min()), float(gold.max())),
            stated=scale is not None,
            source=file.name,
            sha256=sha256(file),
            whole=len(rows),
            conditions=_conditions(rows) if kind == "conditional" else None,
        )
        found.append(_drawn(own, limit=limit, seed=seed))
    return found


def read_benchmarks(
    names: Iterable[str], *, folder: Path, limit: int, seed: int
) -> tuple[list[GradedSet], list[LeftOut]]:
    """Benchmark sets from a folder; those that are not there are told."""
    found: list[GradedSet] = []
    missing: list[LeftOut] = []
    for name in names:
        split = "validation" if name == CONDITIONAL else "test"
        try:
            data = benchmarks.load(name, split=split, folder=folder)
        except TertiumError as error:
            missing.append(LeftOut(name, None, str(error)))
            continue
        found.append(_drawn(_of_benchmark(data), limit=limit, seed=seed))
    return found, missing


def main_set(sets: Sequence[GradedSet]) -> GradedSet | None:
    """The set that pictures are drawn of: the user's first, else STS-B, else the first."""
    plain = [one for one in sets if one.conditions is None]
    own = [one for one in plain if one.split is None]
    named = [one for one in plain if one.name == _MAIN]
    return next(iter([*own, *named, *plain]), None)


def _of_benchmark(data: benchmarks.Loaded) -> GradedSet:
    conditional = data.name == CONDITIONAL
    gold = [row.label if conditional else row.score for row in data.rows]
    return GradedSet(
        name=data.name,
        first=tuple(row.sentence1 for row in data.rows),
        second=tuple(row.sentence2 for row in data.rows),
        gold=np.array(gold, dtype=float),
        scale=benchmarks.DATASETS[data.name].scale or (0.0, 5.0),
        source=Path(data.source).name,
        sha256=data.sha256,
        whole=len(data.rows),
        conditions=_conditions(data.rows) if conditional else None,
        split=data.split,
        licence=data.licence,
    )


def _conditions(rows: Iterable[Any]) -> tuple[str, ...]:
    return tuple(row.condition for row in rows)


def _drawn(whole: GradedSet, *, limit: int, seed: int) -> GradedSet:
    """At most so many pairs, drawn by the seed, in the order of the file."""
    if len(whole.gold) <= limit:
        return whole
    places = np.sort(np.random.default_rng(seed).choice(len(whole.gold), limit, replace=False))
    chosen = whole.conditions
    return replace(
        whole,
        first=tuple(whole.first[at] for at in places),
        second=tuple(whole.second[at] for at in places),
        gold=whole.gold[places],
        conditions=None if chosen is None else tuple(chosen[at] for at in places),
    )
