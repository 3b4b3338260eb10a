import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tertium.data import DATASETS, DataError, find_folder, load
from tertium.data.benchmarks import TextForm
from tertium.errors import TertiumError

from .conftest import Write

REAL = [(name, split) for name, dataset in DATASETS.items() for split in dataset.rows]


def test_names_and_keys_agree() -> None:
    assert all(name == dataset.name for name, dataset in DATASETS.items())


def test_a_flat_file_is_read_with_its_hash(write: Write, tmp_path: Path) -> None:
    path = write("sts12.tsv", "subset\tscore\tsentence1\tsentence2\nMSRvid\t2.5\ta\tb\n")
    with pytest.warns(UserWarning, match="STS12 test: 1 rows in .*, but 3,108 are expected"):
        loaded = load("STS12", folder=tmp_path)
    assert loaded.source == str(path)
    assert loaded.rows[0].subset == "MSRvid"
    assert loaded.sha256 is not None and len(loaded.sha256) == 64
    assert (loaded.split, loaded.text, loaded.revision) == ("test", "senteval", None)


def test_raw_text_is_another_file(write: Write, tmp_path: Path) -> None:
    for name, text in {"stsb.tsv": "a .", "stsb_raw.tsv": "A."}.items():
        write(name, f"split\tgenre\tscore\tsentence1\tsentence2\ndev\tnews\t1\t{text}\tb\n")
    forms: tuple[tuple[TextForm, str], ...] = (("senteval", "a ."), ("raw", "A."))
    for form, text in forms:
        with pytest.warns(UserWarning, match="are expected"):
            loaded = load("STS-B", split="dev", folder=tmp_path, text=form)
        assert (loaded.rows[0].sentence1, loaded.text, loaded.rows[0].subset) == (
            text,
            form,
            "news",
        )


def test_a_score_outside_the_scale_of_the_set_is_refused(write: Write, tmp_path: Path) -> None:
    write("sick.tsv", "split\tscore\tsentence1\tsentence2\ntest\t0.5\ta\tb\n")
    with pytest.raises(DataError, match="write a number from 1 to 5"):
        load("SICK-R", folder=tmp_path)


def test_a_part_of_a_corpus_is_read_without_a_word(write: Write, tmp_path: Path) -> None:
    write("wiki_sentences.txt", "not this file\n")
    write("wiki1m_for_simcse.txt", "one\ntwo\n")
    loaded = load("wiki", split="train", folder=tmp_path)
    assert [row.sentence for row in loaded.rows] == ["one", "two"]
    assert Path(loaded.source).name in DATASETS["wiki"].file_names


def test_the_public_files_are_read_under_their_own_names(write: Write, tmp_path: Path) -> None:
    write("nli_for_simcse.csv", 'sent0,sent1,hard_neg\n"a, b",c,d\n')
    (triplet,) = load("NLI-triplets", split="train", folder=tmp_path).rows
    assert (triplet.anchor, triplet.positive, triplet.hard_negative) == ("a, b", "c", "d")
    header = "split\tdataset\tfilename\tsentence1\tsentence2\tlabel\n"
    rows = "train\tSNLI\tx\ta\tb\tneutral\ndev\tSNLI\tx\tc\td\tentailment\n"
    write("AllNLI.tsv.gz", gzip.compress((header + rows).encode()))
    (pair,) = load("NLI", split="train", folder=tmp_path).rows
    assert (pair.sentence1, pair.label) == ("a", "neutral")


def test_unknown_names_get_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match=r"No data set 'STSB'. Did you mean 'STS-B'?"):
        load("STSB")
    with pytest.raises(TertiumError, match=r"No split of MR 'test'.* Known: all"):
        load("MR")
    with pytest.raises(TertiumError, match=r"No form of text 'rwa'. Did you mean 'raw'?"):
        load("STS12", text="rwa")  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_benchmark_folder")
class TestFindFolder:
    def test_a_named_folder_comes_first(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TERTIUM_DATA", str(tmp_path / "elsewhere"))
        assert find_folder(tmp_path) == tmp_path

    def test_then_the_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERTIUM_DATA", str(tmp_path))
        assert find_folder() == tmp_path

    def test_nothing_else_is_taken_for_one(self) -> None:
        Path("../shared/data").mkdir(parents=True)
        assert find_folder() is None

    def test_a_named_folder_must_exist(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(TertiumError, match="no such data folder"):
            find_folder(tmp_path / "none")
        monkeypatch.setenv("TERTIUM_DATA", str(tmp_path / "none"))
        with pytest.raises(TertiumError, match="Correct --data or TERTIUM_DATA"):
            find_folder()


def test_importing_the_folder_loads_nothing_heavy() -> None:
    code = (
        "import sys, tertium.data; "
        "print([m for m in ('torch', 'numpy', 'datasets', 'pyarrow') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.decode().strip() == "[]"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.data
@pytest.mark.parametrize(("name", "split"), REAL)
def test_every_real_set_has_its_rows(
    name: str, split: str, data_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong count would warn, and a warning fails a test; of a corpus a part will do."""
    monkeypatch.setenv("TERTIUM_CACHE", str(cache))
    loaded = load(name, split=split, folder=data_folder)
    if DATASETS[name].corpus:
        assert 0 < len(loaded.rows) <= DATASETS[name].rows[split]
    else:
        assert len(loaded.rows) == DATASETS[name].rows[split]
    assert {type(row) for row in loaded.rows} == {DATASETS[name].row_type}


@pytest.mark.data
@pytest.mark.parametrize("name", [name for name, d in DATASETS.items() if len(d.files) == 2])
def test_raw_rows_are_the_same_pairs(name: str, data_folder: Path) -> None:
    senteval = load(name, folder=data_folder).rows
    raw = load(name, folder=data_folder, text="raw").rows
    assert [(row.score, row.subset) for row in raw] == [(row.score, row.subset) for row in senteval]
    assert raw != senteval


@pytest.mark.data
def test_hidden_labels_are_hidden_and_others_not(
    data_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERTIUM_CACHE", str(cache))
    for split, hidden in {"train": False, "validation": False, "test": True}.items():
        rows = load("C-STS", split=split, folder=data_folder).rows
        assert {row.label is None for row in rows} == {hidden}


@pytest.mark.data
def test_hashes_are_those_of_the_manifest(data_folder: Path) -> None:
    manifest = data_folder / "manifest.json"
    if not manifest.is_file():
        pytest.skip("this copy of the sets has no manifest")
    known = json.loads(manifest.read_text())
    assert load("SICK-R", folder=data_folder).sha256 == known["sick.tsv"]["sha256"]
