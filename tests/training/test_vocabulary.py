from pathlib import Path

import pytest
import torch
from transformers import BertTokenizerFast

import tertium
from tertium.errors import TertiumError
from tertium.training.vocabulary import read_vocabulary
from tertium.types import Tokens

TEXTS = ["the cat sleeps .", "zebra"]  # the second is unknown


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
def test_special_ids_and_characters(model: str, request: pytest.FixtureRequest) -> None:
    encoder = tertium.load(request.getfixturevalue(model))
    tokenizer = encoder.tokenizer
    found = read_vocabulary(tokenizer)
    assert (found.size, len(found.characters)) == (len(tokenizer), len(tokenizer))
    assert (found.padding, found.mask) == (tokenizer.pad_token_id, tokenizer.mask_token_id)
    assert set(found.boundaries) == {tokenizer.cls_token_id, tokenizer.sep_token_id}
    widths = {word: int(found.characters[at]) for word, at in tokenizer.get_vocab().items()}
    assert (widths["sleeps"], widths["cat"], widths["."], widths["a"]) == (6, 3, 1, 1)
    features = encoder.features(TEXTS)
    content = found.content(Tokens(features["input_ids"], features["attention_mask"]))
    assert content.sum(1).tolist() == [4, 1]


def test_marks_of_word_pieces_are_no_characters() -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##ing", "Ġthe", "▁a", "▁", "#"]
    tokenizer = BertTokenizerFast(vocab={word: at for at, word in enumerate(words)})
    assert read_vocabulary(tokenizer).characters[5:].tolist() == [3, 3, 1, 1, 1]


def test_a_tokenizer_without_padding_or_mask(tiny_bert: Path) -> None:
    tokenizer = tertium.load(tiny_bert).tokenizer
    tokenizer.mask_token = None
    assert read_vocabulary(tokenizer).mask is None
    tokenizer.pad_token = None
    with pytest.raises(TertiumError, match="no padding token"):
        read_vocabulary(tokenizer)


def test_characters_are_whole_numbers(tiny_bert: Path) -> None:
    assert read_vocabulary(tertium.load(tiny_bert).tokenizer).characters.dtype == torch.long


@pytest.mark.parametrize(("model", "longest"), [("tiny_bert", 66), ("tiny_roberta", 64)])
def test_as_many_tokens_as_there_are_positions(
    model: str, longest: int, request: pytest.FixtureRequest
) -> None:
    encoder = tertium.load(request.getfixturevalue(model))
    assert read_vocabulary(encoder.tokenizer, encoder.backbone).longest == longest
    assert read_vocabulary(encoder.tokenizer).longest is None
    ids = torch.full((1, longest), 9)
    assert encoder.forward({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    ids = torch.full((1, longest + 1), 9)
    with pytest.raises((IndexError, RuntimeError)):
        encoder.forward({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
