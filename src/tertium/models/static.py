"""Static embeddings: the mean of token vectors, for corpora of any size."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import PreTrainedTokenizerBase

from tertium.errors import TertiumError
from tertium.models.bags import BagEncoder, check_whole
from tertium.models.checkpoints import quiet
from tertium.models.encoder import Encoder
from tertium.models.fingerprint import arrays_digest, numbers
from tertium.models.names import is_static
from tertium.models.tokenizer import tokenizer_content
from tertium.records.manifest import Manifest, TrainingData, read_manifest
from tertium.types import Pooling

__all__ = ["StaticEncoder"]

Matrix = NDArray[np.float32]


class StaticEncoder(BagEncoder, Encoder):
    """From texts to vectors without a transformer: hundreds of times faster, but less accurate."""

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        name: str,
        source: Path | None = None,
        training_data: tuple[TrainingData, ...] = (),
    ) -> None:
        super().__init__(model, name=name, pooling=None, source=source, training_data=training_data)

    @staticmethod
    def _check_first(module: torch.nn.Module, name: str) -> None:
        if not isinstance(module, StaticEmbedding):
            raise TertiumError(f"{name} does not begin with static embeddings.")

    @classmethod
    def load(  # type: ignore[override]
        cls,
        folder: Path,
        *,
        manifest: Manifest | None = None,
        name: str | None = None,
        pooling: Pooling | None = None,
        device: str | None = None,
        max_length: int | None = None,
        trust_remote_code: bool = False,
    ) -> "StaticEncoder":
        """Load a sentence-transformers folder that begins with static embeddings.

        Takes the options of :meth:`Encoder.load`; ``pooling`` and ``max_length`` must be None,
        since texts are read whole. The default device is the CPU, which is as fast as any.
        """
        called = name or folder.name
        check_whole(called, pooling, max_length)
        if not is_static(folder):
            raise TertiumError(f"{folder} does not begin with static embeddings.")
        manifest = manifest or read_manifest(folder)
        with quiet():
            model = SentenceTransformer(
                str(folder),
                device=device or "cpu",
                local_files_only=True,
                trust_remote_code=trust_remote_code,
            )
        model.eval()
        data = manifest.training_data if manifest else ()
        return cls(model, name=called, source=folder, training_data=data)

    @property
    def fingerprint(self) -> str:
        """The hash of everything that its vectors depend on: weights, tokenizer and prompt."""
        modules = [type(module).__name__ for module in self.model]
        about = [modules, tokenizer_content(self._backend), self.prompt, *self._cut_mark]
        return arrays_digest(numbers(self.model), about)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Raises: there is none for a transformer."""
        raise self._refusal()

    @property
    def _transformer(self) -> Transformer:
        raise self._refusal()

    @property
    def _backend(self) -> Any:
        return cast(StaticEmbedding, self.model[0]).tokenizer

    def _select_hidden_states(self) -> None:
        """Do nothing: there are none."""

    @torch.inference_mode()
    def _means(self, ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> Matrix:
        offsets = np.concatenate([[0], lengths[:-1].cumsum()]).astype(np.int64)
        features = {"input_ids": torch.from_numpy(ids), "offsets": torch.from_numpy(offsets)}
        moved = {key: value.to(self.device) for key, value in features.items()}
        return np.asarray(self.model(moved)["sentence_embedding"].cpu().numpy())
