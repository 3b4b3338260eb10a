"""Recognises what a data file contains, by its columns and values, and describes it.

:func:`recognise` reads a file once, in constant memory except for the pairs of several raters.
:func:`read_examples` reads its rows.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from tertium.data.columns import HOLDERS, Columns, scan_columns
from tertium.data.labels import OrderedLabels
from tertium.data.readers import in_split, is_number
from tertium.data.rows import (
    LABEL_NAMES,
    RATER_NAMES,
    ConditionalPair,
    LabelledText,
    PositivePair,
    Row,
    Sentence,
    SentencePair,
    Triplet,
)
from tertium.data.tables import DataError, Problem, Record, ending, header_line
from tertium.errors import TertiumError

__all__ = [
    "ENTAILMENT",
    "AmbiguousFileError",
    "Example",
    "Recognised",
    "Shape",
    "read_examples",
    "recognise",
]


class Shape(StrEnum):
    """The kind of rows in a file."""

    TEXTS = "texts"  # single texts
    PAIRS = "pairs"  # two texts each, without a label
    GRADED = "graded"  # pairs with a grade on a scale
    BINARY = "binary"  # pairs that are the same or not
    WORDS = "words"  # pairs with one of several words that have an order
    POSITIVES = "positives"  # pairs that all mean the same
    TRIPLETS = "triplets"  # anchor, positive and negative
    CONDITIONAL = "conditional"  # pairs with a condition, and perhaps a grade

    @property
    def labelled(self) -> bool:
        """Whether every row has a label to learn from."""
        return self in (Shape.GRADED, Shape.BINARY, Shape.WORDS)


class AmbiguousFileError(DataError):
    """A file that can be read in two ways; the remedy says how to choose."""


@dataclass(frozen=True)
class Example:
    """One row, or all ratings of one pair.

    Attributes:
        line: its line, of several ratings the first.
        texts: one to three texts; a condition comes last.
        label: label on the scale of the file, or the mean of several ratings; None without one.
        ratings: ratings by rater, if there are several.
    """

    line: int
    texts: tuple[str, ...]
    label: float | None = None
    ratings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Recognised:
    """A recognised file.

    Attributes:
        file: the path.
        shape: the kind of its rows.
        columns: every column that is read, by content.
        kept: columns that are not read, as spelled in the file.
        rows: number of rows; if each rating is a row, each counts.
        labels: the scale of the grades, 0 and 1, or words in ascending order of similarity; None
            without labels.
        ends_seen: whether both the lowest and the highest label of the scale occur.
        raters: names of the raters, if there are several.
        split: the split that is read; None for all rows.
        notes: further observations.
    """

    file: Path
    shape: Shape
    columns: Columns
    kept: tuple[str, ...]
    rows: int
    labels: OrderedLabels | None = None
    ends_seen: bool = True
    raters: tuple[str, ...] = ()
    split: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def row_type(self) -> type[Row]:
        """The type of a row without its label."""
        return _ROW_TYPES[self.shape]

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each text of a row, in the order of ``Example.texts``."""
        found = self.row_type.model_fields
        return tuple(
            self.columns.of(name, self.row_type, ()) for name in found if name not in _NO_TEXTS
        )

    @property
    def raters_in_columns(self) -> bool:
        """Whether each rater has a column, rather than each rating a row."""
        return len(self.columns.label) > 1

    def value(self, label: Any) -> float:
        """A label of the file as a number on its scale."""
        if self.labels is None:
            raise TertiumError(f"{self.file} has no labels.")
        return self.labels.value(_key(label) if self.labels.names is not None else float(label))

    def __str__(self) -> str:
        """A description in one sentence."""
        said = [f"{_WORDS[self.shape]}, {self.rows:,} row{'' if self.rows == 1 else 's'}"]
        if ending(self.file) != ".txt":
            where = " and ".join(" + ".join(names) for names in self.texts)
            said.append(f"{'texts' if len(self.texts) > 1 else 'text'} in {where}")
        if self.labels is not None:
            said.append(self._said_labels(self.labels))
        if self.raters:
            how = "a column" if self.raters_in_columns else "a row"
            said.append(f"{len(self.raters)} raters with {how} each")
        return f"{self.file}: {'; '.join(said)}"

    def _said_labels(self, labels: OrderedLabels) -> str:
        where = ", ".join(self.columns.label)
        if labels.names is not None:
            return f"labels in {where}: {' < '.join(labels.names)}"
        scale = f"{labels.low:g} to {labels.high:g}"
        return f"labels in {where}: {scale}" + ("" if self.ends_seen else " (assumed)")

    def to_json(self) -> dict[str, Any]:
        """Plain values, as printed by ``tertium data check --json``."""
        labels = self.labels
        return {
            "shape": str(self.shape),
            "columns": {name: list(names) for name, names in self.columns.named.items()},
            "kept": list(self.kept),
            "labels": None
            if labels is None
            else {
                "low": labels.low,
                "high": labels.high,
                "names": None if labels.names is None else list(labels.names),
                "assumed": not self.ends_seen,
            },
            "raters": list(self.raters),
        }


def recognise(
    path: Path,
    *,
    columns: Columns | None = None,
    shape: Shape | str | None = None,
    labels: Sequence[str] | None = None,
    scale: tuple[float, float] | None = None,
    split: str | None = None,
    skip_bad_rows: bool = False,
) -> Recognised:
    """Recognise what a data file contains.

    Args:
        path: TSV, CSV, JSONL, Parquet or plain text.
        columns: columns with unusual names (default: recognised).
        shape: the kind of rows, if the file does not tell: pairs without labels may be
            ``positives``.
        labels: words in ascending order of similarity.
        scale: lowest and highest grade (default: the narrowest usual scale that fits all grades).
        split: only rows with this value in the column ``split``.
        skip_bad_rows: leave out rows that cannot be read instead of raising.

    Raises:
        AmbiguousFileError: it can be read in two ways; the message says how to choose.
        DataError: it cannot be read, or a label does not fit.
    """
    if labels is not None and scale is not None:
        raise TertiumError("Give either the words of the labels or the scale of the grades.")
    given, wanted = columns or Columns(), None if shape is None else Shape(shape)
    survey = _Survey(path, given, wanted, split, skip_bad_rows=skip_bad_rows)
    return survey.recognised(labels=labels, scale=scale)


def read_examples(found: Recognised) -> list[Example]:
    """All rows of a recognised file; ratings of one pair are one example.

    Raises:
        DataError: a text is blank, or a label is missing.
    """
    rated: dict[Any, tuple[int, tuple[str, ...], dict[str, float]]] = {}
    for line, texts, said in _rows(found):
        pair = texts if found.columns.rater else line
        rated.setdefault(pair, (line, texts, {}))[2].update(said)  # a rater's last rating counts
    return [
        Example(
            line,
            texts,
            sum(ratings.values()) / len(ratings) if ratings else None,
            ratings if len(ratings) > 1 else {},
        )
        for line, texts, ratings in rated.values()
    ]


def _rows(found: Recognised) -> Iterator[tuple[int, tuple[str, ...], dict[str, float]]]:
    """Line, texts and ratings of every row."""
    labels = found.columns.label
    for record in _records(found.file, found.columns, found.split):
        texts = tuple(_text(record, names, found) for names in found.texts)
        said = {name: record.values.get(name) for name in labels}
        ratings = {name: found.value(label) for name, label in said.items() if not _blank(label)}
        if found.columns.rater:
            rater = str(found.columns.value(record, found.columns.rater)).strip()
            ratings = dict.fromkeys([rater], *ratings.values()) if ratings else {}
        if labels and not ratings and found.shape is not Shape.CONDITIONAL:
            remedy = "no label; write one, or remove the row"
            raise DataError([Problem(str(found.file), record.line, labels[0], "", remedy)])
        yield record.line, texts, ratings


def _text(record: Record, names: tuple[str, ...], found: Recognised) -> str:
    text = found.columns.value(record, names)
    if isinstance(text, str) and text.strip():
        return text
    value = None if text is None else str(text)
    remedy = "write some text, or remove the row"
    raise DataError([Problem(str(found.file), record.line, names[0], value, remedy)])


# Types of rows, for their texts.
_ROW_TYPES: dict[Shape, type[Row]] = {
    Shape.TEXTS: Sentence,
    Shape.PAIRS: SentencePair,
    Shape.GRADED: SentencePair,
    Shape.BINARY: SentencePair,
    Shape.WORDS: SentencePair,
    Shape.POSITIVES: PositivePair,
    Shape.TRIPLETS: Triplet,
    Shape.CONDITIONAL: ConditionalPair,
}
_NO_TEXTS = ("label", "score")
_WORDS = {
    Shape.TEXTS: "single texts",
    Shape.PAIRS: "pairs without labels",
    Shape.GRADED: "graded pairs",
    Shape.BINARY: "pairs that are the same or not",
    Shape.WORDS: "pairs with words as labels",
    Shape.POSITIVES: "pairs that mean the same",
    Shape.TRIPLETS: "triplets",
    Shape.CONDITIONAL: "pairs under a condition",
}
_NUMBERED = re.compile(
    r"(rater|annotator|judge|coder|worker|rating|score|grade|label|ann|annotation)_?(\d{1,3}|[a-z])"
)
_MOST = 64  # distinct labels that are remembered
_LARGEST = 1e9  # of a grade; a larger number is something else
_MOST_STEPS = 20  # of a scale whose grades have steps
# Usual scales, the narrowest first.
_SCALES: list[tuple[float, float]]
_SCALES = [(0, 1), (-1, 1), (0, 2), (1, 3), (0, 3), (1, 4), (0, 4), (1, 5), (0, 5), (0, 6), (1, 7)]
_SCALES += [(1, 10), (0, 10), (0, 100)]
ENTAILMENT = ("contradiction", "neutral", "entailment")
_SPELLED = {"entails": "entailment", "entailed": "entailment", "contradicts": "contradiction"}
_SPELLED |= {"contradictory": "contradiction", "contradictive": "contradiction"}
_NO_LABEL = frozenset({"-"})  # SNLI, where the annotators did not agree
_NO_AND_YES = (  # what people write for 0 and 1
    *(("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t")),
    *(("different", "same"), ("distinct", "same"), ("dissimilar", "similar")),
    *(("not duplicate", "duplicate"), ("not a duplicate", "duplicate"), ("unique", "duplicate")),
    *(("non duplicate", "duplicate"), ("not paraphrase", "paraphrase")),
    *(("non paraphrase", "paraphrase"), ("not a paraphrase", "paraphrase")),
    *(("not equivalent", "equivalent"), ("no match", "match"), ("mismatch", "match")),
    *(("not similar", "similar"), ("irrelevant", "relevant"), ("not relevant", "relevant")),
    *(("negative", "positive"), ("unrelated", "related"), ("not entailment", "entailment")),
)


def _key(label: Any) -> str:
    """A label for comparison: in lower case without separators; a number in its shortest form."""
    text = str(label).strip().lower()
    if is_number(text):
        return f"{float(text):g}"
    text = " ".join(re.split(r"[\s_-]+", text)) if text not in _NO_LABEL else text
    return _SPELLED.get(text, text)


def _blank(label: Any) -> bool:
    return label is None or not str(label).strip() or str(label).strip() in _NO_LABEL


def _records(
    path: Path, columns: Columns, split: str | None, *, skip_bad_rows: bool = False
) -> Iterator[Record]:
    items: Iterator[Record | Problem] = scan_columns(path, columns)
    problems = []
    rows = 0
    for item in items if split is None else in_split(items, split, path):
        if isinstance(item, Record):
            rows += 1
            yield item
        elif skip_bad_rows:
            problems.append(item)
        else:
            raise DataError([item])
    if not rows:
        raise DataError(problems)


class _Survey:
    """One pass over a file that collects its columns, labels and repeated pairs."""

    def __init__(
        self,
        path: Path,
        columns: Columns,
        shape: Shape | None,
        split: str | None,
        *,
        skip_bad_rows: bool,
    ) -> None:
        self.path, self.split = path, split
        records = _records(path, columns, split, skip_bad_rows=skip_bad_rows)
        first = next(records)  # a file without rows has raised
        self.first = first
        self.notes: list[str] = []
        self.wanted = shape
        self.shape, self.columns = self._placed(columns, shape, first)
        self.rows = 0
        self.labels = _Labels()
        self.parts: set[str] = set()
        self.raters: dict[str, None] = {}
        self.pairs: set[int] = set()
        for record in itertools.chain([first], records):
            self._see(record)

    def _see(self, record: Record) -> None:
        self.rows += 1
        for name in self.columns.label:
            self.labels.add(record.values.get(name), record.line)
        if "split" in record.values and len(self.parts) < _MOST:
            self.parts.add(str(record.values["split"]))
        if self.columns.rater:
            rater = str(self.columns.value(record, self.columns.rater)).strip()
            self.raters.setdefault(rater)
            texts = (
                self.columns.value(record, n) for n in (self.columns.first, self.columns.second)
            )
            self.pairs.add(hash(tuple(map(str, texts))))

    def recognised(
        self, *, labels: Sequence[str] | None, scale: tuple[float, float] | None
    ) -> Recognised:
        shape, columns, found, ends = self.shape, self.columns, None, True
        if shape is Shape.PAIRS and columns.label:
            if not self.labels.keys:
                self.notes.append(f"column {columns.label[0]} is empty: the pairs have no labels")
                columns = replace(columns, label=())
            else:
                shape, found, ends = self._ordered(labels, scale)
        elif shape is Shape.CONDITIONAL and columns.label and self.labels.keys:
            _, found, ends = self._ordered(labels, scale)
        elif labels is not None or scale is not None:
            raise self._problem(
                "", f"{_WORDS[shape]} have no labels: leave out --labels and --scale"
            )
        if self.wanted is not None and shape is not self.wanted:
            raise self._problem("", f"these are {_WORDS[shape]}, not {_WORDS[self.wanted]}")
        raters: tuple[str, ...] = ()
        if len(columns.label) > 1:
            raters = columns.label
        elif columns.rater and len(self.pairs) < self.rows:
            raters = tuple(self.raters)
        elif columns.rater:
            self.notes.append(f"no pair was rated twice: column {columns.rater[0]} is not used")
            columns = replace(columns, rater=())
        if len(self.labels.keys) == 1 and found is not None:
            self.notes.append(
                f"every label is {min(self.labels.keys)}: there is nothing to learn from them. If "
                "all pairs mean the same, say --shape positives"
            )
        if self.labels.blank and found is not None and not raters:
            self.notes.append(f"rows without a label: {self.labels.blank:,}")
        if self.split is None and len(self.parts) > 1:
            parts = ", ".join(sorted(self.parts))
            self.notes.append(f"all parts are read ({parts}); choose one with --split")
        used = {name for names in columns.named.values() for name in names}
        kept = [name for name in self.first.values if name not in used]
        return Recognised(
            file=self.path,
            shape=shape,
            columns=columns,
            kept=tuple(self.first.spelled.get(name, name) for name in kept),
            rows=self.rows,
            labels=found,
            ends_seen=ends,
            raters=raters,
            split=self.split,
            notes=tuple(self.notes),
        )

    def _placed(self, given: Columns, shape: Shape | None, record: Record) -> tuple[Shape, Columns]:
        """The shape that fits the columns, and the columns by content."""
        there = record.values
        if given.text:
            return self._texts(given, shape)
        for kind in (Shape.TRIPLETS, Shape.CONDITIONAL, Shape.PAIRS, Shape.POSITIVES):
            found = _resolved(given, _ROW_TYPES[kind], there)
            if found is not None:
                break
        else:
            if given.first or _resolved(given, Sentence, there) is None:
                raise self._unknown()
            return self._texts(given, shape)
        if kind is Shape.POSITIVES:
            labelled = given.label or [name for name in LABEL_NAMES if name in there]
            kind = Shape.PAIRS if labelled and shape is not Shape.POSITIVES else kind
        if shape in (Shape.TEXTS, Shape.TRIPLETS, Shape.CONDITIONAL) and shape is not kind:
            raise self._problem("", f"the columns are those of {_WORDS[kind]}, not of {shape}")
        if shape in (Shape.PAIRS, Shape.POSITIVES) and kind in (Shape.PAIRS, Shape.POSITIVES):
            return shape, found
        if kind in (Shape.PAIRS, Shape.CONDITIONAL):
            found = self._with_labels(found, kind, there)
        return kind, found

    def _texts(self, given: Columns, shape: Shape | None) -> tuple[Shape, Columns]:
        if shape not in (None, Shape.TEXTS):
            raise self._problem("", f"the columns are those of single texts, not of {shape}")
        there = self.first.values
        names = given.of("sentence", Sentence, there)
        others = [
            name for name in Sentence.names("sentence") if name in there and name not in names
        ]
        if others and not given.text:
            raise self._ambiguous(
                ", ".join([*names, *others]),
                f"two columns of texts; choose with --column {names[0]}, or join them with "
                f"--column {','.join([*names, *others])}",
            )
        classes = [name for name in LabelledText.names("label") if name in there]
        if classes:
            self.notes.append(f"column {classes[0]}: classes of single texts are not learned")
        return Shape.TEXTS, replace(given, text=names)

    def _with_labels(self, columns: Columns, kind: Shape, there: Mapping[str, Any]) -> Columns:
        """The columns with those of labels and raters."""
        rater = tuple(name for name in RATER_NAMES if name in there)[:1]
        if columns.label:
            return replace(columns, rater=rater if len(columns.label) == 1 else ())
        numbered = _numbered(there)
        single = [name for name in LABEL_NAMES if name in there]
        if len(single) > 1:
            raise self._ambiguous(
                ", ".join(single),
                f"several columns may be the label; choose with --label-column {single[0]}",
            )
        if single and numbered:
            self.notes.append(
                f"the label is column {single[0]}, and not the mean of {', '.join(numbered)}: for "
                f"that, say --label-column {','.join(numbered)}"
            )
        if not single and len(numbered) > 1:
            return replace(columns, label=numbered)
        return replace(columns, label=tuple(single), rater=rater if single else ())

    def _ordered(
        self, words: Sequence[str] | None, scale: tuple[float, float] | None
    ) -> tuple[Shape, OrderedLabels, bool]:
        """The order of the labels, and whether both of its ends occur."""
        seen, where = self.labels, ", ".join(self.columns.label)
        if words is not None:
            return self._in_order([_key(word) for word in words])
        if seen.words and seen.low is not None:
            word, line = next(iter(seen.words.items()))
            raise self._problem(
                where,
                "a word among numbers; write a number, or give all labels in order with --labels",
                line=line,
                value=word,
            )
        if seen.words:
            return self._known_words()
        low, high = float(seen.low or 0.0), float(seen.high or 0.0)
        largest = max(low, high, key=abs)
        if abs(largest) > _LARGEST:
            remedy = "too large for a grade; see --label-column"
            raise self._problem(where, remedy, line=seen.lines[largest], value=f"{largest:g}")
        if scale is not None:
            if low < scale[0] or high > scale[1]:
                wrong = low if low < scale[0] else high
                remedy = f"not on the scale from {scale[0]:g} to {scale[1]:g}"
                raise self._problem(where, remedy, line=seen.lines[wrong], value=f"{wrong:g}")
            return Shape.GRADED, _scale(*scale, seen), (low, high) == scale
        values = set(seen.values)
        if values <= {0.0, 1.0} and self.wanted is not Shape.GRADED:
            return Shape.BINARY, OrderedLabels(0.0, 1.0), values == {0.0, 1.0}
        if len(values) == 2 and (values == {-1.0, 1.0} or self.wanted is Shape.BINARY):
            return Shape.BINARY, OrderedLabels(low, high, high - low), True
        if values <= {-1.0, 0.0, 1.0, 2.0} and _is_nli(self.columns):
            raise self._ambiguous(
                where,
                "numbers for entailment, neutral and contradiction have no order of their own; say "
                "--labels 2,1,0 if 2 is contradiction and 0 entailment, or --scale 0,2 for grades",
            )
        touched = (low, high) in _SCALES
        holding = [ends for ends in _SCALES if ends[0] <= low and high <= ends[1]]
        least, most = (low, high) if touched or not holding else holding[0]
        if not touched:
            self.notes.append(
                f"grades go from {low:g} to {high:g}; the scale is taken as {least:g} to "
                f"{most:g}. Another one: --scale LOW,HIGH"
            )
        return Shape.GRADED, _scale(least, most, seen), touched

    def _in_order(self, words: list[str]) -> tuple[Shape, OrderedLabels, bool]:
        seen = self.labels
        strange = [(line, key) for key, line in seen.keys.items() if key not in words]
        if strange:
            line, key = min(strange)
            where = ", ".join(self.columns.label)
            remedy = f"none of the labels {', '.join(words)}; add it to --labels"
            raise self._problem(where, remedy, line=line, value=key)
        ends = words[0] in seen.keys and words[-1] in seen.keys
        return Shape.BINARY if len(words) == 2 else Shape.WORDS, OrderedLabels.named(words), ends

    def _known_words(self) -> tuple[Shape, OrderedLabels, bool]:
        seen, where = set(self.labels.keys), ", ".join(self.columns.label)
        if seen <= set(ENTAILMENT):
            return Shape.WORDS, OrderedLabels.named(ENTAILMENT), True
        for pair in _NO_AND_YES:
            if seen == set(pair):
                return Shape.BINARY, OrderedLabels.named(pair), True
        likely = [pair for pair in _NO_AND_YES if seen < set(pair)]
        if likely:  # one of them is all there is
            return Shape.BINARY, OrderedLabels.named(likely[0]), False
        if all(is_number(key.replace(",", ".")) for key in seen):
            key, line = next(iter(self.labels.keys.items()))
            raise self._problem(where, "write numbers with a decimal point", line=line, value=key)
        some = sorted(seen)[:5]
        shown = ", ".join(some) + (" …" if len(seen) > len(some) else "")
        if len(seen) >= _MOST or len(seen) > max(12, self.rows // 2):
            raise self._problem(where, f"does not look like labels ({shown}); see --label-column")
        raise self._ambiguous(
            shown,
            "words whose order nobody said; give all of them from least to most similar: "
            f"--labels {','.join(name.replace(' ', '-') for name in sorted(seen))}",
        )

    def _unknown(self) -> DataError:
        """An error for unusual names, with the columns that could be meant."""
        there = self.first.values
        texts = [name for name, value in there.items() if _looks_like_text(value)]
        number = [name for name in there if is_number(name)]
        if number and ending(self.path) in (".tsv", ".csv"):
            remedy = (
                "the first line looks like a row; write names above it: sentence1, sentence2, score"
            )
        elif len(texts) > 1:
            remedy = f"no usual name; for pairs say --column1 {texts[0]} --column2 {texts[1]}"
            labels = [
                name for name in there if name not in texts and name not in ("id", "uid", "idx")
            ]
            remedy += f" --label-column {labels[0]}" if labels else ""
            remedy += f", for single texts --column {texts[0]}"
        elif texts:
            remedy = f"no usual name; for single texts say --column {texts[0]}"
        else:
            remedy = "no column of texts; name the columns: sentence, or sentence1 and sentence2"
        return self._problem("", remedy, value=", ".join(there))

    def _problem(
        self, column: str, remedy: str, *, line: int | None = None, value: str | None = None
    ) -> DataError:
        return DataError([self._fault(column, remedy, line=line, value=value)])

    def _ambiguous(self, value: str, remedy: str) -> AmbiguousFileError:
        return AmbiguousFileError([self._fault("", f"ambiguous: {remedy}", line=None, value=value)])

    def _fault(self, column: str, remedy: str, *, line: int | None, value: str | None) -> Problem:
        header = header_line(self.path)
        where = line if line is not None else (self.first.line if header is None else header)
        return Problem(str(self.path), where, column, value, remedy)


def _resolved(given: Columns, row_type: type[Row], there: Mapping[str, Any]) -> Columns | None:
    """Columns of all required texts of a row; None if one is missing."""
    found = {
        name: given.of(name, row_type, there)
        for name in row_type.model_fields
        if name not in _NO_TEXTS
    }
    if not all(found.values()):
        return None
    placed: dict[str, Any] = {HOLDERS[name]: names for name, names in found.items()}
    return replace(given, **placed)


def _numbered(there: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns of several raters: the same word, each with a number or letter."""
    stems: dict[str, list[str]] = {}
    for name in there:
        matched = _NUMBERED.fullmatch(name)
        if matched:
            stems.setdefault(matched[1], []).append(name)
    return next((tuple(names) for names in stems.values() if len(names) > 1), ())


def _is_nli(columns: Columns) -> bool:
    return columns.first == ("premise",) or columns.second == ("hypothesis",)


def _looks_like_text(value: Any) -> bool:
    return isinstance(value, str) and not is_number(value) and " " in value.strip()


def _scale(low: float, high: float, seen: "_Labels") -> OrderedLabels:
    """A scale with the step of its grades, or a fifth of the scale if they have none."""
    span = high - low
    for step in (1.0, 0.5, 0.25):
        if 2 <= span / step <= _MOST_STEPS and seen.multiples[step] and (span / step).is_integer():
            return OrderedLabels(low, high, step)
    return OrderedLabels(low, high, span / 5)


class _Labels:
    """The values of a column of labels: their range, and the distinct ones while they are few."""

    def __init__(self) -> None:
        self.blank = 0
        self.words: dict[str, int] = {}  # as written, with the first line
        self.keys: dict[str, int] = {}  # all labels, numbers too, as they are compared
        self.values: set[float] = set()
        self.low: float | None = None
        self.high: float | None = None
        self.lines: dict[float, int] = {}  # of the lowest and the highest
        self.multiples = {1.0: True, 0.5: True, 0.25: True}

    def add(self, label: Any, line: int) -> None:
        if _blank(label):
            self.blank += 1
            return
        key = _key(label)
        if len(self.keys) < _MOST:
            self.keys.setdefault(key, line)
        number = None if isinstance(label, bool) or not is_number(key) else float(label)
        if number is None or number != number or number in (float("inf"), float("-inf")):
            if len(self.words) < _MOST:
                self.words.setdefault(str(label).strip(), line)
            return
        if len(self.values) < _MOST:
            self.values.add(number)
        for step in self.multiples:
            self.multiples[step] = self.multiples[step] and (number / step).is_integer()
        if self.low is None or number < self.low:
            self.low, self.lines[number] = number, line
        if self.high is None or number > self.high:
            self.high, self.lines[number] = number, line
