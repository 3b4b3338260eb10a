import json
import re
from pathlib import Path
from typing import Any

import pytest

from tertium.errors import TertiumError
from tertium.report import BuiltReport, build_report
from tertium.report import build as module
from tertium.report.page import Drawn
from tests.recipes.toys import toy_benchmarks, toy_text_file
from tests.report.test_page import outline

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:.*rows in.*are expected"),
    pytest.mark.filterwarnings("ignore:.*more than .* tokens"),
]

SENTENCE = "the dog barks , the cat sleeps ."


@pytest.fixture
def _sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty pictures: drawing takes most of the time, and other tests look at it."""

    def sketch(drawn: Drawn, folder: Path) -> str:
        folder.mkdir(exist_ok=True)
        for ending in ("png", "svg"):
            (folder / f"{drawn.name}.{ending}").write_text(drawn.title)
        return f'<svg role="img" id="{drawn.name}"></svg>'

    monkeypatch.setattr("tertium.report.page.save_figure", sketch)


def built(models: list[Path], output: Path, **options: Any) -> BuiltReport:
    return build_report(
        [str(model) for model in models], output, sentence=SENTENCE, resamples=30, **options
    )


def sections(found: BuiltReport) -> list[str]:
    return list(found.numbers["sections"])


def reasons(found: BuiltReport, section: str) -> str:
    return " ".join(
        f"{entry['model']}: {entry['reason']}"
        for entry in found.numbers["left_out"]
        if entry["section"] == section
    )


def test_one_model(tiny_bert: Path, pairs: Path, tmp_path: Path) -> None:
    found = built([tiny_bert], tmp_path / "report", pairs=[pairs])
    assert found.broken == () and found.page == tmp_path / "report" / "index.html"
    page = found.page.read_text(encoding="utf-8")
    shape = outline(page)
    assert len(shape.ids) == len(set(shape.ids))
    assert sections(found) == [
        *("models", "results", "scatter", "plane", "contrast", "attention", "energy"),
        *("views", "dropped", "gallery"),
    ]
    assert "a cosine, not a grade" in reasons(found, "calibration")
    assert "no model here takes conditions" in reasons(found, "conditions")
    assert "no runs were given" in reasons(found, "runs")
    assert "two transformer models" in reasons(found, "energy")
    files = {
        path.relative_to(tmp_path / "report").as_posix()
        for path in found.page.parent.rglob("*")
        if path.is_file()
    }
    assert files == set(found.numbers["files"])
    kept = json.loads((found.page.parent / "report.json").read_text(encoding="utf-8"))
    assert kept == json.loads(json.dumps(found.numbers))
    # every heading has something under it, every figure its caption, every table its own
    assert page.count("<figure") == page.count("<figcaption>") == page.count('role="img"')
    assert page.count("<table>") == page.count("<caption")
    for section in ("results", "made", "left-out"):
        assert f'<section id="{section}"' in page
    numbers = found.numbers["sections"]
    assert numbers["results"]["figures"][pairs.name]["tiny-bert"]["pairs"] == 12
    assert len(numbers["scatter"]["cosine"]["tiny-bert"]) == len(numbers["scatter"]["gold"]) == 12
    assert numbers["attention"]["maps"]["tiny-bert"]["tokens"][1] == "the"
    assert found.numbers["sets"][0]["sha256"] in page
    assert found.numbers["models"][0]["sha256"] in page


def test_three_models_are_compared(kinds: dict[str, Path], pairs: Path, tmp_path: Path) -> None:
    models = [kinds[name] for name in ("encoder", "pair", "twin")]
    found = built(models, tmp_path / "report", pairs=[pairs])
    assert found.broken == ()
    figures = found.numbers["sections"]["results"]["figures"][pairs.name]
    assert list(figures) == ["tiny-bert", "pair", "pair (score)", "twin"]
    differences = found.numbers["sections"]["results"]["differences"][pairs.name]
    assert len(differences) == 6
    assert all(0 < entry["p_value"] <= entry["p_holm"] <= 1 for entry in differences)
    assert "calibration" in sections(found)
    parts = found.numbers["sections"]["energy"]["layers"]
    assert list(parts) == ["tiny-bert", "pair", "twin, tower I", "twin, tower II"]
    assert set(found.numbers["sections"]["energy"]["against"]) == {"tiny-bert", "pair", "twin"}
    assert "figures/cls-energy-against-sts.svg" in found.numbers["files"]
    assert [entry["kind"] for entry in found.numbers["models"]] == ["encoder", "pair", "twin"]


@pytest.mark.usefixtures("_sketched")
def test_a_broken_model_does_not_spoil_the_others(
    tiny_bert: Path, tiny_roberta: Path, broken: Path, pairs: Path, tmp_path: Path
) -> None:
    found = built([tiny_bert, broken, tiny_roberta], tmp_path / "report", pairs=[pairs])
    (failure,) = found.broken
    assert (failure.model, failure.while_doing) == ("damaged", "loading")
    page = found.page.read_text(encoding="utf-8")
    assert '<section id="broken"' in page and "see “What failed” for damaged" in page
    assert "does not contain a model that can be loaded" in page or "damaged" in failure.error
    figures = found.numbers["sections"]["results"]["figures"][pairs.name]
    assert list(figures) == ["tiny-bert", "tiny-roberta"]
    assert [entry["model"] for entry in found.numbers["broken"]] == ["damaged"]


def test_only_broken_models_leave_nothing(broken: Path, pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match=r"no report\. damaged"):
        built([broken], tmp_path / "report", pairs=[pairs])
    assert not (tmp_path / "report").exists()
    assert [path.name for path in tmp_path.iterdir()] == [pairs.name]


@pytest.mark.usefixtures("_sketched")
def test_a_model_that_gives_nonsense_is_broken(
    tiny_bert: Path, tiny_roberta: Path, pairs: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    def load(name: str) -> Any:
        model = original(name)
        if name == str(tiny_roberta):
            for parameter in model.backbone.parameters():
                parameter.data.fill_(float("nan"))
        return model

    original = module.load
    monkeypatch.setattr(module, "load", load)
    found = built([tiny_bert, tiny_roberta], tmp_path / "report", pairs=[pairs])
    (failure,) = found.broken
    assert failure.while_doing == "measuring" and "not finite" in failure.error


@pytest.mark.usefixtures("_sketched")
def test_ensembles_and_static_models(kinds: dict[str, Path], pairs: Path, tmp_path: Path) -> None:
    found = built([kinds["ensemble"], kinds["static"]], tmp_path / "report", pairs=[pairs])
    assert found.broken == ()
    maps = found.numbers["sections"]["attention"]["maps"]
    assert list(maps) == ["ensemble, part 1", "ensemble, part 2"]
    assert "static: it is static: without a transformer" in reasons(found, "attention")
    ensemble, static = found.numbers["models"]
    assert (ensemble["kind"], static["kind"], static["pooling"]) == ("ensemble", "static", None)


def test_a_conditional_model_beside_an_encoder(
    kinds: dict[str, Path], pairs: Path, triples: Path, tmp_path: Path
) -> None:
    models = [kinds["conditional"], kinds["encoder"]]
    found = built(models, tmp_path / "report", pairs=[pairs, triples])
    assert found.broken == ()
    figures = found.numbers["sections"]["results"]["figures"]
    assert list(figures[pairs.name]) == ["tiny-bert"]
    assert list(figures[triples.name]) == ["conditional", "tiny-bert"]
    moved = found.numbers["sections"]["conditions"]["sensitivity"][triples.name]
    assert moved["tiny-bert"]["movement"] == 0 != moved["conditional"]["movement"]
    assert len(found.numbers["sections"]["conditions"]["focus"]) == 2
    assert "conditional: it has no embeddings" in reasons(found, "plane")
    assert "figures/focus-2.png" in found.numbers["files"]


@pytest.mark.usefixtures("_sketched")
def test_without_any_data(kinds: dict[str, Path], tmp_path: Path) -> None:
    found = built([kinds["conditional"]], tmp_path / "report")
    assert sections(found) == ["models", "attention", "energy", "views", "dropped", "conditions"]
    for section in ("results", "scatter", "plane", "gallery"):
        assert "--pairs FILE" in reasons(found, section)
    assert "sample sentences" in found.page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("_sketched")
def test_benchmarks_with_leaks_and_private_texts(
    kinds: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    data = toy_benchmarks(tmp_path / "data")
    models = [kinds["encoder"], kinds["conditional"]]
    found = built(
        models,
        tmp_path / "report",
        folder=data,
        benchmarks=["STS-B", "SICK-R", "C-STS"],
        texts=toy_text_file(tmp_path / "own.txt", 12),
    )
    figures = found.numbers["sections"]["results"]["figures"]
    assert list(figures) == ["average", "STS-B", "SICK-R", "C-STS"]
    assert found.numbers["sections"]["scatter"]["set"] == "STS-B"
    assert "first 12 of own.txt" in found.page.read_text(encoding="utf-8")
    shown = found.numbers["sections"]["conditions"]["focus"]
    assert [entry["triple"][2] for entry in shown] == ["the colour of the clothes"]  # not C-STS's


@pytest.mark.usefixtures("_sketched")
def test_a_report_takes_the_place_of_an_earlier_one(
    tiny_bert: Path, kinds: dict[str, Path], pairs: Path, tmp_path: Path
) -> None:
    output = tmp_path / "report"
    first = built([tiny_bert, kinds["twin"]], output, pairs=[pairs])
    (output / "notes.txt").write_text("mine")
    second = built([tiny_bert], output, pairs=[pairs])
    gone = set(first.numbers["files"]) - set(second.numbers["files"])
    assert gone and not any((output / file).exists() for file in gone)
    assert (output / "notes.txt").read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(TertiumError, match="not empty"):
        built([tiny_bert], other, pairs=[pairs])


@pytest.mark.usefixtures("_sketched")
def test_an_interruption_leaves_nothing(
    tiny_bert: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("tertium.report.page.render", interrupted)
    with pytest.raises(KeyboardInterrupt):
        built([tiny_bert], tmp_path / "report", pairs=[pairs])
    assert [path.name for path in tmp_path.iterdir()] == [pairs.name]


@pytest.mark.long
def test_the_same_twice_is_the_same(tiny_bert: Path, pairs: Path, tmp_path: Path) -> None:
    pages = []
    for name in ("a", "b"):
        found = built([tiny_bert], tmp_path / name, pairs=[pairs], command="tertium report")
        text = found.page.read_text(encoding="utf-8")
        pages.append(re.sub(r"\d{4}-\d\d-\d\d(T[\d:]+Z)?|[\d.]+ s<|>[\d.]+<", "", text))
    assert pages[0] == pages[1]


def test_names_must_differ(tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="each model only once"):
        built([tiny_bert, tiny_bert], tmp_path / "report")
