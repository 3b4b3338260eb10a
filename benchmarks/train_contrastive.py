"""Sentences a second of one unsupervised step: SimCSE and ADD, and the usual ways of doing them.

python benchmarks/train_contrastive.py
"""

import time
import warnings
from collections.abc import Callable, Mapping
from statistics import mean

import torch
from common import data_folder, publish
from torch import Tensor

from tertium.models import Encoder
from tertium.recipes.build import build_encoder, build_module
from tertium.recipes.data import load_examples
from tertium.recipes.files import read_recipe
from tertium.training import TrainingModule
from tertium.training.examples import Collator
from tertium.types import Tokens

BATCH, LENGTH = 64, 32
BATCHES, ROUNDS = 5, 4

Step = Callable[[list[str]], object]


def main() -> None:
    """All contestants in one process, step by step in turn, on the same batches."""
    warnings.simplefilter("ignore")
    steps = {
        "SimCSE, tertium": our_step("simcse-minilm"),
        "SimCSE, MultipleNegativesRankingLoss": _theirs(),
        "ADD, tertium": our_step("add-naive-minilm"),
        "ADD, the naive way": _naive_step(),
        "ADD's view alone, tertium": _view("add-naive-minilm"),
        "ADD's view alone, the naive way": _naive_view(_drop),
        "ADD's view alone, one sentence at a time": _naive_view(_drop_one_by_one),
    }
    middle = times_in_turn(steps)
    ours = middle["SimCSE, tertium"]
    rows = [
        [name, f"{BATCH / took:.1f}", f"{1000 * took:.0f} ms", f"{took / ours:.2f}"]
        for name, took in middle.items()
    ]
    ratios = {
        "SimCSE, times as fast as MultipleNegativesRankingLoss": middle[
            "SimCSE, MultipleNegativesRankingLoss"
        ]
        / ours,
        "ADD's view, times as fast as the naive way": middle["ADD's view alone, the naive way"]
        / middle["ADD's view alone, tertium"],
        "ADD's view, times as fast as one sentence at a time": middle[
            "ADD's view alone, one sentence at a time"
        ]
        / middle["ADD's view alone, tertium"],
        "ADD step, times the cost of our SimCSE step": middle["ADD, tertium"] / ours,
    }
    rows += [[f"**{name}**", "", "", f"**{ratio:.2f}**"] for name, ratio in ratios.items()]
    title = f"One unsupervised step, batch {BATCH}, at most {LENGTH} tokens, Wikipedia sentences"
    header = ["step", "sentences/s", "time", "cost, our SimCSE = 1"]
    publish("train_contrastive", title, header, rows)


def times_in_turn(
    steps: Mapping[str, Step], *, size: int = BATCH, rounds: int = ROUNDS
) -> dict[str, float]:
    """Seconds of each step: its best on every batch, in turns that begin with another, averaged."""
    texts = load_texts()
    batches = [texts[at : at + size] for at in range(0, size * BATCHES, size)]
    best = {name: [float("inf")] * BATCHES for name in steps}
    order = list(steps)
    for _ in range(rounds):
        order = order[2:] + order[:2]  # who follows whom matters to the caches
        for at, batch in enumerate(batches):
            for name in order:
                start = time.perf_counter()
                steps[name](batch)
                best[name][at] = min(best[name][at], time.perf_counter() - start)
    return {name: mean(times) for name, times in best.items()}


def load_texts(*, limit: int | None = 5000) -> list[str]:
    """The sentences of the recipes, or with another limit more of their kind."""
    recipe = read_recipe("simcse-minilm", settings={"stages.contrast.data.limit": limit})
    examples = load_examples(recipe.stages[0], folder=data_folder()).examples
    return [text for (text,) in examples.texts]


def load_module(recipe: str) -> TrainingModule:
    """The first stage of a recipe, ready to train."""
    checked = read_recipe(recipe)
    stage = checked.stages[0]
    material = load_examples(stage, folder=data_folder())
    return build_module(stage, material, build_encoder(checked.encoder))


def training_step(model: torch.nn.Module, loss: Callable[[list[str]], Tensor]) -> Step:
    """Forward, backward and optimiser step of a model in training."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)  # as both trainers
    model.train()

    def step(batch: list[str]) -> None:
        loss(batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def our_step(recipe: str) -> Step:
    """Forward, backward and optimiser step of a recipe."""
    module = load_module(recipe)
    collate = Collator(module.encoder.tokenizer, max_length=LENGTH)
    return training_step(
        module, lambda batch: module(**collate([((t,), None) for t in batch]))["loss"]
    )


def _theirs() -> Step:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Pooling

    from tertium.models.embedded import default_folder

    transformer = Transformer(str(default_folder()), max_seq_length=LENGTH)
    pooling = Pooling(transformer.get_embedding_dimension(), "cls")
    model = SentenceTransformer(modules=[transformer, pooling], device="cpu")
    loss = MultipleNegativesRankingLoss(model)
    return training_step(
        loss, lambda batch: loss([model.preprocess(batch), model.preprocess(batch)], None)
    )


def _view(recipe: str) -> Step:
    module = load_module(recipe)
    module.train()
    collate = Collator(module.encoder.tokenizer, max_length=LENGTH)

    def step(batch: list[str]) -> Tokens:
        features = collate([((text,), None) for text in batch])
        tokens = Tokens(features["input_ids"], features["attention_mask"])
        return module.views[0](tokens, attend=module.attend)

    return step


def _naive_view(drop: Callable[[Encoder, list[str]], Tokens]) -> Step:
    module = load_module("simcse-minilm")
    module.train()
    return lambda batch: drop(module.encoder, batch)


def _naive_step() -> Step:
    """SimCSE's step on ids that a loop has shortened."""
    module = load_module("simcse-minilm")
    encoder = module.encoder
    collate = Collator(encoder.tokenizer, max_length=LENGTH)

    def loss(batch: list[str]) -> Tensor:
        whole = collate([((text,), None) for text in batch])
        second = _drop(encoder, batch)
        views = [
            encoder.forward({"input_ids": t.ids, "attention_mask": t.mask})
            for t in (Tokens(whole["input_ids"], whole["attention_mask"]), second)
        ]
        z = [module.projection(view.embedding) for view in views]
        logits = torch.nn.functional.cosine_similarity(z[0][:, None], z[1][None], dim=-1) / 0.05
        return torch.nn.functional.cross_entropy(logits, torch.arange(len(batch)))

    return training_step(module, loss)


def _drop(encoder: Encoder, batch: list[str], *, k: int = 1, least: int = 10) -> Tokens:
    """ADD as one would first write it: gradients and dropout on, a loop that drops."""
    features = encoder.tokenizer(
        batch, padding=True, truncation=True, max_length=LENGTH, return_tensors="pt"
    )
    before = encoder.backbone.config._attn_implementation
    encoder.backbone.set_attn_implementation("eager")
    attention = torch.stack(encoder.backbone(**features, output_attentions=True).attentions)
    encoder.backbone.set_attn_implementation(before)
    scores = attention.sum(dim=(0, 2, 3))
    rows = []
    for row, mask, score in zip(
        features["input_ids"], features["attention_mask"], scores, strict=True
    ):
        ids = row[: int(mask.sum())].tolist()
        if len(ids) >= least:
            for _ in range(k):
                at = min(range(1, len(ids) - 1), key=lambda at: float(score[at]))
                del ids[at]
        rows.append(ids)
    return _padded(encoder, rows)


def _drop_one_by_one(encoder: Encoder, batch: list[str]) -> Tokens:
    """The same with a pass for every sentence."""
    rows = [_drop(encoder, [text]) for text in batch]
    return _padded(encoder, [row.ids[0].tolist() for row in rows])


def _padded(encoder: Encoder, rows: list[list[int]]) -> Tokens:
    padded = encoder.tokenizer.pad({"input_ids": rows}, return_tensors="pt")
    return Tokens(padded["input_ids"], padded["attention_mask"])


if __name__ == "__main__":
    main()
