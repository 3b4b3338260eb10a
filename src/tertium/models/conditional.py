"""A conditional scorer: how alike two sentences are in a given respect, on the scale of labels."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from sentence_transformers.base.modules import InputModule
from torch import Tensor, nn

from tertium.data.labels import OrderedLabels, read_labels
from tertium.errors import TertiumError
from tertium.files import atomic_folder
from tertium.heads import CONDITIONAL_HEADS, ConditionalHead, ModelShape
from tertium.models.adapters import ADAPTER, HEAD, adapted_encoder, load_head
from tertium.models.base import Part, TripleScorer, digest
from tertium.models.encoder import Encoder, evaluating
from tertium.models.fingerprint import weights_digest
from tertium.models.light import load_encoder
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokens import TokenizationStats, lean_batches
from tertium.models.triples import JoinedIds, TripleTokenizer
from tertium.progress import bar
from tertium.records.manifest import (
    FILE_NAME,
    Manifest,
    TrainingData,
    read_manifest,
    write_manifest,
)
from tertium.types import HeadOutput, Kind, Pooling, TextTriple

__all__ = [
    "ConditionalModel",
    "ConditionalScorer",
    "TripleModule",
    "model_shape",
    "write_cross_encoder",
]


class ConditionalModel(nn.Module):
    """Triples to similarities, with gradients if they are enabled.

    All sequences of a batch go through the backbone in one pass, and only the layers that the head
    looks at show their attention.

    Args:
        encoder: backbone, tokenizer and pooling.
        head: which sequences to make of a triple, and what to make of them.
    """

    def __init__(self, encoder: Encoder, head: ConditionalHead) -> None:
        super().__init__()
        limit = encoder.max_length
        if head.width is not None and head.width > limit:
            raise TertiumError(
                f"This head reads {head.width} tokens, and the model {limit}: set its length to at "
                f"most {limit}."
            )
        self.encoder = encoder
        self.backbone = encoder.model
        self.head = head
        self.tokenizer = TripleTokenizer(encoder.tokenizer, max_length=head.width or limit)
        self.train(encoder.model.training)

    def sequences(self, triples: Sequence[TextTriple]) -> list[tuple[JoinedIds, ...]]:
        """Token ids of every triple's sequences; each distinct text is tokenised once."""
        stripped = [tuple(text.strip() for text in triple) for triple in triples]
        ids = self.tokenizer.tokenize(text for triple in stripped for text in triple)
        return [
            tuple(self._sequence(members, [ids[t] for t in triple]) for members in self._members)
            for triple in stripped
        ]

    def features(self, rows: Sequence[tuple[JoinedIds, ...]]) -> dict[str, Tensor]:
        """A batch as tensors: all first sequences, then all second ones, padded together."""
        merged = [row[at] for at in range(len(self._members)) for row in rows]
        return self.tokenizer.batch(merged, width=self.head.width)

    def forward(self, features: dict[str, Tensor]) -> HeadOutput:
        """Similarities of a batch that :meth:`features` made."""
        device = self.encoder.device
        segments = features["segments"].to(device)
        inputs = {key: features[key].to(device) for key in ("input_ids", "attention_mask")}
        encoded = self.encoder.forward(inputs, attention_layers=self.head.attention_layers)
        encoded = replace(encoded, segments=segments)
        compared: HeadOutput = self.head(encoded.split(len(self._members)))
        return compared

    @property
    def _members(self) -> tuple[tuple[int, ...], ...]:
        return self.head.sequences

    def _sequence(self, members: tuple[int, ...], ids: list[list[int]]) -> JoinedIds:
        sentences = [ids[at] for at in members if at < 2] or [ids[2]]
        with_condition = len(members) > 1 and 2 in members
        return self.tokenizer.join(sentences, ids[2] if with_condition else None)


_ENCODER = "encoder"
_TOKEN_BUDGETS = {"cpu": 1024}  # as for encoding: small batches stay in a processor's caches
_ACCELERATOR_BUDGET = 32_768


class ConditionalScorer(Part, TripleScorer):
    """Similarity of two sentences under a condition: ``score([(s1, s2, condition), …])``.

    Args:
        encoder: backbone, tokenizer and pooling.
        head: a key of ``CONDITIONAL_HEADS``, built.
        labels: the scale of scores.

    Attributes:
        adapter: what differs from ``base``, if the model was loaded so.
        base: the model below the adapter.
    """

    adapter: dict[str, Tensor] | None = None
    base: str | None = None

    def __init__(self, encoder: Encoder, head: ConditionalHead, labels: OrderedLabels) -> None:
        self._encoder = encoder
        self.head = head
        self.labels = labels
        self.model = ConditionalModel(encoder, head)

    @classmethod
    def load(
        cls, folder: Path, *, manifest: Manifest | None = None, **options: Any
    ) -> "ConditionalScorer":
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
        encoder: Encoder,
        *,
        manifest: Manifest | None = None,
        pooling: Pooling | None = None,
    ) -> "ConditionalScorer":
        """Change ``encoder`` to what :meth:`save_adapter` saved."""
        _check_pooling(pooling)
        manifest = _checked(manifest or read_manifest(folder), folder)
        adapted, adapter = adapted_encoder(encoder, folder, manifest)
        scorer = cls._attach(adapted, folder, manifest)
        scorer.adapter, scorer.base = adapter, manifest.details["base"]
        return scorer

    @classmethod
    def _attach(cls, encoder: Encoder, folder: Path, manifest: Manifest) -> "ConditionalScorer":
        config = dict(manifest.details["head"])
        head = CONDITIONAL_HEADS[config.pop("kind")](model_shape(encoder), **config)
        load_head(head, folder / HEAD)
        labels = read_labels(manifest.details.get("labels"), folder / FILE_NAME)
        return cls(encoder, head.to(encoder.device), labels)

    @property
    def needs_engine(self) -> bool:
        """Whether the encoder was read without torch."""
        return self._encoder.needs_engine

    @property
    def readers(self) -> tuple[TextEncoder, ...]:
        """The encoder."""
        return (self._encoder,)

    @property
    def encoder(self) -> Encoder:
        """Backbone, tokenizer and pooling."""
        return self._encoder

    @property
    def name(self) -> str:
        """What results call the model."""
        return self.encoder.name

    @property
    def pooling(self) -> Pooling | None:
        """The encoder's pooling."""
        return self.encoder.pooling

    @property
    def training_data(self) -> tuple[TrainingData, ...]:
        """What the model has seen."""
        return self.encoder.training_data

    @property
    def scale(self) -> tuple[float, float]:
        """Lowest and highest label."""
        return self.labels.low, self.labels.high

    def save(self, folder: Path | str) -> None:
        """Save whole: the encoder as a sentence-transformers folder, head and manifest beside it.

        A head on one sequence also makes the folder a ``CrossEncoder`` of sentence-transformers.
        """
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            (temporary / _ENCODER).mkdir()
            self.encoder.save(temporary / _ENCODER)
            save_file(self.head.state_dict(), temporary / HEAD)
            if len(self.head.sequences) == 1:
                write_cross_encoder(temporary)
            write_manifest(temporary, self._manifest())

    def save_adapter(self, folder: Path | str, adapter: dict[str, Tensor], *, base: str) -> None:
        """Save only what differs from ``base``, a reserved name or a hub id, in half precision."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            save_file(adapter, temporary / ADAPTER)
            halved = {name: tensor.half() for name, tensor in self.head.state_dict().items()}
            save_file(halved, temporary / HEAD)
            details = {"base": base, "normalize": self.encoder.normalizes}
            write_manifest(temporary, self._manifest(**details))

    def save_member(self, folder: Path) -> None:
        """Save as a member of a mixture: an adapter stays one."""
        if self.adapter and self.base:
            self.save_adapter(folder, self.adapter, base=self.base)
        else:
            self.save(folder)

    @property
    def graph_fingerprint(self) -> str:
        """The hash of all that its graph depends on: encoder and head."""
        description = {"encoder": self.encoder.graph_fingerprint, "head": self.head.config()}
        return weights_digest(self.head, description)

    @property
    def fingerprint(self) -> str:
        """The hash of all that decides about its scores: encoder, head and labels."""
        head = weights_digest(self.head, self.head.config())
        return digest([self.encoder.fingerprint, head, self.scale])

    def _manifest(self, **details: Any) -> Manifest:
        low, high = self.scale
        return Manifest(
            kind=Kind.CONDITIONAL,
            pooling=self.pooling,
            scale=self.scale,
            training_data=self.training_data,
            details={
                "head": self.head.config(),
                "labels": {"low": low, "high": high, "step": self.labels.step},
                "max_length": self.encoder.max_length,
                **details,
            },
        )

    def inputs(self, triples: list[TextTriple]) -> dict[str, NDArray[np.int64]]:
        """A batch of triples as the graph takes it, with an axis for the sequences."""
        features = self.model.features(self.model.sequences(triples))
        sides = len(self.head.sequences)
        return {
            key: value.numpy().reshape(sides, -1, value.shape[1]) for key, value in features.items()
        }

    @torch.inference_mode()
    def grade(
        self, triples: list[TextTriple], *, progress: bool | None, truncation: TokenizationStats
    ) -> NDArray[np.float32]:
        """Scores of distinct triples, which may lie beyond the scale."""
        rows = self.model.sequences(triples)
        scores = torch.empty(len(rows))
        with (
            evaluating(self.model),
            bar(total=len(rows), label="scoring", unit="triple", show=progress) as shown,
        ):
            for batch in self._batches(rows):
                features = self.model.features([rows[at] for at in batch])
                scores[torch.from_numpy(batch)] = self._run(features)
                shown.update(len(batch))
        cut = sum(1 for row in rows if any(sequence.cut for sequence in row))
        limit = self.model.tokenizer.max_length
        truncation.add(cut=cut, texts=len(rows), limit=limit)
        low, high = self.scale
        return np.asarray((low + (high - low) * scores).numpy())

    def _run(self, features: dict[str, Tensor]) -> Tensor:
        """Scores of a batch, from the engine or, without one, from torch."""
        if self.engine is None:
            return self.model(features).score.float().cpu()  # type: ignore[no-any-return]
        sides = len(self.head.sequences)  # the graph has an axis for them
        inputs = {key: value.reshape(sides, -1, value.shape[1]) for key, value in features.items()}
        return torch.from_numpy(self.engine.run({k: x.numpy() for k, x in inputs.items()}))

    def _batches(self, rows: Sequence[tuple[JoinedIds, ...]]) -> Iterator[np.ndarray]:
        """Triples of like length together; the longest sequence of a triple counts for all."""
        sequences = len(self.head.sequences)
        width = self.head.width
        longest = [width or max(len(sequence.ids) for sequence in row) for row in rows]
        budget = self.token_budget or _TOKEN_BUDGETS.get(
            self.encoder.device.type, _ACCELERATOR_BUDGET
        )
        lengths = np.array(longest, dtype=int) * sequences
        yield from lean_batches(lengths, budget=budget)


def model_shape(encoder: Encoder) -> ModelShape:
    """What heads must know of a model."""
    config = encoder.backbone.config
    return ModelShape(
        dimension=int(config.hidden_size),
        embedding=encoder.dimension,
        heads=int(config.num_attention_heads),
        depth=int(config.num_hidden_layers),
        activation=str(getattr(config, "hidden_act", "gelu")),
    )


def _checked(manifest: Manifest | None, folder: Path) -> Manifest:
    if manifest is None or manifest.kind is not Kind.CONDITIONAL:
        raise TertiumError(f"{folder} holds no conditional scorer.")
    return manifest


def _check_pooling(asked: Pooling | None) -> None:
    if asked is not None:
        raise TertiumError("A conditional model keeps the pooling it was trained with.")


class TripleModule(InputModule):
    """The one module of such a ``CrossEncoder``: triples to scores on the label scale.

    sentence-transformers asks for ``trust_remote_code=True`` to import any class that is not its
    own; the code is that of the installed tertium, none comes with the folder.
    """

    def __init__(self, scorer: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.scorer = scorer
        self.model = scorer.model
        self.tokenizer = scorer.encoder.tokenizer

    @classmethod
    def load(cls, model_name_or_path: str, **options: Any) -> "TripleModule":  # type: ignore[override]
        """Load a folder that a conditional scorer was saved to."""
        return cls(ConditionalScorer.load(Path(model_name_or_path)))

    def preprocess(  # type: ignore[override]
        self, inputs: Sequence[TextTriple], **options: Any
    ) -> dict[str, Tensor]:
        """Token ids, masks and segments of a batch."""
        features: dict[str, Tensor] = self.model.features(self.model.sequences(inputs))
        return features

    def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Add ``scores``, one column."""
        low, high = self.scorer.scale
        scores = low + (high - low) * self.model(features).score
        return {**features, "scores": scores.clamp(low, high)[:, None]}

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """As the scorer saves itself."""
        self.scorer.save(output_path)


def write_cross_encoder(folder: Path) -> None:
    """Write the two files by which ``CrossEncoder`` finds its module."""
    module = {
        "idx": 0,
        "name": "0",
        "path": "",
        "type": f"{TripleModule.__module__}.{TripleModule.__name__}",
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
