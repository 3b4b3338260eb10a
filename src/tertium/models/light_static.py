"""Static embeddings without torch: rows of a table, averaged by numpy."""

import json
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError, require
from tertium.models.arrays import arrays_digest, read_arrays
from tertium.models.bags import bags, check_whole, no_transformer
from tertium.models.base import Part
from tertium.models.graphs import GraphSource
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokenizer import FileTokenizer, NotLightError, Tokenizer, read_json
from tertium.models.tokens import TokenizationStats, valid_text
from tertium.progress import bar
from tertium.records.manifest import Manifest, TrainingData, read_manifest
from tertium.types import Kind, Pooling

if TYPE_CHECKING:
    from tertium.models.static import StaticEncoder

__all__ = ["LightStatic"]

Matrix = NDArray[np.float32]

_TABLE = "embedding.weight"
_TEXTS = 512  # a batch: its rows stay in a processor's caches


class LightStatic(TextEncoder):
    """What :class:`~tertium.models.static.StaticEncoder` is, read without torch.

    Args:
        folder: where its files are.
        tokenizer: of ``tokenizers``.
        table: a vector for each token.
        normalizes: whether vectors get length 1.
        prompt: put before every text.
        name: what results call the model.
        training_data: what the model has seen.
    """

    def __init__(
        self,
        folder: Path,
        tokenizer: Any,
        table: Matrix,
        *,
        normalizes: bool,
        prompt: str,
        name: str,
        training_data: tuple[TrainingData, ...] = (),
    ) -> None:
        self.folder = folder
        self.table = table
        self.name = name
        self.training_data = training_data
        self._backend = tokenizer
        self._normalizes = normalizes
        self._prompt = prompt

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        manifest: Manifest | None = None,
        name: str | None = None,
        pooling: Pooling | None = None,
        max_length: int | None = None,
    ) -> "LightStatic":
        """Read a sentence-transformers folder of static embeddings, perhaps of length 1.

        Takes the options of :meth:`StaticEncoder.load`.

        Raises:
            NotLightError: it holds something else.
        """
        check_whole(name or folder.name, pooling, max_length)
        try:
            first, *others = json.loads((folder / "modules.json").read_bytes())
            kinds = [str(entry["type"]).rpartition(".")[2] for entry in others]
            place = folder / str(first["path"])
            stored = read_arrays(place / "model.safetensors")
        except (OSError, ValueError, LookupError, TypeError, TertiumError) as error:
            raise NotLightError(f"{folder}: {error}") from error
        if not set(kinds) <= {"Normalize"} or set(stored) != {_TABLE}:
            raise NotLightError(f"{folder} has more than a table of vectors")
        if stored[_TABLE].dtype != np.float32:
            raise NotLightError(f"{folder} is stored in {stored[_TABLE].dtype}")
        settings = read_json(folder / "config_sentence_transformers.json")
        prompts = settings.get("prompts") or {}
        manifest = manifest or read_manifest(folder)
        return cls(
            folder,
            FileTokenizer(place).backend,
            stored[_TABLE],
            normalizes="Normalize" in kinds,
            prompt=prompts.get(settings.get("default_prompt_name") or "") or "",
            name=name or folder.name,
            training_data=manifest.training_data if manifest else (),
        )

    @cached_property
    def encoder(self) -> "StaticEncoder":
        """The same in torch, loaded when it is first asked for."""
        require("train", purpose=f"What only torch can do with {self.name}", packages=["torch"])
        from tertium.models.static import StaticEncoder

        return StaticEncoder.load(self.folder, name=self.name)

    def __getattr__(self, name: str) -> Any:
        """What this class does not have is asked of the encoder in torch."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.encoder, name)

    @property
    def kind(self) -> Kind:
        """What ``tertium.json`` calls it."""
        return Kind.STATIC

    @property
    def parts(self) -> tuple[Part, ...]:
        """None: there is no graph, and no engine is needed."""
        return ()

    @property
    def text_tokenizer(self) -> Tokenizer:
        """There is none that gives batches for a transformer."""
        raise no_transformer(self.name)

    @property
    def max_length(self) -> int:
        """Texts are read whole."""
        return sys.maxsize

    @property
    def prompt(self) -> str:
        """What is put before every text, as the model was saved with."""
        return self._prompt

    @property
    def normalizes(self) -> bool:
        """Whether every embedding has length 1."""
        return self._normalizes

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        return int(self.table.shape[1])

    @property
    def backbone_config(self) -> dict[str, Any]:
        """There is no backbone."""
        raise no_transformer(self.name)

    def graph_source(self) -> GraphSource:
        """There is no graph."""
        raise no_transformer(self.name)

    @property
    def graph_fingerprint(self) -> str:
        """There is no graph: the hash of the model."""
        return self.fingerprint

    @property
    def fingerprint(self) -> str:
        """The hash of all that decides about its vectors: weights, tokenizer and prompt."""
        content = json.loads(self._backend.to_str())
        read = {name: x for name, x in content.items() if name not in ("truncation", "padding")}
        modules = ["StaticEmbedding", *["Normalize"] * self._normalizes]
        return arrays_digest({f"0.{_TABLE}": self.table}, [modules, read, self._prompt])

    def save(self, folder: Path | str) -> None:
        """Save whole, by torch."""
        self.encoder.save(folder)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, at least 1."""
        found = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [max(len(each.ids), 1) for each in found]

    def _encode(
        self,
        texts: list[str],
        *,
        prompt: str,
        budget: int,
        batch_size: int | None,
        progress: bool | None,
        truncation: TokenizationStats,
    ) -> Matrix:
        places: dict[str, int] = {}
        rows = [places.setdefault(text, len(places)) for text in texts]
        distinct = [prompt + valid_text(text) for text in places]
        result = np.zeros((len(distinct), self.dimension), np.float32)
        unknown = 0
        with bar(total=len(distinct), label="encoding", unit="text", show=progress) as shown:
            for start in range(0, len(distinct), _TEXTS):
                ids, lengths, strange = bags(self._backend, distinct[start : start + _TEXTS])
                some = np.flatnonzero(lengths)
                if len(some):
                    begins = np.concatenate([[0], lengths[some][:-1].cumsum()])
                    sums = np.add.reduceat(self.table[ids], begins)
                    result[start + some] = sums / lengths[some, None].astype(np.float32)
                unknown += strange
                shown.update(len(lengths))
        truncation.add(cut=0, texts=len(distinct), limit=self.max_length, unknown=unknown)
        if self._normalizes:
            result /= np.maximum(np.linalg.norm(result, axis=1, keepdims=True), 1e-12)
        return result if len(places) == len(texts) else result[rows]

    def _run(self, ids: NDArray[Any], mask: NDArray[Any], prompt_length: int) -> Matrix:
        raise no_transformer(self.name)
