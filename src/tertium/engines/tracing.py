"""Graphs traced by torch, for architectures, poolings and heads that we have no graph for."""

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tertium.engines.runtimes import SINGLE_FILE
from tertium.errors import TertiumError, require
from tertium.models.attention import capture_attention
from tertium.models.conditional import ConditionalScorer
from tertium.models.encoder import Encoder, evaluating
from tertium.models.graphs import RESULT
from tertium.types import Encoded

__all__ = ["trace_encoder", "trace_scorer"]


def trace_encoder(encoder: Encoder, example: Mapping[str, np.ndarray], path: Path) -> None:
    """Write the graph of an encoder, traced with a batch of texts of different lengths."""
    _trace(_EncoderModule(encoder), example, ["n", "t"], path)


def trace_scorer(scorer: ConditionalScorer, example: Mapping[str, np.ndarray], path: Path) -> None:
    """Write the graph of a conditional scorer, traced with a batch of triples."""
    width = "t" if scorer.layout.width is None else "WIDTH"
    _trace(_ScorerModule(scorer), example, ["SEQUENCES", "n", width], path)


class _EncoderModule(nn.Module):
    """From ids and mask ``[n, t]`` to embeddings ``[n, d]``: backbone, pooling and the rest."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.model = encoder.model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The embeddings."""
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        return self.encoder.forward(features).embedding


class _ScorerModule(nn.Module):
    """From ids, mask and segments ``[s, n, t]`` of s sequences per triple to scores ``[n]``."""

    def __init__(self, scorer: ConditionalScorer) -> None:
        super().__init__()
        self.encoder = scorer.encoder
        self.model = scorer.encoder.model
        self.head = scorer.head
        self.has_types = scorer.reader.has_types

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segments: Tensor) -> Tensor:
        """The scores, before they are mapped to the scale of the labels."""
        sides = input_ids.shape[0]
        features = {
            "input_ids": input_ids.flatten(0, 1),
            "attention_mask": attention_mask.flatten(0, 1),
        }
        if self.has_types:
            features["token_type_ids"] = segments.flatten(0, 1).clamp(min=0)
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
        """One pass, with the attention maps that the head uses."""
        wanted = self.head.layout.attention_layers
        if not wanted:
            return self.encoder.forward(features), None
        depth = int(self.encoder.backbone.config.num_hidden_layers)
        with capture_attention(self.encoder.backbone, range(depth)) as captured:
            encoded = self.encoder.forward(features)
        return encoded, [captured[layer % depth] for layer in wanted]


def _apart(merged: Tensor, sides: int) -> Tensor:
    """Split the sequences of a merged batch into an axis of their own."""
    return merged.reshape(sides, -1, *merged.shape[1:])


def _trace(
    graph: _EncoderModule | _ScorerModule,
    example: Mapping[str, np.ndarray],
    axes: list[str],
    path: Path,
) -> None:
    """Export ``graph`` to ONNX with torch, including pooling.

    Args:
        graph: what to export.
        example: a batch to trace it with; every dynamic axis must be longer than 1.
        axes: names of the axes of every input; those in capitals have a fixed length.
        path: the file; weights beyond two gigabytes go to a second file beside it.
    """
    require("fast", purpose="Tracing a graph", packages=["onnx", "onnxscript"])
    varying = {axis: torch.export.Dim(axis) for axis in axes if not axis.isupper()}
    shape = {at: varying[axis] for at, axis in enumerate(axes) if axis in varying}
    size = sum(tensor.nbytes for tensor in graph.state_dict().values())
    with _plain_attention(graph.encoder), _silence(), evaluating(graph), torch.no_grad():
        try:
            torch.onnx.export(
                graph,
                kwargs={name: torch.from_numpy(value) for name, value in example.items()},
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
                f"{graph.encoder.name} cannot be exported ({reason}). Use the engine torch."
            ) from error


@contextlib.contextmanager
def _plain_attention(encoder: Encoder) -> Iterator[None]:
    """Use eager attention, which runtimes can fuse, unlike torch's fused kernel."""
    backbone = encoder.backbone
    before = backbone.config._attn_implementation
    backbone.set_attn_implementation("eager")
    try:
        yield
    finally:
        backbone.set_attn_implementation(before)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Suppress the exporter's warnings about its internals."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
