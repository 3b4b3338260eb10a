import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tertium.data import DATASETS, hub, load
from tertium.data.hub import HubSource, revision_of
from tertium.errors import MissingExtraError, TertiumError

datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.usefixtures("no_benchmark_folder")

PINNED = "0123456789abcdef0123456789abcdef01234567"
Serve = Callable[[dict[str, list[Any]]], list[tuple[Any, ...]]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """A hub that answers every request with the same columns and notes what was asked."""

    def _serve(columns: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
        asked: list[tuple[Any, ...]] = []

        def load_dataset(repo: str, config: str | None, *, split: str, revision: str) -> Any:
            asked.append((repo, config, split, revision))
            return datasets.Dataset.from_dict(columns)

        def get_task(name: str) -> Any:
            path = next(s.repo for d in DATASETS.values() for s in d.hub if s.task == name)
            dataset = {"path": path, "revision": PINNED}
            return SimpleNamespace(metadata=SimpleNamespace(dataset=dataset))

        monkeypatch.setattr(hub, "online", lambda: True)
        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        monkeypatch.setitem(
            sys.modules, "mteb", SimpleNamespace(get_task=get_task, __spec__="fake")
        )
        return asked

    return _serve


GRADED = {"sentence1": ["A man.", "C"], "sentence2": ["B", "D"], "score": [1.0, 4.5]}
expected = pytest.mark.filterwarnings("ignore:.*are expected")
raw = pytest.mark.filterwarnings("ignore:.*holds raw text")


@expected
def test_a_year_comes_from_the_revision_that_mteb_pins(serve: Serve) -> None:
    asked = serve(GRADED)
    loaded = load("STS12", text="raw")
    assert asked == [("mteb/sts12-sts", None, "test", PINNED)]
    assert [(row.sentence1, row.score) for row in loaded.rows] == [("A man.", 1.0), ("C", 4.5)]
    assert (loaded.source, loaded.revision, loaded.sha256) == ("mteb/sts12-sts", PINNED, None)
    assert (loaded.split, loaded.text) == ("test", "raw")


@expected
def test_the_hub_has_raw_text_and_says_so(serve: Serve) -> None:
    serve(GRADED)
    with pytest.warns(UserWarning, match="holds raw text, not SentEval's"):
        assert load("STS-B", split="dev").text == "raw"


def test_another_number_of_rows_is_named(serve: Serve) -> None:
    serve(GRADED)
    with pytest.warns(UserWarning, match="STS13 test: 2 rows in mteb/sts13-sts, but 1,500 are"):
        load("STS13", text="raw")


@expected
def test_sick_comes_whole_and_under_its_true_name(serve: Serve) -> None:
    serve(GRADED)
    with pytest.warns(UserWarning, match="does not tell 'test' from the rest"):
        assert load("SICK-R", text="raw").split == "all"


@expected
@pytest.mark.parametrize(
    ("name", "split", "columns", "asked", "row"),
    [
        (
            *("NLI", "train", {"premise": ["A"], "hypothesis": ["B"], "label": [2]}),
            ("sentence-transformers/all-nli", "pair-class", "train", "main"),
            {"sentence1": "A", "sentence2": "B", "label": "contradiction", "source": ""},
        ),
        (
            *("NLI-triplets", "train", {"anchor": ["A"], "positive": ["B"], "negative": ["C"]}),
            ("sentence-transformers/all-nli", "triplet", "train", "main"),
            {"anchor": "A", "positive": "B", "hard_negative": "C"},
        ),
        (
            *("wiki1m-head", "train", {"text": ["A"]}),
            ("sentence-transformers/wiki1m-for-simcse", None, "train[:11914]", "main"),
            {"sentence": "A"},
        ),
        (
            *("MR", "all", {"text": ["A"], "label": [1]}),
            ("cornell-movie-review-data/rotten_tomatoes", None, "train+validation+test", "main"),
            {"sentence": "A", "label": "1"},
        ),
        (
            *("SST2", "dev", {"idx": [0], "sentence": ["A"], "label": [0]}),
            ("stanfordnlp/sst2", None, "validation", "main"),
            {"sentence": "A", "label": "0"},
        ),
        (
            *("SST2", "test", {"text": ["A"], "label": [0]}),
            ("SetFit/sst2", None, "test", "main"),
            {"sentence": "A", "label": "0"},
        ),
        (
            *("TREC", "test", {"text": ["A"], "label": [7], "label_coarse_original": ["NUM"]}),
            ("SetFit/TREC-QC", None, "test", "main"),
            {"sentence": "A", "label": "NUM"},
        ),
        (
            *("MRPC", "train", {"sentence1": ["A"], "sentence2": ["B"], "label": [1]}),
            ("nyu-mll/glue", "mrpc", "train+validation", "main"),
            {"sentence1": "A", "sentence2": "B", "label": "1"},
        ),
    ],
)
def test_columns_and_splits_are_translated(
    name: str,
    split: str,
    columns: dict[str, list[Any]],
    asked: tuple[Any, ...],
    row: dict[str, str],
    serve: Serve,
) -> None:
    requests = serve(columns)
    loaded = load(name, split=split)
    assert requests == [asked]
    assert loaded.rows[0].model_dump() == row
    assert loaded.revision == "main"


@pytest.mark.parametrize("name", ["C-STS", "MPQA"])
def test_a_set_that_is_nowhere_says_how_to_get_it(name: str) -> None:
    split = next(iter(DATASETS[name].rows))
    with pytest.raises(TertiumError, match=f"{name} is neither in a local folder nor on a hub"):
        load(name, split=split)


def test_every_hub_source_names_splits_of_its_set() -> None:
    for dataset in DATASETS.values():
        for source in dataset.hub:
            assert source.splits.keys() <= dataset.rows.keys()


def test_without_mteb_or_with_another_path_the_revision_is_main(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = HubSource("mteb/sts12-sts", {"test": "test"}, task="STS12")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert revision_of(source) == "main"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    dataset = {"path": "somewhere/else", "revision": PINNED}
    task = SimpleNamespace(metadata=SimpleNamespace(dataset=dataset))
    monkeypatch.setitem(sys.modules, "mteb", SimpleNamespace(get_task=lambda name: task))
    assert revision_of(source) == "main"


@pytest.mark.slow
def test_the_installed_mteb_pins_every_set_that_names_a_task() -> None:
    pytest.importorskip("mteb")
    sources = [s for dataset in DATASETS.values() for s in dataset.hub if s.task]
    assert len(sources) == 7
    for source in sources:
        assert len(revision_of(source)) == 40


def test_without_datasets_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"STS12 is in no .*pip install 'tertium\[train\]'"):
        load("STS12")


def test_an_error_of_the_hub_is_one_sentence(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(GRADED)

    def refuse(*args: Any, **options: Any) -> None:
        raise ValueError("Unknown split")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(TertiumError, match="mteb/sts12-sts could not be loaded: Unknown split"):
        load("STS12")


def test_a_bad_row_of_the_hub_is_named(serve: Serve) -> None:
    serve({**GRADED, "score": [1.0, 7.0]})
    with pytest.raises(TertiumError, match=r"mteb/sts12-sts:2: column 'score': '7\.0'"):
        load("STS12", text="raw")


def test_the_sign_of_life_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked: list[float] = []

    class Session:
        def head(self, url: str, *, timeout: float) -> None:
            asked.append(timeout)
            raise OSError("no route")

    monkeypatch.setattr(huggingface_hub, "get_session", Session)
    assert not hub.online()
    assert len(asked) == 1 and asked[0] <= 5


@expected
@raw
def test_out_of_reach_the_cache_is_used_and_its_commit_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache as ``datasets`` leaves it: one folder per commit."""
    cache, before = tmp_path / "cache", datasets.config.HF_HUB_OFFLINE
    monkeypatch.setattr(hub, "online", lambda: False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    local = tmp_path / "sts12-sts"
    local.mkdir()
    datasets.Dataset.from_dict(GRADED).to_json(local / "test.jsonl")
    table = datasets.load_dataset(str(local), split="test", cache_dir=str(cache))
    made = Path(table.cache_files[0]["filename"]).parent
    shutil.copytree(made, cache / "mteb___sts12-sts" / "default" / "0.0.0" / PINNED)

    loaded = load("STS12")
    assert [row.sentence2 for row in loaded.rows] == ["B", "D"]
    assert loaded.revision == PINNED
    with pytest.raises(TertiumError, match="the hub is out of reach and it is not in the cache"):
        load("STS13")
    assert before == datasets.config.HF_HUB_OFFLINE
