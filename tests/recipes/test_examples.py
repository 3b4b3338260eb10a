import itertools
import warnings
from pathlib import Path
from typing import Any

import pytest

from tertium.data.tables import DataError
from tertium.errors import TertiumError, TertiumWarning
from tertium.recipes.data import StageData, load_examples
from tertium.recipes.files import parse_settings, read_recipe
from tertium.recipes.train import train
from tests.recipes.toys import (
    contrast_stage,
    toy_pairs,
    toy_recipe,
    toy_stage,
    toy_text_file,
    triplet_stage,
)

# The toy benchmark sets are smaller than the real ones, which a warning says.
SMALL = pytest.mark.filterwarnings("ignore:.*rows in:tertium.errors.TertiumWarning")


def read(stage: dict[str, Any], tmp_path: Path, *, folder: Path | None = None) -> StageData:
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", Path("default"), stage))
    return load_examples(recipe.stages[0], folder=folder)


def texts_of(material: StageData) -> list[str]:
    return [text for (text,) in material.examples.texts]


# texts


def test_blank_and_repeated_texts_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("the cat\n\n  \nthe dog\nthe cat\n  the cat \n" + "\n".join("abcdefgh"))
    with pytest.warns(TertiumWarning, match=r"own\.txt: 2 blank and 2 repeated .* 10 are used"):
        material = read(contrast_stage(path), tmp_path)
    assert texts_of(material) == ["the cat", "the dog", *"abcdefgh"]
    assert material.examples.sides == 1 and material.examples.labels is None
    assert material.labels is None and material.licences == ("the user's own",)
    assert [(data.name, data.split) for data in material.seen] == [(str(path), None)]


def test_different_texts_are_all_used_without_a_word(tmp_path: Path) -> None:
    path = toy_text_file(tmp_path / "own.txt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        material = read(contrast_stage(path), tmp_path)
    assert texts_of(material) == path.read_text().splitlines()


def test_a_column_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text(
        "id\tsentence\n" + "".join(f"{at}\t{word}\n" for at, word in enumerate("abcdefgh"))
    )
    assert texts_of(read(contrast_stage(path), tmp_path)) == [*"abcdefgh"]
    path.write_text("id\twords\n1\ta\n")
    with pytest.raises(DataError, match="needs text in column sentence"):
        read(contrast_stage(path), tmp_path)


def test_sources_are_joined_and_what_they_share_counts_once(tmp_path: Path) -> None:
    one, two = toy_text_file(tmp_path / "one.txt", 12), toy_text_file(tmp_path / "two.txt", 16)
    stage = contrast_stage(one)
    stage["data"]["sources"].append({"file": str(two)})
    lines = [*one.read_text().splitlines(), *two.read_text().splitlines()]
    material = read(stage, tmp_path)
    assert texts_of(material) == list(dict.fromkeys(lines))
    assert len(material.licences) == len(material.seen) == 2


def test_limits_choose_the_same_texts_for_every_seed(tmp_path: Path) -> None:
    path = toy_text_file(tmp_path / "own.txt", 40)
    stage = contrast_stage(path)
    stage["data"]["sources"][0]["limit"] = 20
    stage["data"]["limit"] = 10
    first = texts_of(read(stage, tmp_path))
    assert len(set(first)) == 10 and set(first) < set(path.read_text().splitlines())
    stage["train"]["seed"] = 77
    assert texts_of(read(stage, tmp_path)) == first


# a subset by the seed


def subset(path: Path, tmp_path: Path, size: int, *, seed: int = 1, **parts: Any) -> StageData:
    stage = contrast_stage(path, **parts)
    stage["data"] |= {"limit": size, "subset": "by-seed"}
    stage["train"]["seed"] = seed
    return read(stage, tmp_path)


def test_a_seed_draws_its_own_texts_the_same_for_all_methods(tmp_path: Path) -> None:
    path = toy_text_file(tmp_path / "own.txt", 60)
    found = subset(path, tmp_path, 20)
    other = subset(
        path,
        tmp_path,
        20,
        views=[],
        momentum={},
        projection="mlp",
        objectives=[{"kind": "nt_xent"}, {"kind": "attention_mi"}],
    )
    assert texts_of(other) == texts_of(found) and other.digest == found.digest
    assert len(set(texts_of(found))) == 20 and set(texts_of(found)) < {*lines(path)}
    drawn = [frozenset(texts_of(subset(path, tmp_path, 20, seed=seed))) for seed in range(6)]
    assert len(set(drawn)) == 6
    assert len(frozenset().union(*drawn)) > 40  # no text is always left out


def test_fewer_texts_are_among_the_more(tmp_path: Path) -> None:
    path = toy_text_file(tmp_path / "own.txt", 60)
    sizes = [texts_of(subset(path, tmp_path, size)) for size in (8, 20, 40, 60, 100)]
    for fewer, more in itertools.pairwise(sizes):
        assert more[: len(fewer)] == fewer
    assert [len(texts) for texts in sizes] == [8, 20, 40, 60, 60]


def test_the_order_of_the_source_does_not_matter(tmp_path: Path) -> None:
    path = toy_text_file(tmp_path / "own.txt", 60)
    found = subset(path, tmp_path, 20)
    path.write_text("\n".join(reversed(lines(path))))
    assert texts_of(subset(path, tmp_path, 20)) == texts_of(found)
    assert subset(path, tmp_path, 20).digest == found.digest


def test_a_digest_tells_texts_and_their_order_apart(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    digests = set()
    for words in ("abcdefgh", "abcdefhg", "abcdefgi"):
        path.write_text("\n".join(words))
        digests.add(read(contrast_stage(path), tmp_path).digest)
    assert len(digests) == 3 and all(len(digest) == 64 for digest in digests)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@SMALL
def test_benchmark_sets_give_their_sentences(benchmarks_folder: Path, tmp_path: Path) -> None:
    stage = contrast_stage(Path("x"))
    stage["data"]["sources"] = [{"name": "wiki"}]
    assert len(texts_of(read(stage, tmp_path, folder=benchmarks_folder))) == 24
    stage["data"]["sources"] = [{"name": "STS-B"}]
    both_sides = texts_of(read(stage, tmp_path, folder=benchmarks_folder))
    assert len(set(both_sides)) == len(both_sides) > 12
    stage["data"]["sources"] = [{"name": "NLI-triplets"}]
    with pytest.raises(TertiumError, match="holds Triplet rows, not single texts"):
        read(stage, tmp_path, folder=benchmarks_folder)


# held out


def held_out(tmp_path: Path, count: int, select: dict[str, str] | None = None) -> StageData:
    path = tmp_path / "own.txt"
    path.write_text("\n".join(f"text number {at}" for at in range(count)))
    return read(contrast_stage(path, select=select or {"task": "held-out"}), tmp_path)


@pytest.mark.parametrize(("count", "kept_out"), [(79, 0), (80, 8), (205, 20), (6000, 512)])
def test_a_tenth_is_held_out_if_that_is_enough(tmp_path: Path, count: int, kept_out: int) -> None:
    material = held_out(tmp_path, count)
    assert len(material.held_out) == kept_out
    together = {*texts_of(material), *material.held_out}
    assert len(material.examples) == count - kept_out and len(together) == count
    assert held_out(tmp_path, count) == material


def test_nothing_is_held_out_where_nobody_asks(tmp_path: Path) -> None:
    material = held_out(tmp_path, 100, {"task": "STS-B"})
    assert material.held_out == () and len(material.examples) == 100


def held_out_pairs(path: Path, tmp_path: Path) -> StageData:
    return read({**toy_stage(path), "select": {"task": "held-out"}}, tmp_path)


def test_a_tenth_of_the_graded_pairs_is_held_out(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    rows = [f"text {at}\tother {at}\t{at % 5}" for at in range(100)]
    twice = [f"other {at}\tText {at}!\t{at % 5}" for at in range(100)]  # the same pairs again
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *rows, *twice]) + "\n")
    material = held_out_pairs(path, tmp_path)
    numbers = [{pair[0].split()[1].rstrip("!") for pair in material.held_out_pairs}]
    numbers.append({pair[0].split()[1].rstrip("!") for pair in material.examples.texts})
    assert len(material.held_out_pairs) == 20 and len(material.examples) == 180
    assert not numbers[0] & numbers[1]
    assert material.amount.used == 200


def test_few_graded_pairs_are_all_trained_on(tmp_path: Path) -> None:
    material = held_out_pairs(toy_pairs(tmp_path / "own.tsv"), tmp_path)
    assert material.held_out_pairs == () and len(material.examples) == 12


# too few


@pytest.mark.parametrize("content", ["", "\n\n", "one\n", "one\ntwo\none\n"])
@pytest.mark.filterwarnings("ignore::tertium.errors.TertiumWarning")
def test_too_few_texts_are_explained_and_leave_nothing(
    content: str, tiny_bert: Path, tmp_path: Path
) -> None:
    path = tmp_path / "own.txt"
    path.write_text(content)
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, contrast_stage(path))
    message = r"fill one batch of 8.*--set stages\.contrast\.train\.batch_size=2|is empty|no rows"
    with pytest.raises(TertiumError, match=message):
        train(recipe, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_the_message_says_helps(tmp_path: Path) -> None:
    path = toy_text_file(tmp_path / "own.txt", 6)
    with pytest.raises(TertiumError, match="6 different examples") as caught:
        read(contrast_stage(path), tmp_path)
    setting = str(caught.value).rpartition("--set ")[2]
    recipe = toy_recipe(tmp_path / "toy.yaml", Path("default"), contrast_stage(path))
    stage = read_recipe(recipe, settings=parse_settings([setting])).stages[0]
    assert len(load_examples(stage, folder=None).examples) == stage.train.batch_size == 6


def test_a_file_that_is_not_there_leaves_nothing(tiny_bert: Path, tmp_path: Path) -> None:
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, contrast_stage(tmp_path / "no.txt"))
    with pytest.raises(TertiumError, match="no such file"):
        train(recipe, tmp_path / "model")
    assert not (tmp_path / "model").exists()


# triplets


@SMALL
def test_triplets_have_three_sides(benchmarks_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    rows = [(f"a {at}", f"b {at}", f"c {at}") for at in range(9)]
    lines = ["anchor\tpositive\thard_negative", *("\t".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    material = read(triplet_stage({"file": str(path)}), tmp_path)
    assert material.examples.texts == rows and material.examples.sides == 3
    limited = read(triplet_stage({"file": str(path), "limit": 8}), tmp_path)
    assert len(limited.examples) == 8 and set(limited.examples.texts) < set(rows)
    named = read(triplet_stage({"name": "NLI-triplets"}), tmp_path, folder=benchmarks_folder)
    assert (len(named.examples), named.examples.sides) == (12, 3)


@SMALL
def test_triplets_that_are_none(benchmarks_folder: Path, tiny_bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("anchor\tpositive\na\tb\nc\td\n")
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, triplet_stage({"file": str(path)}))
    with pytest.raises(DataError, match="pairs that mean the same, not of triplets"):
        train(recipe, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(TertiumError, match="STS-B holds GradedPair rows, not triplets"):
        read(triplet_stage({"name": "STS-B"}), tmp_path, folder=benchmarks_folder)
    path.write_text("anchor\tpositive\thard_negative\na\tb\tc\n")
    with pytest.raises(TertiumError, match="1 different examples do not fill one batch of 8"):
        read(triplet_stage({"file": str(path)}), tmp_path)


# graded pairs


def test_own_labels_may_have_any_names(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("sentence1\tsentence2\tlabel\na\tb\trelated\nc\td\tsame\ne\tf\tunrelated\n")
    stage = toy_stage(path)
    stage["data"]["labels"] = {"names": ["unrelated", "related", "same"]}
    assert read(stage, tmp_path).examples.labels == [1.0, 2.0, 0.0]
    path.write_text(path.read_text().replace("same", "equal"))
    with pytest.raises(DataError, match=r"own\.tsv:3: .*'equal': labels are unrelated"):
        read(stage, tmp_path)
