"""Reads files and benchmark sets into validated rows."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.data.benchmarks import DATASETS, Dataset, Loaded, find_folder, load
    from tertium.data.check import Check, check_file
    from tertium.data.columns import Columns
    from tertium.data.overlap import pair_key, pair_keys, parse_spec
    from tertium.data.readers import KINDS, iter_rows, iter_texts, read_rows
    from tertium.data.rows import (
        ConditionalPair,
        GradedPair,
        LabelledPair,
        LabelledText,
        NliPair,
        Pair,
        PositivePair,
        Row,
        Sentence,
        SentencePair,
        Triplet,
    )
    from tertium.data.samples import sample_pairs, sample_sentences
    from tertium.data.shapes import (
        AmbiguousFileError,
        Example,
        Recognised,
        Shape,
        read_examples,
        recognise,
    )
    from tertium.data.tables import DataError, Problem

__all__ = [
    "DATASETS",
    "KINDS",
    "AmbiguousFileError",
    "Check",
    "Columns",
    "ConditionalPair",
    "DataError",
    "Dataset",
    "Example",
    "GradedPair",
    "LabelledPair",
    "LabelledText",
    "Loaded",
    "NliPair",
    "Pair",
    "PositivePair",
    "Problem",
    "Recognised",
    "Row",
    "Sentence",
    "SentencePair",
    "Shape",
    "Triplet",
    "check_file",
    "find_folder",
    "iter_rows",
    "iter_texts",
    "load",
    "pair_key",
    "pair_keys",
    "parse_spec",
    "read_examples",
    "read_rows",
    "recognise",
    "sample_pairs",
    "sample_sentences",
]

__getattr__ = lazy(__name__)
