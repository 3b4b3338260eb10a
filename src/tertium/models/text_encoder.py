"""From texts to vectors, whatever runs the model: truncation, counting and lean batches."""

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.models.base import Embedder, EncodeOptions, Part, unit_rows
from tertium.models.graphs import TOKENS, GraphSource, NoGraphError, check_graph
from tertium.models.language import is_english_vocabulary
from tertium.models.tokenizer import Tokenizer
from tertium.models.tokens import (
    TokenizationStats,
    beginning,
    check_texts,
    chunks,
    lean_batches,
    padded,
    run_batches,
    unique,
    valid_text,
)
from tertium.progress import bar
from tertium.records.manifest import TrainingData
from tertium.types import Pooling

__all__ = ["TextEncoder"]

Matrix = NDArray[np.float32]

_WINDOW = 8192
_CHARACTERS = 32  # tokenized at first per token that the model reads; words are shorter


class TextEncoder(Part, Embedder):
    """An encoder that reads tokens; a subclass provides :meth:`_run`.

    Attributes:
        truncate_dim: keep only the first so many dimensions of a vector; None for all.
    """

    name: str = ""
    pooling: Pooling | None = None
    training_data: tuple[TrainingData, ...] = ()
    truncate_dim: int | None = None

    @property
    def readers(self) -> "tuple[TextEncoder, ...]":
        """The encoder itself."""
        return (self,)

    @property
    @abstractmethod
    def text_tokenizer(self) -> Tokenizer:
        """Turns texts into token ids."""

    @property
    @abstractmethod
    def max_length(self) -> int:
        """Maximum number of tokens of a text."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Width of the model's vectors before truncation to ``truncate_dim``."""

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        return self.width if self.truncate_dim is None else self.truncate_dim

    @property
    @abstractmethod
    def normalizes(self) -> bool:
        """Whether every embedding has length 1."""

    @property
    @abstractmethod
    def prompt(self) -> str:
        """The saved prompt that precedes every text."""

    @property
    def pools_prompt(self) -> bool:
        """Whether the prompt's tokens count in the pooling."""
        return True

    @abstractmethod
    def _run(self, ids: NDArray[Any], mask: NDArray[Any], prompt_length: int) -> Matrix:
        """Vectors of a padded batch; the first ``prompt_length`` tokens are not pooled."""

    def token_states(self, ids: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
        """Last hidden states ``[n, t, d]`` of a padded batch.

        Raises:
            TertiumError: the encoder's engine does not provide them.
        """
        return self._look({"input_ids": ids, "attention_mask": mask}, TOKENS)[0]

    @property
    @abstractmethod
    def backbone_config(self) -> dict[str, Any]:
        """The backbone's configuration, with sizes under BERT's names for all architectures."""

    @abstractmethod
    def graph_source(self) -> GraphSource:
        """The parts that a graph of the encoder is built from."""

    def _running(self) -> AbstractContextManager[Any]:
        """The context in which batches run."""
        return contextlib.nullcontext()

    @property
    def max_characters(self) -> int:
        """How much of a text is worth reading: well over ``max_length`` tokens of any prose."""
        return max(_CHARACTERS * self.max_length - len(self.prompt), 1)

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        normalize: bool = False,
        prompt: str | None = None,
        token_budget: int | None = None,
        progress: bool | None = None,
        truncation: TokenizationStats | None = None,
        batch_size: int | None = None,
        normalize_embeddings: bool = False,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        **options: Any,
    ) -> Any:
        """Encode texts into one row each, in input order.

        Each distinct text is encoded once. Texts are sorted by token length and batched by a token
        budget, so hardly any padding is computed. Texts longer than ``max_length`` tokens are cut,
        which one ``TruncationWarning`` per call reports; empty and blank texts are encoded as the
        model's special tokens only; invalid characters (lone surrogates) become U+FFFD.

        Args:
            texts: a sequence of strings; a single string gives a single vector.
            normalize: scale every vector to length 1.
            prompt: precedes every text (default: the prompt saved with the model, if any).
            token_budget: tokens per batch, padding included (default: by device).
            progress: False for no progress on standard error.
            truncation: count cut texts here instead of warning, for a report over several calls.
            batch_size: maximum texts per batch (default: as many as the token budget allows).
            normalize_embeddings: ``normalize`` in the spelling of sentence-transformers.
            show_progress_bar: ``progress`` in the same spelling.
            convert_to_numpy: accepted for compatibility; rows are numpy by default.
            options: ``output="torch"`` or ``convert_to_tensor=True`` for a tensor on the model's
                device.
        """
        as_tensor = _wants_tensor(**options)
        counted = TokenizationStats() if truncation is None else truncation
        single = isinstance(texts, str)
        rows = self._encode(
            [texts] if isinstance(texts, str) else check_texts(texts),
            prompt=self.prompt if prompt is None else prompt,
            budget=self._default_budget() if token_budget is None else token_budget,
            batch_size=batch_size,
            progress=show_progress_bar if progress is None else progress,
            truncation=counted,
        )
        rows = self._cut(rows)
        if normalize or normalize_embeddings:
            rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        if truncation is None:
            counted.report()
        result = rows[0] if single else rows
        return self._tensor(result) if as_tensor else result

    def encode_stream(
        self, texts: Iterable[str], *, window: int = _WINDOW, **options: Unpack[EncodeOptions]
    ) -> Iterator[Matrix]:
        """Yield one vector per text, in order, with only ``window`` texts in memory.

        Takes the options of :meth:`encode` (except ``output``). Within a window, repeated texts
        are encoded once.
        """
        start = 0
        counted = options.setdefault("truncation", TokenizationStats()) or TokenizationStats()
        for chunk in chunks(texts, window):
            yield from self.encode(check_texts(chunk, start=start), **options)
            start += len(chunk)
        counted.report()

    def tokenize(self, texts: Sequence[str], *, truncation: TokenizationStats) -> list[list[int]]:
        """Token ids of each text as :meth:`encode` reads it, for :meth:`encode_ids`."""
        return self._tokenize([self.prompt + text for text in check_texts(texts)], truncation)

    def batch(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Token ids and mask of some texts, padded, without a prompt."""
        ids = self._tokenize(check_texts(texts), TokenizationStats())
        return self._batch(ids, range(len(ids)))

    def is_english(self) -> bool:
        """Whether the vocabulary is English."""
        return is_english_vocabulary(self.text_tokenizer.plain_ids)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens of each text :meth:`encode` reads."""
        return [len(row) for row in self.tokenize(texts, truncation=TokenizationStats())]

    def encode_ids(self, ids: Sequence[list[int]], *, token_budget: int | None = None) -> Matrix:
        """The vectors of texts whose ids come from :meth:`tokenize`."""
        budget = self._default_budget() if token_budget is None else token_budget
        return self._cut(self._rows(ids, prompt=self.prompt, budget=budget, progress=False))

    def _cut(self, rows: Matrix) -> Matrix:
        """Vectors cut to ``truncate_dim``; scaled to length 1 again if whole vectors are."""
        if self.truncate_dim is None:
            return rows
        kept = rows[:, : self.truncate_dim]
        return unit_rows(kept) if self.normalizes else kept

    @property
    def _cut_mark(self) -> list[int]:
        """``truncate_dim`` as part of a fingerprint: nothing for whole vectors."""
        return [] if self.truncate_dim is None else [self.truncate_dim]

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
        distinct, rows = unique(texts)
        truncation.look(distinct[:_WINDOW], english=self.is_english)
        ids = self._tokenize([prompt + text for text in distinct], truncation)
        result = self._rows(
            ids, prompt=prompt, budget=budget, batch_size=batch_size, progress=progress
        )
        return result if len(distinct) == len(texts) else result[rows]

    def _rows(
        self,
        ids: Sequence[list[int]],
        *,
        prompt: str,
        budget: int,
        batch_size: int | None = None,
        progress: bool | None,
    ) -> Matrix:
        """One embedding for each list of ids."""
        lengths = np.fromiter(map(len, ids), int, len(ids))
        result = np.empty((len(ids), self.width), np.float32)
        left_out = 0 if self.pools_prompt else self._prompt_length(prompt)
        batches = lean_batches(lengths, budget=budget, most=batch_size, workers=self.workers)

        def run(batch: NDArray[Any]) -> Matrix:
            return self._run(*self._batch(ids, batch), left_out)

        with (
            self._running(),
            bar(total=len(ids), label="encoding", unit="text", show=progress) as shown,
        ):
            for batch, rows in run_batches(run, batches, workers=self.workers):
                result[batch] = rows
                shown.update(len(batch))
        return result

    def _prompt_length(self, prompt: str) -> int:
        """Number of tokens before those of the text itself."""
        if not prompt:
            return 0
        (ids,) = self.text_tokenizer.ids([prompt])
        return len(ids) - (ids[-1] == self.text_tokenizer.separator_id)

    def _tokenize(self, texts: list[str], truncation: TokenizationStats) -> list[list[int]]:
        """Token ids without padding; texts that are too long are cut and counted."""
        if not texts:
            return []
        tokenizer, limit = self.text_tokenizer, self.max_length
        read = [beginning(valid_text(text), _CHARACTERS * limit) for text in texts]
        ids = tokenizer.ids(read)
        for index, text in enumerate(texts):
            if len(read[index]) < len(text) and len(ids[index]) <= limit:
                read[index] = valid_text(text)
                (ids[index],) = tokenizer.ids([read[index]])
        long = [index for index, row in enumerate(ids) if len(row) > limit]
        if long:
            cut = tokenizer.cut_ids([read[index] for index in long], limit)
            for index, row in zip(long, cut, strict=True):
                ids[index] = row
        truncation.add(
            cut=len(long), texts=len(texts), limit=limit, unknown=self._count_unknown(ids)
        )
        return ids

    def _count_unknown(self, ids: list[list[int]]) -> int:
        """Number of texts whose tokens, other than special ones, are all unknown."""
        unknown, frame = self.text_tokenizer.unknown_id, self.text_tokenizer.frame
        if unknown is None:
            return 0
        return sum(1 for row in ids if 0 < row.count(unknown) >= len(row) - frame)

    def _batch(
        self, texts: Sequence[list[int]], batch: Iterable[int]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Ids and mask of some texts, padded."""
        rows = [texts[index] for index in batch]
        if not rows:
            raise TertiumError("a batch needs at least one text.")
        tokenizer = self.text_tokenizer
        if tokenizer.pad_id is None:
            raise TertiumError(f"{self.name}: the tokenizer has no padding token.")
        ids, real = padded(rows, padding=tokenizer.pad_id, left=tokenizer.pads_left)
        return ids, real.astype(np.int64)

    def _run_engine(self, ids: NDArray[Any], mask: NDArray[Any], prompt_length: int) -> Matrix:
        """Vectors of a padded batch from the engine."""
        if self.engine is None:
            raise TertiumError(f"{self.name} has no engine that runs it.")
        if prompt_length:
            self._check_left_out()
            mask = np.where(mask.cumsum(axis=1) <= prompt_length, 2 * mask, mask)
        return self.engine.run({"input_ids": ids, "attention_mask": mask})

    def _check_left_out(self) -> None:
        """Raise unless the engine's graph can exclude tokens from pooling, as only ours can."""
        source = self.graph_source()
        try:
            check_graph(source.config, source.modules)
        except NoGraphError:
            raise TertiumError(
                f"{self.name} leaves its prompt out of the pooling, which its graph cannot: use "
                "torch."
            ) from None

    def _tensor(self, rows: Matrix) -> Any:
        """Rows as a tensor."""
        import torch

        return torch.from_numpy(rows)


def _wants_tensor(output: str = "numpy", *, convert_to_tensor: bool = False) -> bool:
    if output not in ("numpy", "torch"):
        raise ValueError(f"output must be numpy or torch, got {output!r}")
    return output == "torch" or convert_to_tensor
