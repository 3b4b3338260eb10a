from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tertium import errors
from tertium.errors import MissingExtraError, TertiumError
from tertium.models.tokens import TokenizationStats
from tertium.models.translator import Translator
from tests.translators import tiny_marian, tiny_nllb

TEXTS = ["the cat sleeps .", "a dog barks", "x", "the dog , the cat , the dog"]


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(tiny_marian(tmp_path_factory.mktemp("marian") / "en-de"))


@pytest.fixture(scope="module")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(tiny_nllb(tmp_path_factory.mktemp("nllb") / "nllb"))


def translated(model: Translator, texts: list[str], target: str = "deu_Latn") -> list[str]:
    return model.translate(texts, source="eng_Latn", target=target, beams=2, max_length=12)


def test_a_translation_is_in_input_order_and_no_accident(marian: Translator) -> None:
    found = translated(marian, TEXTS)
    assert found == translated(marian, TEXTS)
    assert found == [translated(marian, [text])[0] for text in TEXTS]
    assert len(set(found)) > 1
    assert translated(marian, []) == []


def test_it_is_what_transformers_generates(marian: Translator) -> None:
    features = marian.tokenizer(TEXTS[:1], return_tensors="pt")
    with torch.no_grad():
        ids = marian.model.generate(**features, num_beams=2, do_sample=False, max_new_tokens=12)
    expected = marian.tokenizer.batch_decode(ids, skip_special_tokens=True)
    assert translated(marian, TEXTS[:1]) == expected


def test_a_multilingual_model_is_told_the_languages(nllb: Translator, marian: Translator) -> None:
    assert nllb.multilingual and not marian.multilingual
    assert translated(nllb, TEXTS) != translated(nllb, TEXTS, "fra_Latn")
    with pytest.raises(TertiumError, match=r"no language 'deu' among its 3.*like deu_Latn"):
        translated(nllb, TEXTS, "deu")
    with pytest.raises(TertiumError, match="no language 'the'"):
        translated(nllb, TEXTS, "the")  # a word of its vocabulary, and no language


def test_long_texts_are_counted(marian: Translator) -> None:
    counted = TokenizationStats()
    marian.translate(
        ["a b c d e f g h i j k l m", "a"],
        source="en",
        target="de",
        max_length=8,
        truncation=counted,
    )
    assert (counted.cut, counted.texts, counted.limit) == (1, 2, 8)
    with pytest.raises(TertiumError, match="at most 64 tokens, and 65"):
        marian.translate(["a"], source="en", target="de", max_length=65)


def test_other_models_are_refused(tiny_bert: Path) -> None:
    with pytest.raises(TertiumError, match="is not a translation model"):
        Translator.load(tiny_bert)


def test_a_model_without_some_weights_is_refused(tmp_path: Path) -> None:
    folder = tiny_nllb(tmp_path / "nllb")
    weights = load_file(folder / "model.safetensors")
    gone = next(name for name in weights if name.endswith("fc1.weight"))
    del weights[gone]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(TertiumError, match=r"lacks weights: .*fc1\.weight"):
        Translator.load(folder)


def test_without_sentencepiece_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_marian(tmp_path / "en-de")
    monkeypatch.setitem(errors.EXTRAS, "translate", ("no_such_package",))
    with pytest.raises(MissingExtraError, match=r"pip install 'tertium\[translate\]'"):
        Translator.load(folder)
