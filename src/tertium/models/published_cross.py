"""Cross-encoders saved by sentence-transformers, with their own activation and scale."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError, TertiumWarning
from tertium.files import atomic_folder
from tertium.heads.layout import complete
from tertium.models.adapters import SavedHead
from tertium.models.checkpoints import SAFE
from tertium.models.conditional import ConditionalScorer
from tertium.models.cross import CrossModel, CrossScorer
from tertium.models.light import load_encoder
from tertium.models.passages import Span, cut_texts
from tertium.models.tokenizer import NotLightError, read_json
from tertium.models.tokens import TokenizationStats
from tertium.types import TextPair

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

__all__ = ["PublishedCrossEncoder", "TorchCrossEncoder", "is_cross_encoder", "load_published"]

Matrix = NDArray[np.float32]
_BATCH = 32


@dataclass(frozen=True)
class _Classifier:
    """The names of the two linear maps of an architecture's classifier, and their activation.

    Their input is the first token's state.
    """

    dense: str = "classifier.dense"
    out: str = "classifier.out_proj"
    activation: str = "tanh"


_CLASSIFIERS = {
    "bert": _Classifier("bert.pooler.dense", "classifier"),
    "camembert": _Classifier(),
    "distilbert": _Classifier("pre_classifier", "classifier", "relu"),
    "electra": _Classifier(activation="gelu"),
    "mpnet": _Classifier(),
    "roberta": _Classifier(),
    "xlm-roberta": _Classifier(),
}


def is_cross_encoder(folder: Path) -> bool:
    """Whether ``CrossEncoder`` of sentence-transformers saved the folder, or can load it.

    Older versions, and transformers itself, only name a classifier in the configuration.
    """
    saved_as = read_json(folder / "config_sentence_transformers.json").get("model_type")
    if saved_as is not None or (folder / "modules.json").exists():
        return bool(saved_as == "CrossEncoder")
    architectures = read_json(folder / "config.json").get("architectures") or ()
    return any("ForSequenceClassification" in str(name) for name in architectures)


def load_published(
    folder: Path,
    *,
    name: str,
    pooling: Any = None,
    light: bool = False,
    device: str | None = None,
    max_length: int | None = None,
    trust_remote_code: bool = False,
    **options: Any,
) -> CrossModel:
    """Load a folder for which :func:`is_cross_encoder` is true.

    Its scores are those of ``CrossEncoder.predict``; with a sigmoid they range from 0 to 1. A
    model without an activation returns logits, which have no scale: tertium returns their sigmoid,
    which has the same order, and warns.

    Raises:
        TertiumError: a classifier of several classes, another activation, or a ``pooling``.
        NotLightError: ``light`` is set, and only torch can run the model.
    """
    if pooling is not None:
        raise TertiumError(f"{name} reads pairs together and pools nothing: leave pooling out.")
    activation = _checked_activation(folder, name, trusted=trust_remote_code)
    head = _read_classifier(folder)
    options |= {"device": device, "max_length": max_length, "trust_remote_code": trust_remote_code}
    if head is not None:
        encoder = load_encoder(folder, name=name, light=light, backbone_only=True, **options)
        scorer = ConditionalScorer(encoder, head, OrderedLabels(0.0, 1.0))
        return PublishedCrossEncoder(scorer, folder=folder, activation=activation)
    if light:
        raise NotLightError(f"{folder} holds a cross-encoder that only torch can run.")
    from sentence_transformers import CrossEncoder

    from tertium.models.checkpoints import quiet

    with quiet():
        model = CrossEncoder(
            str(folder), device=device, trust_remote_code=trust_remote_code, local_files_only=True
        )
    if max_length is not None:
        model.max_seq_length = max_length
    return TorchCrossEncoder(model, name=name, activation=activation)


class PublishedCrossEncoder(CrossScorer):
    """A published cross-encoder of a known architecture; see :func:`load_published`.

    Args:
        scorer: backbone and classifier.
        folder: the folder it was loaded from.
        activation: name of the activation that turns the model's output into a score.
    """

    def __init__(self, scorer: ConditionalScorer, *, folder: Path, activation: str) -> None:
        super().__init__(scorer, order="given")
        self._folder = folder
        self.activation = activation

    def save(self, folder: Path | str) -> None:
        """Copy its folder, which sentence-transformers reads as before."""
        with atomic_folder(Path(folder), last="config.json") as temporary:
            hidden = shutil.ignore_patterns(".*")
            shutil.copytree(self._folder, temporary, dirs_exist_ok=True, ignore=hidden)


class TorchCrossEncoder(CrossModel):
    """A published cross-encoder of any other architecture, run by sentence-transformers.

    Args:
        model: the model of sentence-transformers.
        name: the model's name in results.
        activation: name of the activation that turns the model's output into a score.
    """

    name: str = ""
    scale = (0.0, 1.0)  # of a sigmoid

    def __init__(self, model: CrossEncoder, *, name: str, activation: str) -> None:
        self._model = model
        self.name = name
        self.activation = activation

    @property
    def fingerprint(self) -> str:
        """The hash of its weights, activation and length."""
        found = hashlib.sha256(f"{self.activation} {self._limit}".encode())
        for key, tensor in sorted(self._model.state_dict().items()):
            found.update(key.encode())
            found.update(np.ascontiguousarray(tensor.float().cpu().numpy()).data)
        return found.hexdigest()

    def save(self, folder: Path | str) -> None:
        """Save with sentence-transformers."""
        self._model.save_pretrained(str(folder))

    def _grade(
        self, pairs: list[TextPair], *, progress: bool | None, stats: TokenizationStats
    ) -> Matrix:
        from torch import nn

        if not pairs:
            return np.empty(0, np.float32)
        stats.add(cut=0, texts=len(pairs), limit=self._limit)
        found = self._model.predict(
            pairs,
            batch_size=_BATCH,
            show_progress_bar=bool(progress),
            activation_fn=nn.Sigmoid(),
            convert_to_numpy=True,
        )
        return np.asarray(found, np.float32).reshape(-1)

    def _passages(
        self, items: Sequence[tuple[str, ...]], prompt: str | None = None
    ) -> list[list[Span]]:
        found: list[list[Span]] = []
        lengths = self._count(*zip(*items, strict=True)) if items else []
        budget = (self._limit - self._count([""], [""])[0]) // 2
        for pair, length in zip(items, lengths, strict=True):
            found += [[], []] if length <= self._limit else cut_texts(pair, self._count, budget)
        return found

    def _count(self, *sides: Sequence[str]) -> list[int]:
        ids = self._model.tokenizer(*map(list, sides), truncation=False, verbose=False)
        return [len(row) for row in ids["input_ids"]]

    @property
    def _limit(self) -> int:
        return int(self._model.max_seq_length or 512)


def _checked_activation(folder: Path, name: str, *, trusted: bool) -> str:
    """The name of the activation; raises unless the model has one output and a known scale."""
    config = read_json(folder / "config.json")
    labels = config.get("id2label")
    outputs = len(labels) if isinstance(labels, dict) else config.get("num_labels", 2)
    if outputs != 1:
        raise TertiumError(
            f"{folder} holds a classifier of {outputs} classes: a model that grades pairs has one "
            "output."
        )
    saved = read_json(folder / "config_sentence_transformers.json").get("activation_fn")
    inside = config.get("sentence_transformers") or {}
    saved = saved or inside.get("activation_fn")
    path = str(saved or config.get("sbert_ce_default_activation_function") or "torch.Sigmoid")
    if not trusted and not path.startswith("torch."):
        path = "torch.Sigmoid"  # like sentence-transformers, which imports no other code
    activation = path.rpartition(".")[2]
    if activation not in ("Sigmoid", "Identity"):
        raise TertiumError(
            f"{folder}: the activation {activation} has no scale that tertium knows. Save the "
            "model with a sigmoid, or with none."
        )
    if activation == "Identity":
        warnings.warn(
            f"{name} gives logits, which have no scale: their sigmoid is given, from 0 to 1, in "
            "the same order.",
            TertiumWarning,
            stacklevel=2,
        )
    return activation


def _read_classifier(folder: Path) -> SavedHead | None:
    """The classifier of a known architecture in one file of single precision, else None."""
    config = read_json(folder / "config.json")
    known = _CLASSIFIERS.get(str(config.get("model_type")))
    modules = folder / "modules.json"
    if known is None or "auto_map" in config or not (folder / SAFE).is_file():
        return None
    if modules.exists() and len(json.loads(modules.read_bytes())) != 1:
        return None
    weights = {}
    try:
        with safe_open(folder / SAFE, framework="numpy") as stored:
            if any(stored.get_slice(each).get_dtype() != "F32" for each in stored.keys()):  # noqa: SIM118
                return None
            for ours, theirs in (("dense", known.dense), ("out", known.out)):
                for part in ("weight", "bias"):
                    weights[f"{ours}.{part}"] = stored.get_tensor(f"{theirs}.{part}")
    except SafetensorError:
        return None  # other names, or a damaged file: transformers says what is wrong
    head = complete({"kind": "classifier", "dense_activation": known.activation})
    return SavedHead(head, weights)
