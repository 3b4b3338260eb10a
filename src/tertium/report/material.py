"""What all models of a report are shown: graded sets, texts, and runs."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tertium.data.readers import iter_texts
from tertium.data.samples import sample_sentences
from tertium.errors import TertiumError
from tertium.models import resolve
from tertium.records.manifest import read_manifest
from tertium.report.parts import LeftOut
from tertium.report.runs import Runs, read_runs
from tertium.report.sets import CONDITIONAL, GradedSet, main_set, read_benchmarks, read_own
from tertium.types import Kind

__all__ = ["Material", "collect"]

_TEXTS = 200


@dataclass(frozen=True)
class Material:
    """What all models are shown.

    Attributes:
        sets: graded data.
        main: the set that pictures are drawn of.
        texts: to look at attention on.
        texts_from: where they come from, in words.
        runs: what the folders of runs hold.
        left_out: data that are not there.
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
    """Read everything before a model is loaded: what is wrong with a file is known at once."""
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
        filled = (text for text in iter_texts(file) if text.strip())
        chosen = list(itertools.islice(filled, _TEXTS))
        if len(chosen) < 2:
            raise TertiumError(f"{file}: attention is looked at on two texts or more.")
        return chosen, f"the first {len(chosen)} of {file.name}"
    if main is not None:
        distinct = list(dict.fromkeys([*main.first, *main.second]))
        step = max(1, len(distinct) // _TEXTS)
        chosen = distinct[::step][:_TEXTS]
        if len(chosen) > 1:
            return chosen, f"{len(chosen)} sentences of {main.name}, evenly chosen"
    return sample_sentences(), "the sample sentences that come with tertium"


def _conditional(models: Sequence[str]) -> bool:
    """Whether any of the models takes conditions; one that is not there does not."""
    for name in models:
        try:
            manifest = read_manifest(resolve(name))
        except (TertiumError, OSError):
            continue
        if manifest is not None and manifest.kind is Kind.CONDITIONAL:
            return True
    return False
