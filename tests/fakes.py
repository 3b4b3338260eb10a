"""Stand-ins that need no weights, and tiny models that need no download."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModel,
    BertConfig,
    BertTokenizerFast,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

from tertium.models.base import Embedder
from tertium.records.manifest import TrainingData
from tertium.types import Pooling, TextPair


class HashEncoder(Embedder):
    """Vectors drawn from a hash of the text: the same text always gives the same vector."""

    name: str = "hash"
    dimension: int = 16
    pooling: Pooling | None = Pooling.MEAN
    training_data: tuple[TrainingData, ...] = ()

    def __init__(self, name: str = "hash", dimension: int = 16) -> None:
        self.name = name
        self.dimension = dimension
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str], **options: Any) -> np.ndarray:
        self.seen.extend(texts)
        return np.array([self._vector(text) for text in texts], np.float32).reshape(
            len(texts), self.dimension
        )

    def score(self, pairs: Iterable[TextPair], **options: Any) -> np.ndarray:
        u, v = (self.encode(list(side)) for side in zip(*pairs, strict=True))
        return np.asarray((u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1))

    def _vector(self, text: str) -> np.ndarray:
        digest = hashlib.sha256(f"{self.name}:{text}".encode()).digest()
        seed = int.from_bytes(digest[:8], "big")
        return np.random.default_rng(seed).standard_normal(self.dimension)


WORDS = [*"abcdefghijklmnopqrstuvwxyz", "cat", "dog", "sleeps", "barks", "the", ".", ","]


def tiny_model(
    folder: Path, architecture: str = "bert", *, layers: int = 3, heads: int = 4, width: int = 32
) -> Path:
    """Write a tiny random BERT or RoBERTa with a word-level tokenizer, as a transformers folder."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 2 * width,
        "max_position_embeddings": 66,
        "initializer_range": 0.3,
    }
    tokenizer = _tokenizer(architecture)
    sizes |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    config = BertConfig(**sizes) if architecture == "bert" else RobertaConfig(**sizes)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(architecture: str) -> PreTrainedTokenizerFast:
    if architecture == "bert":
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        vocabulary = {word: at for at, word in enumerate([*special, *WORDS])}
        return BertTokenizerFast(vocab=vocabulary, model_max_length=64)
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocabulary = {word: at for at, word in enumerate([*special, *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=64,
    )
