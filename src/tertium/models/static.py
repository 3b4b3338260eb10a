"""Static embeddings: the mean of the vectors of single tokens, for corpora of any size."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from tertium.errors import TertiumError
from tertium.models.bags import bags, check_whole, no_transformer
from tertium.models.base import Part
from tertium.models.checkpoints import quiet
from tertium.models.encoder import Encoder
from tertium.models.fingerprint import tokenizer_content, weights_digest
from tertium.models.names import is_static
from tertium.models.tokens import TokenizationStats, valid_text
from tertium.progress import bar
from tertium.records.manifest import Manifest, TrainingData, read_manifest
from tertium.types import Kind, Pooling

__all__ = ["StaticEncoder"]

Matrix = NDArray[np.float32]

_TEXTS = 4096  # a batch


class StaticEncoder(Encoder):
    """Texts to vectors without a transformer: hundreds of times faster, and less exact.

    The order of words makes no difference, texts of any length are read whole, and an empty text
    is a vector of zeros, whose cosine with anything is 0. There is no backbone to train or look
    into.
    """

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

        Args:
            folder: where the files are.
            manifest: what its ``tertium.json`` says, if that has been read already.
            name: what results call the model (default: the folder's name).
            pooling: must be None, for there are no tokens to pool.
            device: torch device (default: the processor, which is as fast as any).
            max_length: must be None, for texts are read whole.
            trust_remote_code: run code that comes with the model.
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
    def kind(self) -> Kind:
        """What ``tertium.json`` calls it."""
        return Kind.STATIC

    @property
    def parts(self) -> tuple[Part, ...]:
        """None: there is no graph, and no engine is needed."""
        return ()

    @property
    def fingerprint(self) -> str:
        """The hash of all that decides about its vectors: weights, tokenizer and prompt."""
        tokenizer = tokenizer_content(cast(StaticEmbedding, self.model[0]).tokenizer)
        modules = [type(module).__name__ for module in self.model]
        return weights_digest(self.model, [modules, tokenizer, self.prompt])

    @property
    def max_length(self) -> int:
        """Texts are read whole."""
        return sys.maxsize

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """There is none that gives batches for a transformer."""
        raise self._refusal()

    @property
    def _transformer(self) -> Transformer:
        raise self._refusal()

    def _refusal(self) -> TertiumError:
        return no_transformer(self.name)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, at least 1."""
        tokenizer = cast(StaticEmbedding, self.model[0]).tokenizer
        found = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [max(len(each.ids), 1) for each in found]

    def _select_hidden_states(self) -> None:
        """There are none."""

    @torch.inference_mode()
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
        result = torch.zeros(len(distinct), self.dimension, device=self.device)
        with bar(total=len(distinct), label="encoding", unit="text", show=progress) as shown:
            for start in range(0, len(distinct), _TEXTS):
                features, unknown = self._bags(distinct[start : start + _TEXTS])
                truncation.add(cut=0, texts=0, limit=self.max_length, unknown=unknown)
                out = self.model(features)["sentence_embedding"]
                result[start : start + len(out)] = out
                shown.update(len(out))
        truncation.add(cut=0, texts=len(distinct), limit=self.max_length)
        vectors = result.cpu().numpy()
        return vectors if len(places) == len(texts) else vectors[rows]

    def _bags(self, texts: list[str]) -> tuple[dict[str, Tensor], int]:
        """All tokens of some texts, where each text begins, and how many texts hold none known."""
        ids, lengths, unknown = bags(cast(StaticEmbedding, self.model[0]).tokenizer, texts)
        offsets = np.concatenate([[0], lengths[:-1].cumsum()]).astype(np.int64)
        features = {"input_ids": torch.from_numpy(ids), "offsets": torch.from_numpy(offsets)}
        moved = {key: value.to(self.device) for key, value in features.items()}
        return moved, unknown
