import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from torch import nn
from torch.testing import assert_close

import tertium
from tertium.data.tables import DataError
from tertium.errors import ModelNotFoundError, TertiumError, TertiumWarning
from tertium.heads import HEADS, PairHead
from tertium.models import Encoder, PairScorer
from tertium.objectives import OBJECTIVES
from tertium.recipes import build
from tertium.recipes import train as module
from tertium.recipes.build import build_encoder
from tertium.recipes.files import read_recipe, recipe_names
from tertium.recipes.schema import Recipe
from tertium.recipes.train import train
from tertium.training.stage import StageTrainer
from tertium.types import Tokens
from tertium.views import VIEWS
from tests.fakes import tiny_model
from tests.recipes.combinations import once_per_combination
from tests.recipes.toys import (
    contrast_stage,
    toy_grader,
    toy_pairs,
    toy_recipe,
    toy_stage,
    toy_text_file,
)
from tests.training.toys import StoppedError

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::tertium.errors.TertiumWarning"),
]

# Names under which the log shows a term.
TERMS = {*OBJECTIVES, "contrast", "attraction", "tension"}

PAIRS = [("a b c", "a b c"), ("a b", "x y z"), ("the cat sleeps .", "the dog barks .")]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def same_weights(one: Path, two: Path) -> bool:
    a, b = load_file(one / "model.safetensors"), load_file(two / "model.safetensors")
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# every recipe that comes with tertium


CONDITIONAL = [name for name in recipe_names() if read_recipe(name).stages[-1].head is not None]


def tiny_settings(recipe: Recipe, bert: Path, roberta: Path, folder: Path) -> dict[str, Any]:
    """A tiny model in the place of every model, and two steps of every stage."""
    tiny = roberta if "roberta" in recipe.encoder.model else bert
    if recipe.encoder.towers == 2:  # as many layers as the numbers of crossings divide
        architecture = "roberta" if tiny == roberta else "bert"
        tiny = tiny_model(folder / "tiny", architecture, layers=6)
    settings: dict[str, Any] = {"encoder.model": str(tiny)}
    if recipe.encoder.freeze_layers:
        settings["encoder.freeze_layers"] = 1
    for stage in recipe.stages:
        place = f"stages.{stage.name}"
        settings |= {f"{place}.train.max_steps": 2, f"{place}.train.batch_size": 8}
        settings |= {f"{place}.select.every": 2} if stage.select else {}
        settings[f"{place}.train.precision"] = "float32"
        settings[f"{place}.train.checkpoint_every"] = 2
        if any(source.file is not None for source in stage.data.sources):
            known = {"texts": "wiki", "graded": "STS-B"}.get(stage.data.kind, "NLI-triplets")
            settings[f"{place}.data.sources"] = [{"name": known}]
        if any("layers" in objective.chosen() for objective in stage.objectives):
            settings[f"{place}.objectives.attention_mi.layers"] = "1:3"
        if stage.teacher is not None:
            teacher = folder / "teacher" if stage.head else tiny
            if stage.head:
                toy_grader(teacher, tiny)
            settings[f"{place}.teacher.models"] = [str(teacher)] * len(stage.teacher.models)
        if stage.head is not None and stage.head.takes("length"):
            settings |= {"encoder.max_length": 48, f"{place}.head.length": 48}
    return settings


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_built(
    name: str, tiny_bert: Path, tiny_roberta: Path, benchmarks_folder: Path, tmp_path: Path
) -> None:
    recipe = read_recipe(name)
    recipe = read_recipe(recipe, settings=tiny_settings(recipe, tiny_bert, tiny_roberta, tmp_path))
    encoder = build_encoder(recipe.encoder)
    for stage in recipe.stages:
        material = module._load(stage, benchmarks_folder)
        built = build.build_module(stage, material, build.stage_encoder(stage, encoder))
        assert [*built.objectives] == [objective.kind for objective in stage.objectives]
        assert [type(view) for view in built.views] == [VIEWS[view.kind] for view in stage.views]
        headed = any(o.declares.needs_head == "pair" for o in stage.objectives)
        assert (built.trained_head is None) == (stage.head is None and not headed)
        assert build.build_schedule(stage).max_steps == 2


@pytest.mark.parametrize("name", once_per_combination({*recipe_names()} - {*CONDITIONAL}))
def test_every_recipe_takes_two_steps(
    name: str, tiny_bert: Path, tiny_roberta: Path, benchmarks_folder: Path, tmp_path: Path
) -> None:
    recipe = read_recipe(name)
    settings = tiny_settings(recipe, tiny_bert, tiny_roberta, tmp_path)
    recipe = read_recipe(name, settings=settings)
    trained = train(
        name,
        tmp_path / "model",
        data=benchmarks_folder,
        settings=settings,
        evaluate_after=False,
        progress=False,
    )
    assert list(trained.log) == [stage.name for stage in recipe.stages]
    for stage in recipe.stages:
        entries = [entry for entry in trained.log[stage.name] if "loss" in entry]
        assert entries[-1]["step"] == 2
        assert np.isfinite(list(entries[-1].values())).all()
        assert len(entries[-1].keys() & TERMS) == len(stage.objectives)
        measured = any("eval_score" in entry for entry in trained.log[stage.name])
        assert measured == (stage.select is not None)
    model = tertium.load(tmp_path / "model", engine="torch")
    low, high = -1.0, 1.0
    last = recipe.stages[-1]
    headed = any(o.declares.needs_head == "pair" for o in last.objectives)
    graded = last.data.labels if headed or last.head else None  # to rank is not to grade
    assert isinstance(model, Encoder if graded is None else PairScorer)
    if graded is not None:
        low, high = graded.build().low, graded.build().high
    assert model.scale == (low, high)
    scores = model.score(PAIRS)
    assert ((scores >= low) & (scores <= high)).all()
    assert {(d.name, d.split) for d in model.training_data} >= {
        (s.name, s.split) for stage in recipe.stages for s in stage.data.sources
    }


# a head of one's own


class ScaledHead(PairHead):
    """The cosine on the labels' scale, times a factor that the recipe must say."""

    def __init__(self, *, dimension: int, high: float = 1.0, factor: float) -> None:
        super().__init__()
        self.settings = {"high": high, "factor": factor}
        self.slope = nn.Parameter(torch.full((dimension,), high * factor))

    def forward(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self.slope.mean() * torch.cosine_similarity(u, v)[:, None]

    def config(self) -> dict[str, Any]:
        return {"kind": "scaled", **self.settings}


def test_a_registered_head_is_built_with_its_own_settings(
    tiny_bert: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(HEADS, "scaled", ScaledHead)
    stage = toy_stage(pairs)
    stage["objectives"] = [{"kind": "l1", "head": "scaled", "factor": "2.5e-1"}]
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    train(recipe, tmp_path / "model", evaluate_after=False, progress=False)
    model = tertium.load(tmp_path / "model", engine="torch")
    assert isinstance(model, PairScorer) and isinstance(model.head, ScaledHead)
    assert model.head.settings == {"high": 5.0, "factor": 0.25}
    for wrong, message in (
        ({"kind": "l1", "head": "scaled"}, "scaled: factor: Field required"),
        ({"kind": "l1", "head": "scaled", "factor": "much"}, "scaled: factor: Input should be"),
        ({"kind": "l1", "head": "scaled", "factor": 1, "high": 3}, "has a setting high"),
        ({"kind": "cross_entropy", "head": "scaled", "factor": 1}, "needs a head with several"),
    ):
        stage["objectives"] = [wrong]
        with pytest.raises(TertiumError, match=message):
            read_recipe(toy_recipe(tmp_path / "wrong.yaml", tiny_bert, stage))


# what a run leaves


def test_a_run_leaves_a_model_its_card_and_its_log(
    tiny_bert: Path, benchmarks_folder: Path, pairs: Path, tmp_path: Path
) -> None:
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(pairs))
    trained = train(
        recipe, tmp_path / "model", data=benchmarks_folder, command="tertium train toy", seed=5
    )
    assert trained.report is not None
    found = files(trained.folder)
    assert {"README.md", "report.json", "tertium.json", "head.safetensors"} <= set(found)
    assert "run/recipe.yaml" in found and "run/0-own/finished.json" in found
    assert not any("checkpoint" in name for name in found)
    card = (trained.folder / "README.md").read_text("utf-8")
    assert "# a toy" in card and "Made by `tertium train toy`" in card and "STS-B" in card
    assert "the user's own" in card
    average = trained.report.to_json()["results"]["sts"]["average"]
    report = json.loads((trained.folder / "report.json").read_text())
    assert report["results"]["sts"]["average"] == average
    metadata = ModelCard.load(trained.folder / "README.md").data
    assert metadata.model_name == "model" and metadata.library_name == "sentence-transformers"
    kinds = {(entry.task_type, entry.metric_type) for entry in metadata.eval_results or []}
    assert kinds == {("sentence-similarity", "spearman")}
    values = {entry.dataset_name: entry.metric_value for entry in metadata.eval_results or []}
    tasks = report["results"]["sts"]["tasks"].items()
    assert values == {name: round(found["spearman"], 2) for name, found in tasks}
    record = yaml.safe_load((trained.folder / "run" / "recipe.yaml").read_text())
    assert record["stages"][0]["train"]["seed"] == 5
    again = tertium.evaluate(tertium.load(trained.folder, engine="torch"), data=benchmarks_folder)
    assert again.to_json()["results"]["sts"]["average"] == average  # to the last digit


def test_what_the_start_had_seen_is_remembered(
    tiny_bert: Path, benchmarks_folder: Path, pairs: Path, tmp_path: Path
) -> None:
    stage = toy_stage(pairs, "stsb")
    stage["data"]["sources"] = [{"name": "STS-B"}]
    first = toy_recipe(tmp_path / "first.yaml", tiny_bert, stage)
    train(first, tmp_path / "one", data=benchmarks_folder, evaluate_after=False)
    second = toy_recipe(tmp_path / "second.yaml", tmp_path / "one", toy_stage(pairs))
    train(second, tmp_path / "two", data=benchmarks_folder, evaluate_after=False)
    seen = tertium.load(tmp_path / "two", engine="torch").training_data
    assert [data.name for data in seen] == ["STS-B", str(pairs)]


def test_without_benchmark_data_there_is_no_report(
    tiny_bert: Path, pairs: Path, tmp_path: Path
) -> None:
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(pairs))
    assert train(recipe, tmp_path / "model").report is None


def test_limits_and_rounding(tiny_bert: Path, tmp_path: Path) -> None:
    stage = toy_stage(toy_pairs(tmp_path / "p.tsv", *(0.4 * at for at in range(12))))
    stage["data"]["limit"] = 6
    stage["data"]["labels"]["round"] = True
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage))
    material = module.load_examples(recipe.stages[0], folder=None)
    other = module.load_examples(recipe.stages[0], folder=None)
    assert len(material.examples) == 6
    assert material.examples == other.examples  # every seed trains on the same pairs
    assert all(value == round(value) for value in material.examples.labels or [])


def test_scales_are_mapped_linearly(
    benchmarks_folder: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    stage = toy_stage(Path("x"))
    stage["data"]["sources"] = [{"name": "SICK-R"}]
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage))
    material = module.load_examples(recipe.stages[0], folder=benchmarks_folder)
    rows = (benchmarks_folder / "sick_raw.tsv").read_text().splitlines()[1:13]
    expected = [5 * (float(row.split("\t")[2]) - 1) / 4 for row in rows]
    assert material.examples.labels == pytest.approx(expected)


# resuming


def test_an_interrupted_run_ends_in_the_same_weights(
    tiny_bert: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [toy_stage(pairs, name, max_steps=3, checkpoint_every=1) for name in ("one", "two")]
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, *stages)
    train(recipe, tmp_path / "whole")
    original, steps = StageTrainer.compute_loss, iter(range(1, 100))

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if next(steps) in (2, 6):
            raise StoppedError
        return original(*arguments, **options)

    monkeypatch.setattr(StageTrainer, "compute_loss", interrupted)
    for resume in (False, True):  # in the first stage, then in the second
        with pytest.raises(StoppedError):
            train(recipe, tmp_path / "parts", resume=resume)
        assert not (tmp_path / "parts" / "tertium.json").exists()
        assert float((tmp_path / "parts" / "run" / "seconds.txt").read_text()) > 0
    train(recipe, tmp_path / "parts", resume=True)
    assert same_weights(tmp_path / "whole", tmp_path / "parts")
    whole, parts = (
        tertium.load(tmp_path / "whole", engine="torch"),
        tertium.load(tmp_path / "parts", engine="torch"),
    )
    np.testing.assert_array_equal(whole.score(PAIRS), parts.score(PAIRS))


def test_the_time_of_a_killed_call_counts_up_to_its_last_checkpoint(
    tiny_bert: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = toy_stage(pairs, max_steps=3, checkpoint_every=1)
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    original, steps = StageTrainer.compute_loss, iter(range(1, 100))

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if next(steps) == 3:
            raise StoppedError
        return original(*arguments, **options)

    monkeypatch.setattr(StageTrainer, "compute_loss", interrupted)
    with pytest.raises(StoppedError):
        train(recipe, tmp_path / "model")
    run = tmp_path / "model" / "run"
    last = max(folder.stat().st_mtime for folder in run.glob("*/checkpoint-*"))
    (run / "seconds.txt").write_text("7.0")  # as a call leaves it that SIGKILL ends
    os.utime(run / "seconds.txt", (last - 100, last - 100))
    assert 107 <= train(recipe, tmp_path / "model", resume=True).seconds < 200


def test_finished_stages_are_skipped(
    tiny_bert: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = toy_recipe(
        tmp_path / "toy.yaml", tiny_bert, toy_stage(pairs, "one"), toy_stage(pairs, "two")
    )
    begun: list[str] = []
    original = module.train_stage

    def spy(model: Any, examples: Any, schedule: Any, folder: Path, **options: Any) -> Any:
        begun.append(folder.name)
        if begun == ["0-one", "1-two"]:
            raise StoppedError
        return original(model, examples, schedule, folder, **options)

    monkeypatch.setattr(module, "train_stage", spy)
    with pytest.raises(StoppedError):
        train(recipe, tmp_path / "model")
    trained = train(recipe, tmp_path / "model", resume=True)
    assert begun == ["0-one", "1-two", "1-two"]
    assert list(trained.log) == ["one", "two"] and trained.log["one"]
    train(recipe, tmp_path / "model", resume=True)  # all is finished: nothing is trained
    assert len(begun) == 3


def test_a_folder_that_holds_a_run(tiny_bert: Path, pairs: Path, tmp_path: Path) -> None:
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(pairs))
    train(recipe, tmp_path / "model")
    before = files(tmp_path / "model")
    with pytest.raises(TertiumError, match=r"holds a run already.*--resume"):
        train(recipe, tmp_path / "model")
    with pytest.raises(TertiumError, match="a run resumes with its own recipe"):
        train(recipe, tmp_path / "model", resume=True, seed=8)
    assert files(tmp_path / "model") == before


@pytest.mark.attack
def test_a_second_run_into_the_folder_is_refused_and_names_the_first(
    tiny_bert: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(pairs))
    run_stage = module._run_stage

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        for resume in (False, True):
            with pytest.raises(TertiumError, match=rf"model is in use by process {os.getpid()} on"):
                train(recipe, tmp_path / "model", resume=resume)
        return run_stage(*args, **kwargs)

    monkeypatch.setattr(module, "_run_stage", meanwhile)
    train(recipe, tmp_path / "model")
    assert not (tmp_path / "model" / "run" / ".lock").exists()


def test_resuming_what_never_began_begins(tiny_bert: Path, pairs: Path, tmp_path: Path) -> None:
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(pairs))
    train(recipe, tmp_path / "model", resume=True)
    assert (tmp_path / "model" / "tertium.json").exists()


def test_a_run_that_an_earlier_version_began_resumes(
    tiny_bert: Path, pairs: Path, tmp_path: Path
) -> None:
    """It wrote settings of heads beside their names."""
    stage = toy_stage(pairs)
    stage["objectives"] = [{"kind": "l1", "head": {"kind": "siamese", "features": ["u", "v"]}}]
    content = {"summary": "a toy", "encoder": {"model": str(tiny_bert)}, "stages": [stage]}
    trained = train(content, tmp_path / "model")
    stage["objectives"] = [{"kind": "l1", "head": "siamese", "features": ["u", "v"]}]
    path = trained.folder / "run" / "recipe.yaml"
    path.write_text(yaml.safe_dump({**content, "stages": [stage]}))
    assert train(content, tmp_path / "model", resume=True).log == trained.log
    path.write_text("stages: none")
    with pytest.raises(TertiumError, match="a run resumes with its own recipe"):
        train(content, tmp_path / "model", resume=True)


# single texts


def test_a_contrastive_run_leaves_an_encoder_alone(tiny_bert: Path, tmp_path: Path) -> None:
    texts = toy_text_file(tmp_path / "own.txt")
    stage = contrast_stage(texts, projection="mlp")
    stage["objectives"].append({"kind": "masked_lm", "weight": 0.1})
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    trained = train(recipe, tmp_path / "model")
    assert trained.log["contrast"][0].keys() >= {"loss", "contrast", "masked_lm"}
    model = tertium.load(trained.folder, engine="torch")
    assert isinstance(model, Encoder) and model.scale == (-1.0, 1.0)
    assert [(data.name, data.use) for data in model.training_data] == [(str(texts), "training")]
    # Neither the projection nor the language-model head is part of the model.
    names, before = (
        load_file(folder / "model.safetensors") for folder in (trained.folder, tiny_bert)
    )
    assert names.keys() == before.keys()
    assert not all(torch.equal(names[name], before[name]) for name in names)
    kept = load_file(trained.folder / "run" / "0-contrast" / "model.safetensors")
    assert {name.partition(".")[0] for name in kept} == {"model", "projection", "objectives"}


def test_an_interrupted_contrastive_run_ends_in_the_same_weights(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = contrast_stage(
        toy_text_file(tmp_path / "own.txt"),
        views=[
            {"kind": "add", "rate": "dynamic", "t": 3, "scores_from": "frozen"},
            {"kind": "span_mask", "characters": 2},
        ],
        projection="mlp",
        objectives=[{"kind": "nt_xent"}, {"kind": "masked_lm", "weight": 0.1}],
    )
    stage["train"]["max_steps"] = 5  # more than an epoch
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    train(recipe, tmp_path / "whole")
    original, steps = StageTrainer.compute_loss, iter(range(1, 100))

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if next(steps) in (3, 6):
            raise StoppedError
        return original(*arguments, **options)

    monkeypatch.setattr(StageTrainer, "compute_loss", interrupted)
    for resume in (False, True):
        with pytest.raises(StoppedError):
            train(recipe, tmp_path / "parts", resume=resume)
    train(recipe, tmp_path / "parts", resume=True)
    assert same_weights(tmp_path / "whole", tmp_path / "parts")
    place = Path("run") / "0-contrast"
    assert same_weights(tmp_path / "whole" / place, tmp_path / "parts" / place)


def test_an_interrupted_run_of_micse_ends_in_the_same_weights(
    tiny_bert: Path, benchmarks_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {
        "data": benchmarks_folder,
        "evaluate_after": False,
        "settings": {
            "encoder.model": str(tiny_bert),
            "stages.contrast.momentum.queue": 20,  # no multiple of the batch
            "stages.contrast.objectives.attention_mi.samples": 40,
            "stages.contrast.train.batch_size": 8,
            "stages.contrast.train.max_steps": 5,  # more than an epoch
            "stages.contrast.select.every": 1,
        },
    }
    train("micse-minilm", tmp_path / "whole", **options)
    original, steps = StageTrainer.compute_loss, iter(range(1, 100))

    def interrupted(*arguments: Any, **named: Any) -> Any:
        if next(steps) in (3, 6):
            raise StoppedError
        return original(*arguments, **named)

    monkeypatch.setattr(StageTrainer, "compute_loss", interrupted)
    for resume in (False, True):
        with pytest.raises(StoppedError):
            train("micse-minilm", tmp_path / "parts", resume=resume, **options)
    train("micse-minilm", tmp_path / "parts", resume=True, **options)
    assert same_weights(tmp_path / "whole", tmp_path / "parts")
    place = Path("run") / "0-contrast"
    assert same_weights(tmp_path / "whole" / place, tmp_path / "parts" / place)
    kept = load_file(tmp_path / "whole" / place / "model.safetensors")
    assert {name.partition(".")[0] for name in kept} == {"model", "projection", "momentum"}
    # Neither queue nor slow encoder is part of the model.
    saved, before = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "whole", tiny_bert)
    )
    assert saved.keys() == before.keys()


def test_a_run_records_its_data(tiny_bert: Path, pairs: Path, tmp_path: Path) -> None:
    texts = toy_text_file(tmp_path / "own.txt", 40)
    stage = contrast_stage(texts)
    stage["data"] |= {"limit": 16, "subset": "by-seed"}
    stage["train"]["max_steps"] = 1
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage, toy_stage(pairs, max_steps=1))
    train(recipe, tmp_path / "model", seed=1)
    recorded = json.loads((tmp_path / "model" / "run" / "data.json").read_text())
    one, two = (read_recipe(recipe, seed=seed).stages for seed in (1, 2))
    (contrast, own), (other, _) = (
        [module.load_examples(stage, folder=None).digest for stage in stages]
        for stages in (one, two)
    )
    assert contrast != other
    assert recorded == {
        "contrast": {
            "examples": 16,
            "sha256": contrast,
            "amount": {"used": 16, "of": 16, "unit": "sentences", "short": False},
        },
        "own": {
            "examples": 12,
            "sha256": own,
            "amount": {"used": 12, "of": None, "unit": "pairs", "short": False},
        },
    }


def test_rows_of_padding_are_there_where_an_objective_counts_them(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = toy_text_file(tmp_path / "own.txt")
    given = []
    monkeypatch.setattr(build, "TrainingModule", lambda *_, **named: given.append(named))
    for counted in (False, True):
        objective = {"kind": "attention_mi", "count_padding_queries": counted}
        stage = contrast_stage(texts, objectives=[{"kind": "info_nce"}, objective])
        recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage))
        material = module.load_examples(recipe.stages[0], folder=None)
        build.build_module(recipe.stages[0], material, build_encoder(recipe.encoder))
    by_length, together = (named["tokens_per_pass"] for named in given)
    assert by_length is not None and together is None


def test_tension_keeps_the_second_copy(tiny_bert: Path, tmp_path: Path) -> None:
    stage = contrast_stage(
        toy_text_file(tmp_path / "own.txt"),
        views=[],
        objectives=[{"kind": "contrastive_tension", "negatives": 3}],
    )
    train(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage), tmp_path / "model")
    saved = load_file(tmp_path / "model" / "model.safetensors")
    both = load_file(tmp_path / "model" / "run" / "0-contrast" / "model.safetensors")
    copies = [
        {name.rpartition(".model.")[2]: tensor for name, tensor in both.items() if name[0] == side}
        for side in "mp"  # model, partner_model
    ]
    for name, tensor in saved.items():
        own, other = (copy[name] for copy in copies)
        assert torch.equal(tensor, own), name
        assert torch.equal(own, other) == ("pooler" in name), name  # which nothing trains


def test_scores_come_from_the_model_or_from_a_frozen_copy(tiny_bert: Path, tmp_path: Path) -> None:
    texts = toy_text_file(tmp_path / "own.txt")
    for scores_from, follows in (("model", True), ("frozen", False)):
        stage = contrast_stage(texts, views=[{"kind": "add", "scores_from": scores_from}])
        recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage))
        encoder = build_encoder(recipe.encoder)
        material = module.load_examples(recipe.stages[0], folder=None)
        built = module.build_module(recipe.stages[0], material, encoder)
        features = encoder.features(["a b c"])
        tokens = Tokens(features["input_ids"], features["attention_mask"])
        before = built.attend(tokens)
        with torch.no_grad():
            for parameter in encoder.model.parameters():
                parameter.mul_(0.5)
        assert torch.equal(built.attend(tokens), before) != follows


def test_without_benchmark_data_held_out_texts_choose_the_checkpoint(
    tiny_bert: Path, tmp_path: Path
) -> None:
    texts = tmp_path / "own.txt"
    words = "abcdefghijklmnopqrstuvwxyz"
    texts.write_text("\n".join(f"{x} {y} {x}" for x in words[:10] for y in words[:10]))
    stage = contrast_stage(texts, select={"task": "STS-B", "every": 250})
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    with pytest.warns(TertiumWarning, match="held out choose it, without labels"):
        trained = train(recipe, tmp_path / "model")
    (measured,) = [entry for entry in trained.log["contrast"] if "eval_score" in entry]
    assert measured["eval_score"] < 0 and measured["step"] == 2
    seen = tertium.load(trained.folder, engine="torch").training_data
    assert [data.name for data in seen] == [str(texts)]  # no benchmark was looked at


def test_without_benchmark_data_held_out_pairs_choose_the_checkpoint(
    tiny_bert: Path, tmp_path: Path
) -> None:
    words = "abcdefghijklmnopqrstuvwxyz"[:12]
    rows = [f"{x} {y}\t{y} {x} {x}\t{at % 6}" for x in words for at, y in enumerate(words)]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")
    stage = {**toy_stage(pairs), "select": {"task": "STS-B", "every": 250}}
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    with pytest.warns(TertiumWarning, match="a tenth of the pairs is held out"):
        trained = train(recipe, tmp_path / "model")
    (measured,) = [entry for entry in trained.log["own"] if "eval_score" in entry]
    assert -100 <= measured["eval_score"] <= 100
    card = (trained.folder / "README.md").read_text("utf-8")
    assert "graded pairs, held out and not trained on." in card
    seen = tertium.load(trained.folder, engine="torch").training_data
    assert [data.name for data in seen] == [str(pairs)]  # no benchmark was looked at


# bad data leave nothing


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sentence1\tsentence2\tscore\na\tb\t1\nc\td\t7.5\n", r"pairs\.tsv:3.*7\.5.*from 0 to 5"),
        ("sentence1\tsentence2\tscore\na\tb\t1\nc\td\t-1\n", "from 0 to 5"),
        ("sentence1\tsentence2\tscore\na\tb\t1\nc\td\tnan\n", "finite number"),
        ("sentence1\tsentence2\tscore\na\tb\t1\nc\td\thigh\n", "write a number"),
        ("sentence1\tsentence2\tscore\na\tb\t3\nc\td\t3\n", "All 2 labels are equal"),
        ("", "no rows|empty"),
        ("sentence1\tsentence2\tscore\n", "no rows"),
        ("sentence1\tsentence2\na\tb\n", "score"),
        ("sentence1\tscore\na\t3\n", "sentence2"),
        (None, "no such file"),
    ],
)
def test_bad_pairs_are_explained_and_leave_nothing(
    content: str | None, message: str, tiny_bert: Path, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.tsv"
    if content is not None:
        path.write_text(content)
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(path))
    with pytest.raises(TertiumError, match=message):
        train(recipe, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_line_of_json_is_counted_from_one(tiny_bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"sentence1": "a", "sentence2": "b", "score": score} for score in (1, 9)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(path))
    with pytest.raises(DataError, match=r"pairs\.jsonl:2"):
        train(recipe, tmp_path / "model")


def test_labels_of_the_wrong_kind_and_a_missing_model_leave_nothing(
    tiny_bert: Path, pairs: Path, benchmarks_folder: Path, tmp_path: Path
) -> None:
    stage = toy_stage(pairs)
    stage["data"] = {
        "sources": [{"name": "STS-B"}],
        "labels": {"names": ["contradiction", "neutral", "entailment"]},
    }
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    with pytest.raises(TertiumError, match="STS-B holds GradedPair rows"):
        train(recipe, tmp_path / "model", data=benchmarks_folder)
    recipe = toy_recipe(tmp_path / "toy.yaml", Path("./nowhere"), toy_stage(pairs))
    with pytest.raises(ModelNotFoundError):
        train(recipe, tmp_path / "model")
    assert not (tmp_path / "model").exists()


# adapters


@pytest.mark.parametrize("head", ["cosine", "siamese"])
def test_an_adapter_is_the_merged_model(
    head: str,
    tiny_bert: Path,
    pairs: Path,
    tmp_path: Path,
    reserve: Callable[[str, Path], str],
) -> None:
    stage = toy_stage(pairs, learning_rate=0.01)
    stage["objectives"][0]["head"] = head
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    settings = {
        "encoder.freeze": "embeddings",
        "encoder.adapter_rank": 2,
        "encoder.pooling": "cls",
        "encoder.normalize": True,
        "encoder.max_length": 16,
        "encoder.model": reserve("tiny", tiny_bert),
    }
    train(recipe, tmp_path / "model", settings=settings)
    merged, adapted = (
        tertium.load(tmp_path / "model", engine="torch"),
        tertium.load(tmp_path / "model" / "adapter", engine="torch"),
    )
    assert isinstance(adapted, PairScorer)
    np.testing.assert_allclose(adapted.score(PAIRS), merged.score(PAIRS), atol=1e-5)
    np.testing.assert_allclose(adapted.encode(["a b c"]), merged.encode(["a b c"]), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(adapted.encode("a b c")), 1, atol=1e-5)
    assert adapted.encoder.max_length == merged.encoder.max_length == 16
    assert adapted.training_data == merged.training_data
    changed = tertium.load(tiny_bert, engine="torch").encode(["a b c"], normalize=True)
    assert not np.allclose(changed, merged.encode(["a b c"]), atol=1e-3)
    size = sum(path.stat().st_size for path in (tmp_path / "model" / "adapter").iterdir())
    assert size < (tmp_path / "model" / "model.safetensors").stat().st_size


@pytest.mark.parametrize("layers", [None, 1, [1, 2]])
def test_the_adapter_of_a_student_is_the_student(
    layers: int | list[int] | None,
    tiny_bert: Path,
    tmp_path: Path,
    reserve: Callable[[str, Path], str],
) -> None:
    texts = toy_text_file(tmp_path / "texts.txt")
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, contrast_stage(texts))
    encoder = {"freeze": "embeddings", "adapter_rank": 3, "layers": layers}
    settings = {f"encoder.{name}": value for name, value in encoder.items()}
    settings["encoder.model"] = reserve("tiny", tiny_bert)
    train(recipe, tmp_path / "model", settings=settings)
    whole = tertium.load(tmp_path / "model", engine="torch")
    adapted = tertium.load(tmp_path / "model" / "adapter", engine="torch")
    light = tertium.load(tmp_path / "model" / "adapter")
    depth = len(layers) if isinstance(layers, list) else layers
    depth = depth or tertium.load(tiny_bert).backbone_config["num_hidden_layers"]
    assert adapted.encoder.backbone.config.num_hidden_layers == depth
    assert adapted.training_data == whole.training_data
    assert light.fingerprint == adapted.fingerprint
    for model in (adapted, light, light.encoder):
        np.testing.assert_allclose(model.encode("a b c"), whole.encode("a b c"), atol=1e-5)


def test_the_factor_leads_from_the_base_to_the_tuned_model(
    tiny_bert: Path, pairs: Path, tmp_path: Path, reserve: Callable[[str, Path], str]
) -> None:
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(pairs, learning_rate=0.01))
    base = tertium.load(tiny_bert, engine="torch").encoder.backbone
    settings: dict[str, Any] = {
        "encoder.freeze": "embeddings",
        "encoder.adapter_rank": 64,
        "encoder.model": reserve("tiny", tiny_bert),
    }
    moved = {}
    for factor in (1.0, 0.5):
        folder = tmp_path / str(factor)
        train(recipe, folder, settings={**settings, "encoder.adapter_factor": factor})
        tuned = tertium.load(folder / "adapter", engine="torch").encoder.backbone.state_dict()
        name = "encoder.layer.1.output.dense.weight"
        moved[factor] = tuned[name] - base.state_dict()[name]
    torch.testing.assert_close(moved[0.5], moved[1.0] / 2, atol=1e-5, rtol=1e-2)
    assert moved[1.0].abs().max() > 1e-3


@pytest.mark.filterwarnings("default::tertium.errors.TertiumWarning")
def test_an_adapter_is_not_saved_for_a_base_that_only_this_machine_has(
    tiny_bert: Path, pairs: Path, tmp_path: Path
) -> None:
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(pairs))
    settings = {"encoder.freeze": "embeddings", "encoder.adapter_rank": 2}
    with pytest.warns(TertiumWarning, match="No adapter is saved"):
        train(recipe, tmp_path / "model", settings=settings)
    assert not (tmp_path / "model" / "adapter").exists()
    assert isinstance(tertium.load(tmp_path / "model", engine="torch"), PairScorer)


def test_a_stage_may_keep_the_head_of_the_one_before(tiny_bert: Path, tmp_path: Path) -> None:
    pairs = toy_pairs(tmp_path / "own.tsv")
    siamese = [{"kind": "smooth_k2", "head": "siamese"}]
    stages = [
        {**toy_stage(pairs, "one", learning_rate=0.05), "objectives": siamese},
        {
            **toy_stage(pairs, "two", learning_rate=1e-12, seed=7),
            "objectives": siamese,
            "keep_head": True,
        },
    ]
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, *stages)
    train(recipe, tmp_path / "kept", evaluate_after=False, progress=False)
    fresh = {"stages.two.keep_head": False}
    train(recipe, tmp_path / "fresh", settings=fresh, evaluate_after=False, progress=False)
    heads = {
        (run, stage): _head(tmp_path / run / "run" / stage / "model.safetensors")
        for run in ("kept", "fresh")
        for stage in ("0-one", "1-two")
    }
    assert_close(heads["kept", "1-two"], heads["kept", "0-one"], atol=1e-6, rtol=0)
    assert not torch.allclose(heads["fresh", "1-two"], heads["fresh", "0-one"], atol=1e-3)


def _head(file: Path) -> torch.Tensor:
    found = load_file(file)
    return torch.cat([x.flatten() for name, x in sorted(found.items()) if ".head." in name])


@pytest.mark.parametrize("head", ["cosine", None])
def test_a_head_that_was_not_there_cannot_be_kept(head: str | None, tmp_path: Path) -> None:
    pairs, texts = toy_pairs(tmp_path / "own.tsv"), toy_text_file(tmp_path / "own.txt")
    before = contrast_stage(texts, "one") if head is None else toy_stage(pairs, "one")
    after = {
        **toy_stage(pairs, "two"),
        "objectives": [{"kind": "smooth_k2", "head": "siamese"}],
        "keep_head": True,
    }
    with pytest.raises(TertiumError, match="stage two: keep_head needs the same head"):
        read_recipe(toy_recipe(tmp_path / "toy.yaml", Path("default"), before, after))


def test_a_recipe_says_what_is_evaluated(
    tiny_bert: Path, benchmarks_folder: Path, tmp_path: Path
) -> None:
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(toy_pairs(tmp_path / "o.tsv")))
    chosen = {"evaluate": ["sts-short", "geometry"], "published_transfer": 86.1}
    output = tmp_path / "model"
    trained = train(recipe, output, data=benchmarks_folder, settings=chosen, progress=False)
    assert trained.report is not None
    assert [suite.suite for suite in trained.report.suites] == ["sts-short", "geometry"]
    assert "an average of 86.1" in (output / "README.md").read_text("utf-8")
    with pytest.raises(TertiumError, match="No suite 'sst'"):
        read_recipe(recipe, settings={"evaluate": ["sst"]})
