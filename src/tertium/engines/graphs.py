"""A part of a model as a graph: export, calibration, comparison with torch, and use."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np

from tertium.engines.parity import (
    Parity,
    calibration_texts,
    calibration_triples,
    parity_texts,
    parity_triples,
    score_parity,
    vector_parity,
)
from tertium.engines.runtimes import SINGLE_FILE
from tertium.errors import TertiumError
from tertium.models.base import Model, Part
from tertium.models.conditional import ConditionalScorer, model_shape
from tertium.models.graphs import (
    ATTENTION,
    TOKENS,
    GraphBuilder,
    Layers,
    Module,
    NoGraphError,
    backbone,
    sentence_vector,
)
from tertium.models.head_graphs import HEAD_GRAPHS, Side, attention_shown
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokens import TokenizationStats
from tertium.types import Engine, Kind, TextTriple

__all__ = ["EncoderGraph", "PartGraph", "ScorerGraph", "graphs_of"]

Batch = dict[str, np.ndarray]

_MAPPED = 1_000_000  # bytes of a graph from which on its weights are mapped


def graphs_of(model: Model) -> "list[PartGraph]":
    """The graph of every part of a model; raises if it has none."""
    if model.kind is Kind.STATIC:
        raise TertiumError(f"{model.name} is static: it has no graph, and needs no engine.")
    if not model.parts:
        raise TertiumError(f"{model.name} runs only on torch.")
    return [
        ScorerGraph(cast(ConditionalScorer, part)) if part.takes_conditions else EncoderGraph(part)
        for part in model.parts
    ]


def _write(path: Path, graph: bytes) -> None:
    """A graph; the weights of a large one in a second file, which is mapped and not copied."""
    if len(graph) < _MAPPED:
        path.write_bytes(graph)
        return
    import onnx

    model, data = onnx.load_from_string(graph), path.with_name(f"{path.name}_data")
    onnx.save_model(
        *(model, str(path)), save_as_external_data=True, location=data.name, size_threshold=1024
    )
    data.chmod(path.stat().st_mode)  # onnx lets nobody else read it


class PartGraph(ABC):
    """A part of a model that is exported as one graph.

    Attributes:
        part: the encoder or conditional scorer.
    """

    def __init__(self, part: Part) -> None:
        self.part = part

    @property
    def name(self) -> str:
        """Name of the part, for messages."""
        return self.part.name

    @property
    def fingerprint(self) -> str:
        """Hash of everything that the graph depends on."""
        return self.part.graph_fingerprint

    def use(self, engine: Engine | None, *, token_budget: int | None = None) -> None:
        """Run the part with ``engine`` from now on; None for torch."""
        self.part.engine = engine
        self.part.token_budget = token_budget

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
        """Results on the texts of the parity check."""

    @abstractmethod
    def parity(self, found: np.ndarray, expected: np.ndarray) -> Parity:
        """Agreement of two such results."""

    @abstractmethod
    def work(self, texts: Sequence[str]) -> None:
        """Run on some texts, for measuring speed."""


class EncoderGraph(PartGraph):
    """From ids and mask of texts to their vectors."""

    @property
    def encoder(self) -> TextEncoder:
        """The encoder."""
        return cast(TextEncoder, self.part)

    def write(self, path: Path) -> None:
        """Export the graph."""
        try:
            graph, layers, modules = _backbone(self.encoder)
            vector = sentence_vector(graph, layers, modules)
            axes = {name: ["n", "t"] for name in ("input_ids", "attention_mask")}
            shown = {TOKENS: layers.states[-1]}
            _write(path, graph.finish(axes, vector, "n", "d", shown=shown))
        except NoGraphError:
            from tertium.engines.tracing import trace_encoder

            trace_encoder(self.encoder.encoder, self._inputs(["a b c d", "a b", "a"]), path)

    def calibration(self) -> list[Batch]:
        """Ids and mask, one text at a time, and the same with random tokens."""
        ids = self.encoder.tokenize(calibration_texts(), truncation=TokenizationStats())
        batches = (np.array([row], np.int64) for row in ids if row)
        found = [{"input_ids": b, "attention_mask": np.ones_like(b)} for b in batches]
        return [*found, *_drawn(found, self.encoder)]

    def samples(self) -> list[Batch]:
        """Ids and mask of texts."""
        texts = calibration_texts()
        batches = (["a"], texts[:7], [" ".join(texts)] * 2)
        return [self._inputs(batch) for batch in batches]

    def results(self) -> np.ndarray:
        """Vectors."""
        found = self.encoder.encode(parity_texts(), progress=False, truncation=TokenizationStats())
        return np.asarray(found)

    def parity(self, found: np.ndarray, expected: np.ndarray) -> Parity:
        """Their cosines."""
        return vector_parity(found, expected)

    def work(self, texts: Sequence[str]) -> None:
        """Encode them."""
        self.encoder.encode(texts, progress=False, truncation=TokenizationStats())

    def _inputs(self, texts: list[str]) -> Batch:
        ids, mask = self.encoder.batch(texts)
        return {"input_ids": ids, "attention_mask": mask}


class ScorerGraph(PartGraph):
    """From ids, mask and segments of triples to their scores: encoder and head in one graph."""

    def __init__(self, scorer: ConditionalScorer) -> None:
        super().__init__(scorer)
        self.scorer = scorer

    def write(self, path: Path) -> None:
        """Export the graph."""
        try:
            _write(path, self._built())
        except NoGraphError:
            from tertium.engines.tracing import trace_scorer

            triples = [("a b c", "d", "e f"), ("a", "b c", "d"), ("a b", "c d e", "f g")]
            trace_scorer(self.scorer, self._inputs(triples), path)

    def _built(self) -> bytes:
        config, layout = self.scorer.head_config, self.scorer.layout
        (encoder,) = self.scorer.readers
        if config["kind"] not in HEAD_GRAPHS:
            raise NoGraphError(f"The head {config['kind']}")
        graph, layers, modules = _backbone(
            encoder, sequences=True, types=self.scorer.reader.has_types
        )
        if layout.attention_layers and not layers.attention:
            raise NoGraphError("Attention of two towers")
        vector = sentence_vector(graph, layers, modules)
        maps = [layers.attention[at] for at in layout.attention_layers]
        segments = graph.node("Flatten", "segments", axis=2)
        sides = len(layout.sequences)
        parts = [
            graph.split(node, sides)
            for node in (vector, layers.states[-1], graph.mask, segments, *maps)
        ]
        score = HEAD_GRAPHS[config["kind"]](
            graph,
            {**config, "activation": model_shape(encoder).activation},
            self.scorer.head_weights,
            [
                Side(vector=v, tokens=t, mask=m, segments=s, attention=maps)
                for v, t, m, s, *maps in zip(*parts, strict=True)
            ],
        )
        axes: list[str | int] = [sides, "n", layout.width or "t"]
        inputs = dict.fromkeys(("input_ids", "attention_mask", "segments"), axes)
        shown = {TOKENS: layers.states[-1]}
        if layers.attention:
            maps = [layers.attention[at] for at in layout.attention_layers or (-1,)]
            shown[ATTENTION] = attention_shown(graph, self.scorer.head_weights, maps)
        return graph.finish(inputs, score, "n", shown=shown)

    def calibration(self) -> list[Batch]:
        """Ids, mask and segments, one triple at a time, and the same with random tokens."""
        found = [self._inputs([triple]) for triple in calibration_triples()]
        return [*found, *_drawn(found, self.scorer.readers[0])]

    def samples(self) -> list[Batch]:
        """Ids, mask and segments of triples."""
        triples = calibration_triples()
        long = " ".join(triple[0] for triple in triples)
        batches = ([("a", "b", "c")], triples[:7], [(long, long, "c")] * 2)
        return [self._inputs(batch) for batch in batches]

    def results(self) -> np.ndarray:
        """Scores."""
        return self._graded(parity_triples())

    def parity(self, found: np.ndarray, expected: np.ndarray) -> Parity:
        """Their differences."""
        return score_parity(found, expected, self.scorer.scale)

    def work(self, texts: Sequence[str]) -> None:
        """Score triples of consecutive texts."""
        rows = range(len(texts))
        self._graded([(texts[at], texts[at - 1], texts[at - 2]) for at in rows])

    def _graded(self, triples: list[TextTriple]) -> np.ndarray:
        return self.scorer.grade(
            triples, progress=False, truncation=TokenizationStats(unit="triple")
        )

    def _inputs(self, triples: list[TextTriple]) -> Batch:
        return self.scorer.inputs(triples)


def _drawn(batches: list[Batch], encoder: TextEncoder) -> list[Batch]:
    """Batches with tokens drawn from the whole vocabulary, to cover all ranges of values."""
    config, tokenizer = encoder.backbone_config, encoder.text_tokenizer
    count = config.get("vocab_size") or config["first"]["vocab_size"]
    named = (tokenizer.pad_id, tokenizer.first_id, tokenizer.separator_id)
    special = [token for token in named if token is not None]
    draw = np.random.default_rng(0)
    found = []
    for batch in batches:
        ids = batch["input_ids"]
        others = np.where(np.isin(ids, special), ids, draw.integers(0, count, ids.shape))
        found.append({**batch, "input_ids": others})
    return found


def _backbone(
    encoder: TextEncoder, *, sequences: bool = False, types: bool = False
) -> tuple[GraphBuilder, Layers, Sequence[Module]]:
    """A graph with the layers of an encoder, and the modules after them.

    With ``sequences``, inputs have a first axis for the sequences of a triple; with ``types``,
    segments are token types.
    """
    source = encoder.graph_source()
    if sum(value.nbytes for value in source.weights.values()) > SINGLE_FILE:
        raise NoGraphError("A model of this size")
    graph = GraphBuilder()
    if sequences:
        graph.ids, graph.mask = (graph.node("Flatten", x, axis=2) for x in (graph.ids, graph.mask))
    if types:
        segments = graph.node("Flatten", "segments", axis=2)
        graph.types = graph.node("Max", segments, graph.constant(np.int64(0)))
    return graph, backbone(graph, source.config, source.weights), source.modules
