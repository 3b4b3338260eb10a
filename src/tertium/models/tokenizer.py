"""Tokenizers: the interface that encoders need, and one read from its file."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tertium.errors import TertiumError

__all__ = [
    "FileTokenizer",
    "NoSpansError",
    "NotLightError",
    "PairFrame",
    "Span",
    "Tokenizer",
    "read_json",
    "tokenizer_content",
]

Span = tuple[int, int]  # first character, and the first one after the last

FILE = "tokenizer.json"
_CONFIG, _SPECIAL = "tokenizer_config.json", "special_tokens_map.json"
_NO_LIMIT = 10**30  # what transformers writes for a tokenizer without one


@dataclass(frozen=True)
class PairFrame:
    """How a tokenizer joins two texts.

    Attributes:
        between: number of separators between them.
        types: whether the second has a token type of its own.
    """

    between: int
    types: bool

    @classmethod
    def of(cls, ids: Sequence[int], types: Sequence[int], *, text: int) -> "PairFrame":
        """From a pair of the same text of ``text`` tokens, framed by one special token each."""
        return cls(len(ids) - 2 * text - 2, 1 in types)


class NotLightError(TertiumError):
    """A model that only torch can read or run."""


class NoSpansError(TertiumError):
    """A tokenizer that does not know the positions of tokens in a text."""

    def __init__(self) -> None:
        super().__init__(
            "The model's tokenizer does not know the positions of tokens in a text: only occlusion "
            "can explain its scores."
        )


def read_json(file: Path) -> dict[str, Any]:
    """The entries of a JSON file; none if there is no file."""
    if not file.exists():
        return {}
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise TertiumError(f"{file} is not a JSON object. Copy it again from its source.")
    return content


def tokenizer_content(backend: Any) -> dict[str, Any]:
    """The content of a tokenizer of ``tokenizers``, except what each call sets."""
    content = json.loads(backend.to_str())
    return {name: x for name, x in content.items() if name not in ("truncation", "padding")}


class Tokenizer(ABC):
    """From texts to token ids. An id is None if there is no such token.

    Attributes:
        pad_id: fills up short rows.
        unknown_id: replaces what the vocabulary does not know.
        first_id: begins a sequence.
        separator_id: ends a sequence, or a part of it.
        pads_left: whether rows are padded on the left.
        frame: number of special tokens around a text.
    """

    pad_id: int | None
    unknown_id: int | None
    first_id: int | None
    separator_id: int | None
    pads_left: bool
    frame: int

    @abstractmethod
    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, special tokens included."""

    @abstractmethod
    def cut_ids(self, texts: Sequence[str], limit: int) -> list[list[int]]:
        """The same, cut to ``limit`` tokens including special ones."""

    @abstractmethod
    def plain_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without special tokens; one written in a text is read as text."""

    @abstractmethod
    def framed_spans(self, text: str, limit: int) -> tuple[list[int], list[Span]]:
        """Ids of a text cut to ``limit`` tokens, and their spans; empty ones for special tokens.

        Raises:
            NoSpansError: this kind of tokenizer does not know them.
        """

    @abstractmethod
    def plain_spans(self, text: str) -> list[Span]:
        """The span of each token of :meth:`plain_ids`; raises like :meth:`framed_spans`."""

    @property
    @abstractmethod
    def pair_frame(self) -> PairFrame:
        """How it joins two texts."""

    @abstractmethod
    def names(self, text: str) -> list[str]:
        """The tokens of a text as strings of the vocabulary."""


class FileTokenizer(Tokenizer):
    """The tokenizer in a folder's ``tokenizer.json``, read without transformers.

    Args:
        folder: the folder with the file.

    Raises:
        NotLightError: there is none, or transformers would modify it after reading.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        if not self.file.is_file():
            raise NotLightError(f"{folder} has no {FILE}")
        self._config = {**read_json(folder / _SPECIAL), **read_json(folder / _CONFIG)}
        if "auto_map" in self._config:
            raise NotLightError(f"{folder} has a tokenizer with code of its own")
        normalizer = self.backend.normalizer
        lowers = getattr(normalizer, "lowercase", None)
        if lowers is not None and lowers != self._config.get("do_lower_case", lowers):
            raise NotLightError(f"{folder} has a tokenizer whose files disagree about lower case")
        self.pad_id = self._special("pad_token")
        self.unknown_id = self._special("unk_token")
        self.first_id = self._special("cls_token", "bos_token")
        self.separator_id = self._special("sep_token", "eos_token")
        self.pads_left = self._config.get("padding_side") == "left"
        self.frame = int(self.backend.num_special_tokens_to_add(is_pair=False))

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, if the files state it."""
        limit = self._config.get("model_max_length")
        return int(limit) if limit is not None and limit < _NO_LIMIT else None

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, special tokens included."""
        return [each.ids for each in self.backend.encode_batch_fast(list(texts))]

    def cut_ids(self, texts: Sequence[str], limit: int) -> list[list[int]]:
        """The same, cut to ``limit`` tokens including special ones."""
        return [self.framed_spans(text, limit)[0] for text in texts]

    def plain_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without special tokens; one written in a text is read as text."""
        found = self._plain.encode_batch_fast(list(texts), add_special_tokens=False)
        return [each.ids for each in found]

    def framed_spans(self, text: str, limit: int) -> tuple[list[int], list[Span]]:
        """Ids of a text cut to ``limit`` tokens, and their spans."""
        encoding = self.backend.encode(text, add_special_tokens=False)
        encoding.truncate(max(limit - self.frame, 0))
        framed = self.backend.post_process(encoding)
        return framed.ids, framed.offsets

    def plain_spans(self, text: str) -> list[Span]:
        """The span of each token of :meth:`plain_ids`."""
        spans: list[Span] = self._plain.encode(text, add_special_tokens=False).offsets
        return spans

    def names(self, text: str) -> list[str]:
        """The tokens of a text as strings of the vocabulary."""
        names: list[str] = self._plain.encode(text, add_special_tokens=False).tokens
        return names

    @cached_property
    def pair_frame(self) -> PairFrame:
        """How it joins two texts."""
        pair = self.backend.encode("a", "a")
        inputs = self._config.get("model_input_names") or ["token_type_ids"]
        types = pair.type_ids if "token_type_ids" in inputs else ()
        return PairFrame.of(pair.ids, types, text=len(self.plain_ids(["a"])[0]))

    @property
    def content(self) -> dict[str, Any]:
        """The content of the file, except padding and truncation."""
        return tokenizer_content(self.backend)

    @cached_property
    def backend(self) -> Any:
        """The tokenizer of ``tokenizers``, without truncation and padding."""
        from tokenizers import Tokenizer as Backend

        try:
            backend = Backend.from_file(str(self.file))
        except Exception as error:  # it raises no other kind
            raise NotLightError(f"{self.file} cannot be read ({error})") from error
        backend.no_padding()
        backend.no_truncation()
        return backend

    @cached_property
    def _plain(self) -> Any:
        from tokenizers import Tokenizer as Backend

        backend = Backend.from_str(self.backend.to_str())
        backend.encode_special_tokens = True
        return backend

    def _special(self, *names: str) -> int | None:
        """The id of the first of these tokens that the files name."""
        for name in names:
            token = self._config.get(name)
            content = token.get("content") if isinstance(token, Mapping) else token
            if isinstance(content, str):
                found = self.backend.token_to_id(content)
                if found is not None:
                    return int(found)
        return None
