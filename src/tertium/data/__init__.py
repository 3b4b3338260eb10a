"""Floor 1: files and benchmark sets to validated rows."""

from tertium.data.benchmarks import DATASETS, Dataset, Loaded, find_folder, load
from tertium.data.check import Check, check_file
from tertium.data.overlap import pair_key, pair_keys, parse_spec
from tertium.data.readers import KINDS, iter_rows, iter_texts, read_rows
from tertium.data.rows import (
    ConditionalPair,
    GradedPair,
    LabelledPair,
    LabelledText,
    NliPair,
    Pair,
    Row,
    Sentence,
    SentencePair,
    Triplet,
)
from tertium.data.samples import sample_pairs, sample_sentences
from tertium.data.tables import DataError, Problem

__all__ = [
    "DATASETS",
    "KINDS",
    "Check",
    "ConditionalPair",
    "DataError",
    "Dataset",
    "GradedPair",
    "LabelledPair",
    "LabelledText",
    "Loaded",
    "NliPair",
    "Pair",
    "Problem",
    "Row",
    "Sentence",
    "SentencePair",
    "Triplet",
    "check_file",
    "find_folder",
    "iter_rows",
    "iter_texts",
    "load",
    "pair_key",
    "pair_keys",
    "parse_spec",
    "read_rows",
    "sample_pairs",
    "sample_sentences",
]
