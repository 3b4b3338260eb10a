import asyncio
import hashlib
import json
import random
import string
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import tertium
from tertium.models.names import resolve
from tertium.recipes.fit import save_decided
from tertium.records.decision import Calibration, Decision, DecisionSource, Rule
from tertium.serve.app import build_app, build_service
from tertium.serve.settings import read_settings
from tests.cli.conftest import Run
from tests.serve.fakes import launch_thread

pytestmark = pytest.mark.integration


def write(path: Path, *, pairs: int = 120, wrong: int = 0, grades: bool = False) -> Path:
    """Pairs of letters, the same ones in both texts of a duplicate but for one at the end."""
    random.seed(0)
    lines = ["id\tticket_a\tticket_b\tsame"]
    for at in range(pairs):
        letters = random.sample(string.ascii_lowercase, 8)
        yes = at % 2 == 0
        other = [*letters[:7], "cat"] if yes else random.sample(string.ascii_lowercase, 8)
        label = yes != (at < 2 * wrong)
        value = f"{4 * label + at % 3 / 2:g}" if grades else f"{int(label)}"
        lines.append(f"t{at}\t{' '.join(letters)}\t{' '.join(other)}\t{value}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


COLUMNS = ("--column1", "ticket_a", "--column2", "ticket_b", "--label-column", "same")


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    pairs = write(folder / "pairs.tsv")
    from tertium.data.columns import Columns

    columns = Columns.parse(column1="ticket_a", column2="ticket_b", label_column="same")
    fitted = tertium.fit(tiny_bert, pairs, folder / "mine", precision=0.9, columns=columns)
    return fitted.folder


def test_fit_saves_a_model_that_decides(mine: Path) -> None:
    model = tertium.load(mine)
    decision = model.decision
    assert isinstance(decision, Decision)
    assert (decision.name, decision.goal, decision.wanted) == ("duplicate", "precision", 0.9)
    assert decision.source.pairs == 120
    same, other = model.decide([("a b c d", "a b c d"), ("a b c d", "w x y z")])
    assert (same.answer, other.answer) == ("yes", "no")
    assert str(same).startswith("duplicate: yes, 9")
    assert decision.figures["held_out"]["decision"]["precision"]["value"] > 70


def test_sentence_transformers_still_loads_it(mine: Path) -> None:
    from sentence_transformers import SentenceTransformer

    assert SentenceTransformer(str(mine)).encode("a b c").shape == (32,)


def test_saving_again_keeps_the_decision_and_another_pooling_does_not(
    mine: Path, tmp_path: Path
) -> None:
    tertium.load(mine).save(tmp_path / "again")
    assert tertium.load(tmp_path / "again").decision == tertium.load(mine).decision
    assert tertium.load(mine, pooling="mean_top2").decision is None


def test_twice_the_same_bytes_whatever_the_order(
    run: Run, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        pairs = write(Path("pairs.tsv"))
        if name == "three":
            head, *lines = pairs.read_text().splitlines()
            random.shuffle(lines)
            pairs.write_text("\n".join([head, *lines]) + "\n")
        assert run("fit", tiny_bert, "pairs.tsv", "-o", "mine", *COLUMNS).code == 0
        found.append(hashes(Path("mine")))
    assert found[0] == found[1]
    one, three = (
        json.loads((tmp_path / at / "mine/tertium.json").read_text()) for at in ("one", "three")
    )
    for document in (one, three):
        del document["details"]["decision"]["source"]["sha256"]
    assert one == three


def test_fit_says_what_it_found(run: Run, tmp_path: Path, tiny_bert: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv")
    ran = run("fit", tiny_bert, pairs, "-o", tmp_path / "mine", *COLUMNS, "--name", "repeat")
    assert ran.code == 0
    assert "pairs that are the same or not, 120 rows" in ran.out
    assert "average precision" in ran.out and "held out, 5 folds" in ran.out
    assert "for the best F1, fitted on 120 pairs of pairs.tsv" in ran.out.replace("\n", " ")


def test_json(run: Run, tmp_path: Path, tiny_bert: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", grades=True)
    options = ("--positive", "3", "--recall", "0.8", "--json")
    ran = run("fit", tiny_bert, pairs, "-o", tmp_path / "mine", *COLUMNS, *options)
    document = json.loads(ran.out)
    assert document["positive"] == "labels from 3 on"
    rule = document["by"]["score"]
    assert rule["threshold"] is not None and rule["grade"] and rule["probability"]
    assert document["figures"]["spearman"]["interval"][0] > 20


HEAD = "sentence1\tsentence2\tscore\n"


def twenty(row: str) -> str:
    return HEAD + "".join(row.format(i=at, two=at % 2, five=at % 5) for at in range(20))


@pytest.mark.parametrize(
    "content, options, message",
    [
        (HEAD + "a\tb\t1\nc\td\t0\ne\tf\t1\n", "", "has 3 pairs with a label"),
        (twenty("a{i}\tb{i}\t1\n"), "", "all 20 pairs have the same label"),
        (twenty("a{i}\tb{i}\t{five}\n"), "--precision 0.9", "--positive"),
        (twenty("a{i}\tb{i}\t{two}\n"), "--precision 0.95", "10 pairs that count as yes are too"),
        (twenty("a{i}\tb{i}\t{two}\n"), "--precision 95", "between 0 and 1"),
        (twenty("a{i}\tb{i}\t{two}\n"), "--precision 0.9 --recall 0.9", "one promise"),
        (twenty("a\tb\t{two}\n"), "", "has 0 pairs with a label (1 pair has contr"),
        (twenty("a{i}\tb{i}\t\n"), "", "Pairs with labels are needed"),
        (twenty("a{i}\t\t{two}\n"), "", "write some text"),
        ("sentence1\tsentence2\na\tb\n", "", "Pairs with labels are needed"),
        ("just some text\n", "", "no rows"),
        ("", "", "no rows"),
    ],
)
def test_absurd_files_end_in_one_sentence_and_leave_nothing(
    run: Run,
    tmp_path: Path,
    tiny_bert: Path,
    content: str,
    options: str,
    message: str,
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(content)
    ran = run("fit", tiny_bert, pairs, "-o", tmp_path / "mine", *options.split())
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("error:") == 1 and "Traceback" not in ran.err
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.tsv"]


def test_a_score_that_says_nothing_is_noticed(run: Run, tmp_path: Path, tiny_bert: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    random.seed(4)
    words = [" ".join(random.sample(string.ascii_lowercase, 3)) for _ in range(80)]
    labels = [random.randint(0, 1) for _ in range(40)]
    rows = (f"{a}\t{b}\t{at}\n" for a, b, at in zip(words[::2], words[1::2], labels, strict=True))
    pairs.write_text(HEAD + "".join(rows))
    ran = run("fit", tiny_bert, pairs, "-o", tmp_path / "mine")
    assert "no better than a constant" in ran.err or "do not rise with the labels" in ran.err


def test_labels_the_wrong_way_round_are_noticed(run: Run, tmp_path: Path, tiny_bert: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", wrong=60)
    ran = run("fit", tiny_bert, pairs, "-o", tmp_path / "mine", *COLUMNS)
    assert ran.code == 0
    assert "do not rise with the labels" in ran.err


def test_commands_use_it_and_say_so(run: Run, tmp_path: Path, mine: Path) -> None:
    decision = tertium.load(mine).decision
    assert decision is not None
    threshold = decision.rule("cosine").threshold
    texts = tmp_path / "texts.txt"
    texts.write_text("a b c d e f g\na b c d e f g h\nw x y z dog\nthe cat sleeps\n")
    ran = run("compare", "a b c d", "a b c d", "w x y z", "-m", mine)
    assert "yes, 9" in ran.out and "no, " in ran.out
    assert "fitted on 120 pairs of pairs.tsv" in ran.err
    assert (
        json.loads(run("compare", "a b", "a b", "-m", mine, "--json").out)["pairs"][0]["decision"]
        == "yes"
    )
    pairs = tmp_path / "new.tsv"
    pairs.write_text("sentence1\tsentence2\na b c d\ta b c d\na b c d\tw x y z\n")
    for ending in ("tsv", "csv", "jsonl", "parquet"):
        ran = run("score", pairs, "-o", tmp_path / f"scored.{ending}", "-m", mine)
        assert ran.code == 0 and "fitted on 120 pairs" in ran.err
    lines = (tmp_path / "scored.tsv").read_text().splitlines()
    assert lines[0].split("\t")[2:] == ["similarity", "decision", "probability", "grade"]
    assert [line.split("\t")[3] for line in lines[1:]] == ["yes", "no"]
    assert all(len(line.split("\t")[4]) == len("0.123456") for line in lines[1:])
    scored = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text().splitlines()]
    assert [row["decision"] for row in scored] == ["yes", "no"] and scored[0]["grade"] is None
    for command in ("mine", "dedupe"):
        ran = run(command, texts, "-o", tmp_path / f"{command}.tsv", "-m", mine, "--json")
        document = json.loads(ran.out)
        assert document["threshold"] == threshold
        assert document["decision"]["file"] == "pairs.tsv"
        assert "for precision ≥ 0.9 at 90 % confidence" in ran.err
    given = run("mine", texts, "-o", tmp_path / "x.tsv", "-m", mine, "--threshold", "0.2", "--json")
    assert json.loads(given.out)["threshold"] == 0.2
    assert (tmp_path / "x.tsv").read_text().splitlines()[0].endswith("decision\tprobability\tgrade")
    assert run("index", "build", texts, "-o", tmp_path / "index", "-m", mine).code == 0
    ran = run("index", "search", tmp_path / "index", "a b c d e f g")
    assert "yes, 9" in ran.out and "fitted on" in ran.err
    hits = json.loads(run("index", "search", tmp_path / "index", "a b", "--json").out)
    assert hits["queries"][0]["hits"][0]["probability"] is not None


def test_a_search_asks_the_decision_of_the_model_around_the_vectors(tmp_path: Path) -> None:
    from tertium.corpus import Index
    from tertium.models.base import Embedder

    sure = Calibration(method="platt", low=0, high=1, slope=4.0)
    by = {"score": Rule(threshold=3.0, probability=sure), "cosine": Rule(threshold=0.5)}
    source = DecisionSource(file="pairs.tsv", sha256="", pairs=50)
    decision = Decision(name="duplicate", goal="f1", by=by, source=source)
    save_decided(resolve("sts"), tertium.load("sts"), decision, tmp_path / "mine", seen=[])
    model = tertium.load(tmp_path / "mine").vector_model
    assert isinstance(model, Embedder) and model.decision is None
    index = Index.build(tmp_path / "index", ["A cat sleeps."], model)
    assert index.model.cosine_decision == decision
    alone = Index.open(tmp_path / "index")
    assert alone.model.cosine_decision == decision and alone.model.name == "sts-fast"
    with pytest.raises(tertium.TertiumError, match=r"was built with the model .*mine, and default"):
        Index.open(tmp_path / "index", tertium.load())
    assert decision.verdicts([0.6, 0.4], measure="cosine")[0].answer == "yes"


def _check_same(row: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key, value in wanted.items():
        close = pytest.approx(value, rel=1e-5) if isinstance(value, float) else value
        assert row[key] == close, key


def test_shards_and_the_server_decide_as_a_file_does(run: Run, tmp_path: Path, mine: Path) -> None:
    import pyarrow.parquet as pq

    pairs, texts = tmp_path / "new.tsv", tmp_path / "texts.txt"
    pairs.write_text("sentence1\tsentence2\na b c d\ta b c d\na b c d\tw x y z\n")
    texts.write_text("a b c d e f g\nw x y z dog\n")
    run("score", pairs, "-o", tmp_path / "scored.jsonl", "-m", mine)
    wanted = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text().splitlines()]
    ran = run("score", pairs, "-o", f"{tmp_path}/shards/", "-m", mine, "--json")
    assert json.loads(ran.out)["decision"]["file"] == "pairs.tsv"
    assert "fitted on 120 pairs" in ran.err
    (shard,) = (tmp_path / "shards").glob("*.parquet")
    rows = pq.read_table(shard).to_pylist()
    assert [row["decision"] for row in rows] == ["yes", "no"]
    for row, other in zip(rows, wanted, strict=True):
        _check_same(row, other)

    run("index", "build", texts, "-o", tmp_path / "index", "-m", mine)
    by_command = json.loads(run("index", "search", tmp_path / "index", "a b", "--json").out)

    async def ask() -> tuple[Any, Any]:
        flags = {"model": str(mine), "conditional_model": "none", "index": str(tmp_path / "index")}
        service = build_service(read_settings(flags), launch=launch_thread)
        try:
            await service.start()
            transport = httpx.ASGITransport(app=build_app(service))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as ask:
                found = await ask.post("/v1/search", json={"query": "a b"})
                models = await ask.get("/v1/models")
        finally:
            await service.pool.stop()
        return found.json(), models.json()

    found, models = asyncio.run(ask())
    assert found["decision"] == by_command["decision"]
    assert models["data"][-1]["decision"] == by_command["decision"]
    for hit, other in zip(found["results"][0], by_command["queries"][0]["hits"], strict=True):
        _check_same(hit, other)


def test_evaluate_pairs(run: Run, tmp_path: Path, mine: Path, tiny_bert: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", wrong=5)
    ran = run("evaluate", tiny_bert, mine, "--pairs", pairs, *COLUMNS, "--bootstrap", "100")
    assert ran.code == 0
    assert "average precision" in ran.out and "p (Holm)" in ran.out
    ran = run(
        "evaluate", tiny_bert, mine, "--pairs", pairs, *COLUMNS, "--json", "-o", tmp_path / "x.md"
    )
    document = json.loads(ran.out)
    first, second = document["models"]
    assert first["difference"] is None and second["difference"]["p_adjusted"] == 1.0
    assert second["decision"]["precision"]["value"] < 100
    assert "| average precision |" in (tmp_path / "x.md").read_text()


def test_evaluate_pairs_of_several_raters(run: Run, tmp_path: Path, tiny_bert: Path) -> None:
    lines = ["sentence1\tsentence2\trater1\trater2\trater3"]
    random.seed(0)
    for at in range(30):
        a, b = (" ".join(random.sample(string.ascii_lowercase, 4)) for _ in range(2))
        lines.append(f"{a}\t{b}\t{at % 6}\t{min(at % 6 + at % 2, 5)}\t{at % 6}")
    pairs = tmp_path / "rated.tsv"
    pairs.write_text("\n".join(lines) + "\n")
    document = json.loads(run("evaluate", tiny_bert, "--pairs", pairs, "--json").out)
    assert document["raters"]["alpha"] > 0.9
    assert len(document["raters"]["pairwise"]) == 3
    assert "Krippendorff" in run("evaluate", tiny_bert, "--pairs", pairs).out


def test_several_models_need_pairs(run: Run, tiny_bert: Path) -> None:
    ran = run("evaluate", tiny_bert, tiny_bert)
    assert ran.code == 2 and "--pairs" in ran.err
    ran = run("evaluate", tiny_bert, "--positive", "3")
    assert ran.code == 2 and "--pairs" in ran.err


def test_fit_without_torch() -> None:
    """What fit imports without --train."""
    import subprocess
    import sys

    code = (
        "import sys, tertium.recipes.fit, tertium.recipes.pairs; "
        "print(sorted({'torch', 'scipy', 'sklearn', 'transformers'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("rate, kept", [(0.0, "as it was"), (2e-3, None)])
def test_training_keeps_the_better(
    tmp_path: Path, tiny_bert: Path, rate: float, kept: str | None
) -> None:
    from tertium.data.columns import Columns

    pairs = write(tmp_path / "pairs.tsv", pairs=240)
    columns = Columns.parse(column1="ticket_a", column2="ticket_b", label_column="same")
    settings = {"stages.0.train.learning_rate": rate or 1e-12, "stages.0.train.max_steps": 8}
    settings["stages.0.train.warmup"] = 0.0
    fitted = tertium.fit(
        tiny_bert, pairs, tmp_path / "mine", columns=columns, train=True, settings=settings
    )
    trained = fitted.trained
    assert trained is not None
    assert trained["kept"] == ("trained" if trained["after"] > trained["before"] else "as it was")
    assert kept in (None, trained["kept"])
    model = tertium.load(tmp_path / "mine")
    assert model.decision is not None
    by = 240 if trained["kept"] == "as it was" else trained["pairs"]["held_out"]
    assert model.decision.source.pairs == by
    assert all(each.name == str(pairs) for each in model.training_data)
