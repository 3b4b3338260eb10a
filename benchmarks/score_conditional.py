"""Triples a second of our SEAVER against the same head in a loop, and against a cross-encoder.

python benchmarks/score_conditional.py
"""

import numpy as np
import torch
from common import data_folder, publish, seconds
from torch import Tensor

import tertium
from tertium.data import benchmarks
from tertium.data.labels import OrderedLabels
from tertium.heads import CrossHead, SeaverHead
from tertium.models import ConditionalScorer, Encoder
from tertium.models.conditional import model_shape
from tertium.types import TextTriple

TRIPLES, LENGTH, BATCH = 512, 128, 32


def main() -> None:
    """Fresh heads on the embedded model: the time does not depend on the weights."""
    encoder = tertium.load()
    assert isinstance(encoder, Encoder)
    encoder.model.max_seq_length = LENGTH
    shape, labels = model_shape(encoder), OrderedLabels(1.0, 5.0)
    ours = ConditionalScorer(encoder, SeaverHead(shape, regressor="mean"), labels)
    cross = ConditionalScorer(encoder, CrossHead(shape, regressor="mean"), labels)
    triples = _triples()
    naive = _naive(ours, triples)
    np.testing.assert_allclose(naive, ours.score(triples, within_scale=False), atol=1e-3)
    timings = {
        "SEAVER, batches of like length": seconds(lambda: ours.score(triples)),
        f"SEAVER, a loop over examples padded to {LENGTH}": seconds(lambda: _naive(ours, triples)),
        "plain cross-encoder, batches of like length": seconds(lambda: cross.score(triples)),
    }
    base = timings["plain cross-encoder, batches of like length"]
    rows = [
        [name, f"{len(triples) / spent:.1f}", f"{spent / base:.2f}"]
        for name, spent in timings.items()
    ]
    title = f"Scoring {len(triples):,} triples of C-STS, embedded MiniLM"
    publish("score_conditional", title, ["engine", "triples/s", "cost to cross-encoder"], rows)


def _triples() -> list[TextTriple]:
    rows = benchmarks.load("C-STS", split="validation", folder=data_folder()).rows
    chosen = np.random.default_rng(0).permutation(len(rows))[:TRIPLES]
    return [(rows[at].sentence1, rows[at].sentence2, rows[at].condition) for at in chosen]


@torch.inference_mode()
def _naive(scorer: ConditionalScorer, triples: list[TextTriple]) -> np.ndarray:
    """The head as it is usually written: all layers' attention, one example after another."""
    model, head = scorer.model.eval(), scorer.head
    assert isinstance(head, SeaverHead)
    backbone = scorer.encoder.backbone
    usual = backbone.config._attn_implementation
    backbone.set_attn_implementation("eager")
    scores = []
    for start in range(0, len(triples), BATCH):
        rows = [row[0] for row in model.sequences(triples[start : start + BATCH])]
        features = model.tokenizer.batch(rows, width=LENGTH)
        out = backbone(
            input_ids=features["input_ids"],
            attention_mask=features["attention_mask"],
            output_attentions=True,
        )
        states = [
            _augmented(
                head, out.last_hidden_state[at], out.attentions[-1][at], row.sentences, row.ids
            )
            for at, row in enumerate(rows)
        ]
        scores.append(head.regressor(torch.stack(states), features["segments"]).squeeze(1))
    backbone.set_attn_implementation(usual)
    low, high = scorer.scale
    return (low + (high - low) * torch.cat(scores)).numpy()


def _augmented(
    head: SeaverHead, states: Tensor, attention: Tensor, sentences: int, ids: list[int]
) -> Tensor:
    """One example: both products for every head, concatenated, projected, added to the states."""
    cut, end = sentences, len(ids)
    parts = []
    for weights in attention:
        across, back = weights[:cut, cut:end], weights[cut:end, :cut]
        sentence = (across @ back).softmax(dim=-1) @ states[:cut]
        condition = (back @ across).softmax(dim=-1) @ states[cut:end]
        parts.append(torch.cat([sentence, condition, states[end:]]))
    projected: Tensor = head.augmentation.compressor(torch.cat(parts, dim=-1))
    return projected + head.augmentation.alpha * states


if __name__ == "__main__":
    main()
