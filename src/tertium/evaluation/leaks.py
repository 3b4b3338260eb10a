"""Pairs that a model may have seen: those on its card, and those in files named by the user."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tertium.data import benchmarks
from tertium.data.overlap import PairKey, holds_pairs, keys_of, pair_keys, parse_spec
from tertium.errors import TertiumError, TertiumWarning
from tertium.records.manifest import TrainingData

__all__ = ["Excluded", "find_excluded"]


@dataclass(frozen=True)
class Excluded:
    """A set whose pairs the leak-free figures exclude.

    Attributes:
        name: name of the benchmark or file.
        split: split of it, or None for all.
        use: ``training`` or ``selection`` according to the model's card, or ``named`` by the user.
        pairs: number of distinct pairs.
    """

    name: str
    split: str | None
    use: str
    pairs: int

    def __str__(self) -> str:
        part = f" {self.split}" if self.split else ""
        return f"{self.name}{part} ({self.use}, {self.pairs:,} pairs)"


def find_excluded(
    exclude: Iterable[str], training_data: Iterable[TrainingData], *, folder: Path | None
) -> tuple[tuple[Excluded, ...], frozenset[PairKey]]:
    """The sets to exclude, and the keys of all their pairs.

    Args:
        exclude: ``FILE`` or ``FILE:SPLIT``, which must exist and contain pairs.
        training_data: the data on the model's card; plain sentences are ignored, and a warning
            names what is not available.
        folder: benchmark folder.
    """
    found = [*_named(exclude), *_on_card(training_data, folder)]
    return tuple(entry for entry, _ in found), frozenset().union(*(keys for _, keys in found))


def _named(exclude: Iterable[str]) -> Iterator[tuple[Excluded, frozenset[PairKey]]]:
    for path, split in map(parse_spec, exclude):
        keys = pair_keys(path, split=split)
        yield Excluded(str(path), split, "named", len(keys)), keys


def _on_card(
    training_data: Iterable[TrainingData], folder: Path | None
) -> Iterator[tuple[Excluded, frozenset[PairKey]]]:
    missing: dict[str, list[str]] = {}
    for data in training_data:
        try:
            keys = _keys(data, folder)
        except TertiumError as error:
            missing.setdefault(str(error), []).append(data.name)
            continue
        if keys:
            yield Excluded(data.name, data.split, data.use, len(keys)), keys
    for reason, names in missing.items():
        every = " and ".join(dict.fromkeys(names))
        which = "which is" if every == names[0] else "which are"
        warnings.warn(
            f"The model's card says that it has seen {every}, {which} not available here, so pairs "
            f"that it has seen could not be left out: {reason}",
            TertiumWarning,
            stacklevel=2,
        )


def _keys(data: TrainingData, folder: Path | None) -> frozenset[PairKey]:
    if data.name not in benchmarks.DATASETS:
        path = Path(data.name)
        if not path.is_file():
            raise TertiumError("no such file or benchmark set.")
        return pair_keys(path, split=data.split) if holds_pairs(path) else frozenset()
    dataset = benchmarks.DATASETS[data.name]
    if dataset.made_of:  # only the graded pairs among its sources can be in a benchmark
        graded = [name for name in dataset.made_of if benchmarks.DATASETS[name].scale is not None]
        each = (_keys(TrainingData(name=name, split="train"), folder) for name in graded)
        return frozenset().union(*each)
    known = dataset.rows
    whole = ["all"] if "all" in known else list(known)
    parts = (
        benchmarks.load(data.name, split=split, folder=folder)
        for split in ([data.split] if data.split else whole)
    )
    return frozenset().union(*(keys_of(part.rows) for part in parts))
