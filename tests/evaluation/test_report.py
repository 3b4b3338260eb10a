import json
from dataclasses import replace
from pathlib import Path

import pytest

from tertium.evaluation import Report, run
from tertium.evaluation.report import Provenance
from tests.evaluation.conftest import Folder, Placed, by_angle
from tests.evaluation.test_sts import TEN
from tests.evaluation.test_transfer import by_side, write

SUITES = {"sts": ["STS12", "STS-B"], "transfer": ["MR", "MRPC"], "geometry": ["geometry"]}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = Folder(tmp_path_factory.mktemp("data"))
    folder.all_sts(TEN)
    for name in ("MR", "MRPC"):
        write(folder, name, by_side)
    model = Placed(lambda text: by_angle(text) if text[0] in "Ab" else (text[0] == "-", 1))
    return run(model, SUITES, folder=folder.path, resamples=30, command="tertium evaluate placed")


def test_the_json_is_what_is_documented(report: Report) -> None:
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert set(found) == {"model", "results", "provenance"}
    assert (found["model"], list(found["results"])) == ("placed", list(SUITES))
    about = {"protocol", "split", "pooling", "data", "seconds"}

    sts = found["results"]["sts"]
    assert set(sts) == {"average", "interval", "tasks"}
    assert list(sts["tasks"]) == SUITES["sts"]
    for task in sts["tasks"].values():
        assert set(task) == {"spearman", "pearson", "pairs", "interval"} | about
        assert task["spearman"] == pytest.approx(95.1515, abs=1e-3)
        assert task["interval"][0] < task["interval"][1]
        assert len(task["data"]["sha256"]) == 64
    assert sts["average"] == pytest.approx(95.1515, abs=1e-3)

    transfer = found["results"]["transfer"]
    assert set(transfer) == {"average", "interval", "tasks"}
    sizes = {"accuracy", "examples", "interval"}
    assert set(transfer["tasks"]["MR"]) == sizes | about
    assert set(transfer["tasks"]["MRPC"]) == sizes | about | {"f1"}
    assert transfer["average"] == 100

    measures = {"alignment", "uniformity", "anisotropy", "effective_rank"}
    counts = {"dimension", "positives", "sentences"}
    assert set(found["results"]["geometry"]) == measures | counts | about

    provenance = found["provenance"]
    assert provenance["command"] == "tertium evaluate placed"
    assert (provenance["seed"], provenance["excluded"]) == (0, [])
    assert {"tertium", "torch"} < set(provenance["versions"])
    assert {"seconds", "date", "python", "machine"} < set(provenance)


def test_an_undefined_score_is_null(folder: Folder) -> None:
    folder.all_sts([(3, "A 0", "b 1"), (3, "A 0", "b 2")])
    tasks = {"sts": ["STS12", "STS13"]}
    report = run(Placed(by_angle), tasks, folder=folder.path, resamples=10)
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))["results"]["sts"]
    assert (found["average"], found["interval"]) == (None, None)
    task = found["tasks"]["STS12"]
    assert [task[key] for key in ("spearman", "pearson", "interval")] == [None] * 3
    assert "undefined" in str(report)


def test_it_prints_aligned_columns(report: Report) -> None:
    text = str(report)
    blocks = text.split("\n\n")
    for block in blocks[:2]:
        title, *table = block.splitlines()
        assert title.startswith("placed · ")
        assert len({len(line) for line in table}) == 1
        assert table[0].split()[0] == "task" and table[-1].split()[0] == "average"
    row = next(line for line in text.splitlines() if line.startswith("STS12"))
    assert row.split()[:3] == ["STS12", "10", "95.15"]
    assert blocks[-1] == str(report.provenance)


def test_a_baseline_and_leaks_get_columns(folder: Folder) -> None:
    folder.all_sts(TEN)
    file = folder.write("seen.tsv", "sentence1 sentence2", [("A 0", "b 8")])
    model, twin = Placed(by_angle), Placed(by_angle, "twin")
    options = {"folder": folder.path, "resamples": 9, "baseline": twin, "exclude": [str(file)]}
    report = run(model, {"sts": ["STS12"]}, **options)
    header, row, average = report["sts"].rows()
    assert header[-4:] == ["leak-free", "of pairs", "against baseline", "p"]
    assert row[-3:] == average[-3:] == ["9", "+0.00", "1.000"]
    assert f"leak-free: without the pairs of {file} (named, 1 pairs)" in str(report)


def test_markdown_has_a_table_per_suite(report: Report) -> None:
    lines = report.to_markdown().splitlines()
    assert lines[0] == "## placed"
    assert [line for line in lines if line.startswith("### ")] == [f"### {s}" for s in SUITES]
    assert "| task | pairs | spearman | 95 % interval | pearson |" in lines
    assert "| --- | ---: | ---: | ---: | ---: |" in lines
    assert any(line.startswith("| average |  | 95.15 |") for line in lines)
    assert lines[-1] == "```" and "tertium evaluate placed" in lines


def test_it_saves_by_ending(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "new" / "report.json")
    report.save(tmp_path / "report.md")
    assert json.loads((tmp_path / "new" / "report.json").read_text()) == json.loads(
        json.dumps(report.to_json())
    )
    assert (tmp_path / "report.md").read_text() == report.to_markdown()


def test_a_failed_save_leaves_the_old_file(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report.save(path)
    before = path.read_text()
    broken = replace(report, provenance=Provenance("command", 0, float("nan")))
    with pytest.raises(ValueError, match="not JSON compliant"):
        broken.save(path)
    assert path.read_text() == before
    assert [file.name for file in tmp_path.glob("*report*")] == ["report.json"]


def test_a_suite_is_looked_up_by_name(report: Report) -> None:
    assert report["transfer"].suite == "transfer"
    with pytest.raises(KeyError, match="no suite 'stss' in this report, which has sts"):
        report["stss"]


def test_a_latex_table_escapes_what_latex_would_run() -> None:
    from tertium.evaluation.report import latex_table

    found = latex_table(["a_b", "50 %"], [[r"\input{x}", "1 ± 2"]], caption="A & B")
    assert r"a\_b & 50 \% \\" in found and r"\textbackslash{}input\{x\} & 1 $\pm$ 2 \\" in found
    assert found.startswith("\\begin{table}") and r"\caption{A \& B}" in found
