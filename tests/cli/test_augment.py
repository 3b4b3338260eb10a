import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.integration

TEXT = "the cat sleeps , the dog barks ."
WORDS = TEXT.split()


@pytest.fixture(params=["bert", "roberta"])
def tiny(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(f"tiny_{request.param}")
    return folder


def shown(run: Run, *arguments: object) -> dict[str, Any]:
    ran = run("augment", *arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    found: dict[str, Any] = json.loads(ran.out)
    return found


@pytest.mark.parametrize("aggregation", ["naive", "rollout"])
def test_add_in_json(run: Run, tiny: Path, aggregation: str) -> None:
    found = shown(run, TEXT, "--k", 3, "--aggregation", aggregation, "-m", tiny)
    assert list(found) == ["model", "view", "text", "tokens", "steps"]
    assert (found["model"], found["view"], found["text"]) == (str(tiny), "add", TEXT)
    assert all(list(token) == ["token", "score", "dropped"] for token in found["tokens"])
    assert [token["token"] for token in found["tokens"]][1:-1] == WORDS
    assert [list(step) for step in found["steps"]] == [["dropped", "text"]] * 3
    # The lowest scores of content go, the lowest first.
    by_score = sorted(found["tokens"][1:-1], key=lambda token: token["score"])
    assert [token["dropped"] for token in by_score] == [1, 2, 3] + [None] * (len(WORDS) - 3)
    assert [step["dropped"] for step in found["steps"]] == [t["token"] for t in by_score[:3]]
    assert found["tokens"][0]["dropped"] is found["tokens"][-1]["dropped"] is None


def test_the_two_aggregations_differ(run: Run, tiny: Path) -> None:
    scores = [
        [token["score"] for token in shown(run, TEXT, "--aggregation", name, "-m", tiny)["tokens"]]
        for name in ("naive", "rollout")
    ]
    assert scores[0] != scores[1]


def test_k_beyond_the_sentence_stops_at_one_token(run: Run, tiny: Path) -> None:
    found = shown(run, TEXT, "--k", 99, "-m", tiny)
    assert len(found["steps"]) == len(WORDS) - 1
    assert found["steps"][-1]["text"].strip() in WORDS


def test_without_protection_everything_may_go(run: Run, tiny: Path) -> None:
    found = shown(run, TEXT, "--k", 99, "--no-protect", "-m", tiny)
    dropped = [token["dropped"] for token in found["tokens"]]
    assert sorted(dropped) == [*range(1, len(WORDS) + 3)]
    scores = [token["score"] for token in found["tokens"]]
    assert sorted(range(len(scores)), key=scores.__getitem__) == sorted(
        range(len(scores)), key=dropped.__getitem__
    )
    assert found["steps"][-1]["text"] == ""


def test_add_for_people(run: Run, tiny: Path) -> None:
    found = shown(run, TEXT, "--k", 2, "-m", tiny)
    ran = run("augment", TEXT, "--k", 2, "-m", tiny)
    assert (ran.code, ran.err) == (0, "")
    table, steps = ran.out.split("\n\n")
    header, *rows = table.splitlines()
    assert header.split() == ["token", "attention", "dropped"]
    assert [row.split()[:2] for row in rows] == [
        [token["token"], f"{token['score']:.2f}"] for token in found["tokens"]
    ]
    goes = {row.split()[0]: row.split()[-1] for row in rows if row.split()[-1].isdigit()}
    assert {*goes.values()} == {"1", "2"}
    assert [line.split()[0] for line in steps.splitlines()[1:]] == ["0", "1", "2"]
    assert TEXT in steps and found["steps"][1]["text"] in steps


def test_the_users_text_is_no_markup(run: Run, tiny: Path) -> None:
    ran = run("augment", "[bold]the cat[/bold] sleeps", "--k", 1, "-m", tiny)
    assert ran.code == 0 and "[bold]the cat[/bold] sleeps" in ran.out


@pytest.mark.parametrize("view", ["delete", "repeat", "span_mask"])
def test_other_views_follow_the_seed(run: Run, tiny: Path, view: str) -> None:
    made = set()
    for seed in range(8):
        found = shown(run, TEXT, "--view", view, "--seed", seed, "-m", tiny)
        assert list(found) == ["model", "view", "text", "changed", "seed"]
        assert (found["view"], found["text"], found["seed"]) == (view, TEXT, seed)
        assert shown(run, TEXT, "--view", view, "--seed", seed, "-m", tiny) == found
        plain = run("augment", TEXT, "--view", view, "--seed", seed, "-m", tiny)
        assert plain.out == found["changed"] + "\n"
        made.add(found["changed"])
    assert len(made) > 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([TEXT, "--view", "ad"], "No view 'ad'. Did you mean 'add'?"),
        ([TEXT, "--view", "dropout"], "Known: add, delete, repeat, span_mask."),
        ([TEXT, "--aggregation", "rolout"], "Did you mean 'rollout'?"),
        ([TEXT, "--k", "0"], "--k"),
        ([""], "The text is empty."),
        (["  "], "The text is empty."),
        (["", "--view", "delete"], "The text is empty."),
        ([TEXT, "-m", "./nothing"], "no folder"),
        ([], "Usage"),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else None,
)
def test_mistakes_are_a_sentence(
    run: Run, tiny_bert: Path, arguments: list[str], said: str
) -> None:
    model = [] if "-m" in arguments else ["-m", tiny_bert]
    ran = run("augment", *arguments, *model)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err and "Traceback" not in ran.err
