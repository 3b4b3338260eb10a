"""Tiny random translation models that need no download."""

import io
import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    NllbTokenizer,
)

from tests.fakes import WORDS

_SIZES: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "max_position_embeddings": 64,
    "init_std": 0.5,
}


def tiny_marian(folder: Path, *, seed: int = 0) -> Path:
    """A MarianMT folder with sentencepiece models, as the hub has them."""
    import sentencepiece

    folder.mkdir(parents=True)
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(WORDS[at:] + WORDS[:at]) for at in range(len(WORDS))]),
        model_writer=trained,
        vocab_size=48,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(trained.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())
    words = [pieces.id_to_piece(at) for at in range(pieces.get_piece_size())]
    words = ["</s>", "<unk>", *(w for w in words if w not in ("<s>", "</s>", "<unk>")), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({word: at for at, word in enumerate(words)}))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"})
    )
    torch.manual_seed(seed)
    end, padding = 0, len(words) - 1
    config = MarianConfig(
        **_SIZES,
        vocab_size=len(words),
        pad_token_id=padding,
        decoder_start_token_id=padding,
        eos_token_id=end,
        forced_eos_token_id=end,
    )
    MarianMTModel(config).save_pretrained(folder)
    return folder


def tiny_nllb(folder: Path) -> Path:
    """A multilingual model with a tokenizer that knows English, German and French."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = ["▁", *(f"▁{word}" for word in WORDS), *"abcdefghijklmnopqrstuvwxyz.,"]
    words = list(dict.fromkeys([*special, *pieces]))
    tokenizer = NllbTokenizer(
        vocab={word: at for at, word in enumerate(words)},
        merges=[],
        additional_special_tokens=["eng_Latn", "deu_Latn", "fra_Latn"],
        model_max_length=64,
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = M2M100Config(
        **_SIZES,
        vocab_size=len(tokenizer),
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
    )
    M2M100ForConditionalGeneration(config).save_pretrained(folder)
    return folder
