import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import tertium
from tertium.data.labels import OrderedLabels
from tertium.data.tables import DataError
from tertium.errors import TertiumError
from tertium.heads import CosineHead
from tertium.models import ConditionalScorer, CrossScorer, Encoder, Ensemble, PairScorer
from tertium.models.adapters import extract_adapter
from tertium.objectives import OBJECTIVES
from tertium.recipes.build import build_encoder, build_module
from tertium.recipes.files import RecipeError, read_recipe, recipe_names
from tertium.recipes.schema import EncoderSpec, TeacherSpec
from tertium.recipes.sweep import read_sweep
from tertium.recipes.teaching import grader_of, taught_triples, unlabelled_triples
from tertium.recipes.train import train
from tertium.recipes.triples import TripleData, fold_of, load_triples
from tertium.training.examples import TripleExamples
from tests.recipes.combinations import once_per_combination
from tests.recipes.toys import toy_grader, toy_recipe, toy_stage, toy_triples
from tests.training.toys import StoppedError, stop_at, stopped

pytestmark = pytest.mark.filterwarnings(
    "ignore:.* are expected:UserWarning", "ignore:.* less data:UserWarning"
)

CONDITIONAL = [
    name for name in recipe_names() if read_recipe(name).stages[-1].data.kind == "conditional"
]
TRIPLES = [
    ("a b c", "a b c", "the cat"),
    ("a b", "x y z", "the number of dogs"),
    ("the cat sleeps .", "the dog barks .", "sleeps"),
]


def triple_stage(file: Path, **parts: Any) -> dict[str, Any]:
    """A stage on a user's own triples; ``parts`` replace its own."""
    return {
        "name": "own",
        "data": {
            "kind": "conditional",
            "sources": [{"file": str(file)}],
            "labels": {"low": 1, "high": 5},
            "folds": {"count": 4, "held_out": 1},
        },
        "head": {"kind": "seaver"},
        "objectives": [{"kind": "mse"}],
        "train": {"max_steps": 4, "batch_size": 8, "learning_rate": 0.001, "checkpoint_every": 2},
        "select": {"task": "held-out", "every": 2},
        **parts,
    }


def material_of(folder: Path, model: Path, **parts: Any) -> TripleData:
    stage = triple_stage(toy_triples(folder / "own.csv"), **parts)
    recipe = read_recipe(toy_recipe(folder / "toy.yaml", model, stage))
    return load_triples(recipe.stages[0], folder=None)


# the recipes that come with tertium


def tiny_settings(name: str, tiny: Path | str, teacher: Path | None = None) -> dict[str, Any]:
    recipe = read_recipe(name)
    stage = recipe.stages[-1]
    head = stage.head
    assert head is not None
    place = "stages.csts"
    before = [f"stages.{earlier.name}.train" for earlier in recipe.stages[:-1]]
    return {
        "encoder.model": str(tiny),
        **({"encoder.freeze_layers": 1} if recipe.encoder.freeze_layers else {}),
        **{f"{train}.max_steps": 2 for train in before},
        **{f"{train}.batch_size": 8 for train in before},
        **({f"{place}.teacher.models": [str(teacher)]} if stage.teacher else {}),
        "encoder.max_length": 48,
        f"{place}.train.max_steps": 2,
        f"{place}.train.batch_size": 8,
        f"{place}.train.accumulate": 1,
        f"{place}.train.checkpoint_every": 1,
        **({f"{place}.select.every": 2} if stage.select else {}),
        **({f"{place}.data.folds.count": 3} if stage.data.folds else {}),
        **({f"{place}.head.length": 48} if head.takes("length") else {}),
    }


@pytest.mark.integration
@pytest.mark.parametrize("name", once_per_combination(CONDITIONAL))
def test_every_conditional_recipe_takes_two_steps(
    name: str,
    tiny_bert: Path,
    tiny_roberta: Path,
    benchmarks_folder: Path,
    tmp_path: Path,
    reserve: Callable[[str, Path], str],
) -> None:
    recipe = read_recipe(name)
    tiny = reserve("tiny", tiny_bert if name.endswith("minilm") else tiny_roberta)
    if recipe.stages[-1].teacher is not None:
        toy_grader(tmp_path / "teacher", tiny_bert)
    trained = train(
        name,
        tmp_path / "model",
        data=benchmarks_folder,
        settings=tiny_settings(name, tiny, tmp_path / "teacher"),
        progress=False,
    )
    entry = next(entry for entry in trained.log["csts"] if "loss" in entry)
    assert np.isfinite(list(entry.values())).all()
    assert len(entry.keys() & {*OBJECTIVES}) == len(recipe.stages[-1].objectives)
    chosen = any("eval_score" in entry for entry in trained.log["csts"])
    assert chosen == (recipe.stages[-1].select is not None)
    model = tertium.load(tmp_path / "model", engine="torch")
    assert isinstance(model, ConditionalScorer)
    assert model.scale == (1.0, 5.0)
    scores = model.score(TRIPLES)
    assert ((scores >= 1) & (scores <= 5)).all()
    assert trained.report is not None
    assert list(trained.report.to_json()["results"]) == ["csts"]
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert '("one text", "another", "in this respect")' in card
    assert "neither plain text nor password" in card


@pytest.mark.integration
@pytest.mark.parametrize(
    "sweep",
    ["csts-minilm", "csts-minilm-tries", "csts-encoders", "seaver-table5", "seaver-table7"],
)
def test_every_variant_of_the_sweeps_builds_and_steps(
    sweep: str, tiny_bert: Path, benchmarks_folder: Path
) -> None:
    found = read_sweep(sweep)
    for variant in found.variants():
        name = variant.recipe or found.recipe
        settings = {**found.settings_of(variant), **tiny_settings(name, tiny_bert)}
        recipe = read_recipe(name, settings=settings)
        stage = recipe.stages[0]
        material = load_triples(stage, folder=benchmarks_folder)
        module = build_module(stage, material, build_encoder(recipe.encoder))
        module.train()
        losses = module(**module.collator([material.examples[at] for at in range(4)]))
        losses["loss"].backward()
        assert len(losses) == 1 + len(stage.objectives)
        assert losses["loss"].isfinite()


def test_the_papers_settings() -> None:
    alphas = {"roberta": 0.0, "roberta-large": 2.0, "simcse": 2.0, "simcse-large": 3.0}
    for name, alpha in alphas.items():
        recipe = read_recipe(f"seaver-{name}")
        stage = recipe.stages[0]
        assert stage.head is not None and stage.head.settings()["alpha"] == alpha
        assert stage.head.settings()["regressor"] == "flatten"
        assert stage.train.batch_size * stage.train.accumulate == 64
        assert stage.train.clip is None and stage.data.folds is None
        assert recipe.published is not None
    assert {len(read_sweep(f"seaver-table{n}").variants()) for n in (5, 7)} == {16, 20}


# data


def test_both_conditions_of_a_pair_are_in_one_fold(tmp_path: Path, tiny_bert: Path) -> None:
    trained, held_out = [], []
    for fold in range(4):
        data = {"count": 4, "held_out": fold}
        stage = triple_stage(toy_triples(tmp_path / "own.csv"))
        stage["data"]["folds"] = data
        recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage))
        material = load_triples(recipe.stages[0], folder=None)
        pairs = {texts[:2] for texts in material.examples.texts}
        other = {row.texts[:2] for row in material.choosing}
        assert not pairs & other
        assert len(material.examples.texts) + len(material.choosing) == 48
        trained.append(pairs)
        held_out += [row.texts for row in material.choosing]
    assert len(set(held_out)) == len(held_out) == 48


def test_a_fold_does_not_depend_on_order_case_or_file() -> None:
    from tertium.data.overlap import pair_key

    one = fold_of(pair_key("A dog barks.", "It rains."), 7)
    assert one == fold_of(pair_key("it rains", "a dog barks"), 7)
    assert {fold_of(pair_key(f"{at}", "x"), 5) for at in range(100)} == {0, 1, 2, 3, 4}


def test_labels_go_from_0_to_1(tmp_path: Path, tiny_bert: Path) -> None:
    material = material_of(tmp_path, tiny_bert)
    assert isinstance(material.examples, TripleExamples)
    assert set(material.examples.labels or ()) == {0.0, 0.25, 0.75, 1.0}
    assert len(material.examples) == len(material.examples.texts)


def test_quadruplets_keep_the_conditions_of_a_pair_together(
    tmp_path: Path, tiny_bert: Path
) -> None:
    material = material_of(
        tmp_path, tiny_bert, head={"kind": "bi"}, objectives=[{"kind": "quadruplet"}]
    )
    assert isinstance(material.examples, TripleExamples)
    assert len(material.examples) < len(material.examples.texts)
    for at in range(len(material.examples)):
        group = material.examples[at]
        assert len(group) >= 2
        assert len({triple[:2] for triple, _ in group}) == 1


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_files_of_ones_own(ending: str, tmp_path: Path, tiny_bert: Path) -> None:
    file = toy_triples(tmp_path / f"own.{ending if ending != 'jsonl' else 'csv'}")
    if ending == "jsonl":
        rows = [
            {"sentence1": "a", "sentence2": "b", "aspect": "c", "rating": at % 5 + 1}
            for at in range(40)
        ]
        rows = [{**row, "sentence1": f"a {at}"} for at, row in enumerate(rows)]
        file = tmp_path / "own.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, triple_stage(file)))
    material = load_triples(recipe.stages[0], folder=None)
    assert len(material.examples.texts) + len(material.choosing) in (40, 48)
    assert material.seen[0].name == str(file)


@pytest.mark.parametrize("bad", ["0", "-1", "5.5", "nan", "high", ""])
def test_a_bad_label_names_its_row(bad: str, tmp_path: Path, tiny_bert: Path) -> None:
    scores: list[object] = [3, 4, bad, 2]
    file = toy_triples(tmp_path / "own.csv", *scores)
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, triple_stage(file)))
    with pytest.raises(DataError, match=r"own\.csv:4: column 'score'"):
        load_triples(recipe.stages[0], folder=None)


def test_hidden_labels_cannot_be_learned(
    tmp_path: Path, tiny_bert: Path, benchmarks_folder: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    toy_triples(folder / "csts_test.csv", *[-1] * 48)
    stage = triple_stage(tmp_path / "own.csv")
    stage["data"]["sources"] = [{"name": "C-STS", "split": "test"}]
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage))
    with pytest.raises(TertiumError, match="test part of C-STS hides its labels"):
        load_triples(recipe.stages[0], folder=folder)


def test_too_few_for_folds_and_equal_labels(tmp_path: Path, tiny_bert: Path) -> None:
    few = toy_triples(tmp_path / "few.csv", 1, 2)
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, triple_stage(few)))
    with pytest.raises(TertiumError, match="too few for 4 folds"):
        load_triples(recipe.stages[0], folder=None)
    equal = toy_triples(tmp_path / "equal.csv", *[3] * 40)
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, triple_stage(equal)))
    with pytest.raises(TertiumError, match="labels are equal"):
        load_triples(recipe.stages[0], folder=None)


def test_a_limit_keeps_pairs_together(tmp_path: Path, tiny_bert: Path) -> None:
    stage = triple_stage(toy_triples(tmp_path / "own.csv"))
    stage["data"] |= {"limit": 12, "folds": None}
    stage["select"] = None
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage))
    texts = load_triples(recipe.stages[0], folder=None).examples.texts
    assert len(texts) == 12
    assert len({triple[:2] for triple in texts}) == 6


def test_a_set_without_conditions_is_refused(
    tmp_path: Path, tiny_bert: Path, benchmarks_folder: Path
) -> None:
    stage = triple_stage(tmp_path / "own.csv")
    stage["data"]["sources"] = [{"name": "STS-B"}]
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage))
    with pytest.raises(TertiumError, match="STS-B has no conditions"):
        load_triples(recipe.stages[0], folder=benchmarks_folder)


# what a recipe may not say


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"head": None}, "conditional data need a head, one of: cross, classifier, seaver"),
        ({"head": {"kind": "seever"}}, "Did you mean 'seaver'"),
        ({"head": {"kind": "seaver", "alfa": 1}}, "alfa: Extra inputs"),
        ({"head": {"kind": "seaver", "temperature": 0}}, "temperature must be positive"),
        ({"head": {"kind": "bi", "rank": 0}}, "rank must be at least 1"),
        (
            {"objectives": [{"kind": "info_nce"}]},
            "texts or positive pairs or triplets, not conditional data",
        ),
        (
            {"objectives": [{"kind": "cross_entropy"}]},
            "graded pairs, not conditional data",
        ),
        ({"objectives": [{"kind": "mse", "head": "cosine"}]}, "leave its own out"),
        ({"objectives": [{"kind": "quadruplet"}]}, "seaver has none"),
        ({"objectives": [{"kind": "consistency"}]}, "add an objective beside it"),
        ({"views": [{"kind": "dropout"}]}, "without views"),
        ({"select": {"task": "STS-B"}}, "select held-out or C-STS"),
        ({"select": {"task": "C-STS"}}, "C-STS has split: validation"),
        ({"teacher": {"models": ["conditional"]}}, "needs its share of the target"),
        ({"teacher": {"models": ["conditional"], "share": 1.5}}, "less than or equal to 1"),
        (
            {"teacher": {"models": ["conditional"], "share": 0.5, "pooling": "cls"}},
            "weight and pooling are for a teacher of embeddings",
        ),
    ],
)
def test_mistakes_in_a_recipe(
    parts: dict[str, Any], message: str, tmp_path: Path, tiny_bert: Path
) -> None:
    path = toy_recipe(tmp_path / "toy.yaml", tiny_bert, triple_stage(tmp_path / "own.csv", **parts))
    with pytest.raises(RecipeError, match=message):
        read_recipe(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"folds": None}, "select held-out needs data.folds"),
        ({"folds": {"count": 4, "held_out": 4}}, "held_out counts from 0 to 3"),
        ({"labels": {"names": ["low", "high"]}}, "give labels low and high"),
        ({"labels": None}, "conditional pairs need labels"),
        ({"reword": 2}, "less than or equal to 1"),
    ],
)
def test_mistakes_in_the_data(
    change: dict[str, Any], message: str, tmp_path: Path, tiny_bert: Path
) -> None:
    stage = triple_stage(tmp_path / "own.csv")
    stage["data"] |= change
    with pytest.raises(RecipeError, match=message):
        read_recipe(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage))


def test_conditional_parts_elsewhere_are_refused(tmp_path: Path, tiny_bert: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    choice = {"task": "C-STS", "split": "validation"}
    for change, message in (
        ({"head": {"kind": "bi"}}, "reads both texts together: take cross"),
        ({"select": choice}, "for conditional data"),
        ({"head": {"kind": "cross"}, "select": choice}, "for conditional data"),
        ({"head": {"kind": "cross"}, "select": {"task": "held-out"}}, r"needs data\.folds"),
    ):
        path = toy_recipe(tmp_path / "toy.yaml", tiny_bert, {**toy_stage(pairs), **change})
        with pytest.raises(RecipeError, match=message):
            read_recipe(path)


def test_a_head_on_graded_pairs_trains_a_cross_encoder(tmp_path: Path, tiny_bert: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    rows = [f"{'a b c'[: n % 5 + 1]}\tx {n}\t{n % 2}" for n in range(24)]
    pairs.write_text("\n".join(["sentence1\tsentence2\tscore", *rows]))
    stage = triple_stage(
        pairs,
        data={
            "kind": "graded",
            "sources": [{"file": str(pairs)}],
            "labels": {"low": 0, "high": 1},
            "folds": {"count": 4, "held_out": 1},
        },
        head={"kind": "cross", "regressor": "mean"},
    )
    train(toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage), tmp_path / "model", progress=False)
    model = tertium.load(tmp_path / "model", engine="torch")
    assert isinstance(model, CrossScorer) and model.scale == (0.0, 1.0)
    one, other = model.score_items([("a b", "x 3"), ("x 3", "a b")])
    assert one == pytest.approx(other, abs=1e-6)


# runs


@pytest.mark.parametrize(
    ("layers", "message"), [(3, "leave at least one"), (9, "leave at least one")]
)
def test_all_layers_cannot_be_frozen(layers: int, message: str, tiny_bert: Path) -> None:
    spec = EncoderSpec(model=str(tiny_bert), freeze="embeddings", freeze_layers=layers)
    with pytest.raises(TertiumError, match=message):
        build_encoder(spec)


def test_frozen_layers_need_frozen_embeddings() -> None:
    with pytest.raises(ValueError, match="freeze_layers needs freeze: embeddings"):
        EncoderSpec(freeze_layers=2)


@pytest.mark.integration
def test_what_is_frozen_stays(
    tmp_path: Path, tiny_bert: Path, reserve: Callable[[str, Path], str]
) -> None:
    stage = triple_stage(toy_triples(tmp_path / "own.csv"), head={"kind": "bi"})

    def frozen(content: Any) -> None:
        name = reserve("tiny", tiny_bert)
        content["encoder"] |= {"model": name, "freeze": "embeddings", "freeze_layers": 2}
        content["encoder"]["adapter_rank"] = 3

    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage, change=frozen)
    train(recipe, tmp_path / "model", evaluate_after=False, progress=False)
    changed = load_file(tmp_path / "model" / "adapter" / "adapter.safetensors")
    assert changed
    assert all("layer.2." in name for name in changed if "layer." in name)


def grader(tmp_path: Path, tiny_bert: Path) -> ConditionalScorer:
    return toy_grader(tmp_path / "teacher", tiny_bert)


@pytest.mark.integration
def test_a_teacher_has_its_share_of_the_targets(tmp_path: Path, tiny_bert: Path) -> None:
    scorer = grader(tmp_path, tiny_bert)
    models = (str(tmp_path / "teacher"),)
    teacher = TeacherSpec(models=models, share=0.25, unlabelled=3)
    material = material_of(
        tmp_path, tiny_bert, head={"kind": "bi"}, teacher={"models": [*models], "share": 0.25}
    )
    plain = material.examples
    assert isinstance(plain, TripleExamples) and material.grader is not None
    taught = taught_triples(plain, material.grader, teacher, scorer.encoder, tmp_path / "run")
    count = len(plain.texts)
    scores = (scorer.score(list(taught.texts)) - 1) / 4
    expected = 0.75 * np.array(plain.labels) + 0.25 * scores[:count]
    np.testing.assert_allclose(taught.labels[:count], expected, atol=1e-5)
    np.testing.assert_allclose(taught.labels[count:], scores[count:], atol=1e-5)
    extra, known = taught.texts[count:], set(plain.texts)
    assert extra and not known & {*extra} and len({*extra}) == len(extra)
    assert len(taught) == len(taught.texts)
    held_out = {text for row in material.choosing for text in row.texts[:2]}
    sentences = {text for triple in plain.texts for text in triple[:2]}
    assert not {text for triple in extra for text in triple[:2]} & (held_out - sentences)
    again = taught_triples(plain, material.grader, teacher, scorer.encoder, tmp_path / "run")
    assert again.labels == taught.labels and len([*(tmp_path / "run").iterdir()]) == 1


def test_one_sentence_pair_has_no_neighbours(tiny_bert: Path) -> None:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    assert unlabelled_triples([("a", "b", "c"), ("a", "b", "d")], encoder, count=3) == []


def test_a_teacher_must_take_conditions_and_have_the_scale(tmp_path: Path, tiny_bert: Path) -> None:
    grader(tmp_path, tiny_bert)
    taught_by = {"models": (str(tiny_bert),), "share": 0.5}
    with pytest.raises(TertiumError, match="takes no conditions: it cannot teach"):
        grader_of(TeacherSpec(**taught_by), OrderedLabels(1.0, 5.0, 1.0))
    taught_by["models"] = (str(tmp_path / "teacher"),)
    with pytest.raises(TertiumError, match="grades from 1 to 5, and the labels go from 0 to 5"):
        grader_of(TeacherSpec(**taught_by), OrderedLabels(0.0, 5.0, 1.0))
    taught_by["models"] = (str(tmp_path / "teacher"),) * 2
    both = grader_of(TeacherSpec(**taught_by), OrderedLabels(1.0, 5.0, 1.0))
    assert both is not None and len(both.members) == 2


@pytest.mark.integration
def test_a_run_with_a_teacher_and_reworded_conditions_resumes(
    tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader(tmp_path, tiny_bert)
    teacher = {"models": [str(tmp_path / "teacher")], "share": 0.5, "unlabelled": 2}
    stage = triple_stage(toy_triples(tmp_path / "own.csv"), head={"kind": "bi"}, teacher=teacher)
    stage["train"] |= {"max_steps": 14}
    stage["data"]["reword"] = 0.5
    assert_resumes_the_same(tmp_path, tiny_bert, stage, monkeypatch, stop=13)
    manifest = json.loads((tmp_path / "whole" / "tertium.json").read_text("utf-8"))
    assert manifest["training_data"]
    assert not [*(tmp_path / "whole").rglob("teacher.*")]


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["seaver", "bi"])
def test_a_resumed_run_ends_like_an_uninterrupted_one(
    kind: str, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = triple_stage(toy_triples(tmp_path / "own.csv"), head={"kind": kind})
    stage["train"] |= {"max_steps": 6}
    assert_resumes_the_same(tmp_path, tiny_bert, stage, monkeypatch, stop=5)


def assert_resumes_the_same(
    tmp_path: Path,
    tiny_bert: Path,
    stage: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    *,
    stop: int,
) -> None:
    """A run that was interrupted in step ``stop`` and resumed has the weights of a whole one."""
    from tertium.recipes import train as module

    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    train(recipe, tmp_path / "whole", evaluate_after=False, progress=False)
    usual = module.build_module

    def stopping(*arguments: Any) -> Any:
        built = usual(*arguments)
        stop_at(built, stop, stopped)
        return built

    monkeypatch.setattr(module, "build_module", stopping)
    with pytest.raises(StoppedError):
        train(recipe, tmp_path / "resumed", evaluate_after=False, progress=False)
    monkeypatch.setattr(module, "build_module", usual)
    train(recipe, tmp_path / "resumed", evaluate_after=False, progress=False, resume=True)
    for file in ("head.safetensors", "encoder/model.safetensors"):
        one, two = load_file(tmp_path / "whole" / file), load_file(tmp_path / "resumed" / file)
        assert one.keys() == two.keys()
        assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.integration
def test_it_learns_what_a_condition_asks_for(tmp_path: Path, tiny_bert: Path) -> None:
    stage = triple_stage(toy_triples(tmp_path / "own.csv"), head={"kind": "cross"})
    stage["train"] |= {"max_steps": 60, "learning_rate": 0.003}
    stage["select"]["every"] = 20
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    trained = train(recipe, tmp_path / "model", evaluate_after=False, progress=False)
    scores = [entry["eval_score"] for entry in trained.log["own"] if "eval_score" in entry]
    assert scores[-1] > scores[0] + 20


@pytest.mark.integration
@pytest.mark.parametrize("head", [{"kind": "seaver", "alpha": "learned"}, {"kind": "bi"}])
def test_an_adapter_gives_the_scores_of_the_merged_model(
    head: dict[str, Any],
    tmp_path: Path,
    tiny_bert: Path,
    reserve: Callable[[str, Path], str],
) -> None:
    stage = triple_stage(toy_triples(tmp_path / "own.csv"), head=head)
    base = {"model": reserve("tiny", tiny_bert)}

    def small(content: Any) -> None:
        content["encoder"] |= {**base, "freeze": "embeddings", "adapter_rank": 3}

    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage, change=small)
    train(recipe, tmp_path / "model", evaluate_after=False, progress=False)
    merged = tertium.load(tmp_path / "model", engine="torch")
    adapted = tertium.load(tmp_path / "model" / "adapter", engine="torch")
    assert isinstance(adapted, ConditionalScorer) and isinstance(merged, ConditionalScorer)
    np.testing.assert_allclose(adapted.score(TRIPLES), merged.score(TRIPLES), atol=1e-5)
    assert adapted.training_data == merged.training_data


@pytest.mark.integration
def test_an_adapter_on_an_adapter(
    tmp_path: Path, tiny_bert: Path, reserve: Callable[[str, Path], str]
) -> None:
    below = tertium.load(tiny_bert, engine="torch")
    assert isinstance(below, Encoder)
    tuned = {
        name: tensor if "embeddings" in name else tensor + 0.05 * torch.randn_like(tensor)
        for name, tensor in below.backbone.state_dict().items()
    }
    graded = PairScorer(below, CosineHead(low=0.0, high=5.0), OrderedLabels(0.0, 5.0))
    adapter = extract_adapter(below.backbone, tuned, rank=3)
    graded.save_adapter(tmp_path / "graded", adapter, base=reserve("tiny", tiny_bert))

    base = {"model": reserve("graded", tmp_path / "graded")}

    def small(content: Any) -> None:
        content["encoder"] |= {**base, "freeze": "embeddings", "adapter_rank": 3}

    stage = triple_stage(toy_triples(tmp_path / "own.csv"), head={"kind": "bi"})
    recipe = toy_recipe(tmp_path / "toy.yaml", tmp_path / "graded", stage, change=small)
    train(recipe, tmp_path / "model", evaluate_after=False, progress=False)
    merged = tertium.load(tmp_path / "model", engine="torch")
    adapted = tertium.load(tmp_path / "model" / "adapter", engine="torch")
    assert isinstance(adapted, ConditionalScorer) and isinstance(merged, ConditionalScorer)
    np.testing.assert_allclose(adapted.score(TRIPLES), merged.score(TRIPLES), atol=1e-5)
    assert adapted.name == str(tmp_path / "model" / "adapter")


def test_an_adapter_changes_one_encoder(
    tmp_path: Path, tiny_bert: Path, reserve: Callable[[str, Path], str]
) -> None:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    Ensemble([encoder, encoder]).save(tmp_path / "both")
    scorer = PairScorer(encoder, CosineHead(low=0.0, high=5.0), OrderedLabels(0.0, 5.0))
    scorer.save_adapter(tmp_path / "small", {}, base=reserve("both", tmp_path / "both"))
    with pytest.raises(TertiumError, match="is not a single encoder"):
        tertium.load(tmp_path / "small", engine="torch")


@pytest.mark.integration
@pytest.mark.long
def test_a_new_process_gives_the_same_scores(tmp_path: Path, tiny_bert: Path) -> None:
    stage = triple_stage(toy_triples(tmp_path / "own.csv"), select=None)
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    train(recipe, tmp_path / "model", evaluate_after=False, progress=False)
    script = f"""
import json, torch, tertium
torch.set_num_threads(1)
model = tertium.load({str(tmp_path / "model")!r}, engine="torch")
print(json.dumps(model.score({TRIPLES!r}).tolist()))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    expected = tertium.load(tmp_path / "model", engine="torch").score(TRIPLES)  # type: ignore[arg-type]
    assert json.loads(ran.stdout) == expected.tolist()
