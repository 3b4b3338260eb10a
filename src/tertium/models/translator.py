"""Translation by sequence-to-sequence models of transformers, or by any program."""

import difflib
import shlex
import subprocess
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers.util import get_device_name
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tertium.errors import TertiumError, require
from tertium.files import atomic_folder, cache_folder, sha256
from tertium.models.checkpoints import quiet, read_options
from tertium.models.tokens import TokenizationStats, token_budget_batches

__all__ = ["CTranslate2Translator", "ProgramTranslator", "Translator"]

_TOKEN_BUDGETS = {"cpu": 1024}  # tokens per batch, padding included
_ACCELERATOR_BUDGET = 8192


class Translator:
    """Translates texts by beam search, which is deterministic.

    Args:
        model: a sequence-to-sequence model.
        tokenizer: the model's tokenizer.
        name: the model's name in messages.
    """

    def __init__(self, model: Any, tokenizer: Any, *, name: str) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.config = model.config
        self.device_kind = model.device.type
        self.name = name

    @classmethod
    def load(cls, folder: Path, *, name: str | None = None) -> "Translator":
        """Load a transformers folder without running code from it."""
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
            raise TertiumError(f"{called} is not a translation model: {reason}") from error
        if found["missing_keys"]:
            some = ", ".join(sorted(found["missing_keys"])[:3])
            raise TertiumError(f"{called} lacks weights: {some}. Fetch or copy the model again.")
        return cls(model.to(get_device_name()), tokenizer, name=called)

    @property
    def multilingual(self) -> bool:
        """Whether it needs language codes, as NLLB and M2M100 do."""
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
        """Translate texts, in input order, in batches of similar length.

        Args:
            texts: texts in the source language.
            source: code of the source language, for a multilingual model.
            target: code of the target language, for a multilingual model.
            beams: width of the search.
            max_length: maximum tokens of a text and of its translation.
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
        budget = _TOKEN_BUDGETS.get(self.device_kind, _ACCELERATOR_BUDGET)
        result = [""] * len(texts)
        for batch in token_budget_batches(np.array([len(row) for row in ids]), budget=budget):
            rows = [ids[index] for index in batch]
            written = self._written(rows, beams=beams, max_length=max_length, options=options)
            found = self.tokenizer.batch_decode(written, skip_special_tokens=True)
            for index, text in zip(batch, found, strict=True):
                result[index] = " ".join(text.split())
        return result

    def _written(
        self, rows: list[list[int]], *, beams: int, max_length: int, options: dict[str, Any]
    ) -> Any:
        """Token ids of the translations of a batch."""
        features = self.tokenizer.pad({"input_ids": rows}, return_tensors="pt")
        with quiet():
            return self.model.generate(
                **features.to(self.model.device),
                num_beams=beams,
                do_sample=False,
                max_new_tokens=max_length,
                **options,
            )

    def _check_length(self, tokens: int) -> None:
        positions = int(getattr(self.config, "max_position_embeddings", tokens))
        if tokens > positions:
            raise TertiumError(
                f"{self.name} reads at most {positions} tokens, and {tokens} were requested: lower "
                "--max-length."
            )

    def _language_id(self, code: str) -> int:
        """The token of a language; each family of models has its own codes."""
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


class CTranslate2Translator(Translator):
    """A MarianMT model run by CTranslate2 in 8 bit, several times as fast on a CPU.

    The model is converted once, into the cache. Because of rounding, some lines differ from those
    of torch.
    """

    @classmethod
    def load(cls, folder: Path, *, name: str | None = None) -> "CTranslate2Translator":
        """Convert a transformers folder unless it was converted before, and load the result."""
        called = name or str(folder)
        if find_spec("ctranslate2") is None:
            raise TertiumError("The engine ctranslate2 is missing: pip install ctranslate2")
        import ctranslate2

        original = Translator.load(folder, name=called)
        if original.multilingual:
            raise TertiumError(f"{called} is multilingual: the engine ctranslate2 takes MarianMT.")
        weights = sorted([*folder.glob("*.safetensors"), *folder.glob("pytorch_model.bin")])
        key = f"{sha256(weights[0])[:16]}-{ctranslate2.__version__}-int8"
        converted = cache_folder() / "ctranslate2" / key
        if not (converted / "model.bin").exists():
            with (
                quiet(),
                warnings.catch_warnings(),
                atomic_folder(converted, last="model.bin") as temporary,
            ):
                warnings.simplefilter("ignore")
                converter = ctranslate2.converters.TransformersConverter(str(folder))
                converter.convert(str(temporary), quantization="int8", force=True)
        model = ctranslate2.Translator(str(converted), intra_threads=torch.get_num_threads())
        return cls(model, original.tokenizer, original.model.config, name=called)

    def __init__(self, model: Any, tokenizer: Any, config: Any, *, name: str) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.config = config
        self.device_kind = "cpu"
        self.name = name

    def _written(
        self, rows: list[list[int]], *, beams: int, max_length: int, options: dict[str, Any]
    ) -> Any:
        words = [self.tokenizer.convert_ids_to_tokens(row) for row in rows]
        found = self.model.translate_batch(words, beam_size=beams, max_decoding_length=max_length)
        return [self.tokenizer.convert_tokens_to_ids(each.hypotheses[0]) for each in found]


class ProgramTranslator:
    """Any other translator: a program that reads one text per line and writes one per line.

    Args:
        command: a shell command, with ``{source}`` and ``{target}`` for the language codes.
    """

    multilingual = True

    def __init__(self, command: str) -> None:
        self.name = command

    def translate(
        self, texts: Sequence[str], *, source: str, target: str, **ignored: Any
    ) -> list[str]:
        """Run the program on all texts at once; it must write as many lines as it read."""
        if not texts:
            return []
        words = [
            word.replace("{source}", source).replace("{target}", target)
            for word in shlex.split(self.name)
        ]
        given = "".join(f"{' '.join(text.split())}\n" for text in texts)
        try:
            done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
        except OSError as error:
            raise TertiumError(f"--program: {words[0]} does not start ({error}).") from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise TertiumError(f"--program: {words[0]} failed: {last}")
        lines = done.stdout.splitlines()
        if len(lines) != len(texts):
            raise TertiumError(
                f"--program: {words[0]} read {len(texts)} lines and wrote {len(lines)}."
            )
        return [" ".join(line.split()) for line in lines]


def _needs_sentencepiece(folder: Path) -> bool:
    pieces = [*folder.glob("*.spm"), *folder.glob("sentencepiece*.model")]
    return bool(pieces) and not (folder / "tokenizer.json").exists()
