"""The data of a report: graded sets, texts and runs."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.data import benchmarks
from tertium.data.readers import detect_kind, first_texts, read_rows
from tertium.data.rows import GradedPair, GradedTriple
from tertium.data.samples import sample_sentences
from tertium.errors import TertiumError
from tertium.files import sha256
from tertium.models.names import takes_conditions
from tertium.report.page import LeftOut
from tertium.report.runs import Runs, read_runs
from tertium.types import TextTriple

__all__ = [
    "CONDITIONAL",
    "NO_PAIRS",
    "GradedSet",
    "Material",
    "collect",
    "main_set",
    "read_benchmarks",
    "read_own",
]

CONDITIONAL = "C-STS"
NO_PAIRS = "no graded pairs without conditions: give --pairs FILE or --data FOLDER."
_MAIN = "STS-B"
_TEXTS = 200  # maximum texts to measure attention on


@dataclass(frozen=True)
class GradedSet:
    """Pairs of texts with human grades, perhaps under conditions.

    Attributes:
        name: its name on the page.
        first: first text of each pair.
        second: second text of each pair.
        gold: the grades.
        scale: lowest and highest grade, stated or observed.
        stated: whether the scale is that of the benchmark or given by the user, rather than
            observed.
        conditions: one per pair, if the set has them.
        split: split of a benchmark set.
        source: name of the file.
        sha256: hash of the file.
        licence: terms of a benchmark set.
        whole: number of pairs before sampling.
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
        """False for C-STS, whose authors ask that its texts are not redistributed."""
        return self.name != CONDITIONAL

    @property
    def close(self) -> NDArray[np.bool_]:
        """Pairs that mean the same: above four fifths of the scale, such as > 4 of 5."""
        low, high = self.scale
        return np.asarray(self.gold > low + 0.8 * (high - low))

    def to_json(self) -> dict[str, Any]:
        """Its description and provenance, for JSON."""
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
        files: the files.
        limit: maximum number of pairs per file, sampled.
        seed: random seed for sampling.
        scale: lowest and highest grade; grades outside are errors (default: as observed).
    """
    found: list[GradedSet] = []
    for file in files:
        kind = detect_kind(file)
        if kind not in ("graded", "conditional"):
            raise TertiumError(
                f"{file} contains {kind}, but a report needs graded pairs: columns sentence1, "
                "sentence2 and score, and optionally condition."
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
    """Benchmark sets from a folder, and those that are missing."""
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
    """The set for figures: the user's first, else STS-B, else the first."""
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
    """At most ``limit`` pairs, sampled with the seed, in the order of the file."""
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


@dataclass(frozen=True)
class Material:
    """The data of a report.

    Attributes:
        sets: graded sets.
        main: the set for figures.
        texts: texts to measure attention on.
        texts_from: where they come from, in words.
        runs: training runs, sweeps and low-shot studies.
        left_out: missing data.
    """

    sets: list[GradedSet]
    main: GradedSet | None
    texts: list[str]
    texts_from: str
    runs: list[Runs]
    left_out: list[LeftOut]


def collect(
    models: Sequence[str],
    *,
    pairs: Sequence[Path],
    texts: Path | None,
    benchmarks: Sequence[str],
    folder: Path | None,
    runs: Sequence[Path],
    limit: int,
    seed: int,
    scale: tuple[float, float] | None = None,
) -> Material:
    """Read everything before a model is loaded, so that bad files are reported at once."""
    sets = read_own(pairs, limit=limit, seed=seed, scale=scale)
    left_out: list[LeftOut] = []
    if folder is not None and benchmarks:
        asked = [name for name in benchmarks if name != CONDITIONAL or _conditional(models)]
        more, left_out = read_benchmarks(asked, folder=folder, limit=limit, seed=seed)
        sets += more
    main = main_set(sets)
    chosen, source = _texts(texts, main)
    return Material(sets, main, chosen, source, read_runs(runs), left_out)


def _texts(file: Path | None, main: GradedSet | None) -> tuple[list[str], str]:
    if file is not None:
        chosen = first_texts(file, _TEXTS)
        if len(chosen) < 2:
            raise TertiumError(f"{file}: measuring attention needs at least two texts.")
        return chosen, f"the first {len(chosen)} of {file.name}"
    if main is not None:
        distinct = list(dict.fromkeys([*main.first, *main.second]))
        step = max(1, len(distinct) // _TEXTS)
        chosen = distinct[::step][:_TEXTS]
        if len(chosen) > 1:
            return chosen, f"{len(chosen)} sentences of {main.name}, evenly spaced"
    return sample_sentences(), "the sample sentences that come with tertium"


def _conditional(models: Sequence[str]) -> bool:
    """Whether any of the models takes conditions; missing models do not."""
    for name in models:
        with contextlib.suppress(TertiumError, OSError):
            if takes_conditions(name):
                return True
    return False
