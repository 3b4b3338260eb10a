"""The models that come with the package."""

import re
import socket
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer

import tertium
from tertium.data.samples import sample_pairs
from tertium.errors import ModelNotFoundError
from tertium.evaluation import spearman
from tertium.models import NAMES, CarefulScorer, PairScorer, TripleScorer
from tertium.recipes.files import read_recipe
from tertium.records.manifest import read_manifest
from tertium.types import Kind, Pooling

MODELS = Path(str(files("tertium") / "shipped"))
SHIPPED = sorted(path.parent for path in MODELS.glob("*/tertium.json"))

SAMPLES = [(row.sentence1, row.sentence2) for row in sample_pairs()]
TEXTS = [text for pair in SAMPLES for text in pair]

# Most alike first.
LADDER = [
    ("A man is playing a guitar.", "A man plays the guitar."),
    ("A man is playing a guitar.", "Someone plays an instrument."),
    ("A man is playing a guitar.", "A child listens to music."),
    ("A man is playing a guitar.", "The bus to the airport was late."),
]
UNRELATED = [
    ("A cat sleeps.", "Stocks fell sharply."),
    ("The recipe calls for two eggs.", "Parliament rejected the budget."),
    ("The volcano has been quiet for centuries.", "Your parcel is waiting at the counter."),
]


def load_offline(name: str) -> Any:
    """Loaded while every socket refuses."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("a model that ships needs no network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        return tertium.load(name)


@pytest.fixture(scope="module")
def sts() -> PairScorer:
    loaded = load_offline("sts-fast")
    assert isinstance(loaded, PairScorer)
    return loaded


@pytest.fixture(scope="module")
def careful() -> CarefulScorer:
    loaded = load_offline("sts")
    assert isinstance(loaded, CarefulScorer)
    return loaded


@pytest.fixture(scope="module")
def conditional() -> TripleScorer:
    loaded = load_offline("conditional")
    assert isinstance(loaded, TripleScorer)
    return loaded


# Every model that ships


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
class TestEveryModel:
    def test_it_is_a_reserved_name(self, folder: Path) -> None:
        assert NAMES[folder.name].folder() == folder
        manifest = read_manifest(folder)
        assert manifest is not None and manifest.kind is NAMES[folder.name].kind
        assert manifest.training_data

    def test_it_is_small_and_holds_no_pickle(self, folder: Path) -> None:
        found = [path for path in folder.rglob("*") if path.is_file()]
        assert {path.suffix for path in found} <= {".safetensors", ".json", ".md"}
        assert sum(path.stat().st_size for path in found) <= 16_000_000
        for path in folder.rglob("*.safetensors"):
            for name, tensor in load_file(path).items():
                assert np.isfinite(tensor).all(), name

    def test_its_card_names_data_terms_and_the_way_to_make_it_again(self, folder: Path) -> None:
        card = (folder / "README.md").read_text(encoding="utf-8")
        manifest = read_manifest(folder)
        assert manifest is not None
        assert all(data.name in card for data in manifest.training_data)
        assert "CC BY-SA 4.0" in card and f'tertium.load("{folder.name}")' in card
        assert "\nlicense: apache-2.0\n" in card
        for section in ("Figures", "Data and their terms", "What it is not"):
            assert f"\n## {section}\n" in card, section
        names = set(re.findall(r"tertium train ([\w-]+) -o", card))
        shown = re.findall(r"^```yaml\n(.*?)^```$", card, flags=re.M | re.S)
        recipes = [read_recipe(yaml.safe_load(text)) for text in shown]
        assert sorted(map(repr, recipes)) == sorted(repr(read_recipe(name)) for name in names)


def test_a_page_quotes_the_grades_that_the_model_gives(careful: CarefulScorer) -> None:
    shop = "The shop is closed on Sundays."
    pairs = [
        (shop, "The shop is open on Sundays."),
        (shop, "On Sundays the store does not open."),
        ("The dog bites the man.", "The man bites the dog."),
    ]
    opposite, paraphrase, roles = careful.score(pairs)
    page = Path(__file__).parents[2] / "docs" / "how-to" / "compare.md"
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert f"get {opposite:.1f}, a paraphrase in other words {paraphrase:.1f})" in text
    assert f"get {roles:.1f} of 5." in text


def test_every_adapter_that_is_named_is_there() -> None:
    named = [model.folder() for name, model in NAMES.items() if name not in ("default", "base")]
    assert set(SHIPPED) == set(named)


BASE_TIER = ("sts-base", "sts-base-fast", "conditional-base")


@pytest.mark.parametrize("name", BASE_TIER)
def test_without_its_base_a_model_says_how_to_fetch_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path))
    for engine in ("auto", "torch"):
        with pytest.raises(ModelNotFoundError, match=r"once with: tertium models fetch base$"):
            tertium.load(name, engine=engine)


@pytest.mark.parametrize("name", BASE_TIER)
def test_the_base_tier_answers(name: str) -> None:
    try:
        NAMES["base"].folder()
    except ModelNotFoundError as error:
        pytest.skip(str(error))
    model = load_offline(name)
    if model.takes_conditions:
        number, action = model.score(
            [(*BEACH, "the number of animals"), (*BEACH, "the action of the animals")]
        )
        assert number > action + 1
    else:
        assert all(above > below + 0.3 for above, below in pairwise(model.score(LADDER)))
        assert model.dimension == 768


def test_turbo_is_half_of_the_embedded_model() -> None:
    turbo = load_offline("turbo")
    assert (turbo.kind, turbo.dimension) == (Kind.ENCODER, 384)
    assert turbo.backbone_config["num_hidden_layers"] == 3
    cosines = turbo.score(SAMPLES)
    assert np.corrcoef(cosines, tertium.load("sts").cosine(SAMPLES))[0, 1] > 0.95


# sts


def test_sts_is_a_scorer_from_0_to_5(sts: PairScorer) -> None:
    assert (sts.name, sts.scale, sts.dimension) == ("sts-fast", (0.0, 5.0), 384)
    assert sts.pooling is Pooling.MEAN
    assert NAMES["sts-fast"].kind is Kind.PAIR
    assert [(data.name, data.split, data.use) for data in sts.training_data] == [
        ("STS-B", "train", "training"),
        ("STS-B", "dev", "selection"),
    ]


def test_the_same_text_is_a_5_and_an_unrelated_one_a_0(sts: PairScorer) -> None:
    assert sts.score([(text, text) for text in TEXTS[:10]]).min() > 4.9
    assert sts.score(UNRELATED).max() < 0.5
    assert sts.classify([("A cat sleeps.", "A cat sleeps."), *UNRELATED]) == [5.0, 0.0, 0.0, 0.0]


def test_obvious_pairs_are_in_order(sts: PairScorer) -> None:
    assert all(above > below + 0.3 for above, below in pairwise(sts.score(LADDER)))


def test_grades_follow_the_cosines_and_lie_within_the_scale(sts: PairScorer) -> None:
    grades, cosines = sts.score(SAMPLES), sts.cosine(SAMPLES)
    assert grades.min() >= 0 and grades.max() <= 5
    assert (np.diff(grades[cosines.argsort()]) >= 0).all()


def test_grades_are_symmetric(sts: PairScorer) -> None:
    turned = [(second, first) for first, second in SAMPLES]
    np.testing.assert_allclose(sts.score(turned), sts.score(SAMPLES), atol=1e-5)


def test_grades_are_near_those_by_hand(sts: PairScorer) -> None:
    gold = np.array([row.score for row in sample_pairs()])
    grades = sts.score(SAMPLES)
    assert abs(grades - gold).mean() < 1
    assert spearman(gold, grades) > 0.7


def test_classes_are_whole_grades(sts: PairScorer) -> None:
    grades, classes = sts.score(SAMPLES), np.array(sts.classify(SAMPLES), dtype=float)
    assert set(classes) <= {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}
    assert abs(classes - grades).max() <= 0.5


def test_it_encodes_and_is_another_model_than_its_base(sts: PairScorer) -> None:
    vectors = sts.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert abs(vectors - tertium.load().encode(TEXTS, normalize=True)).max() > 0.01


def test_saved_it_is_an_ordinary_model(sts: PairScorer, tmp_path: Path) -> None:
    sts.save(tmp_path / "model")
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(plain.encode(TEXTS), sts.encode(TEXTS), atol=1e-5)
    again = tertium.load(tmp_path / "model")
    np.testing.assert_allclose(again.score(SAMPLES), sts.score(SAMPLES), atol=1e-5)


# sts, with its judge

DENIED = [
    ("The patient is allergic to penicillin.", "The patient is not allergic to penicillin."),
    ("He is asleep.", "He is awake."),
    ("The shop is open.", "The shop isn't open."),
]
AGREEING = [("He is asleep.", "He is not awake."), ("The door is open.", "The door isn't closed.")]


def test_a_denied_text_is_not_the_same(careful: CarefulScorer, sts: PairScorer) -> None:
    assert (careful.name, careful.scale) == ("sts", (0.0, 5.0))
    assert careful.score(DENIED)[0] <= 3
    assert (careful.score(DENIED) < 0.71 * sts.score(DENIED)).all()
    assert (careful.contradiction(AGREEING) < 0.2).all()
    assert (careful.score(AGREEING) > sts.score(AGREEING)).all()


def test_where_words_give_no_reason_it_is_the_fast_one(
    careful: CarefulScorer, sts: PairScorer
) -> None:
    kept = [pair for pair in SAMPLES if not careful.caution.asks(pair)]
    assert len(kept) > len(SAMPLES) / 2
    np.testing.assert_allclose(careful.score(kept), sts.score(kept), atol=1e-5)
    turned = [(second, first) for first, second in DENIED]
    np.testing.assert_allclose(careful.score(turned), careful.score(DENIED), atol=1e-4)


def test_its_size_and_halves_are_kept() -> None:
    parts = [NAMES[name].folder() for name in ("sts", "sts-fast", "judge")]
    files = [path for part in parts for path in part.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 16_000_000
    judge = load_offline("judge")
    assert (judge.kind, judge.scale, judge.takes_conditions) == (Kind.CROSS, (0.0, 1.0), False)


# conditional

BEACH = ("Two dogs run on a sunny beach.", "Two cats sleep on a beach at night.")
VANS = ("A red van stands at the school.", "Three red bicycles lean against a shop.")


def test_conditional_grades_from_1_to_5(conditional: TripleScorer) -> None:
    assert (conditional.name, conditional.scale) == ("conditional", (1.0, 5.0))
    assert ("C-STS-revised", "train", "training") in [
        (data.name, data.split, data.use) for data in conditional.training_data
    ]
    assert "validation" not in {data.split for data in conditional.training_data}


def test_the_respect_decides(conditional: TripleScorer) -> None:
    number, action, color, vehicle = conditional.score(
        [
            (*BEACH, "the number of animals"),
            (*BEACH, "the action of the animals"),
            (*VANS, "the color"),
            (*VANS, "the type of vehicle"),
        ]
    )
    assert number > action + 0.3 and color > vehicle + 0.3


def test_conditional_is_symmetric(conditional: TripleScorer) -> None:
    there = conditional.score([(*BEACH, "the number of animals"), (*VANS, "the color")])
    back = conditional.score([(*BEACH[::-1], "the number of animals"), (*VANS[::-1], "the color")])
    np.testing.assert_allclose(there, back, atol=1e-5)


def test_conditional_explains_itself(conditional: TripleScorer) -> None:
    found = conditional.explain(*BEACH, condition="the number of animals")
    assert [word.text for word in found.words[0]][:2] == ["Two", "dogs"]
    again = conditional.explain(*BEACH, condition="the number of animals")
    np.testing.assert_array_equal(found.occlusion[0], again.occlusion[0])
