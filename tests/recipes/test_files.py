import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tertium.errors import TertiumError
from tertium.objectives import OBJECTIVES
from tertium.recipes.files import (
    CONFIGS,
    RecipeError,
    own_data,
    parse_settings,
    read_recipe,
    recipe_names,
)
from tertium.recipes.schema import ObjectiveSpec, Recipe
from tests.recipes.toys import contrast_stage, toy_recipe, toy_stage


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    return toy_recipe(
        tmp_path / "toy.yaml",
        Path("default"),
        toy_stage(Path("one.tsv"), "one", seed=1),
        toy_stage(Path("two.tsv"), "two"),
    )


def mistakes(tmp_path: Path, change: Any) -> list[str]:
    stages = [toy_stage(Path("a.tsv"), name) for name in ("one", "two")]
    path = toy_recipe(tmp_path / "bad.yaml", Path("default"), *stages, change=change)
    with pytest.raises(RecipeError) as caught:
        read_recipe(path)
    first, *lines = str(caught.value).splitlines()
    assert "has mistakes" in first
    return [line.strip() for line in lines]


# the recipes that come with tertium

FILES = sorted((CONFIGS / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_valid_and_says_the_same_as_a_dictionary(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.summary
    assert Recipe.model_validate(recipe.to_dict()) == recipe


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_opens_with_the_command_that_runs_one_of_its_recipes(path: Path) -> None:
    text = path.read_text("utf-8")
    (name,) = re.findall(r"\A# tertium train (\S+) -o DIR", text)
    assert name in recipe_names() and (name == path.stem or f"\n  {name}:" in text)


def test_there_are_all_of_the_papers() -> None:
    losses = ["", "-ce", "-l1", "-mse", "-translated-relu", "-stage2"]
    expected = {f"sts-regression-{b}{loss}" for b in ("bert", "roberta") for loss in losses}
    assert expected | {"sts-regression-minilm"} <= set(recipe_names())
    for name in expected:
        assert read_recipe(name).published is not None


# extends


def test_extends_merges_stages_by_name() -> None:
    base = read_recipe("sts-regression-bert")
    longer = read_recipe("sts-regression-roberta-stage2")
    assert [stage.name for stage in longer.stages] == ["nli", "sts"]
    nli = longer.stages[0]
    assert longer.encoder.model == "roberta-base"
    assert longer.encoder.max_length == base.encoder.max_length == 256
    assert nli.data == base.stages[0].data
    assert (nli.train.learning_rate, nli.train.clip, nli.train.seed) == (2e-5, 2.0, 777)
    assert nli.objectives[0].slope == 3.0
    assert longer.source == base.source


def test_a_file_extends_a_recipe_and_replaces_what_is_no_mapping(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    change = {
        "extends": "sts-regression-minilm",
        "summary": "mine",
        "stages": [{"name": "stsb", "objectives": [{"kind": "mse", "head": "cosine"}]}],
    }
    path.write_text(yaml.safe_dump(change), encoding="utf-8")
    recipe = read_recipe(str(path))
    base = read_recipe("sts-regression-minilm")
    assert [o.kind for o in recipe.stages[0].objectives] == ["mse"]
    assert recipe.stages[0].train == base.stages[0].train
    assert recipe.summary == "mine"
    assert read_recipe("sts-regression-minilm") == base  # nothing was changed in place


def test_extending_nothing_or_oneself(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(f"extends: {two}\n")
    two.write_text(f"extends: {one}\n")
    with pytest.raises(RecipeError, match="extends itself: one -> two -> one"):
        read_recipe(str(one))
    one.write_text("extends: sts-regression-brt\n")
    with pytest.raises(TertiumError, match="Did you mean 'sts-regression-bert'"):
        read_recipe(str(one))


# families

FAMILY = {
    "encoder": {"model": "default", "pooling": "cls"},
    "stages": [contrast_stage(Path("t.txt"))],
    "variants": {
        "plain": {"summary": "plain"},
        "longer": {
            "extends": "family.yaml:plain",
            "summary": "longer",
            "stages": [{"name": "contrast", "train": {"epochs": 3}}],
        },
    },
}


def test_a_family_is_one_file_with_several_recipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("family.yaml").write_text(yaml.safe_dump(FAMILY), encoding="utf-8")
    plain, longer = (read_recipe(f"family.yaml:{name}") for name in ("plain", "longer"))
    assert (plain.summary, longer.summary) == ("plain", "longer")
    assert plain.encoder == longer.encoder and plain.encoder.pooling == "cls"
    assert (plain.stages[0].train.epochs, longer.stages[0].train.epochs) == (1, 3)
    with pytest.raises(TertiumError, match=r"No recipe in family\.yaml 'family'.*longer, plain"):
        read_recipe("family.yaml")
    with pytest.raises(TertiumError, match="Did you mean 'plain'"):
        read_recipe("family.yaml:plane")
    Path("empty.yaml").write_text("variants: [one]\n")
    with pytest.raises(RecipeError, match="variants are recipes by their names"):
        read_recipe("empty.yaml")


def test_a_variant_of_the_same_file_is_not_changed_back_by_the_common_values() -> None:
    roberta = read_recipe("sts-regression-roberta-l1")
    assert roberta.encoder.model == "roberta-base"
    assert (roberta.stages[0].train.learning_rate, roberta.stages[0].train.clip) == (2e-5, 2.0)


# names, files, dictionaries and recipes


def test_a_recipe_comes_in_four_forms(tmp_path: Path) -> None:
    named = read_recipe("micse-then-regression-minilm")
    path = tmp_path / "same.yaml"
    path.write_text(named.to_yaml(), encoding="utf-8")
    assert named == read_recipe(path) == read_recipe(named.to_dict()) == read_recipe(named)
    changed = read_recipe(named, settings={"stages.stsb.train.epochs": 5}, seed=3)
    assert changed.stages[1].train.epochs == 5 and changed.stages[1].train.seed == 3
    assert named.stages[1].train.epochs == 1
    small = read_recipe({"extends": "simcse-minilm", "summary": "of a dictionary"})
    assert small.stages == read_recipe("simcse-minilm").stages
    with pytest.raises(RecipeError, match="The recipe 'of a dictionary' has mistakes"):
        read_recipe({"extends": "simcse-minilm", "summary": "of a dictionary", "stages": []})


def test_a_head_has_one_form_and_a_short_one(tmp_path: Path) -> None:
    written: list[Any] = [
        {"kind": "l1", "head": {"kind": "siamese", "features": ["u", "v"]}},
        {"kind": "l1", "head": "siamese", "features": ["u", "v"]},
        {"kind": "l1", "head": {"kind": "siamese"}, "features": ["u", "v"]},
        {"kind": "l1", "features": ["u", "v"]},
    ]
    found = []
    for objective in written:
        stage = toy_stage(Path("a.tsv"))
        stage["objectives"] = [objective]
        recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", Path("default"), stage))
        (spec,) = recipe.stages[0].objectives
        assert spec.head is not None and spec.settings() == {"clip": "both"}
        found.append((spec.head.kind, spec.head.settings()))
    assert found == [("siamese", {"features": ("u", "v")})] * 4


def test_every_argument_of_an_objective_is_a_setting() -> None:
    for kind, objective in OBJECTIVES.items():
        own = inspect.signature(objective).parameters.values()
        names = {p.name for p in own if p.kind is p.KEYWORD_ONLY}
        given_by_stage = {"head", "low", "high", "step"}
        assert ObjectiveSpec(kind=kind).settings().keys() == names - given_by_stage


# --set and --seed


def test_settings_by_name_number_and_kind(recipe: str) -> None:
    found = read_recipe(
        recipe,
        settings=parse_settings(
            [
                "encoder.pooling=cls",
                "stages.two.train.epochs=3",
                "stages.0.train.learning_rate=1e-5",
                "stages.one.objectives.0.slope=4",
                "stages.two.objectives.smooth_k2.threshold=0.1",
                "stages.two.select={task: STS-B, every: 7}",
                "stages.one.data.sources=[{name: STS-B}]",
                "stages.one.train.clip=null",
                "stages.*.train.batch_size=7",
            ]
        ),
    )
    one, two = found.stages
    assert str(found.encoder.pooling) == "cls"
    assert (one.train.learning_rate, one.train.clip, two.train.epochs) == (1e-5, None, 3)
    assert (one.objectives[0].slope, two.objectives[0].threshold) == (4, 0.1)
    assert two.select is not None and two.select.every == 7
    assert one.data.sources[0].name == "STS-B"
    assert one.train.batch_size == two.train.batch_size == 7


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("nonsense", "write it as a.b=value"),
        ("=1", "write it as a.b=value"),
        ("stages.three.train.epochs=1", "no 'three' here; there are 0, 1, one, two"),
        ("stages.2.train.epochs=1", "no '2' here"),
        ("stages.one.objectives.l1.slope=1", "no 'l1' here; there are 0, smooth_k2"),
        ("summary.text.more=1", "leads nowhere"),
        ("encoder.*=1", r"encoder\.\*: "),
        ("summary.text=1", "leads nowhere"),
        ("encoder.model=[unclosed", "not YAML"),
        ("stages.one.train.epoch=1", r"stages\.one\.train\.epoch"),
        ("nowhere=1", "nowhere: "),
    ],
)
def test_settings_that_lead_nowhere(recipe: str, override: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        read_recipe(recipe, settings=parse_settings([override]))


def test_the_seed_is_for_every_stage(recipe: str) -> None:
    assert [s.train.seed for s in read_recipe(recipe).stages] == [1, 42]
    assert [s.train.seed for s in read_recipe(recipe, seed=9).stages] == [9, 9]


# mistakes


def test_all_mistakes_are_named_at_once_with_their_places(tmp_path: Path) -> None:
    def spoil(content: dict[str, Any]) -> None:
        one, two = content["stages"]
        content["encoder"]["pooling"] = "mena"
        one["train"]["epochs"] = -1
        one["objectives"][0]["kind"] = "smooth_k3"
        two["data"]["sources"] = [{"name": "STSB"}]
        two["train"]["speed"] = 3

    lines = mistakes(tmp_path, spoil)
    assert [line.split(":")[0] for line in lines] == [
        "encoder.pooling",
        "stages.one.objectives.0",
        "stages.one.train.epochs",
        "stages.two.data.sources.STSB",
        "stages.two.train.speed",
    ]
    assert "Did you mean 'smooth_k2'" in lines[1]
    assert "(got -1)" in lines[2]
    assert "Did you mean 'STS-B'" in lines[3]


def put(path: str, value: Any) -> Any:
    """Set ``path`` of the recipe's first stage, or of the recipe itself."""
    *parents, last = path.split("/")

    def change(content: Any) -> None:
        place = content if path.startswith("/") else content["stages"][0]
        for part in filter(None, parents):
            place = place[int(part) if part.isdigit() else part]
        place[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("objectives/0/threshold", 0.6), "threshold 0.6 must be between 0 and half"),
        (put("data/labels/step", 0.25), "threshold 0.25 must be between 0 and half"),
        (
            put("objectives", [{"kind": "l1", "threshold": 0.1}]),
            "neither l1 nor the head siamese has a setting threshold",
        ),
        (
            put("objectives", [{"kind": "cross_entropy", "slope": 1}]),
            "nor the head siamese has a setting slope",
        ),
        (
            put("objectives", [{"kind": "cross_entropy", "head": "cosine"}]),
            "needs a head with several outputs",
        ),
        (
            put("objectives", [{"kind": "info_nce"}]),
            "info_nce learns from texts or positive pairs or triplets, not graded pairs",
        ),
        (
            put("objectives", [{"kind": "smooth_k2"}, {"kind": "attention_mi"}]),
            "attention_mi learns from texts, not graded pairs",
        ),
        (
            put("momentum", {}),
            "it needs info_nce or multiple_negatives or nt_xent",
        ),
        (put("data/subset", "by-seed"), "subset: by-seed is for texts, positives and triplets"),
        (put("data/subset", "random"), "Input should be 'fixed' or 'by-seed'"),
        (put("objectives", [{"kind": "l1"}, {"kind": "l1"}]), "two objectives are of the same"),
        (put("objectives/0/head", "cosin"), "Did you mean 'cosine'"),
        (put("objectives", [{"kind": "l1", "features": ["w"]}]), "features must be among"),
        (put("objectives/0/margin", 1), "nor the head cosine has a setting margin"),
        (
            put("objectives", [{"kind": "l1", "head": "cosine", "features": ["u"]}]),
            "neither l1 nor the head cosine has a setting features",
        ),
        (put("objectives", []), "at least 1 item"),
        (put("data/labels", {"low": 0}), "names, or low and high"),
        (put("data/labels", {"names": ["one"]}), "two or more different names"),
        (put("data/labels", {"low": 5, "high": 0}), "low < high"),
        (put("data/sources", [{}]), "give either name"),
        (put("data/sources", [{"name": "STS-B", "file": "x"}]), "give either name"),
        (put("data/sources", [{"name": "STS-B", "split": "tran"}]), "Did you mean 'train'"),
        (put("name", "One Stage"), "should match pattern"),
        (put("name", "two"), "two stages share a name"),
        (put("/encoder/adapter_rank", 4), "needs freeze: embeddings"),
        (put("/encoder/adapter_factor", 0.5), "needs adapter_rank"),
        (put("/stages", []), "at least 1 item"),
        (put("/stages", ["one"]), "stages.0"),
    ],
)
def test_a_mistake_is_explained(tmp_path: Path, change: Any, message: str) -> None:
    (line,) = mistakes(tmp_path, change)
    assert message in line


FILE = [{"file": "t.txt"}]
NCE = [{"kind": "info_nce"}]
TRIPLETS = {"kind": "triplets", "sources": FILE}
CONTRAST_MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no-view": ({"views": [{"kind": "ad"}]}, "views.0: No view 'ad'. Did you mean 'add'?"),
    "no-setting": ({"views": [{"kind": "add", "kk": 1}]}, "views.0: add: kk: Extra inputs"),
    "no-k": ({"views": [{"kind": "add", "k": -1}]}, "views.0: add: k must not be negative"),
    "half-k": ({"views": [{"kind": "add", "k": 1.5}]}, "views.0: add: k: Input should be"),
    "no-t": (
        {"views": [{"kind": "dropout"}, {"kind": "add", "rate": "dynamic", "t": 0}]},
        "views.1: add: t must be positive, got 0",
    ),
    "no-rate": ({"views": [{"kind": "delete", "rate": 2}]}, "views.0: delete: rate must be"),
    "no-scores": (
        {"views": [{"kind": "delete", "scores_from": "frozen"}]},
        "views.0: delete scores nothing",
    ),
    "triplet-views": ({"data": TRIPLETS}, ": views are made of single texts"),
    "unknown": (
        {"objectives": [{"kind": "info_nce", "temprature": 1}]},
        "objectives.0: info_nce: temprature: Extra inputs",
    ),
    "cold": (
        {"objectives": [{"kind": "info_nce", "temperature": 0}]},
        "objectives.0: info_nce: temperature must be positive",
    ),
    "headed": (
        {"objectives": [{"kind": "nt_xent", "head": "cosine"}]},
        "objectives.0: nt_xent: head: Extra inputs",
    ),
    "sure": (
        {"objectives": [{"kind": "info_nce"}, {"kind": "masked_lm", "probability": 1}]},
        "objectives.1: masked_lm: probability must be between 0 and 1",
    ),
    "graded": (
        {"objectives": [{"kind": "smooth_k2"}]},
        ": smooth_k2 learns from graded pairs or conditional data, not texts",
    ),
    "alone": ({"objectives": [{"kind": "masked_lm"}]}, ": masked_lm is an auxiliary"),
    "uneven": (
        {"objectives": [{"kind": "contrastive_tension", "negatives": 2}]},
        ": contrastive_tension needs a batch_size that 3 divides",
    ),
    "mixed": (
        {"objectives": [{"kind": "contrastive_tension"}, {"kind": "nt_xent"}]},
        ": nt_xent pairs every text, and contrastive_tension one of each group",
    ),
    "triplet-tension": (
        {"data": TRIPLETS, "views": [], "objectives": [{"kind": "contrastive_tension"}]},
        ": contrastive_tension learns from texts, not triplets",
    ),
    "triplet-held-out": (
        {"data": TRIPLETS, "views": [], "select": {"task": "held-out"}},
        ": select held-out holds out texts or graded pairs, not triplets",
    ),
    "momentum": (
        {"momentum": {"queue": 8}, "objectives": [{"kind": "positives_only"}]},
        ": momentum fills a queue of negatives: it needs info_nce or multiple_negatives or nt_xent",
    ),
    "no-queue": ({"momentum": {"queue": 0}}, "momentum.queue: Input should be greater than or"),
    "no-decay": ({"momentum": {"decay": 1.5}}, "momentum.decay: Input should be less than or"),
    "no-dropout": ({"momentum": {"dropout": 1}}, "momentum.dropout: Input should be less than 1"),
    "no-speed": ({"momentum": {"speed": 1}}, "momentum.speed: Extra inputs"),
    "triplet-attention": (
        {"data": TRIPLETS, "views": [], "objectives": [*NCE, {"kind": "attention_mi"}]},
        ": attention_mi learns from texts, not triplets",
    ),
    "no-sample": (
        {"objectives": [*NCE, {"kind": "attention_mi", "sample": 9}]},
        "objectives.1: attention_mi: sample: Extra inputs",
    ),
    "one-sample": (
        {"objectives": [*NCE, {"kind": "attention_mi", "samples": 1}]},
        "objectives.1: attention_mi: samples must be at least 2, got 1",
    ),
    "no-pool": (
        {"objectives": [*NCE, {"kind": "attention_mi", "pool": "rows"}]},
        "objectives.1: attention_mi: pool: Input should be 'heads' or 'layers'",
    ),
    "no-labels": ({"data": {"sources": FILE}}, "data: graded pairs need labels"),
    "labels": (
        {"data": {"kind": "texts", "sources": FILE, "labels": {"low": 0, "high": 1}}},
        "data: texts have no labels",
    ),
    "kind": ({"data": {"kind": "pairs", "sources": FILE}}, "data.kind: Input should be 'graded'"),
}


def test_mistakes_of_contrastive_stages_are_named_at_once(tmp_path: Path) -> None:
    stages = [
        contrast_stage(Path("t.txt"), name, **parts)
        for name, (parts, _) in CONTRAST_MISTAKES.items()
    ]
    lines = mistakes(tmp_path, lambda content: content.update(stages=stages))
    assert len(lines) == len(CONTRAST_MISTAKES)
    for line, (name, (_, message)) in zip(lines, CONTRAST_MISTAKES.items(), strict=True):
        place = f"stages.{name}" + ("" if message.startswith(":") else ".")
        assert line.startswith(place + message), line


def test_settings_of_views_and_objectives_are_numbers_and_defaults(tmp_path: Path) -> None:
    stage = contrast_stage(
        Path("t.txt"),
        views=[{"kind": "add", "rate": "dynamic", "t": 3, "scores_from": "frozen"}],
        objectives=[
            {"kind": "info_nce", "temperature": "1e-1"},
            {"kind": "masked_lm", "weight": "1e-1"},
        ],
    )
    path = toy_recipe(tmp_path / "toy.yaml", Path("default"), stage)
    found = read_recipe(path, settings={"stages.contrast.objectives.masked_lm.probability": 0.2})
    (view,), (contrast, masked) = found.stages[0].views, found.stages[0].objectives
    settings = view.settings()
    assert (settings["rate"], settings["t"], settings["k"]) == ("dynamic", 3, 1)
    assert settings["protect_special_tokens"] and "scores_from" not in settings
    assert contrast.settings() == {"temperature": 0.1, "negative_weight": 0.0}
    assert (masked.settings(), masked.weight) == ({"probability": 0.2}, 0.1)


def test_momentum_and_attention_have_defaults(tmp_path: Path) -> None:
    stage = contrast_stage(Path("t.txt"), momentum={}, objectives=[*NCE, {"kind": "attention_mi"}])
    found = read_recipe(toy_recipe(tmp_path / "toy.yaml", Path("default"), stage))
    momentum = found.stages[0].momentum
    assert momentum is not None
    assert (momentum.queue, momentum.decay, momentum.dropout) == (384, 0.995, 0.3)
    assert found.stages[0].objectives[1].settings() == {
        "layers": None,
        "samples": 150,
        "pool": "heads",
        "short_slices": "use",
        "scale": "none",
        "count_padding_queries": False,
    }


def test_an_adapter_that_grades_has_all_layers_of_its_base(tmp_path: Path) -> None:
    def change(content: Any) -> None:
        content["encoder"] |= {"adapter_rank": 2, "freeze": "embeddings", "layers": 1}

    (line,) = mistakes(tmp_path, change)
    assert "leave encoder.layers or encoder.adapter_rank out" in line


def test_a_dead_zone_by_default_must_fit_too(tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["stages"][0]["data"]["labels"]["step"] = 0.25
        del content["stages"][0]["objectives"][0]["threshold"]

    (line,) = mistakes(tmp_path, change)
    assert line.startswith("stages.one: threshold 0.25 must be")


def test_files_that_are_no_recipes(tmp_path: Path) -> None:
    path = tmp_path / "no.yaml"
    with pytest.raises(RecipeError, match="no such recipe file"):
        read_recipe(str(path))
    path.write_text("stages: [")
    with pytest.raises(RecipeError, match=r"^\S+no\.yaml, line 1 is not YAML: [^\n]+\.$"):
        read_recipe(str(path))
    path.write_text("- one\n- two\n")
    with pytest.raises(RecipeError, match="holds no recipe"):
        read_recipe(str(path))
    path.write_text("stages: one\n")
    with pytest.raises(RecipeError, match="summary: Field required"):
        read_recipe(str(path), seed=1)
    with pytest.raises(TertiumError, match=r"'sts-regression-minilm'\? .*tertium recipes"):
        read_recipe("sts-regression-mini")


def test_numbers_that_yaml_reads_as_text(recipe: str) -> None:
    found = read_recipe(recipe, settings={"stages.one.train.learning_rate": "3e-5"})
    assert found.stages[0].train.learning_rate == 3e-5
    with pytest.raises(RecipeError, match="learning_rate"):
        read_recipe(recipe, settings={"stages.one.train.learning_rate": "fast"})


def test_own_texts_go_to_every_stage_on_texts() -> None:
    own = Path("it's mine.txt")
    data = {"kind": "texts", "sources": [{"file": str(own)}]}
    recipe = read_recipe("jtcse-minilm", settings=own_data("jtcse-minilm", texts=own))
    assert [stage["data"] for stage in recipe.to_dict()["stages"]] == [data] * 3
    mixed = "micse-then-regression-minilm"
    before, after = (
        read_recipe(mixed).to_dict(),
        read_recipe(mixed, settings=own_data(mixed, texts=own)).to_dict(),
    )
    assert after["stages"][0]["data"] == data
    assert after["stages"][1:] == before["stages"][1:]


def test_own_pairs_go_to_the_last_stage_with_labels() -> None:
    mixed, own = "micse-then-regression-minilm", Path("mine.tsv")
    before, after = (
        read_recipe(mixed).to_dict(),
        read_recipe(mixed, settings=own_data(mixed, pairs=own)).to_dict(),
    )
    assert after["stages"][0] == before["stages"][0]
    assert after["stages"][1]["data"]["sources"] == [{"file": "mine.tsv"}]
    assert own_data("seaver-minilm", pairs=own) == {"stages.0.data.sources": [{"file": "mine.tsv"}]}
    assert own_data(mixed) == {}


@pytest.mark.parametrize(
    ("recipe", "given", "message"),
    [
        ("simcse-sup-bert", {"texts": Path("t")}, "does not learn from single texts"),
        ("simcse-minilm", {"pairs": Path("p")}, "say --texts FILE"),
        ("simcse-minilm", {"pairs": Path("p"), "texts": Path("t")}, "not both"),
    ],
)
def test_own_data_that_replace_nothing(recipe: str, given: dict[str, Path], message: str) -> None:
    with pytest.raises(TertiumError, match=message):
        own_data(recipe, **given)
