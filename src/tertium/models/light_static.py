"""Static embeddings without torch: rows of a table, averaged with numpy."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.models.bags import BagEncoder, check_whole
from tertium.models.checkpoints import read_arrays
from tertium.models.fingerprint import arrays_digest
from tertium.models.light import TorchOnDemand, saved_prompts
from tertium.models.tokenizer import FileTokenizer, NotLightError, tokenizer_content
from tertium.records.manifest import Manifest, TrainingData, read_manifest
from tertium.types import Pooling

if TYPE_CHECKING:
    from tertium.models.static import StaticEncoder

__all__ = ["LightStatic"]

Matrix = NDArray[np.float32]

_TABLE = "embedding.weight"


class LightStatic(TorchOnDemand, BagEncoder):
    """:class:`~tertium.models.static.StaticEncoder`, read without torch.

    Args:
        folder: the folder with its files.
        tokenizer: a tokenizer of ``tokenizers``.
        table: a vector for each token.
        normalizes: whether vectors are scaled to length 1.
        prompt: precedes every text.
        name: the model's name in results.
        training_data: the data that the model was trained on.
    """

    normalizes = False
    prompt = ""
    _backend: Any = None

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
        self.normalizes = normalizes
        self.prompt = prompt
        self.name = name
        self.training_data = training_data
        self._backend = tokenizer

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
        """Read a sentence-transformers folder of static embeddings, perhaps normalized.

        Takes the options of :meth:`StaticEncoder.load`.

        Raises:
            NotLightError: it contains something else.
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
            raise NotLightError(f"{folder} contains more than a table of vectors")
        if stored[_TABLE].dtype != np.float32:
            raise NotLightError(f"{folder} is stored in {stored[_TABLE].dtype}")
        manifest = manifest or read_manifest(folder)
        return cls(
            folder,
            FileTokenizer(place).backend,
            stored[_TABLE],
            normalizes="Normalize" in kinds,
            prompt=saved_prompts(folder)[0],
            name=name or folder.name,
            training_data=manifest.training_data if manifest else (),
        )

    def _in_torch(self) -> "StaticEncoder":
        from tertium.models.static import StaticEncoder

        return StaticEncoder.load(self.folder, name=self.name)

    @property
    def width(self) -> int:
        """Width of the model's vectors."""
        return int(self.table.shape[1])

    @property
    def fingerprint(self) -> str:
        """The hash of everything that its vectors depend on: weights, tokenizer and prompt."""
        modules = ["StaticEmbedding", *["Normalize"] * self.normalizes]
        about = [modules, tokenizer_content(self._backend), self.prompt, *self._cut_mark]
        return arrays_digest({f"0.{_TABLE}": self.table}, about)

    def _means(self, ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> Matrix:
        result = np.zeros((len(lengths), self.width), np.float32)
        some = np.flatnonzero(lengths)
        if len(some):
            begins = np.concatenate([[0], lengths[some][:-1].cumsum()])
            sums = np.add.reduceat(self.table[ids], begins)
            result[some] = sums / lengths[some, None].astype(np.float32)
        if self.normalizes:
            result /= np.maximum(np.linalg.norm(result, axis=1, keepdims=True), 1e-12)
        return result
