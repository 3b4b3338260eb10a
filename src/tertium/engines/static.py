"""A static copy of an encoder: one vector per token, so that a text costs a few additions.

The method is Model2Vec's (Tulkens & van Dongen, 2024): each token is encoded by itself, without
normalisation, because more informative tokens have longer vectors. Principal components remove
what all vectors have in common, and frequent tokens, which come first in a vocabulary, are
down-weighted (Arora et al., 2017, with Zipf's law for the frequencies). The components are half
whitened, so that the first ones do not dominate.
"""

import copy
import re

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import nn

from tertium.data.samples import sample_pairs
from tertium.errors import TertiumError
from tertium.models import Encoder, StaticEncoder
from tertium.models.encoder import evaluating
from tertium.progress import track

__all__ = ["agreement", "distil_static", "frequency_weights", "principal_components"]

_UNUSED = re.compile(r"\[unused\d+\]")
_TOKENS = 512  # tokens per batch


def distil_static(
    encoder: Encoder,
    *,
    dimensions: int = 256,
    smoothing: float = 1e-4,
    whitening: float = 0.5,
    progress: bool | None = None,
) -> StaticEncoder:
    """Static embeddings with the tokenizer of ``encoder``.

    Args:
        encoder: any transformer encoder, whatever its pooling.
        dimensions: principal components to keep, at most the width of the encoder's vectors.
        smoothing: the weight of a token of probability p is ``smoothing / (smoothing + p)``.
        whitening: 0 keeps the variance of the components, 1 makes all equal.
        progress: False for no progress on standard error.
    """
    vocabulary = encoder.tokenizer.get_vocab()
    special = set(encoder.tokenizer.all_special_ids)
    tokens = [
        at
        for token, at in sorted(vocabulary.items(), key=lambda entry: entry[1])
        if at not in special and not _UNUSED.fullmatch(token)
    ]
    alone = _token_vectors(encoder, tokens, progress=progress)
    vectors = principal_components(alone, dimensions, whitening=whitening)
    table = np.zeros((max(vocabulary.values()) + 1, vectors.shape[1]), np.float32)
    table[tokens] = vectors * frequency_weights(len(tokens), smoothing=smoothing)[:, None]
    core = getattr(encoder.tokenizer, "backend_tokenizer", None)
    if core is None:
        raise TertiumError(
            f"{encoder.name} has a slow tokenizer, but static embeddings need a fast one."
        )
    core = copy.deepcopy(core)
    core.no_truncation()
    modules: list[nn.Module] = [StaticEmbedding(core, embedding_weights=table)]
    modules += [Normalize()] if encoder.normalizes else []
    model = SentenceTransformer(modules=modules, device="cpu")
    model.eval()
    return StaticEncoder(model, name=encoder.name, training_data=encoder.training_data)


def principal_components(
    vectors: NDArray[np.float32], count: int, *, whitening: float = 0.0
) -> NDArray[np.float32]:
    """Centred rows projected onto their first ``count`` principal axes.

    Each axis is divided by its standard deviation to the power of ``whitening``.

    >>> principal_components(np.array([[0.0, 2.0], [0.0, 4.0], [0.0, 6.0]]), 1).round(3).tolist()
    [[-2.0], [0.0], [2.0]]
    """
    centred = vectors - vectors.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    order = np.argsort(-values)[:count]
    chosen = axes[:, order]
    chosen = chosen * np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    spread = np.sqrt(np.maximum(values[order] / len(vectors), 1e-12))
    return np.asarray(centred @ chosen / spread**whitening)


def frequency_weights(count: int, *, smoothing: float) -> NDArray[np.float64]:
    """Weights of tokens in order of frequency, by Zipf's law.

    >>> frequency_weights(3, smoothing=0.5).round(3).tolist()
    [0.52, 0.619, 0.684]
    """
    probability = 1 / np.arange(2, count + 2)
    probability /= probability.sum()
    return np.asarray(smoothing / (smoothing + probability))


def agreement(static: StaticEncoder, encoder: Encoder) -> float:
    """Rank correlation of both models' cosines on the sample pairs."""
    from scipy.stats import spearmanr  # slow to import, and rarely needed

    pairs = [(pair.sentence1, pair.sentence2) for pair in sample_pairs()]
    both = (model.score(pairs, progress=False) for model in (static, encoder))
    return float(spearmanr(*both).statistic)


@torch.inference_mode()
def _token_vectors(
    encoder: Encoder, tokens: list[int], *, progress: bool | None
) -> NDArray[np.float32]:
    """The encoder's vector of each single token, before normalisation."""
    before, after = _frame(encoder)
    starts = range(0, len(tokens), _TOKENS)
    found = []
    with evaluating(encoder.model):
        for start in track(starts, label="distilling", unit="batch", show=progress):
            rows = [[*before, token, *after] for token in tokens[start : start + _TOKENS]]
            ids = torch.tensor(rows, device=encoder.device)
            features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            for module in encoder.model:
                features = features if isinstance(module, Normalize) else module(features)
            found.append(features["sentence_embedding"].float().cpu().numpy())
    return np.concatenate(found)


def _frame(encoder: Encoder) -> tuple[list[int], list[int]]:
    """The special tokens before and after a text."""
    frame, word = (encoder.tokenizer(text)["input_ids"] for text in ("", "a"))
    same = next((at for at, token in enumerate(frame) if word[at] != token), len(frame))
    return frame[:same], frame[same:]
