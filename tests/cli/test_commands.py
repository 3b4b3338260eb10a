import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from transformers import BertModel
from typer.testing import CliRunner

import tertium
from tertium.cli import app
from tertium.data import samples
from tertium.files import sha256
from tertium.models.embedded import SHA256
from tertium.models.fetching import REMOTE, Remote
from tests.cli.conftest import Run

pytestmark = pytest.mark.integration

COMMANDS = ["compare", "score", "encode", "evaluate", "models", "data check", "doctor"]


def registered(group: typer.Typer, prefix: str = "") -> set[str]:
    names = {
        prefix + (command.name or command.callback.__name__)
        for command in group.registered_commands
        if command.callback and not command.hidden
    }
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        names |= registered(inner.typer_instance, f"{prefix}{inner.name} ")
        if inner.typer_instance.registered_callback is not None:
            names.add(f"{prefix}{inner.name}")
    return names


def test_every_command_is_tested_here() -> None:
    assert registered(app) >= set(COMMANDS)


@pytest.mark.parametrize("command", sorted(registered(app)))
def test_every_command_has_json_and_an_example(command: str) -> None:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(
        app, [*command.split(), "--help"]
    )
    assert result.exit_code == 0
    assert "--json" in result.stdout
    assert f"Example: tertium {command}" in result.stdout


def test_the_version(run: Run) -> None:
    assert run("--version").out.strip() == tertium.__version__


# compare


def test_compare_in_json(run: Run, tiny_bert: Path) -> None:
    ran = run("compare", "the cat", "the dog", "the cat", "-m", tiny_bert, "--json")
    assert ran.code == 0
    pairs = json.loads(ran.out)["pairs"]
    assert json.loads(ran.out).keys() == {"pairs"}
    assert [(pair["a"], pair["b"]) for pair in pairs] == [
        ("the cat", "the dog"),
        ("the cat", "the cat"),
    ]
    expected = tertium.load(tiny_bert).score([("the cat", "the dog"), ("the cat", "the cat")])
    for pair, score in zip(pairs, expected, strict=True):
        assert list(pair) == ["a", "b", "condition", "score", "scale", "cosine"]
        assert pair["condition"] is None
        assert pair["scale"] == [-1.0, 1.0]
        assert pair["score"] == pair["cosine"] == pytest.approx(float(score), abs=1e-6)


def test_compare_reads_every_text_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    forward = BertModel.forward

    def counted(self: BertModel, *arguments: Any, **options: Any) -> Any:
        rows.append(len(options.get("input_ids", arguments[0] if arguments else ())))
        return forward(self, *arguments, **options)

    monkeypatch.setattr(BertModel, "forward", counted)
    texts = ("A cat sleeps.", "Somebody plays the guitar.", "Stocks fell.")  # no judge is asked
    assert run("compare", *texts, "--engine", "torch").code == 0
    assert sum(rows) == 3


@pytest.mark.parametrize("texts", [("", "the cat"), ("the cat", "the dog", " ")])
def test_an_empty_text_is_graded_with_a_note(
    texts: tuple[str, ...], run: Run, tiny_bert: Path
) -> None:
    ran = run("compare", *texts, "-m", tiny_bert)
    assert ran.code == 0 and "one of the texts is empty: its score means nothing." in ran.err


def test_compare_for_people_ranks(run: Run, tiny_bert: Path) -> None:
    ran = run("compare", "the cat", "x y z", "the cat", "[bold]the[/bold]", "-m", tiny_bert)
    assert ran.code == 0
    lines = [line for line in ran.out.splitlines() if line[:1] in "-01" and line]
    values = [float(line.split()[0]) for line in lines]
    assert len(values) == 3
    assert values == sorted(values, reverse=True)
    assert "[bold]the[/bold]" in ran.out  # the user's text is no markup


def test_compare_grades_by_default(run: Run) -> None:
    texts = ("A cat sleeps.", "Stocks fell sharply.", "A cat is asleep.")
    ran = run("compare", *texts, "--json")
    assert ran.code == 0
    far, near = json.loads(ran.out)["pairs"]
    assert far["scale"] == near["scale"] == [0.0, 5.0]
    assert far["score"] < 0.5 and near["score"] > 4
    assert far["cosine"] < 0.2 and 0.8 < near["cosine"] < 1
    lines = run("compare", *texts).out.splitlines()
    assert lines[1].split() == ["of", "5", "cosine", "text"]
    grade, _, cosine, *_ = lines[2].split()
    assert float(grade) == pytest.approx(near["score"], abs=0.01)
    assert float(cosine) == pytest.approx(near["cosine"], abs=0.001)


def test_the_base_model_gives_cosines(run: Run) -> None:
    ran = run("compare", "A cat sleeps.", "A cat is asleep.", "-m", "default", "--json")
    (pair,) = json.loads(ran.out)["pairs"]
    assert pair["scale"] == [-1.0, 1.0]
    assert pair["score"] == pair["cosine"]


def test_a_long_text_is_a_note_on_standard_error(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("a " * 100 + "\nb\n")
    ran = run("encode", tmp_path / "texts.txt", "-o", tmp_path / "v.npy", "-m", tiny_bert, "--json")
    assert ran.code == 0
    json.loads(ran.out)
    assert ran.err.endswith(
        "note: 1 of 2 distinct texts had more than 64 tokens; only the beginning was read.\n"
    )


# encode and score


@pytest.mark.parametrize("normalize", [False, True])
def test_encode(run: Run, tiny_bert: Path, tmp_path: Path, normalize: bool) -> None:
    texts = ["the cat", "a dog", "the cat"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    output = tmp_path / "vectors.npy"
    flags = ["--normalize"] if normalize else []
    ran = run("encode", tmp_path / "texts.txt", "-o", output, "-m", tiny_bert, "--json", *flags)
    assert ran.code == 0
    assert json.loads(ran.out) == {"output": str(output), "rows": 3, "dimension": 32}
    expected = tertium.load(tiny_bert).encode(texts, normalize=normalize)
    np.testing.assert_allclose(np.load(output), expected, atol=1e-6)


def test_encode_a_column(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    ran = run(
        "encode", samples.PAIRS, "--column", "sentence2", "-o", tmp_path / "v.npy", "-m", tiny_bert
    )
    assert (ran.code, ran.out) == (0, "")
    assert "vectors of width 32" in ran.err
    expected = tertium.load(tiny_bert).encode([row.sentence2 for row in samples.sample_pairs()])
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)


def test_score(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    output = tmp_path / "scored.jsonl"
    ran = run("score", samples.PAIRS, "-o", output, "-m", tiny_bert, "--json")
    assert ran.code == 0
    rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    found = json.loads(ran.out)
    assert found.pop("model")
    assert found == {"output": str(output), "rows": len(rows), "scale": [-1.0, 1.0]}
    pairs = [(row.sentence1, row.sentence2) for row in samples.sample_pairs()]
    expected = tertium.load(tiny_bert).score(pairs)
    assert [(row["sentence1"], row["sentence2"]) for row in rows] == pairs
    np.testing.assert_allclose([row["similarity"] for row in rows], expected, atol=1e-5)


def test_score_grades_by_default(run: Run, tmp_path: Path) -> None:
    ran = run("score", samples.PAIRS, "-o", tmp_path / "graded.jsonl", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["scale"] == [0.0, 5.0]
    assert json.loads(ran.out)["model"] == "sts"
    lines = (tmp_path / "graded.jsonl").read_text("utf-8").splitlines()
    grades = [json.loads(line)["similarity"] for line in lines]
    pairs = [(row.sentence1, row.sentence2) for row in samples.sample_pairs()]
    np.testing.assert_allclose(grades, tertium.load("sts").score(pairs), atol=1e-4)
    assert max(grades) > 4 and min(grades) < 1


# evaluate


def test_evaluate_in_json(run: Run, tiny_bert: Path, small_data: Path, tmp_path: Path) -> None:
    ran = run(
        *("evaluate", tiny_bert, "--suite", "sts,geometry", "--data", small_data),
        *("--bootstrap", 20, "--json", "-o", tmp_path / "report.md"),
    )
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    assert report.keys() == {"model", "results", "provenance"}
    assert report["model"] == str(tiny_bert)
    sts = report["results"]["sts"]
    assert list(sts["tasks"]) == [*(f"STS{year}" for year in range(12, 17)), "STS-B", "SICK-R"]
    for task in sts["tasks"].values():
        assert -100 <= task["interval"][0] <= task["spearman"] <= task["interval"][1] <= 100
        assert task["pairs"] == len(samples.sample_pairs())
    spearmans = [task["spearman"] for task in sts["tasks"].values()]
    assert sts["average"] == pytest.approx(np.mean(spearmans))
    assert {"alignment", "uniformity", "anisotropy", "effective_rank"} <= set(
        report["results"]["geometry"]
    )
    assert "rows in" in ran.err  # small sets are announced, but not on standard output
    assert "STS-B" in (tmp_path / "report.md").read_text("utf-8")


def test_evaluate_several_poolings(run: Run, tiny_bert: Path, small_data: Path) -> None:
    ran = run(
        *("evaluate", tiny_bert, "--data", small_data, "--bootstrap", 0),
        *("--pooling", "cls,mean", "--json"),
    )
    assert ran.code == 0, ran.err
    poolings = json.loads(ran.out)["poolings"]
    assert list(poolings) == ["cls", "mean"]
    assert poolings["cls"]["sts"]["average"] != poolings["mean"]["sts"]["average"]


@pytest.mark.data
def test_evaluate_on_the_real_sets(run: Run, tiny_bert: Path, data_folder: Path) -> None:
    ran = run("evaluate", tiny_bert, "--suite", "geometry", "--data", data_folder, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["results"]["geometry"]["positives"] > 100
    assert "rows in" not in ran.err


# models, data check, doctor


def test_models(run: Run) -> None:
    models = json.loads(run("models", "--json").out)["models"]
    assert [(model["name"], model["kind"]) for model in models] == [
        ("default", "encoder"),
        ("base", "encoder"),
        ("sts", "careful"),
        ("sts-fast", "pair"),
        ("judge", "cross"),
        ("sts-base", "careful"),
        ("sts-base-fast", "pair"),
        ("conditional", "conditional"),
        ("conditional-base", "conditional"),
        ("turbo", "encoder"),
    ]
    for model in models:
        assert model.keys() == {"name", "kind", "summary", "folder", "problem"}
        if "base" in model["name"] and model["folder"] is None:  # it need not be here
            assert "tertium models fetch base" in model["problem"]
            continue
        assert Path(model["folder"]).is_dir() and model["problem"] is None
    shown = run("models").out
    assert "default" in shown and "sts" in shown


def test_models_fetch(
    run: Run, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    files = {path.name: sha256(path) for path in tiny_bert.iterdir()}
    monkeypatch.setitem(REMOTE, "base", Remote("base", "tiny", "some/model", "abc", files, {}))
    ran = run("models", "fetch", "base", "--from", str(tiny_bert), "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert (found["source"], found["files"]) == (str(tiny_bert), files)
    assert set(found["fetched"]) == set(files)
    assert "from the cache" in run("models", "fetch").err
    (base,) = [m for m in json.loads(run("models", "--json").out)["models"] if m["name"] == "base"]
    assert base["folder"] == found["folder"]


@pytest.mark.parametrize(
    ("command", "work", "told"),
    [
        (("models", "fetch"), "tertium.models.fetching.fetch", "complete files are kept; rerun"),
        (("doctor",), "tertium.cli.doctor._report", "interrupted"),
    ],
)
def test_an_interruption_is_told(
    command: tuple[str, ...], work: str, told: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(work, interrupted)
    ran = run(*command)
    assert (ran.code, ran.out) == (130, "")
    assert ran.err.startswith(told) and ran.err.count("\n") == 1


def test_models_fetch_of_what_there_is_not(run: Run, tmp_path: Path) -> None:
    assert "No model to fetch 'large'. Known: base." in run("models", "fetch", "large").err
    assert "no such folder" in run("models", "fetch", "--from", str(tmp_path / "no")).err


def test_data_check_of_a_good_file(run: Run) -> None:
    ran = run("data", "check", samples.PAIRS, "--json")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert found["rows"] == len(samples.sample_pairs())
    assert (found["kind"], found["problems"], found["notes"]) == ("graded", [], [])
    assert "no problems" in run("data", "check", samples.PAIRS).out


def test_data_check_lists_every_bad_row(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.tsv"
    file.write_text("score\tsentence1\tsentence2\n5\ta\tb\nhigh\ta\tb\n3\ta\tb\nlow\tc\td\n")
    ran = run("data", "check", file, "--json")
    assert ran.code == 2
    found = json.loads(ran.out)
    assert found["rows"] == 2
    assert [(p["line"], p["column"], p["value"]) for p in found["problems"]] == [
        (3, "score", "high"),
        (5, "score", "low"),
    ]
    assert all(problem["remedy"] for problem in found["problems"])
    assert run("data", "check", file).code == 2


def test_an_unknown_column_leads_to_a_check_that_takes_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "texts.tsv"
    file.write_text("id\ttitle\n1\tT.\n")
    ran = run("encode", file, "--column", "body", "-o", tmp_path / "out.npy")
    assert ran.code == 2 and f"tertium data check {file} --column body" in ran.err
    ran = run("data", "check", file, "--column", "body")
    assert ran.code == 2 and "no such column; there are: id, title" in ran.out
    ran = run("data", "check", file, "--column", "title")
    assert ran.code == 0 and "texts, 1 row, no problems" in ran.out


def test_data_check_says_what_is_there(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "raters.tsv"
    file.write_text("sentence1\tsentence2\tscore\tann\na\tb\t3\t2\na\tb\t1\t2\n")
    ran = run("data", "check", file)
    assert ran.code == 0 and "numbers that are not read: column ann" in ran.out
    assert "with different grades: 1" in ran.out and "no problems" in ran.out


@pytest.mark.data
def test_data_check_of_a_real_file(run: Run, data_folder: Path) -> None:
    ran = run("data", "check", data_folder / "sts16.tsv", "--json")
    assert (ran.code, json.loads(ran.out)["rows"]) == (0, 1186)


def test_doctor(run: Run, small_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERTIUM_DATA", str(small_data))
    report = json.loads(run("doctor", "--json").out)
    assert report.keys() == {
        *("python", "packages", "machine", "extras", "engines", "model", "data", "cache"),
    }
    assert report["packages"]["tertium"] == tertium.__version__
    assert SHA256 in report["model"]["sha256"]
    assert report["data"]["sets"] == [
        *("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"),
    ]
    assert report["machine"]["threads"] >= 1 and report["machine"]["processor"]
    assert report["engines"].keys() == {
        *("onnx", "onnx-int8", "openvino", "openvino-int8", "bfloat16"),
    }
    assert str(small_data.name) in run("doctor").out.replace("\n", "").replace(" ", "")


# What the user can fix; see test_early.py for more


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "a", "b", "-m", "nobody/nothing"], "nobody/nothing"),
        (["encode", "texts.txt", "-o", "texts.txt/out.npy"], "texts.txt"),
        (["score", "texts.txt", "-o", "out.tsv"], "texts.txt"),
        (["compare", "a"], "Usage"),
        (["compere"], "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_user_errors_are_a_sentence_and_exit_code_2(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("a\n")
    ran = run(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_compare_checks_what_texts_differ_by(run: Run) -> None:
    texts = ("He is asleep.", "He is not asleep.", "He sleeps.")
    found = json.loads(run("compare", *texts, "--check", "--json", "-m", "default").out)["pairs"]
    (entry,) = found[0]["check"]
    assert entry["kind"] == "negation" and entry["items"] == 31
    low, high = entry["interval"]
    assert low <= entry["accuracy"] <= high and found[1]["check"] == []
    shown = run("compare", *texts, "--check", "-m", "default").out
    assert "differs by negation. Of 31 such contrasts default has" in " ".join(shown.split())
    refused = run("compare", *texts[:2], "--on", "sleep", "--check")
    assert refused.code != 0 and "--check is for texts without them" in refused.err
