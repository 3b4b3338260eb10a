import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tertium
from tertium.data.contradictions import contradictions
from tertium.data.contrasts import half_of, items, part_of, read_lists, word_pairs
from tertium.data.contrasts import opposites as opposites_module
from tertium.data.contrasts.opposites import Opposition, everyday_opposites, opposites
from tertium.data.contrasts.rewording import reworded
from tertium.data.differences import (
    another_value,
    denies_opposite,
    differences,
    may_contradict,
)
from tertium.data.tables import DataError
from tertium.errors import TertiumError
from tertium.evaluation.tasks import TASKS
from tertium.evaluation.tasks.base import Context, EmbeddingCache
from tertium.evaluation.tasks.contrast import NEGATION
from tertium.models.base import Embedder
from tests.serve.fakes import FakeConditional


class Told(Embedder):
    """Scores pairs as it is told."""

    name, dimension = "told", 2

    def __init__(self, scores: dict[tuple[str, str], float]) -> None:
        self.scores = scores

    def encode(self, texts: Any, **options: Any) -> Any:
        return np.ones((len(texts), 2), np.float32)

    def score(self, items: Any, **options: Any) -> Any:
        return np.array([self.scores.get(tuple(pair), 0.0) for pair in items], np.float32)


def values(scores: dict[tuple[str, str], float], task: str = "contrast", **options: Any) -> Any:
    report = tertium.evaluate(Told(scores), [task], resamples=50, **options)
    return report.to_json()["results"][task]["tasks"][task]


def test_items_are_whole_and_of_eleven_kinds() -> None:
    kinds = Counter(item.kind for item in items())
    assert len(kinds) == 11 and min(kinds.values()) >= 25 and kinds.total() >= 300
    assert set(NEGATION) <= set(kinds)
    for item in items():
        texts = [item.text, item.nearer, item.farther]
        assert len(set(texts)) == 3 and all(text.strip() == text for text in texts)
    assert len({item.text for item in items()}) > 300
    halves = Counter((item.kind, item.half) for item in items())
    assert min(halves.values()) >= 10  # both halves know every kind


def test_accuracy_counts_nearer_texts_and_the_gap_is_a_share_of_the_scale() -> None:
    right = {(item.text, item.nearer): 1.0 for item in items() if item.kind == "negation"}
    found = values(right)
    assert found["kinds"]["negation"]["accuracy"] == 100
    assert found["kinds"]["negation"]["gap"] == 50  # of -1 to 1
    assert found["kinds"]["antonym"] == {"accuracy": 0, "interval": [0, 0], "gap": 0, "items": 31}
    assert found["accuracy"] == pytest.approx(100 * 31 / 341, abs=0.01)
    assert found["kinds"]["negation kinds"]["accuracy"] == pytest.approx(100 / 3, abs=0.01)
    assert found["interval"][0] < found["accuracy"] < found["interval"][1]
    halves = found["halves"]
    both = [halves[f"all, {half} half"]["items"] for half in ("choosing", "reporting")]
    assert sum(both) == 341


def test_a_baseline_is_tested_on_the_same_items() -> None:
    right = {(item.text, item.nearer): 1.0 for item in items()}
    report = tertium.evaluate(Told(right), ["contrast"], baseline=Told({}), resamples=50)
    entry = report.to_json()["results"]["contrast"]["tasks"]["contrast"]["baseline"]
    assert entry["value"] == 0 and entry["difference"] == 100


def test_a_model_that_takes_conditions_has_no_contrasts() -> None:
    with pytest.raises(TertiumError, match="takes conditions"):
        tertium.evaluate(FakeConditional(), ["contrast"], resamples=10)


@pytest.mark.parametrize("name", ["opposites", "everyday-opposites"])
def test_denied_opposites_have_three_options(name: str) -> None:
    kept: Sequence[Opposition] = everyday_opposites()
    if name == "opposites":
        kept = [each for each in opposites(subjects=2) if not each.learned]
    assert len(kept) >= 140 and all(len(set(each.texts)) == 4 for each in kept)
    scores = {(each.text, each.same): 1.0 for each in kept}
    task = TASKS[name]

    def accuracy(scores: dict[tuple[str, str], float]) -> float:
        found = task.run(Context(EmbeddingCache(Told(scores)), resamples=10))
        return float(found.values["accuracy"])

    assert accuracy(scores) == 100
    assert accuracy(scores | {(each.text, each.opposite): 1.0 for each in kept}) == 0
    assert accuracy(scores | {(each.text, each.denied): 1.0 for each in kept}) == 0


def test_opposites_that_are_kept_apart_share_no_word_with_those_that_are_learned() -> None:
    groups = opposites_module._groups()
    learned = {word for word in groups if opposites_module._is_learned(word)}
    lists = read_lists("antonyms.yaml")
    pairs = [
        pair
        for kind, separator in (("states", None), ("events", ","))
        for group in lists[kind]
        for pair in word_pairs(group["words"], separator)
    ]
    assert len(pairs) > 350
    for first, second in pairs:
        assert (first in learned) == (second in learned)
    share = 1 - len(learned) / len(groups)
    assert 0.1 < share < 0.4


def test_negations_measure_a_file_of_the_data_folder(tmp_path: Path) -> None:
    sentences = [f"The house number {n} was built in {1900 + n}." for n in range(60)]
    rows = [f"test\t{s}\t{s.replace('was', 'was not')}" for s in sentences]
    (tmp_path / "negation_pairs.tsv").write_text("\n".join(["source\tsentence\tnegated", *rows]))
    with pytest.warns(tertium.TertiumWarning, match="1,740 are expected"):
        report = tertium.evaluate(Told({}), ["negations"], data=tmp_path, resamples=20)
    found = report.to_json()["results"]["negations"]["tasks"]["negation-pairs"]
    assert 0 < found["items"] <= sum(part_of(s) == "test" for s in sentences)
    assert found["accuracy"] == 0 and found["negated"] == 50 and found["low"] == 0
    (tmp_path / "negation_pairs.tsv").write_text("source\tsentence\tnegated\nx\ta text\t\n")
    with pytest.raises(DataError, match=r"negation_pairs\.tsv.*2.*negated"):
        tertium.evaluate(Told({}), ["negations"], data=tmp_path, resamples=20)


def test_rewording_neither_denies_nor_reverses() -> None:
    draw = random.Random(0)
    for item in items():
        for text in (item.text, item.nearer):
            other = reworded(text, draw)
            before, after = (
                any(word in f" {each.lower()} " for word in (" not ", "n't ", " cannot "))
                for each in (text, other)
            )
            assert before == after, (text, other)


def test_rows_to_learn_from_leave_the_contrasts_alone() -> None:
    made = contradictions(
        nli=[("a b", "c d", "contradiction"), ("a b", "a", "entailment")],
        negated=[("It is so.", "It is not so.")],
        graded=[("x", "y", 4.0), ("x", "z", 1.0)],
        texts=["The lake was frozen and nobody swam in it that day."] * 3,
        without=[item.text for item in items()],
    )
    texts = {item.text for item in items()}
    assert not any(row.sentence1 in texts or row.sentence2 in texts for row in made)
    by_pair = {frozenset((row.sentence1, row.sentence2)): row.score for row in made}
    assert by_pair[frozenset(("a b", "c d"))] == 1 and by_pair[frozenset(("a b", "a"))] == 0
    assert by_pair[frozenset(("x", "y"))] == 0 and frozenset(("x", "z")) not in by_pair
    assert by_pair[frozenset(("It is so.", "It is not so."))] == 1
    again = contradictions(nli=[], negated=[], graded=[], texts=[])
    assert {row.subset for row in again} == {"opposites", "role swaps"}
    assert half_of("a") in ("choosing", "reporting")


@pytest.mark.parametrize(
    ("a", "b", "kinds"),
    [
        ("He is asleep.", "He is not asleep.", ["negation"]),
        ("He is asleep.", "He is awake.", ["antonym"]),
        ("He is asleep.", "He is not awake.", ["double negation"]),
        ("It costs 3 euros.", "It costs 5 euros.", ["number"]),
        ("All of them left.", "Some of them left.", ["quantity"]),
        ("It is 3 km long.", "It is 3 miles long.", ["unit"]),
        ("We met Anna there.", "We met Peter there.", ["name"]),
        ("The dog bites the man.", "The man bites the dog.", ["role swap"]),
        ("A cat sleeps.", "A kitten is napping.", []),
        ("", "", []),
    ],
)
def test_words_tell_what_texts_differ_by(a: str, b: str, kinds: list[str]) -> None:
    assert differences(a, b) == kinds
    assert differences(b, a) == kinds


@pytest.mark.parametrize(
    ("a", "b", "words", "found"),
    [
        ("It is hot.", "It isn't hot.", 0, True),
        ("None of it is so.", "This is not so, at all.", 1, False),  # both deny once
        ("The soup is hot and we eat.", "It was cold when they came.", 0, True),
        ("A red car.", "A blue car.", 1, True),
        ("A red car.", "A blue car.", 0, False),
        ("A red car.", "A red car.", 3, False),
        ("", "", 1, False),
        ("It is hot.", "It isn\u2019t hot.", 0, True),
        ("She likes it.", "She dislikes it, as we all do here.", 0, True),
        ("It is hot. " * 21, "It isn't hot. " * 21, 0, False),  # too long to say
    ],
)
def test_words_give_a_reason_to_ask(a: str, b: str, words: int, *, found: bool) -> None:
    assert may_contradict(a, b, words=words) == may_contradict(b, a, words=words) == found
    assert found or not denies_opposite(a, b)


def test_a_denial_in_a_long_text_is_a_reason_only_where_little_else_differs() -> None:
    long = "The committee met in the old town hall on the second Monday of the month and"
    assert may_contradict(f"{long} agreed.", f"{long} never agreed.", words=0)
    assert not may_contradict(f"{long} agreed.", "Nobody knew about any of this.", words=0)
    assert may_contradict("They met and agreed.", "Nobody there agreed about this.", words=0)


def test_a_denied_opposite_is_found_only_where_little_else_differs() -> None:
    assert denies_opposite("He's happy here.", "He isn't unhappy here.")
    assert not denies_opposite("He is happy.", "She came late and was not unhappy with it.")
    long = "We talked for hours. " * 16
    assert not denies_opposite(long + "It is hot.", long + "It isn't cold.")


def test_most_contrasts_of_a_kind_are_recognised() -> None:
    kinds = Counter(item.kind for item in items())
    told = Counter(i.kind for i in items() if i.kind in differences(i.text, i.farther))
    for kind in ("negation", "number", "unit", "role swap"):
        assert told[kind] > 0.7 * kinds[kind]


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ("It costs 3 euros.", "It costs 30 euros.", True),
        ("It costs 1,000 euros.", "It costs 1000 euros.", False),
        ("It weighs 3.5 kg.", "It weighs 3,5 kilograms.", False),
        ("We meet at 9:00.", "We meet at 9:30.", True),
        ("We meet at 12:30:15.", "We meet at 12:30:16.", True),
        ("Four nurses.", "4 nurses.", False),
        ("Four nurses.", "Six nurses.", True),
        ("Ten feet high.", "Ten foot high.", False),
        ("Ten feet high.", "Ten metres high.", True),
        ("It takes 60 minutes.", "It takes 1 hour.", False),
        ("We met on Monday, May 3.", "We met on Friday, May 7.", True),
        ("We met in spring.", "We met in winter in Rome.", False),
        ("We met in spring.", "We met in Rome.", False),
        ("The north wind.", "The north wind.", False),
        ("10 m\u00b2", "10 m\u00b3", False),
        ("", "", False),
        ("", "3", False),
    ],
)
def test_another_value_is_told_from_another_spelling(a: str, b: str, found: bool) -> None:
    assert another_value(a, b) == found
    assert another_value(b, a) == found
