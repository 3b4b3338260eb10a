import csv
import json
from pathlib import Path

import pytest

import tertium
from tertium.data.labels import OrderedLabels
from tertium.heads import CONDITIONAL_HEADS
from tertium.models import ConditionalScorer, Encoder
from tertium.models.conditional import model_shape
from tests.cli.conftest import Run
from tests.recipes.toys import toy_triples

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def model(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    head = CONDITIONAL_HEADS["bi"](model_shape(encoder))
    folder = tmp_path_factory.mktemp("conditional") / "model"
    ConditionalScorer(encoder, head, OrderedLabels(1.0, 5.0)).save(folder)
    return folder


def scores(model: Path, *triples: tuple[str, str, str]) -> list[float]:
    loaded = tertium.load(model)
    assert isinstance(loaded, ConditionalScorer)
    return [float(score) for score in loaded.score(triples)]


# compare


def test_compare_on_several_respects(run: Run, model: Path) -> None:
    ran = run("compare", "a cat", "a dog", "--on", "x", "--on", "the y", "-m", model, "--json")
    assert ran.code == 0, ran.err
    pairs = json.loads(ran.out)["pairs"]
    assert [pair["condition"] for pair in pairs] == ["x", "the y"]
    assert [list(pair) for pair in pairs] == [
        ["a", "b", "condition", "score", "scale", "cosine"]
    ] * 2
    expected = scores(model, ("a cat", "a dog", "x"), ("a cat", "a dog", "the y"))
    assert [pair["score"] for pair in pairs] == pytest.approx(expected)
    assert pairs[0]["scale"] == [1.0, 5.0] and pairs[0]["cosine"] is None
    people = run("compare", "a cat", "a dog", "--on", "x", "--on", "[bold]y[/bold]", "-m", model)
    lines = people.out.splitlines()
    assert lines[:2] == ["a cat", "a dog"] and lines[2].split() == [
        "of",
        "5",
        "with",
        "respect",
        "to",
    ]
    assert " x " in lines[3] and "[bold]y[/bold]" in lines[4]
    several = run("compare", "a cat", "a dog", "a cow", "--on", "x", "-m", model)
    lines = several.out.splitlines()
    assert lines[0] == "a cat" and lines[1].split() == ["of", "5", "with", "respect", "to", "text"]
    assert "a dog" in lines[2] and "a cow" in lines[3]


def test_compare_without_a_respect_says_so(run: Run, model: Path) -> None:
    ran = run("compare", "a cat", "a dog", "-m", model, "--json")
    assert ran.code == 0
    assert "1 of 1 triples have no condition" in ran.err
    assert json.loads(ran.out)["pairs"][0]["condition"] is None
    assert run("compare", "a cat", "a dog", "-m", model).code == 0
    blank = run("compare", "a cat", "a dog", "--on", " ", "-m", model, "--json")
    assert blank.code == 0 and "have no condition" in blank.err


@pytest.mark.parametrize("option", [("-m", "sts"), ("-m", "default")])
def test_a_model_that_takes_no_conditions(run: Run, option: tuple[str, ...]) -> None:
    ran = run("compare", "a cat", "a dog", "--on", "x", *option)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "'conditional' does" in ran.err


# score


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet"])
def test_score_with_a_column_of_conditions(
    run: Run, model: Path, tmp_path: Path, ending: str
) -> None:
    pairs = toy_triples(tmp_path / "pairs.csv", pairs=3)
    output = tmp_path / f"scored.{ending}"
    ran = run("score", pairs, "-o", output, "-m", model, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found.pop("model")
    assert found == {"output": str(output), "rows": 6, "scale": [1.0, 5.0]}
    if ending == "csv":
        header, *rows = csv.reader(output.read_text().splitlines())
        assert header == ["sentence1", "sentence2", "condition", "similarity", "score"]
        triples = [(row[0], row[1], row[2]) for row in rows]
        assert [float(row[3]) for row in rows] == pytest.approx(scores(model, *triples), abs=1e-5)


def test_score_with_blank_conditions_and_without_any(run: Run, model: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("sentence1\tsentence2\tcondition\na\tb\t\nc\td\tx\n")
    ran = run("score", pairs, "-o", tmp_path / "out.tsv", "-m", model)
    assert ran.code == 0 and "1 of 2 triples have no condition" in ran.err
    pairs.write_text("sentence1\tsentence2\na\tb\n")
    ran = run("score", pairs, "-o", tmp_path / "other.tsv", "-m", model)
    assert ran.code == 2 and "column 'condition'" in ran.err
    assert not (tmp_path / "other.tsv").exists()


def test_score_by_a_model_without_conditions(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    pairs = toy_triples(tmp_path / "pairs.csv", pairs=3)
    ran = run("score", pairs, "-o", tmp_path / "out.tsv", "-m", tiny_bert)
    assert ran.code == 0 and "does not take conditions; the column is ignored" in ran.err
    assert (
        (tmp_path / "out.tsv")
        .read_text()
        .startswith("sentence1\tsentence2\tsimilarity\tcondition\tscore\n")
    )


# the others


def test_vectors_are_not_to_be_had(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("a\n")
    ran = run("encode", tmp_path / "texts.txt", "-o", tmp_path / "v.npy", "-m", model)
    assert ran.code == 2 and "gives no vectors" in ran.err
    ran = run("encode", tmp_path / "texts.txt", "-o", tmp_path / "v.npy", "-m", model / "encoder")
    assert ran.code == 0


def test_evaluate_on_conditions_with_predictions(run: Run, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("validation", "test"):
        toy_triples(folder / f"csts_{split}.csv", pairs=6)
    file = tmp_path / "predictions.json"
    ran = run(
        *("evaluate", model, "--suite", "csts", "--data", folder, "--bootstrap", 20),
        *("--predictions", file, "--json"),
    )
    assert ran.code == 0, ran.err
    (task,) = json.loads(ran.out)["results"]["csts"]["tasks"].values()
    assert task["split"] == "validation" and task["sentence_pairs"] == 6
    assert len(json.loads(file.read_text())) == 12
    assert "12 predictions" in ran.err


# focus and averages


def test_focus_in_the_terminal_and_as_pictures(run: Run, model: Path, tmp_path: Path) -> None:
    ran = run("focus", "a cat [x]", "a dog", "--on", "the y", "-m", model, "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "with respect to: the y" in ran.out and "reallocated" in ran.out and "[" in ran.out
    for ending in ("png", "svg"):
        assert (tmp_path / "out" / f"focus.{ending}").stat().st_size > 1000


def test_focus_as_json(run: Run, tiny_bert: Path, model: Path) -> None:
    ran = run(
        "focus", "a cat", "a dog", "--on", "x", "-m", model, "--baseline", tiny_bert, "--json"
    )
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["words"] == ["a", "cat", "a", "dog"] and found["split"] == 2
    assert found["attention"][0][3] is None and found["reallocated"][0][1] > 0
    assert len(found["relevance"]) == 4 and found["files"] == []


def test_focus_needs_texts(run: Run, model: Path) -> None:
    ran = run("focus", "a", "", "--on", "x", "-m", model)
    assert ran.code == 2 and "none may be empty" in ran.err


def test_an_average_of_conditional_models(run: Run, model: Path, tmp_path: Path) -> None:
    ran = run("ensemble", model, model, "--weight", "0.75", "-o", tmp_path / "mean", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert [member["weight"] for member in found["members"]] == [0.25, 0.75]
    assert found["scale"] == [1.0, 5.0] and "dimension" not in found
    asked = ("compare", "a cat", "a dog", "--on", "x", "--json", "-m")
    one, both = run(*asked, model), run(*asked, tmp_path / "mean")
    scores = [json.loads(ran.out)["pairs"][0]["score"] for ran in (one, both)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    assert run("focus", "a", "b", "--on", "c", "-m", tmp_path / "mean").code == 0


def test_an_average_with_a_model_that_gives_vectors(run: Run, model: Path, tmp_path: Path) -> None:
    ran = run("ensemble", model, "default", "-o", tmp_path / "mean")
    assert ran.code == 2 and "does not take conditions" in ran.err
    assert not (tmp_path / "mean").exists()
