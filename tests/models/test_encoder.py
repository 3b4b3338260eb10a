import contextlib
import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from tertium import models
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.base import Embedder
from tertium.models.encoder import TransformersTokenizer
from tertium.models.tokens import TokenizationStats, TruncationWarning, UnknownTextWarning
from tertium.records.manifest import TrainingData, read_manifest
from tertium.types import Pooling
from tests.fakes import WORDS

TEXT = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)
TEXTS = st.lists(TEXT, min_size=1, max_size=12)
BUDGET = st.integers(1, 400)
SOME = ["the cat sleeps .", "a dog barks", "x", "a b c d e f g h i j k l m n o p"]


@contextlib.contextmanager
def counting_rows(encoder: Encoder) -> Iterator[list[int]]:
    """How many rows each forward pass was given."""
    seen: list[int] = []
    embeddings = encoder.backbone.embeddings
    hook = embeddings.register_forward_hook(lambda _, inputs, output: seen.append(len(output)))
    try:
        yield seen
    finally:
        hook.remove()


# What batching must not change.


@given(texts=TEXTS, budget=BUDGET)
def test_equals_sentence_transformers(tiny: Encoder, texts: list[str], budget: int) -> None:
    expected = tiny.model.encode(texts, batch_size=4, show_progress_bar=False)
    np.testing.assert_allclose(tiny.encode(texts, token_budget=budget), expected, atol=1e-5)


@given(texts=TEXTS, one=BUDGET, other=BUDGET)
def test_batch_size_changes_nothing(tiny: Encoder, texts: list[str], one: int, other: int) -> None:
    first, second = (tiny.encode(texts, token_budget=budget) for budget in (one, other))
    np.testing.assert_allclose(first, second, atol=1e-5)


@given(texts=TEXTS, data=st.data())
def test_order_changes_nothing(tiny: Encoder, texts: list[str], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(texts))))
    shuffled = tiny.encode([texts[i] for i in order])
    np.testing.assert_allclose(shuffled, tiny.encode(texts)[order], atol=1e-5)


@given(text=TEXT, company=TEXTS)
def test_padding_changes_nothing(tiny: Encoder, text: str, company: list[str]) -> None:
    together = tiny.encode([text, *company], token_budget=10_000)[0]
    np.testing.assert_allclose(together, tiny.encode(text), atol=1e-5)


@given(texts=TEXTS, repeats=st.integers(2, 4))
def test_duplicates_get_the_same_vector(tiny: Encoder, texts: list[str], repeats: int) -> None:
    vectors = tiny.encode(texts * repeats).reshape(repeats, len(texts), -1)
    np.testing.assert_array_equal(vectors, np.broadcast_to(vectors[0], vectors.shape))
    np.testing.assert_allclose(vectors[0], tiny.encode(texts), atol=1e-5)


@given(texts=TEXTS, budget=BUDGET)
def test_every_distinct_text_is_encoded_once(bert: Encoder, texts: list[str], budget: int) -> None:
    with counting_rows(bert) as rows:
        bert.encode(texts * 3, token_budget=budget)
    assert sum(rows) == len(set(texts))


def test_the_default_model_equals_sentence_transformers(default_encoder: Encoder) -> None:
    texts = [
        "A cat sleeps.",
        "",
        "A longer, naïve sentence with more words than the others.",
        "🙂",
    ]
    expected = default_encoder.model.encode(texts, show_progress_bar=False)
    np.testing.assert_allclose(default_encoder.encode(texts), expected, atol=1e-5)
    assert default_encoder.pooling is Pooling.MEAN
    assert default_encoder.dimension == 384
    assert default_encoder.max_length == 256


# Unusual texts.


def test_nothing_gives_no_rows(bert: Encoder) -> None:
    with counting_rows(bert) as rows:
        assert bert.encode([]).shape == (0, bert.dimension)
        assert bert.encode([], output="torch", normalize=True).shape == (0, bert.dimension)
        assert bert.score([]).shape == (0,)
        assert list(bert.encode_stream([])) == []
    assert rows == []


def test_empty_and_blank_texts_are_special_tokens_alone(tiny: Encoder) -> None:
    vectors = tiny.encode(["", " ", "\n\t ", "\u00a0"])
    assert np.isfinite(vectors).all()
    ids = tiny.features([""])["input_ids"]
    assert ids.tolist() == [[tiny.tokenizer.cls_token_id, tiny.tokenizer.sep_token_id]]
    np.testing.assert_allclose(vectors, np.broadcast_to(vectors[0], vectors.shape), atol=1e-6)


def test_a_very_long_text_is_read_from_its_beginning(bert: Encoder) -> None:
    long = "a b " * 25_000  # 100,000 characters
    with pytest.warns(TruncationWarning, match="^1 of 2 distinct texts had more than 64 tokens"):
        vectors = bert.encode([long, "the cat", long])
    beginning = bert.encode("a b " * 31)  # 62 words and two special tokens
    np.testing.assert_allclose(vectors[0], beginning, atol=1e-5)
    np.testing.assert_array_equal(vectors[0], vectors[2])


@pytest.mark.parametrize("word", ["cat ", "猫"])
def test_of_an_endless_text_no_more_is_read_than_fills_the_model(
    word: str, bert: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless, enough = word * 4000, word * 400
    expected = bert.encode([enough], truncation=TokenizationStats())
    read: list[int] = []
    ids = TransformersTokenizer._ids

    def counted(
        self: TransformersTokenizer, texts: list[str], **options: object
    ) -> list[list[int]]:
        read.extend(map(len, texts))
        return ids(self, texts, **options)

    monkeypatch.setattr(TransformersTokenizer, "_ids", counted)
    truncation = TokenizationStats()
    np.testing.assert_array_equal(bert.encode([endless], truncation=truncation), expected)
    assert truncation.cut == 1 and max(read) <= 32 * bert.max_length


def test_a_text_whose_first_words_are_endless_is_read_on(bert: Encoder) -> None:
    endless = "catcatcat" * 300
    vectors = bert.encode([f"{endless} the cat", f"{endless} a dog"])
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


def test_a_very_long_word(default_encoder: Encoder) -> None:
    assert np.isfinite(default_encoder.encode("x" * 100_000)).all()


def test_truncation_is_reported_once_per_call(bert: Encoder) -> None:
    texts = [f"{word} " * (70 + at) for at, word in enumerate("abc")]
    for _ in range(2):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            bert.encode([*texts, "the cat", *texts], token_budget=64)
        assert [str(w.message).split(";")[0] for w in seen] == [
            "3 of 4 distinct texts had more than 64 tokens"
        ]


def test_a_text_of_exactly_the_limit_is_whole(bert: Encoder) -> None:
    bert.encode("a " * 62)  # a warning would fail the test
    with pytest.warns(TruncationWarning, match="1 of 1"):
        bert.encode("a " * 63)


def test_max_length_is_an_option(tiny_bert: Path) -> None:
    encoder = models.load(tiny_bert, max_length=6)
    assert encoder.max_length == 6
    with pytest.warns(TruncationWarning, match="more than 6 tokens"):
        cut = encoder.encode("a b c d e f g")
    np.testing.assert_allclose(cut, encoder.encode("a b c d"), atol=1e-6)


def test_emoji(default_encoder: Encoder) -> None:
    vectors = default_encoder.encode(["😀", "👩‍👩‍👧‍👦 family", "plain"])
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        ("a \ud800 b", "a \ufffd b"),
        ("\udcff", "\ufffd"),
        ("a \ud83d\ude00", "a 😀"),  # two halves that belong together
    ],
)
def test_lone_surrogates_become_the_replacement_character(
    default_encoder: Encoder, broken: str, mended: str
) -> None:
    vectors = default_encoder.encode([broken, mended])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


@pytest.mark.parametrize("wrong", [None, 3, 2.5, b"bytes", ["list"], float("nan")])
def test_a_non_string_is_named_by_its_index(bert: Encoder, wrong: object) -> None:
    with pytest.raises(TypeError, match=rf"texts\[2\] is {type(wrong).__name__}"):
        bert.encode(["a", "b", wrong, wrong])  # type: ignore[list-item]


def test_a_non_string_in_a_stream_is_named_by_its_place_in_the_stream(bert: Encoder) -> None:
    with pytest.raises(TypeError, match=r"texts\[5\] is int"):
        list(bert.encode_stream(["a", "b", "c", "d", "e", 7], window=2))  # type: ignore[list-item]


# Options.


def test_one_string_gives_one_vector(bert: Encoder) -> None:
    vector = bert.encode("the cat")
    assert vector.shape == (bert.dimension,)
    np.testing.assert_array_equal(vector, bert.encode(["the cat"])[0])


def test_numpy_and_torch_outputs_agree(bert: Encoder) -> None:
    array, tensor = bert.encode(SOME), bert.encode(SOME, output="torch")
    assert isinstance(array, np.ndarray) and array.dtype == np.float32
    assert isinstance(tensor, torch.Tensor) and tensor.device == bert.device
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_normalize(bert: Encoder) -> None:
    plain, unit = bert.encode(SOME), bert.encode(SOME, normalize=True)
    assert np.abs(np.linalg.norm(plain, axis=1) - 1).max() > 0.1
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(unit, plain / np.linalg.norm(plain, axis=1)[:, None], atol=1e-6)


def test_a_prompt_stands_before_every_text(bert: Encoder) -> None:
    prompted = bert.encode(SOME, prompt="the dog ")
    np.testing.assert_allclose(prompted, bert.encode([f"the dog {t}" for t in SOME]), atol=1e-6)
    expected = bert.model.encode(SOME, prompt="the dog ", show_progress_bar=False)
    np.testing.assert_allclose(prompted, expected, atol=1e-5)


@pytest.mark.parametrize("include", [True, False])
def test_a_saved_prompt_is_the_default(tiny_bert: Path, include: bool) -> None:
    encoder = models.load(tiny_bert)
    encoder.model.prompts = {"query": "the dog ", "other": "x "}
    encoder.model.default_prompt_name = "query"
    encoder.model[1].include_prompt = include
    expected = encoder.model.encode(SOME, show_progress_bar=False)
    np.testing.assert_allclose(encoder.encode(SOME), expected, atol=1e-5)
    assert np.abs(encoder.encode(SOME, prompt="") - expected).max() > 1e-3


def test_a_token_budget_below_one_is_refused(bert: Encoder) -> None:
    with pytest.raises(ValueError, match="budget"):
        bert.encode(SOME, token_budget=0)


def test_training_mode_survives_encoding(tiny_bert: Path) -> None:
    encoder = models.load(tiny_bert)
    still = encoder.encode(SOME)
    encoder.model.train()
    np.testing.assert_array_equal(encoder.encode(SOME), still)  # without dropout
    assert encoder.model.training
    with pytest.raises(ValueError, match="budget"):
        encoder.encode(SOME, token_budget=-1)
    assert encoder.model.training


def test_progress_goes_to_standard_error(bert: Encoder, capsys: pytest.CaptureFixture[str]) -> None:
    bert.encode(SOME, progress=False)
    assert capsys.readouterr().err == ""
    bert.encode(SOME, progress=True)
    assert capsys.readouterr().out == ""


# Streams.


@given(texts=st.lists(TEXT, max_size=12), window=st.integers(1, 5))
def test_a_stream_equals_encode(bert: Encoder, texts: list[str], window: int) -> None:
    streamed = list(bert.encode_stream(iter(texts), window=window, normalize=True))
    assert len(streamed) == len(texts)
    for row, expected in zip(streamed, bert.encode(texts, normalize=True), strict=True):
        np.testing.assert_allclose(row, expected, atol=1e-5)


def test_a_stream_reads_one_window_ahead_at_most(bert: Encoder) -> None:
    pulled = 0

    def endless() -> Iterator[str]:
        nonlocal pulled
        for at in itertools.count():
            pulled += 1
            yield WORDS[at % len(WORDS)]

    stream = bert.encode_stream(endless(), window=4)
    assert pulled == 0
    for at in range(1, 20):
        next(stream)
        assert pulled == 4 * -(-at // 4)


# Scores.


def test_scores_are_cosines(bert: Encoder) -> None:
    pairs = list(itertools.combinations(SOME, 2))
    vectors = dict(zip(SOME, bert.encode(SOME).astype(np.float64), strict=True))
    expected = [
        vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b])
        for a, b in pairs
    ]
    scores = bert.score(iter(pairs))
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    np.testing.assert_allclose(bert.score([(b, a) for a, b in pairs]), scores, atol=1e-6)
    assert bert.score([("x", "x")]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    "pairs", [[("a", "b", "c")], [("a", "b"), ("a",)], [("a", "b", "c"), ("d",)], ["ab"]]
)
def test_what_is_no_pair_is_refused(bert: Encoder, pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(TertiumError, match=rf"pairs\[{len(pairs) - 1}\]|pairs\[0\]"):
        bert.score(pairs)


def test_meaning_shows_in_the_default_model(default_encoder: Encoder) -> None:
    near, far = default_encoder.score(
        [("A cat sleeps.", "A kitten is napping."), ("A cat sleeps.", "Stocks fell sharply.")]
    )
    assert near > 0.6 > 0.2 > far


# Saving.


def test_saved_folders_say_what_they_are(bert: Encoder, tmp_path: Path) -> None:
    seen = (TrainingData(name="STS-B", split="train"),)
    encoder = Encoder(bert.model, name="mine", pooling=bert.pooling, training_data=seen)
    encoder.save(tmp_path / "deep" / "model")
    manifest = read_manifest(tmp_path / "deep" / "model")
    assert manifest is not None
    assert (manifest.kind, manifest.pooling, manifest.scale) == ("encoder", "mean", (-1, 1))
    assert models.load(tmp_path / "deep" / "model").training_data == seen
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model"]


def test_saving_over_another_model_replaces_it(bert: Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    bert.with_pooling(Pooling.CLS_MLP).save(folder)
    bert.save(str(folder))
    expected = bert.encode(SOME)
    ours, stock = models.load(folder), SentenceTransformer(str(folder))
    assert ours.pooling is Pooling.MEAN
    np.testing.assert_allclose(ours.encode(SOME), expected, atol=1e-6)
    np.testing.assert_allclose(stock.encode(SOME), expected, atol=1e-5)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_failed_save_leaves_everything_as_it_was(
    bert: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    bert.save(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    def broken(_: object, path: str, **options: object) -> None:
        (Path(path) / "half.safetensors").write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(SentenceTransformer, "save", broken)
    with pytest.raises(OSError, match="disk full"):
        bert.save(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert list(tmp_path.iterdir()) == [folder]


def test_a_model_can_be_saved_over_the_folder_it_came_from(bert: Encoder, tmp_path: Path) -> None:
    bert.save(tmp_path / "model")
    loaded = models.load(tmp_path / "model")
    before = loaded.encode(SOME)
    loaded.save(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(SOME), before)
    np.testing.assert_allclose(models.load(tmp_path / "model").encode(SOME), before, atol=1e-6)


# What it is.


def test_an_encoder_embeds_and_scores(bert: Encoder) -> None:
    assert isinstance(bert, Embedder)
    assert not bert.takes_conditions


def test_a_model_without_a_transformer_is_refused() -> None:
    model = SentenceTransformer(modules=[torch.nn.Identity()], device="cpu")
    with pytest.raises(TertiumError, match="Identity"):
        Encoder(model, name="odd", pooling=None)


def test_an_empty_batch_has_no_features(bert: Encoder) -> None:
    with pytest.raises(TertiumError, match="at least one text"):
        bert.features([])


def test_texts_that_the_vocabulary_does_not_know_are_counted(tiny_bert: Path) -> None:
    encoder = models.load(tiny_bert)
    with pytest.warns(UnknownTextWarning, match="2 of 4 distinct texts contain nothing"):
        rows = encoder.encode(["zzz", "yyy xxx", "the zzz", ""])
    assert rows.shape == (4, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode(["the cat", "zzz cat", ""])
