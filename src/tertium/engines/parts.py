"""The parts of a model that have a graph each: an encoder, or a conditional scorer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
from torch import Tensor

from tertium.engines.graphs import EncoderGraph, ScorerGraph, write_graph
from tertium.engines.parity import (
    Parity,
    calibration_texts,
    calibration_triples,
    parity_texts,
    parity_triples,
    score_parity,
    vector_parity,
)
from tertium.errors import TertiumError
from tertium.models import Encoder, Model
from tertium.models.conditional import ConditionalScorer
from tertium.models.tokens import TokenizationStats
from tertium.types import Engine, TextTriple

__all__ = ["EncoderPart", "Part", "ScorerPart", "parts_of"]

Batch = dict[str, np.ndarray]


class Part(ABC):
    """What is exported as one graph, and what then runs by it."""

    def __init__(self, owner: Encoder | ConditionalScorer) -> None:
        self.owner = owner

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.owner.name

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all that its graph depends on."""
        return self.owner.graph_fingerprint

    def use(self, engine: Engine | None, *, token_budget: int | None = None) -> None:
        """Run by ``engine`` from now on."""
        self.owner.engine = engine
        self.owner.token_budget = token_budget

    @abstractmethod
    def write(self, path: Path) -> None:
        """Export the graph."""

    @abstractmethod
    def calibration(self) -> list[Batch]:
        """Inputs of the graph, one text or triple each."""

    @abstractmethod
    def samples(self) -> list[Batch]:
        """Inputs of the graph in a few shapes: one text, an odd number, the longest."""

    @abstractmethod
    def results(self) -> np.ndarray:
        """What it gives on the texts of the parity check."""

    @abstractmethod
    def parity(self, found: np.ndarray, expected: np.ndarray) -> Parity:
        """How near two such results are."""

    @abstractmethod
    def work(self, texts: Sequence[str]) -> None:
        """Run on some texts, to see how long that takes."""


class EncoderPart(Part):
    """An encoder."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self.encoder = encoder

    def write(self, path: Path) -> None:
        """Export the graph."""
        inputs = self._inputs(["a b c d", "a b", "a"])
        write_graph(EncoderGraph(self.encoder), inputs, ["n", "t"], path)

    def calibration(self) -> list[Batch]:
        """Ids and mask of each text alone."""
        ids = self.encoder.tokenizer(
            calibration_texts(), truncation=True, max_length=self.encoder.max_length
        )
        batches = (np.array([row], np.int64) for row in ids["input_ids"] if row)
        return [{"input_ids": b, "attention_mask": np.ones_like(b)} for b in batches]

    def samples(self) -> list[Batch]:
        """Ids and mask of texts."""
        texts = calibration_texts()
        batches = (["a"], texts[:7], [" ".join(texts)] * 2)
        return [_arrays(self._inputs(batch)) for batch in batches]

    def results(self) -> np.ndarray:
        """Vectors."""
        return self.encoder.encode(parity_texts(), progress=False, truncation=TokenizationStats())

    def parity(self, found: np.ndarray, expected: np.ndarray) -> Parity:
        """Their cosines."""
        return vector_parity(found, expected)

    def work(self, texts: Sequence[str]) -> None:
        """Encode them."""
        self.encoder.encode(texts, progress=False, truncation=TokenizationStats())

    def _inputs(self, texts: list[str]) -> dict[str, Tensor]:
        features = self.encoder.features(texts, truncation=TokenizationStats())
        return {key: features[key] for key in ("input_ids", "attention_mask")}


class ScorerPart(Part):
    """A conditional scorer: its encoder and its head are one graph."""

    def __init__(self, scorer: ConditionalScorer) -> None:
        super().__init__(scorer)
        self.scorer = scorer

    def write(self, path: Path) -> None:
        """Export the graph."""
        triples = [("a b c", "d", "e f"), ("a", "b c", "d"), ("a b", "c d e", "f g")]
        fixed = self.scorer.head.width is not None
        axes = ["SEQUENCES", "n", "WIDTH" if fixed else "t"]
        write_graph(ScorerGraph(self.scorer), self._inputs(triples), axes, path)

    def calibration(self) -> list[Batch]:
        """Ids, mask and segments of each triple alone."""
        return [_arrays(self._inputs([triple])) for triple in calibration_triples()]

    def samples(self) -> list[Batch]:
        """Ids, mask and segments of triples."""
        triples = calibration_triples()
        long = " ".join(triple[0] for triple in triples)
        batches = ([("a", "b", "c")], triples[:7], [(long, long, "c")] * 2)
        return [_arrays(self._inputs(batch)) for batch in batches]

    def results(self) -> np.ndarray:
        """Scores."""
        return self._graded(parity_triples())

    def parity(self, found: np.ndarray, expected: np.ndarray) -> Parity:
        """Their differences."""
        return score_parity(found, expected, self.scorer.scale)

    def work(self, texts: Sequence[str]) -> None:
        """Compare each text with the next, in the respect that the one after it names."""
        rows = range(len(texts))
        self._graded([(texts[at], texts[at - 1], texts[at - 2]) for at in rows])

    def _graded(self, triples: list[TextTriple]) -> np.ndarray:
        return self.scorer.grade(triples, progress=False, truncation=TokenizationStats())

    def _inputs(self, triples: list[TextTriple]) -> dict[str, Tensor]:
        model = self.scorer.model
        features = model.features(model.sequences(triples))
        sides = len(self.scorer.head.sequences)
        return {key: value.reshape(sides, -1, value.shape[1]) for key, value in features.items()}


def _arrays(inputs: dict[str, Tensor]) -> Batch:
    return {key: value.numpy() for key, value in inputs.items()}


def parts_of(model: Model) -> list[Part]:
    """The encoder of a model, those of an ensemble's members, or conditional scorers."""
    if not model.parts:
        raise TertiumError(f"{model.name} has no graph, and needs no engine.")
    return [
        ScorerPart(part)
        if isinstance(part, ConditionalScorer)
        else EncoderPart(cast(Encoder, part))
        for part in model.parts
    ]
