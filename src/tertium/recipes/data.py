"""Reads the training data of a stage from a recipe's sources: pairs, texts or triplets."""

import hashlib
import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from tertium.data import benchmarks
from tertium.data.labels import OrderedLabels
from tertium.data.overlap import pair_key
from tertium.data.readers import iter_rows, iter_texts, read_translation
from tertium.data.rows import (
    GradedPair,
    LabelledPair,
    NliPair,
    Row,
    Sentence,
    SentencePair,
    Triplet,
)
from tertium.data.shapes import Example, read_examples, recognise
from tertium.data.tables import DataError, Problem, header_line
from tertium.errors import TertiumError, TertiumWarning
from tertium.models import Ensemble
from tertium.models.loading import combine
from tertium.models.vectors import map_vectors
from tertium.recipes.schema import DataSpec, LabelSpec, SourceSpec, StageSpec
from tertium.records.manifest import TrainingData
from tertium.training import Examples

__all__ = [
    "OWN_TERMS",
    "Amount",
    "StageData",
    "check_variety",
    "gathered",
    "load_examples",
    "moved",
    "own_pairs",
    "seen_in",
    "taught",
    "teacher_files",
]

T = TypeVar("T")
_Labelled = GradedPair | LabelledPair | NliPair
_Found = tuple[list[tuple[str, ...]], tuple[str, ...], list[int]]  # examples, terms, rows of each
_Weighted = tuple[str, str, float, float]  # a graded pair, and its weight in the loss
OWN_TERMS = "the user's own"  # terms of a file that is not a benchmark set
_MOST_HELD_OUT = 512
_LEAST_HELD_OUT = 8
_VECTORS = "teacher.npy"
_UNITS = {
    "graded": "pairs",
    "texts": "sentences",
    "positives": "pairs",
    "triplets": "triplets",
    "conditional": "triples",
}


@dataclass(frozen=True)
class Amount:
    """How much data a stage uses.

    Attributes:
        used: rows that are used, including those held out to select the checkpoint.
        of: the number that the recipe was published with or requests, whichever is larger; None
            if it states neither.
        unit: the unit that is counted.
        short: whether fewer rows are available than requested. A limit below the published size is
            the user's choice, and does not count.
    """

    used: int
    of: int | None
    unit: str
    short: bool

    @classmethod
    def count(cls, spec: DataSpec, sources: Sequence[int], *, kept: int) -> "Amount":
        """Compare the available data with what the recipe requests.

        Args:
            spec: the stage's data.
            sources: rows in each source, before its limit and including repeated texts.
            kept: examples left after all limits.
        """
        limits = [source.limit for source in spec.sources]
        pairs = list(zip(sources, limits, strict=True))
        rows = sum(found if limit is None else min(found, limit) for found, limit in pairs)
        missing = sum(max(0, (limit or 0) - found) for found, limit in pairs)
        own = any(source.name is None for source in spec.sources)
        published = None if own else spec.published
        asked = spec.limit or published or (rows + missing if missing else None)
        used = rows if spec.limit is None else kept
        known = [size for size in (asked, published) if size is not None]
        short = asked is not None and used < asked
        return cls(used, max(known, default=None), _UNITS[spec.kind], short)

    @property
    def partial(self) -> bool:
        """Whether less is used than was published or requested."""
        return self.of is not None and self.used < self.of

    def to_json(self) -> dict[str, Any]:
        """Plain values for a run's ``data.json``."""
        return asdict(self)

    def __str__(self) -> str:
        """The text for a card.

        >>> print(Amount(58_674, 1_000_000, "sentences", short=True))
        58,674 of 1,000,000 sentences
        >>> print(Amount(5_749, 5_749, "pairs", short=False))
        5,749 pairs
        """
        of = f" of {self.of:,}" if self.partial else ""
        return f"{self.used:,}{of} {self.unit}"


@dataclass(frozen=True)
class StageData:
    """A stage's examples, and where they came from.

    Attributes:
        examples: the training examples.
        labels: the scale of graded pairs.
        seen: entries for the manifest.
        licences: terms of the data.
        amount: how much data is used.
        held_out: texts that select the checkpoint if there are no labels.
        held_out_pairs: graded pairs that select it if STS-B is not available.
        teacher: model whose vectors of the texts are learned.
    """

    examples: Examples
    labels: OrderedLabels | None
    seen: tuple[TrainingData, ...]
    licences: tuple[str, ...]
    amount: Amount
    held_out: tuple[str, ...] = ()
    held_out_pairs: tuple[tuple[str, str, float], ...] = ()
    teacher: Ensemble | None = None

    @property
    def digest(self) -> str:
        """A hash of the texts, in order."""
        return _digest(self.examples.texts)


def load_examples(stage: StageSpec, *, folder: Path | None) -> StageData:
    """The examples of all sources, as the stage needs them."""
    spec = stage.data
    if spec.kind == "graded" and spec.labels is not None:
        return _graded(stage, spec.labels, folder)
    read = _texts if spec.kind == "texts" else _triplets
    texts, licences, found = read(spec, folder)
    if spec.subset == "by-seed" and spec.limit is not None:
        texts = _hashed_subset(texts, spec.limit, seed=stage.train.seed)
    else:
        texts = _limited(texts, spec.limit)
    amount = Amount.count(spec, found, kept=len(texts))
    held_out: tuple[str, ...] = ()
    if _holds_out(stage):
        texts, held_out = _hold_out(texts)
    # Texts are compared within a batch, except with a teacher.
    needed = 1 if stage.teacher is not None else stage.train.batch_size
    if len(texts) < needed:
        raise TertiumError(
            f"{len(texts)} different examples do not fill one batch of {needed}. Give more texts, "
            f"or a smaller batch: --set stages.{stage.name}.train.batch_size={max(len(texts), 2)}"
        )
    teacher, seen = _teacher(stage), seen_in(spec)
    if teacher is not None:
        seen = (*seen, *teacher.training_data)  # the student learns what the teacher has seen
    return StageData(
        Examples(texts), None, seen, licences, amount, held_out=held_out, teacher=teacher
    )


def _teacher(stage: StageSpec) -> Ensemble | None:
    spec = stage.teacher
    return None if spec is None else combine(spec.models, weight=spec.weight, pooling=spec.pooling)


def seen_in(spec: DataSpec) -> tuple[TrainingData, ...]:
    """The sources, for the manifest."""
    return tuple(
        TrainingData(
            name=source.name or str(source.file), split=source.split if source.name else None
        )
        for source in spec.sources
    )


def _graded(stage: StageSpec, scale: LabelSpec, folder: Path | None) -> StageData:
    """Pairs with their labels on the recipe's scale."""
    spec, labels = stage.data, scale.build()

    def read(source: SourceSpec) -> tuple[list[_Weighted], str]:
        found, licence = _read(source, spec, labels, folder)
        return [(*pair, source.weight) for pair in found], licence

    pairs, licences, counts = gathered(spec, read, _taken)
    pairs = _limited(pairs, spec.limit)
    amount = Amount.count(spec, counts, kept=len(pairs))
    held_out: tuple[_Weighted, ...] = ()
    if _holds_out(stage):
        pairs, held_out = _hold_out_pairs(pairs)
    values = [labels.rounded(value) if scale.round else value for _, _, value, _ in pairs]
    check_variety(values)
    weighted = any(source.weight != 1 for source in spec.sources)
    weights = [weight for *_, weight in pairs] if weighted else None
    examples = Examples([pair[:2] for pair in pairs], values, weights)
    graded = tuple(pair[:3] for pair in held_out)
    return StageData(examples, labels, seen_in(spec), licences, amount, held_out_pairs=graded)


def gathered(
    spec: DataSpec,
    read: Callable[[SourceSpec], tuple[list[T], str]],
    limit: Callable[[list[T], int | None], list[T]],
) -> tuple[list[T], tuple[str, ...], list[int]]:
    """The examples of all sources, each within its limit; their terms, and how many each has.

    Args:
        spec: the stage's data.
        read: returns the examples of a source and its terms.
        limit: keeps at most so many of them.
    """
    examples: list[T] = []
    terms: list[str] = []
    counts: list[int] = []
    for source in spec.sources:
        found, term = read(source)
        examples += limit(found, source.limit)
        terms.append(term)
        counts.append(len(found))
    return examples, tuple(terms), counts


def check_variety(labels: Sequence[float]) -> None:
    """Raise if there is nothing to learn."""
    if len(set(labels)) < 2:
        raise TertiumError(
            f"All {len(labels)} labels are equal: there is nothing to learn. Check the labels."
        )


def _texts(spec: DataSpec, folder: Path | None) -> _Found:
    """Distinct texts without blank ones."""

    def read(source: SourceSpec) -> tuple[list[str], str]:
        if source.name is None:
            path = Path(str(source.file))
            return _different(_own(source, path), path), OWN_TERMS
        data = _benchmark(source, spec, folder)
        return _sentences(data.rows, source.name), data.licence

    def distinct(texts: list[str], limit: int | None) -> list[str]:
        return _taken(list(dict.fromkeys(texts)), limit)

    texts, licences, counts = gathered(spec, read, distinct)
    return [(text,) for text in dict.fromkeys(texts)], licences, counts


def _benchmark(source: SourceSpec, spec: DataSpec, folder: Path | None) -> benchmarks.Loaded:
    """A benchmark set, whose size is not checked if the recipe states a published size."""
    return benchmarks.load(
        str(source.name),
        split=source.split,
        folder=folder,
        text=source.text,
        check_rows=spec.published is None,
    )


def _own(source: SourceSpec, path: Path) -> Iterable[str]:
    """The texts of a user's file, or translations that belong to the texts of another file."""
    if source.translation_of is None:
        column = ",".join(source.mapped().text) or None
        return iter_texts(path, column=column, strip_html=source.strip_html)
    pairs = read_translation(Path(source.translation_of), path)
    return [translation for _, translation in pairs]


def _different(texts: Iterable[str], path: Path) -> list[str]:
    stripped = [text.strip() for text in texts]
    filled = [text for text in stripped if text]
    kept = list(dict.fromkeys(filled))
    blank, repeated = len(stripped) - len(filled), len(filled) - len(kept)
    if blank or repeated:
        warnings.warn(
            f"{path}: {blank:,} blank and {repeated:,} repeated texts were left out, "
            f"{len(kept):,} are used.",
            TertiumWarning,
            stacklevel=2,
        )
    return kept


def _sentences(rows: Iterable[Row], name: str) -> list[str]:
    """The texts of a benchmark set of sentences or pairs."""
    texts: list[str] = []
    for row in rows:
        if isinstance(row, Sentence):
            texts.append(row.sentence)
        elif isinstance(row, SentencePair):
            texts += [row.sentence1, row.sentence2]
        else:
            raise TertiumError(f"{name} holds {type(row).__name__} rows, not single texts.")
    return texts


def _triplets(spec: DataSpec, folder: Path | None) -> _Found:
    def read(source: SourceSpec) -> tuple[list[tuple[str, ...]], str]:
        if source.name is None:
            return [example.texts for example in _examples(source, shape=spec.kind)], OWN_TERMS
        data = _benchmark(source, spec, folder)
        return _grouped(data.rows, spec, str(source.name)), data.licence

    return gathered(spec, read, _taken)


def _grouped(rows: Sequence[Row], spec: DataSpec, name: str) -> list[tuple[str, ...]]:
    """Anchor, positive and, for triplets, hard negative."""
    if not all(isinstance(row, Triplet) for row in rows):
        raise TertiumError(f"{name} holds {type(rows[0]).__name__} rows, not triplets.")
    texts = [(r.anchor, r.positive, r.hard_negative) for r in rows if isinstance(r, Triplet)]
    if spec.kind == "triplets":
        return [*texts]
    return [*dict.fromkeys(group[:2] for group in texts)]


def _examples(
    source: SourceSpec, *, shape: str | None = None, labels: OrderedLabels | None = None
) -> list[Example]:
    """The rows of a user's file, recognised by its content and the recipe's settings."""
    names = None if labels is None else labels.names
    return read_examples(
        recognise(
            Path(str(source.file)),
            columns=source.mapped(),
            shape=shape,
            labels=names,
            scale=None if labels is None or names is not None else (labels.low, labels.high),
            split=source.part,
        )
    )


def _holds_out(stage: StageSpec) -> bool:
    return stage.select is not None and stage.select.task == "held-out"


def _hold_out(
    texts: list[tuple[str, ...]],
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Hold out a tenth of the texts, up to a maximum, to select the checkpoint; none of too few."""
    count = min(len(texts) // 10, _MOST_HELD_OUT)
    if count < _LEAST_HELD_OUT:
        return texts, ()
    mixed = _shuffled(texts)
    return mixed[count:], tuple(text for (text,) in mixed[:count])


def _hold_out_pairs(
    pairs: list[_Weighted],
) -> tuple[list[_Weighted], tuple[_Weighted, ...]]:
    """The same for graded pairs; all rows of a pair stay on one side."""
    keys = [pair_key(first, second) for first, second, *_ in pairs]
    different = _shuffled(list(dict.fromkeys(keys)))
    chosen = frozenset(different[: min(len(different) // 10, _MOST_HELD_OUT)])
    held_out = tuple(pair for pair, key in zip(pairs, keys, strict=True) if key in chosen)
    if len(chosen) < _LEAST_HELD_OUT or len({grade for *_, grade, _ in held_out}) < 2:
        return pairs, ()
    return [pair for pair, key in zip(pairs, keys, strict=True) if key not in chosen], held_out


def _taken(items: list[T], limit: int | None) -> list[T]:
    return items if limit is None else _shuffled(items)[:limit]


def _shuffled(items: list[T]) -> list[T]:
    """A fixed shuffle, independent of the seed, so that all runs see the same examples."""
    return random.Random(0).sample(items, len(items))


def _hashed_subset(texts: list[tuple[str, ...]], size: int, *, seed: int) -> list[tuple[str, ...]]:
    """The examples with the smallest hashes.

    They are the same for all methods, independent of the source's order, and a smaller subset is
    part of a larger one.
    """
    return sorted(texts, key=lambda text: _digest([text], salt=f"{seed}"))[:size]


def _digest(texts: Iterable[tuple[str, ...]], *, salt: str = "") -> str:
    found = hashlib.sha256(salt.encode())
    for sides in texts:
        found.update("\0".join(sides).encode(errors="replace") + b"\n")
    return found.hexdigest()


def _limited(items: list[T], limit: int | None) -> list[T]:
    return items if limit is None else random.Random(0).sample(items, min(limit, len(items)))


def _read(
    source: SourceSpec, spec: DataSpec, labels: OrderedLabels, folder: Path | None
) -> tuple[list[tuple[str, str, float]], str]:
    if source.name is None:
        return own_pairs(source, labels), OWN_TERMS
    data = _benchmark(source, spec, folder)
    row_type: type[_Labelled] = GradedPair if labels.names is None else NliPair
    if not isinstance(data.rows[0], row_type):
        raise TertiumError(
            f"{source.name} holds {type(data.rows[0]).__name__} rows, and the recipe's labels need "
            f"{row_type.__name__}: give labels by {'names' if labels.names is None else 'range'}."
        )
    return [(r.sentence1, r.sentence2, _value(r, labels, source.name)) for r in data.rows], (
        data.licence
    )


def own_pairs(source: SourceSpec, labels: OrderedLabels) -> list[tuple[str, str, float]]:
    """Pairs of a user's file with their labels, which are already on the recipe's scale."""
    if source.columns is not None or source.part is not None or source.strip_html:
        found = _examples(source, labels=labels)
        return [(e.texts[0], e.texts[1], cast(float, e.label)) for e in found]
    path = Path(str(source.file))
    own: type[GradedPair] | type[LabelledPair]
    own = GradedPair if labels.names is None else LabelledPair
    rows: list[_Labelled] = [*iter_rows(path, own)]
    _check_labels(path, rows, labels)
    return [(r.sentence1, r.sentence2, _value(r, labels, None)) for r in rows]


def _value(row: _Labelled, labels: OrderedLabels, dataset: str | None) -> float:
    """A row's label as a number; ``dataset`` is its benchmark set, or None for the user's file."""
    if not isinstance(row, GradedPair):
        return labels.value(row.label)
    return labels.value(row.score) if dataset is None else moved(row.score, dataset, labels)


def moved(score: float, dataset: str, labels: OrderedLabels) -> float:
    """A grade, mapped linearly from the scale of a benchmark set to the recipe's."""
    low, high = benchmarks.DATASETS[dataset].scale or (labels.low, labels.high)
    return labels.low + (score - low) / (high - low) * (labels.high - labels.low)


def _check_labels(path: Path, rows: list[_Labelled], labels: OrderedLabels) -> None:
    """Raise with every row whose label is not one of the recipe's."""
    if not rows:
        raise TertiumError(f"{path} holds no pairs.")
    if labels.names is None:
        known = f"labels go from {labels.low:g} to {labels.high:g}"
    else:
        known = f"labels are {', '.join(labels.names)}"
    problems = []
    for number, row in enumerate(rows, (header_line(path) or 0) + 1):
        column, given = (
            ("score", row.score) if isinstance(row, GradedPair) else ("label", row.label)
        )
        try:
            labels.value(given)
        except TertiumError:
            remedy = f"{known}; correct it or set the recipe's labels"
            problems.append(Problem(str(path), number, column, str(given), remedy))
    if problems:
        raise DataError(problems)


def taught(
    examples: Examples, teacher: Ensemble, folder: Path, *, progress: bool | None = None
) -> Examples:
    """The examples with the teacher's vectors, which are computed once and kept in ``folder``."""
    texts = [text for (text,) in examples.texts]
    return replace(
        examples, labels=map_vectors(teacher, texts, folder / _VECTORS, progress=progress)
    )


def teacher_files(folder: Path) -> list[Path]:
    """The files that :func:`taught` wrote into ``folder``."""
    return list(folder.glob(f"{Path(_VECTORS).stem}.*"))
