"""A conditional scorer: similarity of two sentences under a condition, on the scale of labels."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import save_file

from tertium.data.labels import OrderedLabels, read_labels
from tertium.errors import TertiumError
from tertium.files import atomic_folder
from tertium.heads.layout import HEAD_KINDS, HeadLayout, ModelShape, layout_of
from tertium.models.adapters import (
    HEAD,
    HeadHolder,
    SavedHead,
    adapted_encoder,
    read_head,
    write_adapter,
)
from tertium.models.base import Part, TripleScorer, digest
from tertium.models.checkpoints import Arrays
from tertium.models.fingerprint import arrays_digest
from tertium.models.graphs import ATTENTION, TOKENS
from tertium.models.light import load_encoder
from tertium.models.passages import Span
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokens import TokenizationStats, lean_batches, run_batches
from tertium.models.triples import JoinedIds, TripleReader
from tertium.progress import bar
from tertium.records.manifest import (
    FILE_NAME,
    Manifest,
    TrainingData,
    read_manifest,
    write_manifest,
)
from tertium.types import Kind, Pooling, TextTriple

if TYPE_CHECKING:
    from tertium.heads import ConditionalHead
    from tertium.models.conditional_model import ConditionalModel
    from tertium.models.encoder import Encoder

__all__ = ["ConditionalScorer", "model_shape", "write_cross_encoder"]


def __getattr__(name: str) -> Any:
    if name == "TripleModule":  # modules.json of earlier versions names it here
        return import_module("tertium.models.cross_encoder").TripleModule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_ENCODER = "encoder"


class ConditionalScorer(Part, TripleScorer):
    """Similarity of two sentences under a condition: ``score([(s1, s2, condition), …])``.

    Args:
        encoder: backbone, tokenizer and pooling.
        head: one of ``CONDITIONAL_HEADS`` as a torch module, or a saved head.
        labels: the scale of scores.

    Attributes:
        adapter: the difference from ``base``, if the model was loaded from an adapter.
        base: the model below the adapter.
        folder_kind: the kind that a saved folder declares.
        details: further details of a saved folder.
    """

    adapter: Arrays | None = None
    base: str | None = None
    folder_kind: Kind = Kind.CONDITIONAL
    details: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, encoder: TextEncoder, head: ConditionalHead | SavedHead, labels: OrderedLabels
    ) -> None:
        self._encoder = encoder
        self._head: HeadHolder[ConditionalHead] = HeadHolder(head, self._built)

        self.labels = labels
        self.reader = TripleReader(encoder.text_tokenizer, self.layout, limit=encoder.max_length)

    @classmethod
    def load(
        cls, folder: Path, *, manifest: Manifest | None = None, **options: Any
    ) -> ConditionalScorer:
        """Load a folder of kind ``conditional``; takes the options of :meth:`Encoder.load`."""
        manifest = _checked(manifest or read_manifest(folder), folder)
        _check_pooling(options.pop("pooling", None))
        length = options.pop("max_length", None) or manifest.details.get("max_length")
        encoder = load_encoder(folder / _ENCODER, max_length=length, pooling=None, **options)
        encoder.training_data = manifest.training_data
        return cls._attach(encoder, folder, manifest)

    @classmethod
    def load_adapter(
        cls,
        folder: Path,
        encoder: TextEncoder,
        *,
        manifest: Manifest | None = None,
        pooling: Pooling | None = None,
    ) -> ConditionalScorer:
        """Apply to ``encoder`` what :meth:`save_adapter` saved."""
        _check_pooling(pooling)
        manifest = _checked(manifest or read_manifest(folder), folder)
        adapted, adapter = adapted_encoder(encoder, folder, manifest)
        scorer = cls._attach(adapted, folder, manifest)
        scorer.adapter, scorer.base = adapter, manifest.details["base"]
        return scorer

    @classmethod
    def _attach(cls, encoder: TextEncoder, folder: Path, manifest: Manifest) -> ConditionalScorer:
        saved = read_head(folder, manifest.details["head"], model_shape(encoder))
        labels = read_labels(manifest.details.get("labels"), folder / FILE_NAME)
        return cls(encoder, saved, labels)

    def _built(self, config: dict[str, Any]) -> ConditionalHead:
        from tertium.heads import CONDITIONAL_HEADS

        head = CONDITIONAL_HEADS[config.pop("kind")](model_shape(self._encoder), **config)
        return head.to(self.encoder.device)

    @property
    def head(self) -> ConditionalHead:
        """The head as a torch module, made on first use."""
        return self._head.module

    @property
    def head_config(self) -> dict[str, Any]:
        """``kind`` and settings of the head."""
        return self._head.config

    @property
    def head_weights(self) -> Arrays:
        """The head's current weights."""
        return self._head.weights

    @property
    def layout(self) -> HeadLayout:
        """How the head reads a triple."""
        config = self._head.config
        if config["kind"] not in HEAD_KINDS:
            return self.head.layout
        return layout_of(config, depth=model_shape(self._encoder).depth)

    @cached_property
    def model(self) -> ConditionalModel:
        """Encoder and head as one torch module, made on first use."""
        from tertium.models.conditional_model import ConditionalModel

        return ConditionalModel(self.encoder, self.head)

    @property
    def needs_engine(self) -> bool:
        """Whether the encoder was read without torch."""
        return self._encoder.needs_engine

    @property
    def device_kind(self) -> str:  # type: ignore[override]
        """The encoder's ``cpu``, ``cuda`` and so on."""
        return self._encoder.device_kind

    @property
    def readers(self) -> tuple[TextEncoder, ...]:
        """The encoder."""
        return (self._encoder,)

    @property
    def encoder(self) -> Encoder:
        """Backbone, tokenizer and pooling, as torch runs them."""
        return self._encoder.encoder

    @property
    def name(self) -> str:
        """The model's name in results."""
        return self._encoder.name

    @property
    def pooling(self) -> Pooling | None:
        """The encoder's pooling."""
        return self._encoder.pooling

    @property
    def training_data(self) -> tuple[TrainingData, ...]:
        """The data that the model was trained on."""
        return self._encoder.training_data

    @property
    def scale(self) -> tuple[float, float]:
        """Lowest and highest label."""
        return self.labels.low, self.labels.high

    def save(self, folder: Path | str) -> None:
        """Save the encoder as a sentence-transformers folder, with head and manifest beside it.

        If the head reads one sequence, the folder is also a ``CrossEncoder`` of
        sentence-transformers.
        """
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            (temporary / _ENCODER).mkdir()
            self.encoder.save(temporary / _ENCODER)
            save_file(self._head.weights, temporary / HEAD)
            if len(self.layout.sequences) == 1:
                write_cross_encoder(temporary)
            write_manifest(temporary, self._manifest())

    def save_adapter(
        self, folder: Path | str, adapter: Mapping[str, ArrayLike], *, base: str
    ) -> None:
        """Save only the difference from ``base``, a reserved name or hub id, in half precision."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            write_adapter(adapter, temporary)
            halved = {name: value.astype(np.float16) for name, value in self._head.weights.items()}
            save_file(halved, temporary / HEAD)
            details = {"base": base, "normalize": self._encoder.normalizes}
            write_manifest(temporary, self._manifest(**details))

    def save_member(self, folder: Path) -> None:
        """Save as a member of a mixture; an adapter stays an adapter."""
        if self.adapter and self.base:
            self.save_adapter(folder, self.adapter, base=self.base)
        else:
            self.save(folder)

    @property
    def graph_fingerprint(self) -> str:
        """The hash of everything that its graph depends on: encoder and head."""
        description: dict[str, Any] = {
            "encoder": self._encoder.graph_fingerprint,
            "head": self._head.config,
        }
        if self.reader.has_types:
            description["types"] = True
        return arrays_digest(self._head.weights, description)

    @property
    def fingerprint(self) -> str:
        """The hash of everything that its scores depend on: encoder, head and labels."""
        head = arrays_digest(self._head.weights, self._head.config)
        return digest([self._encoder.fingerprint, head, self.scale])

    def _manifest(self, **details: Any) -> Manifest:
        manifest = super()._manifest(
            head=self._head.config,
            labels=self.labels.to_json(),
            max_length=self._encoder.max_length,
            **self.details,
            **self._decided(),
            **details,
        )
        return manifest.model_copy(update={"kind": self.folder_kind})

    def inputs(self, triples: list[TextTriple]) -> dict[str, NDArray[np.int64]]:
        """A batch of triples as inputs of the graph, with an axis for the sequences."""
        return self._by_sequence(self.reader.batch(self.reader.sequences(triples)))

    def _by_sequence(self, batch: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The batch with a first axis for the sequences of a triple, as the graph needs it."""
        sides = len(self.reader.layout.sequences)
        return {name: rows.reshape(sides, -1, rows.shape[1]) for name, rows in batch.items()}

    def _passages(
        self, items: Sequence[tuple[str, ...]], prompt: str | None = None
    ) -> list[list[Span]]:
        return self.reader.passages([(a, b, condition) for a, b, condition in items])

    def grade(
        self, triples: list[TextTriple], *, progress: bool | None, truncation: TokenizationStats
    ) -> NDArray[np.float32]:
        """Scores of distinct triples, not clipped to the scale."""
        rows = self.reader.sequences(triples)
        scores = np.empty(len(rows), np.float32)
        with (
            self._running() as run,
            bar(total=len(rows), label="scoring", unit=truncation.unit, show=progress) as shown,
        ):
            lengths, workers = self.reader.lengths(rows), self.workers
            batches = lean_batches(lengths, budget=self._default_budget(), workers=workers)

            def graded(batch: NDArray[Any]) -> NDArray[Any]:
                return run(self.reader.batch([rows[at] for at in batch]))

            for batch, found in run_batches(graded, batches, workers=workers):
                scores[batch] = found
                shown.update(len(batch))
        cut = sum(1 for row in rows if any(sequence.cut for sequence in row))
        truncation.add(cut=cut, texts=len(rows), limit=self.reader.tokenizer.max_length)
        sentences = dict.fromkeys(text for triple in triples for text in triple[:2])
        truncation.look(list(sentences), english=self._encoder.is_english)
        low, high = self.scale
        return np.asarray(low + (high - low) * scores, np.float32)

    @contextlib.contextmanager
    def _running(self) -> Iterator[Callable[[Mapping[str, NDArray[Any]]], NDArray[Any]]]:
        """The function that scores a batch: by the engine or, if there is none, by torch."""
        if self.engine is not None:
            yield self._run_engine
            return
        import torch

        from tertium.models.encoder import evaluating

        def run(batch: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
            features = {name: torch.from_numpy(x) for name, x in batch.items()}
            found: NDArray[Any] = self.model(features).score.float().cpu().numpy()
            return found

        with torch.inference_mode(), evaluating(self.model):
            yield run

    def _run_engine(self, batch: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        assert self.engine is not None
        return self.engine.run(self._by_sequence(batch))

    def look_at(
        self, rows: Sequence[JoinedIds]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Last hidden states ``[rows, t, d]`` of some sequences, and their attention.

        The attention ``[rows, h, t, t]`` is the one that the head uses, else the last layer's;
        None for two towers.

        Raises:
            TertiumError: the model's engine does not provide them.
        """
        if self.engine is None:
            return self._looked_by_torch(rows)
        sides = len(self.layout.sequences)
        filled = [*rows, *[rows[-1]] * (-len(rows) % sides)]
        inputs = self._by_sequence(self.reader.tokenizer.batch(filled, width=self.layout.width))
        names = [TOKENS] if self._encoder.kind is Kind.TWIN else [TOKENS, ATTENTION]
        tokens, *attention = (found[: len(rows)] for found in self._look(inputs, *names))
        return tokens, attention[0] if attention else None

    def _looked_by_torch(
        self, rows: Sequence[JoinedIds]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        import torch

        from tertium.heads import SeaverHead
        from tertium.models.encoder import evaluating

        batch = self.reader.tokenizer.batch(rows, width=self.layout.width)
        names = ("input_ids", "attention_mask")
        inputs = {name: torch.from_numpy(batch[name]).to(self.encoder.device) for name in names}
        layers = () if self.encoder.kind is Kind.TWIN else self.layout.attention_layers or (-1,)
        with torch.inference_mode(), evaluating(self.model):
            found = self.encoder.forward(inputs, attention_layers=layers)
            tokens: NDArray[np.float32] = found.tokens.float().cpu().numpy()
            if found.attention is None:
                return tokens, None
            head, last = self.head, found.attention[-1]
            attention = head.attention(found) if isinstance(head, SeaverHead) else last
            return tokens, attention.float().cpu().numpy()


def model_shape(encoder: TextEncoder) -> ModelShape:
    """What heads need to know about a model."""
    config = encoder.backbone_config
    return ModelShape(
        dimension=int(config["hidden_size"]),
        embedding=encoder.dimension,
        heads=int(config["num_attention_heads"]),
        depth=int(config["num_hidden_layers"]),
        activation=str(config.get("hidden_act", "gelu")),
    )


def _checked(manifest: Manifest | None, folder: Path) -> Manifest:
    if manifest is None or manifest.kind not in (Kind.CONDITIONAL, Kind.CROSS):
        raise TertiumError(f"{folder} does not contain a conditional scorer.")
    return manifest


def _check_pooling(pooling: Pooling | None) -> None:
    if pooling is not None:
        raise TertiumError("A conditional model keeps the pooling it was trained with.")


def write_cross_encoder(folder: Path) -> None:
    """Write the two files that tell ``CrossEncoder`` which module to load."""
    module = {
        "idx": 0,
        "name": "0",
        "path": "",
        "type": "tertium.models.cross_encoder.TripleModule",
    }
    settings: dict[str, Any] = {
        "model_type": "CrossEncoder",
        "activation_fn": "torch.nn.modules.linear.Identity",
        "prompts": {},
        "default_prompt_name": None,
    }
    (folder / "modules.json").write_text(json.dumps([module], indent=2), encoding="utf-8")
    name = "config_sentence_transformers.json"
    (folder / name).write_text(json.dumps(settings, indent=2), encoding="utf-8")
