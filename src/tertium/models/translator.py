"""Translation with MarianMT, NLLB or any other sequence-to-sequence model of transformers."""

import difflib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers.util import get_device_name
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tertium.errors import TertiumError, require
from tertium.models.checkpoints import quiet, read_options
from tertium.models.tokens import TokenizationStats, token_budget_batches

__all__ = ["Translator"]

_TOKEN_BUDGETS = {"cpu": 1024}  # tokens of a batch, padding included
_ACCELERATOR_BUDGET = 8192


class Translator:
    """Texts of one language to texts of another, by beam search: nothing is left to chance.

    Args:
        model: a sequence-to-sequence model.
        tokenizer: that belongs to it.
        name: what messages call it.
    """

    def __init__(self, model: Any, tokenizer: Any, *, name: str) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name = name

    @classmethod
    def load(cls, folder: Path, *, name: str | None = None) -> "Translator":
        """Load a transformers folder; weights are read as tensors, never as code."""
        called = name or str(folder)
        if _needs_sentencepiece(folder):
            require("translate", purpose=f"Translation with {called}")
        try:
            with quiet(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tokenizer = AutoTokenizer.from_pretrained(folder)
                model, found = AutoModelForSeq2SeqLM.from_pretrained(
                    folder, output_loading_info=True, **read_options(folder)
                )
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = (str(error).strip().splitlines() or ["of an unknown kind"])[0]
            raise TertiumError(f"{called} holds no translation model: {reason}") from error
        if found["missing_keys"]:
            some = ", ".join(sorted(found["missing_keys"])[:3])
            raise TertiumError(f"{called} lacks weights: {some}. Fetch or copy the model again.")
        return cls(model.to(get_device_name()), tokenizer, name=called)

    @property
    def multilingual(self) -> bool:
        """Whether it must be told the languages, as NLLB and M2M100 must."""
        return hasattr(self.tokenizer, "src_lang")

    @torch.inference_mode()
    def translate(
        self,
        texts: Sequence[str],
        *,
        source: str,
        target: str,
        beams: int = 4,
        max_length: int = 128,
        truncation: TokenizationStats | None = None,
    ) -> list[str]:
        """Translate texts, in input order, in batches of like length.

        Args:
            texts: in the source language.
            source: code of their language, for a multilingual model.
            target: code of the language to translate into, likewise.
            beams: width of the search.
            max_length: tokens that are read of a text, and written.
            truncation: counts texts that were cut.
        """
        if not texts:
            return []
        self._check_length(max_length)
        options: dict[str, Any] = {}
        if self.multilingual:
            self._language_id(source)
            options["forced_bos_token_id"] = self._language_id(target)
            self.tokenizer.src_lang = source
        ids = self.tokenizer(list(texts), truncation=True, max_length=max_length + 1)["input_ids"]
        cut = sum(len(row) > max_length for row in ids)
        if cut:
            ids = self.tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
        if truncation is not None:
            truncation.add(cut=cut, texts=len(texts), limit=max_length)
        budget = _TOKEN_BUDGETS.get(self.model.device.type, _ACCELERATOR_BUDGET)
        result = [""] * len(texts)
        for batch in token_budget_batches(np.array([len(row) for row in ids]), budget=budget):
            rows = [ids[index] for index in batch]
            features = self.tokenizer.pad({"input_ids": rows}, return_tensors="pt")
            with quiet():
                written = self.model.generate(
                    **features.to(self.model.device),
                    num_beams=beams,
                    do_sample=False,
                    max_new_tokens=max_length,
                    **options,
                )
            found = self.tokenizer.batch_decode(written, skip_special_tokens=True)
            for index, text in zip(batch, found, strict=True):
                result[index] = " ".join(text.split())
        return result

    def _check_length(self, tokens: int) -> None:
        positions = int(getattr(self.model.config, "max_position_embeddings", tokens))
        if tokens > positions:
            raise TertiumError(
                f"{self.name} reads at most {positions} tokens, and {tokens} were asked for: lower "
                "--max-length."
            )

    def _language_id(self, code: str) -> int:
        """The token that stands for a language; each family of models writes codes its own way."""
        tokens = getattr(self.tokenizer, "lang_code_to_token", {})
        token = tokens.get(code, code)
        found = self.tokenizer.convert_tokens_to_ids(token)
        special = self.tokenizer.all_special_tokens
        if found is None or token not in special:
            known = list(tokens) or [word for word in special if not word.startswith("<")]
            near = difflib.get_close_matches(code, known, n=8, cutoff=0.3) or sorted(known)[:8]
            raise TertiumError(
                f"{self.name} knows no language '{code}' among its {len(known)}. It writes them "
                f"like {', '.join(near)}: set --pivot and --language."
            )
        return int(found)


def _needs_sentencepiece(folder: Path) -> bool:
    pieces = [*folder.glob("*.spm"), *folder.glob("sentencepiece*.model")]
    return bool(pieces) and not (folder / "tokenizer.json").exists()
