from itertools import pairwise
from pathlib import Path

import pytest

from tertium.data import DATASETS, check_file, load, sample_pairs, sample_sentences
from tertium.data.samples import PAIRS, SENTENCES


def test_there_are_a_few_dozen_of_each_and_none_twice() -> None:
    sentences = sample_sentences()
    pairs = [(pair.sentence1, pair.sentence2) for pair in sample_pairs()]
    assert 50 <= len(set(sentences)) == len(sentences)
    assert 35 <= len(set(pairs)) == len(pairs)


def test_grades_are_spread_over_the_scale() -> None:
    grades = sorted({pair.score for pair in sample_pairs()})
    assert (grades[0], grades[-1]) == (0, 5)
    assert max(high - low for low, high in pairwise(grades)) < 0.5


@pytest.mark.parametrize("path", [SENTENCES, PAIRS])
def test_samples_are_without_problems(path: Path) -> None:
    assert not check_file(path).problems


@pytest.mark.data
@pytest.mark.parametrize("name", ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"])
def test_samples_are_in_no_benchmark(name: str, data_folder: Path) -> None:
    samples = {text for pair in sample_pairs() for text in (pair.sentence1, pair.sentence2)}
    samples.update(sample_sentences())
    for split in DATASETS[name].rows:
        rows = load(name, split=split, folder=data_folder, text="raw").rows
        assert samples.isdisjoint(text for row in rows for text in (row.sentence1, row.sentence2))
