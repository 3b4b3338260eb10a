import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from tertium.data.readers import iter_rows
from tertium.data.rows import PositivePair
from tertium.errors import TertiumError
from tertium.jobs import backtranslate as module
from tertium.jobs.backtranslate import RoundTrip, keep_similar, round_trip
from tertium.models import translator
from tertium.models.tokens import TruncationWarning
from tertium.models.translator import Translator
from tests.evaluation.conftest import Placed, by_angle
from tests.forking import fork_command
from tests.training.toys import StoppedError, toy_texts
from tests.translators import tiny_marian, tiny_nllb

LINES = [text for (text,) in toy_texts(12).texts]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_marian(folder / "en-de")
    tiny_marian(folder / "de-en", seed=1)
    tiny_nllb(folder / "nllb")
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WINDOW", 4)


def options(models: Path) -> dict[str, Any]:
    return {
        "to": str(models / "en-{pivot}"),
        "back": str(models / "{pivot}-en"),
        "beams": 2,
        "max_length": 16,
    }


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.filterwarnings("ignore::tertium.models.tokens.TruncationWarning")
class TestRoundTrip:
    def test_line_by_line_there_and_back(self, models: Path, texts: Path, tmp_path: Path) -> None:
        trip = round_trip(texts, tmp_path / "out", "de", **options(models))
        assert (trip.pivot, trip.file, trip.texts) == ("de", tmp_path / "out" / "de.txt", 12)
        to, back = Translator.load(models / "en-de"), Translator.load(models / "de-en")
        limits: dict[str, Any] = {"beams": 2, "max_length": 16}
        for line, found in zip(LINES, lines(trip.file), strict=True):
            there = to.translate([line], source="en", target="de", **limits)
            again = back.translate(there, source="de", target="en", **limits)
            assert found == (again[0] or line)
        record = json.loads((tmp_path / "out" / "de.json").read_text())
        assert (record["texts"], record["rows"], record["pivot"]) == ("texts.txt", 12, "de")
        assert record["unchanged"] == trip.unchanged
        assert not list((tmp_path / "out").glob("*.part"))

    def test_one_multilingual_model_goes_both_ways(
        self, models: Path, texts: Path, tmp_path: Path
    ) -> None:
        trips = [
            round_trip(
                texts,
                tmp_path / "out",
                pivot,
                to=str(models / "nllb"),
                language="eng_Latn",
                max_length=24,
            )
            for pivot in ("deu_Latn", "fra_Latn")
        ]
        assert [len(lines(trip.file)) for trip in trips] == [12, 12]
        assert lines(trips[0].file) != lines(trips[1].file)

    def test_blank_lines_stay_and_nothing_comes_back_blank(
        self, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        texts = tmp_path / "texts.txt"
        texts.write_text("a b\n\n  \nc\td\n")
        seen: list[list[str]] = []

        def lost(self: Translator, texts: list[str], **options: Any) -> list[str]:
            seen.append(list(texts))
            return ["" for _ in texts]

        monkeypatch.setattr(Translator, "translate", lost)
        trip = round_trip(texts, tmp_path / "out", "de", **options(models))
        assert lines(trip.file) == ["a b", "", "", "c d"]
        assert seen[0] == ["a b", "c d"] and trip.unchanged == 4

    def test_an_interruption_changes_nothing(
        self, models: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = round_trip(texts, tmp_path / "whole", "de", **options(models)).file.read_bytes()
        original, calls = Translator.translate, iter(range(1, 100))

        def interrupted(self: Translator, *arguments: Any, **options: Any) -> Any:
            if next(calls) == 5:  # in the third window
                raise StoppedError
            return original(self, *arguments, **options)

        monkeypatch.setattr(Translator, "translate", interrupted)
        with pytest.raises(StoppedError):
            round_trip(texts, tmp_path / "parts", "de", **options(models))
        part = tmp_path / "parts" / "de.txt.part"
        assert len(lines(part)) == 8 and not (tmp_path / "parts" / "de.txt").exists()
        with part.open("a", encoding="utf-8") as stream:
            stream.write("half a wind\now")  # what a kill may leave
        trip = round_trip(texts, tmp_path / "parts", "de", **options(models))
        assert trip.file.read_bytes() == whole
        assert next(calls) == 5 + 2 + 1  # one window, both ways

    def test_what_is_finished_is_left_alone(
        self, models: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = round_trip(texts, tmp_path / "out", "de", **options(models))
        record = tmp_path / "out" / "de.json"
        content = json.loads(record.read_text())
        del content["unchanged"]  # killed between the last line and the count
        record.write_text(json.dumps(content))
        monkeypatch.setattr(module, "_load", lambda settings: pytest.fail("nothing to do"))
        for _ in range(2):
            assert round_trip(texts, tmp_path / "out", "de", **options(models)) == first

    def test_another_file_or_setting_is_refused(
        self, models: Path, texts: Path, tmp_path: Path
    ) -> None:
        round_trip(texts, tmp_path / "out", "de", **options(models))
        with pytest.raises(TertiumError, match=r"another beams \(2, now 3\)"):
            round_trip(texts, tmp_path / "out", "de", **options(models) | {"beams": 3})
        texts.write_text("another\n" * 12)
        with pytest.raises(TertiumError, match="another sha256"):
            round_trip(texts, tmp_path / "out", "de", **options(models))

    def test_two_at_once(self, models: Path, texts: Path, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        with (
            FileLock(tmp_path / "out" / ".de.lock"),
            pytest.raises(TertiumError, match=r"de\.txt is in use by another process"),
        ):
            round_trip(texts, tmp_path / "out", "de", **options(models))


def test_long_texts_are_reported(models: Path, texts: Path, tmp_path: Path) -> None:
    with pytest.warns(TruncationWarning, match="had more than 6 tokens"):
        round_trip(texts, tmp_path / "out", "de", **options(models) | {"max_length": 6})


@pytest.mark.parametrize(
    ("pivot", "changes", "said"),
    [
        ("dee", {"to": None}, "Did you mean 'de'"),
        ("", {}, "not a language code"),
        ("../x", {}, "not a language code"),
        ("en", {}, "already"),
        ("xx", {}, "no folder"),
        ("de", {"back": None}, r"one way only.*--from"),
        ("de", {"max_length": 1000}, "at most 64 tokens"),
    ],
)
def test_mistakes(
    models: Path, texts: Path, tmp_path: Path, pivot: str, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(TertiumError, match=said):
        round_trip(texts, tmp_path / "out", pivot, **options(models) | changes)
    assert not (tmp_path / "out" / "de.txt").exists()


def test_a_file_of_unknown_origin_is_not_overwritten(
    models: Path, texts: Path, tmp_path: Path
) -> None:
    (tmp_path / "de.txt").write_text("mine\n")
    with pytest.raises(TertiumError, match=r"de\.txt exists without its record de\.json"):
        round_trip(texts, tmp_path, "de", **options(models))
    assert (tmp_path / "de.txt").read_text() == "mine\n"


@pytest.mark.integration
@pytest.mark.long
def test_a_killed_command_goes_on(models: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(LINES * 25) + "\n", encoding="utf-8")
    command = ["backtranslate", texts, "--pivot", "de", "--max-length", 16, "--beams", 1]
    command += ["--to", models / "en-{pivot}", "--from", models / "{pivot}-en"]
    errors = tmp_path / "errors.txt"
    killed = fork_command(*command, "-o", tmp_path / "killed", errors=errors)
    part = tmp_path / "killed" / "de.txt.part"
    killed.kill_when(lambda: part.exists() and part.stat().st_size)
    assert part.exists() and not part.with_suffix("").exists()
    for folder in ("killed", "whole"):
        again = fork_command(*command, "-o", tmp_path / folder, errors=errors)
        assert again.wait() == 0, errors.read_text()
    one, two = (tmp_path / folder / "de.txt" for folder in ("killed", "whole"))
    assert one.read_bytes() == two.read_bytes()


class TestKeepSimilar:
    def test_far_ones_are_listed_apart(self, tmp_path: Path) -> None:
        texts, back = tmp_path / "texts.txt", tmp_path / "pt.txt"
        texts.write_text("A 0\n\nA 10\nA 20\nA 30\n")
        back.write_text("b 5\n\nA 10\nb 90\nb 75\n")
        trip = RoundTrip("pt", back, 5, 1)
        kept = keep_similar(texts, trip, Placed(by_angle), above=0.8, progress=False)
        assert (kept.kept, kept.unchanged, kept.below, kept.blank) == (2, 1, 2, 1)
        assert kept.pairs.read_text() == "anchor\tpositive\nA 0\tb 5\nA 10\tA 10\n"
        header, *rows = kept.dropped.read_text().splitlines()
        assert header == "similarity\tanchor\tpositive"
        assert rows == ["0.3420\tA 20\tb 90", "0.7071\tA 30\tb 75"]
        cosines = np.cos(np.deg2rad([5, 0, 70, 45]))
        assert kept.mean == pytest.approx(cosines.mean())

    def test_what_was_kept_is_a_file_of_positive_pairs(self, tmp_path: Path) -> None:
        texts, back = tmp_path / "texts.txt", tmp_path / "pt.txt"
        texts.write_text("A 0\nA 50\n")
        back.write_text("b 5\nb 55\n")
        kept = keep_similar(texts, RoundTrip("pt", back, 2, 0), Placed(by_angle), above=0.8)
        rows = [*iter_rows(kept.pairs, PositivePair)]
        assert [(row.anchor, row.positive) for row in rows] == [("A 0", "b 5"), ("A 50", "b 55")]

    def test_a_threshold_is_a_cosine(self, tmp_path: Path) -> None:
        trip = RoundTrip("pt", tmp_path / "pt.txt", 1, 0)
        with pytest.raises(TertiumError, match="between -1 and 1"):
            keep_similar(tmp_path / "texts.txt", trip, Placed(by_angle), above=1.2)


class TestProgram:
    def test_a_program_translates_line_by_line(self, texts: Path, tmp_path: Path) -> None:
        program = f"{sys.executable} -c 'import sys; print(sys.stdin.read().upper(), end=\"\")'"
        trip = round_trip(texts, tmp_path / "out", "pt", program=program)
        assert lines(trip.file) == [line.upper() for line in LINES]
        record = json.loads((tmp_path / "out" / "pt.json").read_text())
        assert record["engine"] == "program" and record["to"] == program
        with pytest.raises(TertiumError, match="made with another"):
            round_trip(texts, tmp_path / "out", "pt", program="cat")

    @pytest.mark.parametrize(
        ("program", "said"),
        [
            ("no-such-program", "does not start"),
            ("false", "failed: no message"),
            ("head -1", "read 4 lines and wrote 1"),
        ],
    )
    def test_mistakes(self, texts: Path, tmp_path: Path, program: str, said: str) -> None:
        with pytest.raises(TertiumError, match=said):
            round_trip(texts, tmp_path / "out", "pt", program=program)

    def test_it_is_the_only_translator(self, texts: Path, tmp_path: Path) -> None:
        with pytest.raises(TertiumError, match="leave out --to, --from and --translator"):
            round_trip(texts, tmp_path / "out", "pt", program="cat", to="x")
        with pytest.raises(TertiumError, match="ctranslate2"):
            round_trip(texts, tmp_path / "out", "de", engine="ctranslat")


@pytest.mark.filterwarnings("ignore::tertium.models.tokens.TruncationWarning")
def test_ctranslate2_runs_the_same_model(
    models: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    trip = round_trip(texts, tmp_path / "out", "de", **options(models), engine="ctranslate2")
    assert len(lines(trip.file)) == len(LINES) and all(lines(trip.file))
    converted = [*(tmp_path / "cache" / "ctranslate2").iterdir()]
    assert len(converted) == 2 and all((folder / "model.bin").exists() for folder in converted)


def test_without_ctranslate2_it_says_how_to_install_it(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator, "find_spec", lambda name: None)
    with pytest.raises(TertiumError, match="pip install ctranslate2"):
        translator.CTranslate2Translator.load(models / "en-de")
