"""The shape of the embedding space on STS-B."""

from dataclasses import dataclass

import torch

from tertium.data import benchmarks
from tertium.evaluation.context import Context
from tertium.evaluation.tasks.base import Outcome, defined
from tertium.functional import alignment, anisotropy, effective_rank, uniformity

__all__ = ["GeometryTask"]

_PROTOCOL = (
    "STS-B, L2-normalised embeddings: alignment over pairs with gold > 4; uniformity, anisotropy "
    "and effective rank over all sentences of both sides, duplicates kept"
)


@dataclass(frozen=True)
class GeometryTask:
    """Alignment, uniformity, anisotropy and effective rank."""

    name: str
    headline: str = "uniformity"

    def run(self, context: Context) -> Outcome:
        """Measure on the test split."""
        data = benchmarks.load("STS-B", split="test", folder=context.folder, text=context.text)
        first = torch.from_numpy(context.memory.embed([row.sentence1 for row in data.rows]))
        second = torch.from_numpy(context.memory.embed([row.sentence2 for row in data.rows]))
        positive = torch.tensor([row.score > 4 for row in data.rows])
        everything = torch.nn.functional.normalize(torch.cat([first, second]).double(), dim=1)
        measures = {
            "alignment": alignment(first[positive].double(), second[positive].double()),
            "uniformity": uniformity(everything),
            "anisotropy": anisotropy(everything),
            "effective_rank": effective_rank(everything),
        }
        values = {
            **{name: defined(value.item()) for name, value in measures.items()},
            "dimension": context.memory.embedder.dimension,
            "positives": int(positive.sum()),
            "sentences": len(everything),
        }
        return Outcome(values, _PROTOCOL, data)
