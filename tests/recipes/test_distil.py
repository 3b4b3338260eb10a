"""Distillation as a recipe and as a function."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

import tertium
from tertium.errors import TertiumError, TertiumWarning
from tertium.models import Encoder, Ensemble
from tertium.models import vectors as vectors_module
from tertium.models.loading import combine
from tertium.objectives.base import NonFiniteLossError
from tertium.recipes import data as teachers_module
from tertium.recipes.distil import distil
from tertium.recipes.files import RecipeError, parse_settings, read_recipe
from tertium.training.stage import StageTrainer
from tests.fakes import tiny_model
from tests.recipes.toys import toy_text_file
from tests.training.toys import StoppedError, toy_texts

pytestmark = pytest.mark.integration

TEXTS = [text for (text,) in toy_texts().texts]
QUICK: dict[str, Any] = {
    "schedule": {"max_steps": 6, "batch_size": 8, "learning_rate": 1e-3, "checkpoint_every": 2},
    "settings": {"stages.distil.select": None},
    "evaluate_after": False,
    "progress": False,
}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return toy_text_file(tmp_path / "texts.txt")


@pytest.fixture
def student(tiny_bert: Path, tmp_path: Path) -> Path:
    """A tiny model whose weights are others than the teacher's."""
    folder = tmp_path / "student"
    tertium.load(tiny_bert).save(folder)
    weights = load_file(folder / "model.safetensors")
    draw = torch.Generator().manual_seed(3)
    changed = {k: v + 0.1 * torch.randn(v.shape, generator=draw) for k, v in weights.items()}
    save_file(changed, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "wide", width=48)


def distance(model: Any, teacher: Any) -> float:
    return float(np.square(model.encode(TEXTS) - teacher.encode(TEXTS)).mean())


def test_the_student_approaches_its_teachers(
    tiny_bert: Path, tiny_roberta: Path, student: Path, texts: Path, tmp_path: Path
) -> None:
    options = QUICK | {"schedule": QUICK["schedule"] | {"max_steps": 60}}
    trained = distil([tiny_bert, tiny_roberta], student, texts, tmp_path / "m", **options)
    teacher = combine([tiny_bert, tiny_roberta])
    after = tertium.load(tmp_path / "m", engine="torch")
    assert isinstance(after, Encoder) and after.pooling == "mean"
    assert distance(after, teacher) < distance(tertium.load(student), teacher) / 3
    losses = [entry["distil"] for entry in trained.log["distil"] if "distil" in entry]
    assert losses[-1] < losses[0] / 3
    card = (tmp_path / "m" / "README.md").read_text("utf-8")
    assert f"embeddings of {tiny_bert} + {tiny_roberta}" in card
    stock = SentenceTransformer(str(tmp_path / "m"), device="cpu")
    np.testing.assert_allclose(stock.encode(TEXTS), after.encode(TEXTS), atol=1e-5)


def test_the_last_teacher_may_have_a_weight(
    tiny_bert: Path, student: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Ensemble] = []
    original = vectors_module.map_vectors

    def remember(model: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(model)
        return original(model, *arguments, **options)

    monkeypatch.setattr(teachers_module, "map_vectors", remember)
    distil([tiny_bert, tiny_bert], student, texts, tmp_path / "m", weight=0.7, **QUICK)
    assert [member.weight for member in seen[0].members] == pytest.approx([0.3, 0.7])


def test_what_the_teacher_has_seen_is_remembered(
    tiny_bert: Path, student: Path, texts: Path, tmp_path: Path
) -> None:
    distil([tiny_bert], student, texts, tmp_path / "one", **QUICK)
    others = toy_text_file(tmp_path / "others.txt", 20)
    distil([tmp_path / "one"], student, others, tmp_path / "two", **QUICK)
    seen = {data.name for data in tertium.load(tmp_path / "two").training_data}
    assert seen == {str(texts), str(others)}


# widths


def test_a_projection_is_left_out_of_the_model(
    wide: Path, student: Path, texts: Path, tmp_path: Path
) -> None:
    with pytest.warns(TertiumWarning, match=r"width 48, the student's 32.*left out"):
        distil([wide], student, texts, tmp_path / "m", **QUICK)
    assert tertium.load(tmp_path / "m").dimension == 32
    kept = load_file(tmp_path / "m" / "run" / "0-distil" / "model.safetensors")
    assert kept["to_teacher.dense.weight"].shape == (48, 32)


def test_a_projection_may_be_kept(wide: Path, student: Path, texts: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distil([wide], student, texts, tmp_path / "m", keep_projection=True, **QUICK)
    model = tertium.load(tmp_path / "m")
    assert model.dimension == 48 and model.pooling == "mean"
    stock = SentenceTransformer(str(tmp_path / "m"), device="cpu")
    np.testing.assert_allclose(stock.encode(TEXTS), model.encode(TEXTS), atol=1e-5)
    start = tertium.load(student, engine="torch")
    assert isinstance(start, Encoder) and start.dimension == 32


def test_a_kept_projection_is_taken_up_when_a_finished_run_resumes(
    wide: Path, student: Path, texts: Path, tmp_path: Path
) -> None:
    distil([wide], student, texts, tmp_path / "m", keep_projection=True, **QUICK)
    before = tertium.load(tmp_path / "m").encode(TEXTS)
    distil([wide], student, texts, tmp_path / "m", keep_projection=True, resume=True, **QUICK)
    np.testing.assert_array_equal(tertium.load(tmp_path / "m").encode(TEXTS), before)


def test_other_widths_need_a_projection(
    wide: Path, student: Path, texts: Path, tmp_path: Path
) -> None:
    options = QUICK | {"settings": {**QUICK["settings"], "stages.distil.projection": "none"}}
    with pytest.raises(TertiumError, match=r"stages\.distil\.projection to linear"):
        distil([wide], student, texts, tmp_path / "m", **options)
    options["settings"] = {**QUICK["settings"], "encoder.normalize": True}
    with pytest.raises(TertiumError, match=r"encoder\.normalize: false"):
        distil([wide], student, texts, tmp_path / "m", keep_projection=True, **options)
    assert not (tmp_path / "m").exists()


# interruptions


def same(one: Path, two: Path) -> bool:
    a, b = (load_file(folder / "model.safetensors") for folder in (one, two))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_an_interrupted_run_ends_in_the_same_weights(
    tiny_bert: Path,
    student: Path,
    texts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        vectors_module.map_vectors, "__kwdefaults__", {"chunk": 10, "progress": None}
    )
    distil([tiny_bert], student, texts, tmp_path / "whole", **QUICK)
    encoded: list[str] = []
    encode, loss = Ensemble.encode, StageTrainer.compute_loss
    calls, steps = iter(range(1, 100)), iter(range(1, 100))

    def interrupted_teacher(self: Ensemble, part: list[str], **options: Any) -> Any:
        if next(calls) == 2:
            raise StoppedError
        encoded.extend(part)
        return encode(self, part, **options)

    def interrupted_step(*arguments: Any, **options: Any) -> Any:
        if next(steps) == 4:
            raise StoppedError
        return loss(*arguments, **options)

    monkeypatch.setattr(Ensemble, "encode", interrupted_teacher)
    monkeypatch.setattr(StageTrainer, "compute_loss", interrupted_step)
    for resume in (False, True):  # once among the teacher's vectors, once in training
        with pytest.raises(StoppedError):
            distil([tiny_bert], student, texts, tmp_path / "parts", resume=resume, **QUICK)
        assert (tmp_path / "parts" / "run" / "0-distil" / "teacher.npy").exists()
    distil([tiny_bert], student, texts, tmp_path / "parts", resume=True, **QUICK)
    assert len(encoded) == len(set(encoded)) == len(TEXTS)  # no text went to the teacher twice
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert not list((tmp_path / "parts").rglob("teacher.*"))


def test_a_loss_that_is_not_finite_names_its_term(
    tiny_bert: Path, student: Path, texts: Path, tmp_path: Path
) -> None:
    weights = load_file(student / "model.safetensors")
    save_file({k: v * 1e30 for k, v in weights.items()}, student / "model.safetensors")
    with pytest.raises(NonFiniteLossError, match="'distil'"):
        distil([tiny_bert], student, texts, tmp_path / "m", **QUICK)


@pytest.mark.filterwarnings("ignore:STS-B dev")
def test_the_checkpoint_may_be_chosen(
    tiny_bert: Path, student: Path, texts: Path, tmp_path: Path, benchmarks_folder: Path
) -> None:
    options = QUICK | {"settings": {"stages.distil.select.every": 2}}
    trained = distil([tiny_bert], student, texts, tmp_path / "m", data=benchmarks_folder, **options)
    assert sum("eval_score" in entry for entry in trained.log["distil"]) == 3
    data = json.loads((tmp_path / "m" / "run" / "data.json").read_text())
    assert data["distil"]["examples"] == len(TEXTS)


# mistakes


def test_an_ensemble_is_no_student(tiny_bert: Path, texts: Path, tmp_path: Path) -> None:
    combine([tiny_bert, tiny_bert]).save(tmp_path / "two")
    with pytest.raises(TertiumError, match="ensemble of 2 models"):
        distil([tiny_bert], tmp_path / "two", texts, tmp_path / "m", **QUICK)
    assert not (tmp_path / "m").exists()


STAGE = "stages.distil"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([f"{STAGE}.teacher=null"], "distil needs a teacher"),
        ([f"{STAGE}.teacher.models=[]"], "at least 1"),
        ([f"{STAGE}.teacher.weight=0.7"], "the last of several models"),
        ([f"{STAGE}.teacher={{models: [a, b], weight: 1.5}}"], "less than 1"),
        ([f"{STAGE}.projection=mlp"], "does not go with projection: mlp"),
        ([f"{STAGE}.views=[{{kind: dropout}}]"], "does not go with views"),
        ([f"{STAGE}.momentum={{}}"], "momentum"),
        (
            [f"{STAGE}.objectives=[{{kind: distil}}, {{kind: info_nce}}]"],
            "does not go with other objectives",
        ),
        ([f"{STAGE}.objectives=[{{kind: info_nce}}]"], "a teacher is there for"),
        (
            [f"{STAGE}.objectives=[{{kind: info_nce}}]", f"{STAGE}.teacher=null"],
            "leads to a teacher's width",
        ),
        ([f"{STAGE}.data.kind=triplets"], "distil learns from texts"),
        ([f"{STAGE}.objectives.0.temperature=1"], "temperature"),
    ],
)
def test_mistakes_in_a_recipe(changes: list[str], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        read_recipe("distil-minilm", settings=parse_settings(changes))


def test_a_shallower_student(tiny_bert: Path, texts: Path, tmp_path: Path) -> None:
    shallow = distil([tiny_bert], tiny_bert, texts, tmp_path / "two", layers=2, **QUICK)
    named = distil([tiny_bert], tiny_bert, texts, tmp_path / "named", layers=[2, 3], **QUICK)
    for trained in (shallow, named):
        plain = SentenceTransformer(str(trained.folder), device="cpu")
        assert plain[0].model.config.num_hidden_layers == 2
    one, two = (tertium.load(t.folder).encode(TEXTS) for t in (shallow, named))
    np.testing.assert_allclose(one, two, atol=1e-6)  # 2 of 3 at even distances: 2 and 3
    with pytest.raises(TertiumError, match="4 of 3 layers cannot be kept"):
        distil([tiny_bert], tiny_bert, texts, tmp_path / "four", layers=4, **QUICK)


def test_an_adapter_needs_all_layers() -> None:
    with pytest.raises(RecipeError, match="belongs to one with all its layers"):
        read_recipe("sts-regression-minilm", settings={"encoder.layers": 3})
