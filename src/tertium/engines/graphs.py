"""A part of a model as a graph: how it is written, fed, compared with torch, and run."""

import contextlib
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

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
from tertium.models.attention import capture_attention
from tertium.models.base import Model, Part
from tertium.models.conditional import ConditionalScorer, model_shape
from tertium.models.encoder import Encoder, evaluating
from tertium.models.fingerprint import module_config
from tertium.models.graphs import (
    RESULT,
    GraphBuilder,
    Layers,
    Module,
    NoGraphError,
    backbone,
    sentence_vector,
)
from tertium.models.head_graphs import HEAD_GRAPHS, Side
from tertium.models.tokens import TokenizationStats
from tertium.types import Encoded, Engine, Kind, TextTriple

__all__ = ["EncoderGraph", "PartGraph", "ScorerGraph", "graphs_of"]

Batch = dict[str, np.ndarray]


def graphs_of(model: Model) -> "list[PartGraph]":
    """The graph of every part of a model; raises where there is none."""
    if model.kind is Kind.STATIC:
        raise TertiumError(f"{model.name} is static: it has no graph, and needs no engine.")
    if not model.parts:
        raise TertiumError(f"{model.name} runs only on torch.")
    return [
        ScorerGraph(cast(ConditionalScorer, part)) if part.takes_conditions else EncoderGraph(part)
        for part in model.parts
    ]


class PartGraph(ABC):
    """What is exported as one graph, and what then runs by it.

    Attributes:
        part: the encoder or conditional scorer.
    """

    def __init__(self, part: Part) -> None:
        self.part = part

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.part.name

    @property
    def fingerprint(self) -> str:
        """The hash of all that the graph depends on."""
        return self.part.graph_fingerprint

    def use(self, engine: Engine | None, *, token_budget: int | None = None) -> None:
        """Run by ``engine`` from now on."""
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
        """What it gives on the texts of the parity check."""

    @abstractmethod
    def parity(self, found: np.ndarray, expected: np.ndarray) -> Parity:
        """How near two such results are."""

    @abstractmethod
    def work(self, texts: Sequence[str]) -> None:
        """Run on some texts, to see how long that takes."""


class EncoderGraph(PartGraph):
    """Ids and mask of texts to their vectors."""

    @property
    def encoder(self) -> Encoder:
        """The encoder."""
        return self.part.encoder

    def write(self, path: Path) -> None:
        """Export the graph."""
        try:
            graph, layers, modules = _backbone(self.encoder)
            vector = sentence_vector(graph, layers, modules)
            axes = {name: ["n", "t"] for name in ("input_ids", "attention_mask")}
            path.write_bytes(graph.finish(axes, vector, "n", "d"))
        except NoGraphError:
            inputs = self._inputs(["a b c d", "a b", "a"])
            _trace(_EncoderModule(self.encoder), inputs, ["n", "t"], path)

    def calibration(self) -> list[Batch]:
        """Ids and mask, one text at a time."""
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


class ScorerGraph(PartGraph):
    """Ids, mask and segments of triples to their scores: encoder and head are one graph."""

    def __init__(self, scorer: ConditionalScorer) -> None:
        super().__init__(scorer)
        self.scorer = scorer

    def write(self, path: Path) -> None:
        """Export the graph."""
        try:
            path.write_bytes(self._built())
        except NoGraphError:
            triples = [("a b c", "d", "e f"), ("a", "b c", "d"), ("a b", "c d e", "f g")]
            fixed = self.scorer.layout.width is not None
            axes = ["SEQUENCES", "n", "WIDTH" if fixed else "t"]
            _trace(_ScorerModule(self.scorer), self._inputs(triples), axes, path)

    def _built(self) -> bytes:
        config, layout, encoder = self.scorer.head_config, self.scorer.layout, self.scorer.encoder
        if config["kind"] not in HEAD_GRAPHS:
            raise NoGraphError(f"The head {config['kind']}")
        graph, layers, modules = _backbone(encoder, sequences=True)
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
        return graph.finish(inputs, score, "n")

    def calibration(self) -> list[Batch]:
        """Ids, mask and segments, one triple at a time."""
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
        """Compare each text with the next, under the condition that the one after it names."""
        rows = range(len(texts))
        self._graded([(texts[at], texts[at - 1], texts[at - 2]) for at in rows])

    def _graded(self, triples: list[TextTriple]) -> np.ndarray:
        return self.scorer.grade(
            triples, progress=False, truncation=TokenizationStats(unit="triple")
        )

    def _inputs(self, triples: list[TextTriple]) -> dict[str, Tensor]:
        reader = self.scorer.reader
        batch = reader.batch(reader.sequences(triples))
        sides = len(reader.layout.sequences)
        return {
            name: torch.from_numpy(x.reshape(sides, -1, x.shape[1])) for name, x in batch.items()
        }


def _arrays(inputs: dict[str, Tensor]) -> Batch:
    return {key: value.numpy() for key, value in inputs.items()}


class _EncoderModule(nn.Module):
    """Ids and mask ``[n, t]`` to embeddings ``[n, d]``: backbone, pooling and what follows it."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.model = encoder.model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The embeddings."""
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        return self.encoder.forward(features).embedding


class _ScorerModule(nn.Module):
    """Ids, mask and segments ``[s, n, t]`` of s sequences a triple to scores ``[n]``."""

    def __init__(self, scorer: ConditionalScorer) -> None:
        super().__init__()
        self.encoder = scorer.encoder
        self.model = scorer.encoder.model
        self.head = scorer.head

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segments: Tensor) -> Tensor:
        """The scores, before they are moved to the scale of labels."""
        sides = input_ids.shape[0]
        features = {
            "input_ids": input_ids.flatten(0, 1),
            "attention_mask": attention_mask.flatten(0, 1),
        }
        encoded, attention = self._encoded(features)
        embeddings = _apart(encoded.embedding, sides)
        tokens = _apart(encoded.tokens, sides)
        maps = None if attention is None else [_apart(layer, sides) for layer in attention]
        batches = [
            Encoded(
                embedding=embeddings[at],
                tokens=tokens[at],
                mask=attention_mask[at],
                attention=None if maps is None else torch.stack([layer[at] for layer in maps]),
                segments=segments[at],
            )
            for at in range(sides)
        ]
        return self.head(batches).score  # type: ignore[no-any-return]

    def _encoded(self, features: dict[str, Tensor]) -> tuple[Encoded, list[Tensor] | None]:
        """One pass, with the attention maps that the head looks at."""
        wanted = self.head.attention_layers
        if not wanted:
            return self.encoder.forward(features), None
        depth = int(self.encoder.backbone.config.num_hidden_layers)
        with capture_attention(self.encoder.backbone, range(depth)) as captured:
            encoded = self.encoder.forward(features)
        return encoded, [captured[layer % depth] for layer in wanted]


def _apart(merged: Tensor, sides: int) -> Tensor:
    """The sequences of a merged batch on an axis of their own."""
    return merged.reshape(sides, -1, *merged.shape[1:])


def _backbone(
    encoder: Encoder, *, sequences: bool = False
) -> tuple[GraphBuilder, Layers, list[Module]]:
    """A graph with the layers of an encoder, and the modules that follow them.

    ``sequences``: inputs have an axis for the sequences of a triple, before that of the rows.
    """
    if sum(tensor.nbytes for tensor in encoder.model.state_dict().values()) > SINGLE_FILE:
        raise NoGraphError("A model of this size")
    graph = GraphBuilder()
    if sequences:
        graph.ids, graph.mask = (graph.node("Flatten", x, axis=2) for x in (graph.ids, graph.mask))
    layers = backbone(graph, encoder.backbone.config.to_dict(), _numbers(encoder.backbone))
    modules = [
        Module(*module_config(module), _numbers(module)) for module in list(encoder.model)[1:]
    ]
    return graph, layers, modules


def _numbers(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: x.detach().float().cpu().numpy() for name, x in module.state_dict().items()}


def _trace(
    graph: _EncoderModule | _ScorerModule,
    example: Mapping[str, Tensor],
    axes: list[str],
    path: Path,
) -> None:
    """Let torch export ``graph`` as ONNX, with pooling and all else inside.

    Args:
        graph: what to export.
        example: a batch to trace it with; each axis that varies is longer than 1.
        axes: names of the axes of every input; one in capitals has always the example's length.
        path: of the file; weights beyond two gigabytes go to a second one beside it.
    """
    varying = {axis: torch.export.Dim(axis) for axis in axes if not axis.isupper()}
    shape = {at: varying[axis] for at, axis in enumerate(axes) if axis in varying}
    size = sum(tensor.nbytes for tensor in graph.state_dict().values())
    with _plain_attention(graph.encoder), _silence(), evaluating(graph), torch.no_grad():
        try:
            torch.onnx.export(
                graph,
                kwargs=dict(example),
                f=str(path),
                dynamo=True,
                dynamic_shapes=dict.fromkeys(example, shape),
                input_names=list(example),
                output_names=[RESULT],
                external_data=size > SINGLE_FILE,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            reason = str(error.__cause__ or error).strip().splitlines()[0]
            raise TertiumError(
                f"{graph.encoder.name} cannot be exported as a graph ({reason}). Use the engine "
                "torch."
            ) from error


@contextlib.contextmanager
def _plain_attention(encoder: Encoder) -> Iterator[None]:
    """Attention in plain steps: runtimes fuse those, and stumble over torch's fused kernel."""
    backbone = encoder.backbone
    before = backbone.config._attn_implementation
    backbone.set_attn_implementation("eager")
    try:
        yield
    finally:
        backbone.set_attn_implementation(before)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """The exporter warns of its own workings."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
