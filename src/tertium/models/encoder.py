"""The encoder: a sentence-transformers model with batching that wastes nothing."""

import contextlib
import copy
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tertium.errors import TertiumError
from tertium.files import atomic_folder
from tertium.functional.pooling import LAYER_MIXES
from tertium.models.attention import attention_maps, capture_attention
from tertium.models.base import Embedder, EncodeOptions, Part, digest
from tertium.models.bfloat16 import check_bfloat16
from tertium.models.checkpoints import (
    check_layout,
    check_purpose,
    default_pooling,
    quiet,
    read_options,
)
from tertium.models.fingerprint import (
    backbone_config,
    module_config,
    tokenizer_content,
    weights_digest,
)
from tertium.models.pooling import infer_pooling, pooling_modules
from tertium.models.tokens import (
    TokenizationStats,
    beginning,
    check_texts,
    chunks,
    lean_batches,
    padded,
    token_budget_batches,
    valid_text,
)
from tertium.models.twin import TwinModel
from tertium.progress import bar
from tertium.records.manifest import (
    FILE_NAME,
    Manifest,
    TrainingData,
    read_manifest,
    write_manifest,
)
from tertium.types import Encoded, Kind, Pooling, Tokens

__all__ = ["Encoder", "evaluating"]

Matrix = NDArray[np.float32]

# Tokens per batch by device type, padding included. On a processor small batches stay in its
# caches (benchmarks/encode.py); an accelerator wants to be filled.
_TOKEN_BUDGETS = {"cpu": 1024}
_ACCELERATOR_BUDGET = 32_768
_WINDOW = 8192
_CHARACTERS = 32  # read at first for each token that the model reads; words are shorter


class Encoder(Part, Embedder):
    """Texts to vectors, and pairs of texts to cosines.

    Attributes:
        engine: runs ``encode`` instead of torch, if there is one; all else stays with torch.

    Example:
        >>> import tertium
        >>> encoder = tertium.load("default")
        >>> encoder.encode(["A cat sleeps.", "A dog barks."]).shape
        (2, 384)
    """

    name: str = ""
    pooling: Pooling | None = None
    training_data: tuple[TrainingData, ...] = ()

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        name: str,
        pooling: Pooling | None,
        source: Path | None = None,
        training_data: tuple[TrainingData, ...] = (),
    ) -> None:
        self._check_first(model[0], name)
        self.model = model
        self.name = name
        self.pooling = pooling
        self.source = source
        self.training_data = training_data

    @staticmethod
    def _check_first(module: torch.nn.Module, name: str) -> None:
        if not isinstance(module, Transformer):
            raise TertiumError(
                f"{name} starts with a {type(module).__name__} module; tertium encoders start "
                "with a transformer."
            )

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        manifest: Manifest | None = None,
        name: str | None = None,
        pooling: Pooling | None = None,
        device: str | None = None,
        max_length: int | None = None,
        trust_remote_code: bool = False,
    ) -> "Encoder":
        """Load a sentence-transformers folder or a plain transformers folder.

        Args:
            folder: where the files are.
            manifest: what its ``tertium.json`` says, if that has been read already.
            name: what results call the model (default: the folder's name).
            pooling: replace the saved pooling; for a plain transformers folder the default is that
                of the published model it is, cls for the folder of a contrastive training script,
                else mean.
            device: torch device (default: the best there is).
            max_length: read at most this many tokens of a text.
            trust_remote_code: run code that comes with the model.
        """
        check_purpose(folder)
        manifest = manifest or read_manifest(folder)
        if (folder / "modules.json").exists():
            with quiet():
                model = SentenceTransformer(
                    str(folder),
                    device=device,
                    model_kwargs={"use_safetensors": True},
                    local_files_only=True,
                    trust_remote_code=trust_remote_code,
                )
            saved = manifest.pooling if manifest else infer_pooling(list(model))
        else:
            check_layout(folder)
            options = {**read_options(folder), "trust_remote_code": trust_remote_code}
            with quiet():
                transformer = Transformer(str(folder), model_kwargs=options)
            called = name or folder.name
            saved = pooling or default_pooling(called, folder)
            modules = pooling_modules(transformer, saved, checkpoint=folder, name=called)
            model = SentenceTransformer(modules=[transformer, *modules], device=device)
        if max_length is not None:
            model.max_seq_length = max_length
        model.eval()
        encoder = cls(
            model,
            name=name or folder.name,
            pooling=saved,
            source=folder,
            training_data=manifest.training_data if manifest else (),
        )
        if (encoder.device.type, encoder.backbone.dtype) == ("cpu", torch.bfloat16):
            check_bfloat16(
                f"{folder} is stored in bfloat16, which", remedy="save the model in float32"
            )
        return encoder if pooling in (None, saved) else encoder.with_pooling(Pooling(pooling))

    def with_pooling(self, pooling: Pooling, *, normalize: bool | None = None) -> "Encoder":
        """The same backbone under another pooling: all that followed it is replaced.

        Args:
            pooling: the new pooling.
            normalize: end with vectors of length 1 or not; by default as the model did before.
        """
        modules = pooling_modules(
            self._transformer, pooling, checkpoint=self.source, name=self.name
        )
        if self.normalizes if normalize is None else normalize:
            modules.append(Normalize())
        model = SentenceTransformer(modules=[self._transformer, *modules], device=str(self.device))
        model.eval()
        return Encoder(
            model,
            name=self.name,
            pooling=pooling,
            source=self.source,
            training_data=self.training_data,
        )

    def copy(self) -> "Encoder":
        """An independent encoder with the same weights."""
        return Encoder(
            copy.deepcopy(self.model),
            name=self.name,
            pooling=self.pooling,
            source=self.source,
            training_data=self.training_data,
        )

    def attention(self, tokens: Tokens, *, whole: bool = False) -> Tensor:
        """Attention weights ``[l, n, h, t, t]`` of all layers, without dropout and gradients.

        Args:
            tokens: ids and mask.
            whole: compute all rows of padding too; by default they mean nothing, and short texts
                are not padded to the longest of the batch.
        """
        n, width = tokens.ids.shape
        budget = n * width if whole else self._default_budget()
        lengths = tokens.mask.sum(dim=1).cpu().numpy()
        groups = token_budget_batches(np.full(n, width) if whole else lengths, budget=budget)
        config = self.backbone.config
        shape = (int(config.num_hidden_layers), n, int(config.num_attention_heads), width, width)
        maps = torch.zeros(shape, device=self.device, dtype=self.backbone.dtype)
        with torch.no_grad(), evaluating(self.model):
            for group in groups:
                rows = torch.from_numpy(group).to(self.device)
                longest = width if whole else max(int(lengths[group].max()), 1)
                features = {
                    "input_ids": tokens.ids[rows, :longest],
                    "attention_mask": tokens.mask[rows, :longest],
                }
                found = attention_maps(self.backbone, features)
                maps[:, rows, :, :longest, :longest] = found
        return maps

    @property
    def kind(self) -> Kind:
        """What ``tertium.json`` calls it."""
        return Kind.TWIN if isinstance(self.backbone, TwinModel) else Kind.ENCODER

    @property
    def backbones(self) -> tuple[PreTrainedModel, ...]:
        """The transformers that read each text: one, or both towers of a twin."""
        twin = self.backbone
        return (twin.first, twin.second) if isinstance(twin, TwinModel) else (twin,)

    @property
    def encoder(self) -> "Encoder":
        """The encoder itself."""
        return self

    @property
    def graph_fingerprint(self) -> str:
        """The hash of all that its graph depends on: weights, configuration and pooling."""
        description = {
            "backbone": backbone_config(self.backbone.config.to_dict()),
            "pooling": self.pooling,
            "modules": [module_config(module) for module in list(self.model)[1:]],
        }
        return weights_digest(self.model, description)

    @property
    def fingerprint(self) -> str:
        """The hash of all that decides about its vectors: graph, tokenizer, length and prompt."""
        fast = getattr(self.tokenizer, "backend_tokenizer", None)
        vocabulary = sorted(self.tokenizer.get_vocab().items())
        read = [vocabulary, tokenizer_content(fast), self.max_length, self.prompt]
        return digest([self.graph_fingerprint, read])

    @property
    def backbone(self) -> PreTrainedModel:
        """The transformers model inside."""
        return self._transformer.model

    @property
    def _transformer(self) -> Transformer:
        return cast(Transformer, self.model[0])

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that belongs to the backbone."""
        return cast(PreTrainedTokenizerBase, self.model.tokenizer)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return torch.device(self.model.device)

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        return int(self.model.get_embedding_dimension() or 0)

    @property
    def normalizes(self) -> bool:
        """Whether every embedding has length 1."""
        return isinstance(self.model[-1], Normalize)

    @property
    def max_length(self) -> int:
        """How many tokens of a text are read."""
        return int(self.model.max_seq_length or self.tokenizer.model_max_length)

    @property
    def max_characters(self) -> int:
        """How much of a text is worth reading: far more than ``max_length`` tokens of any prose."""
        return max(_CHARACTERS * self.max_length - len(self.prompt), 1)

    @overload  # type: ignore[override]
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        output: Literal["numpy"] = "numpy",
        **options: Unpack[EncodeOptions],
    ) -> Matrix: ...
    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        output: Literal["torch"],
        **options: Unpack[EncodeOptions],
    ) -> Tensor: ...
    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        convert_to_tensor: Literal[True],
        **options: Unpack[EncodeOptions],
    ) -> Tensor: ...

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        normalize: bool = False,
        output: Literal["numpy", "torch"] = "numpy",
        prompt: str | None = None,
        token_budget: int | None = None,
        progress: bool | None = None,
        truncation: TokenizationStats | None = None,
        batch_size: int | None = None,
        normalize_embeddings: bool = False,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        convert_to_numpy: bool = True,
    ) -> Matrix | Tensor:
        """Encode texts into one row each, in input order.

        Each distinct text is encoded once. Batches are cut by a token budget after sorting by
        token length, so hardly any padding is computed. Texts beyond ``max_length`` tokens are cut,
        which one ``TruncationWarning`` per call reports; empty and blank texts are encoded as the
        model's special tokens only; characters that are no valid text (lone surrogates) become
        U+FFFD.

        Args:
            texts: a sequence of strings; a single string gives a single vector.
            normalize: scale every vector to length 1.
            output: ``"numpy"`` or ``"torch"`` (on the model's device).
            prompt: put before every text (default: the prompt saved with the model, if any).
            token_budget: tokens per batch, padding included (default: by device).
            progress: False for no progress on standard error.
            truncation: count cut texts here instead of warning, for a report over several calls.
            batch_size: texts per batch at most (default: as many as the token budget allows).
            normalize_embeddings: ``normalize``, as sentence-transformers spells it.
            show_progress_bar: ``progress``, likewise.
            convert_to_tensor: ``output="torch"``, likewise.
            convert_to_numpy: taken and not needed: rows are numpy unless asked otherwise.
        """
        counted = TokenizationStats() if truncation is None else truncation
        single = isinstance(texts, str)
        rows = self._encode(
            [texts] if isinstance(texts, str) else check_texts(texts),
            normalize=normalize or normalize_embeddings,
            prompt=self.prompt if prompt is None else prompt,
            budget=self._default_budget() if token_budget is None else token_budget,
            batch_size=batch_size,
            progress=show_progress_bar if progress is None else progress,
            truncation=counted,
        )
        if truncation is None:
            counted.report()
        result = rows[0] if single else rows
        return result if output == "torch" or convert_to_tensor else result.cpu().numpy()

    def encode_stream(
        self, texts: Iterable[str], *, window: int = _WINDOW, **options: Unpack[EncodeOptions]
    ) -> Iterator[Matrix]:
        """Yield one vector per text, in order, holding only ``window`` texts in memory.

        Takes the options of :meth:`encode` (except ``output``). Repeated texts are encoded once
        within a window.
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

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens of each text :meth:`encode` reads."""
        return [len(row) for row in self.tokenize(texts, truncation=TokenizationStats())]

    @torch.inference_mode()
    def encode_ids(self, ids: Sequence[list[int]], *, token_budget: int | None = None) -> Matrix:
        """What :meth:`encode` makes of texts that :meth:`tokenize` has read."""
        budget = self._default_budget() if token_budget is None else token_budget
        return self._rows(ids, prompt=self.prompt, budget=budget, progress=False).cpu().numpy()

    def features(
        self, texts: Sequence[str], *, truncation: TokenizationStats | None = None
    ) -> dict[str, Tensor]:
        """Token ids and masks of a batch, padded, on the model's device.

        Args:
            texts: the batch.
            truncation: count cut texts here instead of warning, for a report over several calls.
        """
        counted = TokenizationStats() if truncation is None else truncation
        ids = self._tokenize(check_texts(texts), counted)
        if truncation is None:
            counted.report()
        return self._padded(ids, range(len(ids)))

    def forward(
        self, features: dict[str, Tensor], *, attention_layers: Sequence[int] = ()
    ) -> Encoded:
        """One forward pass, with gradients if they are enabled.

        Args:
            features: token ids and masks, as :meth:`features` gives them.
            attention_layers: layers whose attention maps are kept (from 0; negative counts from
                the end); all others use the fused kernel.
        """
        depth = int(self.backbone.config.num_hidden_layers)
        layers = tuple(x % depth if -depth <= x < depth else x for x in attention_layers)
        if layers:
            with capture_attention(self.backbone, layers) as captured:
                out = self._forward(features)
            if set(captured) != set(layers):
                raise TertiumError(
                    f"{type(self.backbone).__name__} does not let its attention be read."
                )
            attention = torch.stack([captured[layer] for layer in layers])
        else:
            out, attention = self._forward(features), None
        return Encoded(
            embedding=out["sentence_embedding"],
            tokens=out["token_embeddings"],
            mask=features["attention_mask"],
            attention=attention,
            layers=layers,
        )

    def save(self, folder: Path | str) -> None:
        """Save as a sentence-transformers folder with ``tertium.json``, whole or not at all."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            self.write(temporary)
            manifest = Manifest(
                kind=self.kind,
                pooling=self.pooling,
                scale=self.scale,
                training_data=self.training_data,
            )
            write_manifest(temporary, manifest)

    def write(self, folder: Path) -> None:
        """Write the modules alone, for a kind of model that has more to save."""
        self._select_hidden_states()
        with quiet():
            self.model.save(str(folder), create_model_card=False, safe_serialization=True)

    @torch.inference_mode()
    def _encode(
        self,
        texts: list[str],
        *,
        normalize: bool,
        prompt: str,
        budget: int,
        batch_size: int | None,
        progress: bool | None,
        truncation: TokenizationStats,
    ) -> Tensor:
        places: dict[str, int] = {}
        rows = np.fromiter((places.setdefault(t, len(places)) for t in texts), int, len(texts))
        ids = self._tokenize([prompt + text for text in places], truncation)
        result = self._rows(
            ids, prompt=prompt, budget=budget, batch_size=batch_size, progress=progress
        )
        if normalize:
            result = torch.nn.functional.normalize(result, dim=1)
        return result if len(places) == len(texts) else result[torch.from_numpy(rows)]

    def _rows(
        self,
        ids: Sequence[list[int]],
        *,
        prompt: str,
        budget: int,
        batch_size: int | None = None,
        progress: bool | None,
    ) -> Tensor:
        """One embedding for each list of ids."""
        lengths = np.fromiter(map(len, ids), int, len(ids))
        result = torch.empty(len(ids), self.dimension, device=self.device)
        extra = self.prompt_features(prompt)
        batches = lean_batches(lengths, budget=budget, most=batch_size)
        with (
            evaluating(self.model) if self.engine is None else contextlib.nullcontext(),
            bar(total=len(ids), label="encoding", unit="text", show=progress) as shown,
        ):
            for batch in batches:
                out = self._embed({**self._padded(ids, batch), **extra})
                result[torch.from_numpy(batch)] = out.to(result.dtype)
                shown.update(len(batch))
        return result

    def _tokenize(self, texts: list[str], truncation: TokenizationStats) -> list[list[int]]:
        """Token ids without padding; texts that are too long are cut, and counted."""
        if not texts:
            return []
        limit = self.max_length
        read = [beginning(valid_text(text), _CHARACTERS * limit) for text in texts]
        ids = self._ids(read)
        for index, text in enumerate(texts):
            if len(read[index]) < len(text) and len(ids[index]) <= limit:
                read[index] = valid_text(text)
                (ids[index],) = self._ids([read[index]])
        long = [index for index, row in enumerate(ids) if len(row) > limit]
        if long:
            cut = self.tokenizer(
                [read[index] for index in long], truncation=True, max_length=limit
            )["input_ids"]
            for index, row in zip(long, cut, strict=True):
                ids[index] = row
        truncation.add(
            cut=len(long), texts=len(texts), limit=limit, unknown=self._count_unknown(ids)
        )
        return ids

    def _ids(self, texts: list[str]) -> list[list[int]]:
        found = self.tokenizer(texts, verbose=False, return_attention_mask=False)
        return cast(list[list[int]], found["input_ids"])

    def _count_unknown(self, ids: list[list[int]]) -> int:
        """Texts whose tokens, apart from those that frame them, are all the unknown one."""
        unknown = self.tokenizer.unk_token_id
        frame = self.tokenizer.num_special_tokens_to_add()
        if unknown is None:
            return 0
        return sum(1 for row in ids if 0 < row.count(unknown) >= len(row) - frame)

    def _padded(self, texts: Sequence[list[int]], batch: Iterable[int]) -> dict[str, Tensor]:
        rows = [texts[index] for index in batch]
        if not rows:
            raise TertiumError("a batch needs at least one text.")
        tokenizer = self.tokenizer
        if tokenizer.pad_token_id is None:
            raise TertiumError(f"{self.name}: the tokenizer has no padding token.")
        left = tokenizer.padding_side == "left"
        ids, real = map(torch.from_numpy, padded(rows, padding=tokenizer.pad_token_id, left=left))
        features = {"input_ids": ids, "attention_mask": real.long()}
        if "token_type_ids" in tokenizer.model_input_names:
            features["token_type_ids"] = torch.zeros_like(ids)
        device = self.device
        return {key: value.to(device) for key, value in features.items()}

    def _embed(self, features: dict[str, Any]) -> Tensor:
        """Embeddings of a batch, from the engine or, without one, from torch."""
        if self.engine is None:
            return self._forward(features)["sentence_embedding"]
        if "prompt_length" in features:
            raise TertiumError(
                f"{self.name} leaves its prompt out of the pooling, which the engine "
                f"{self.engine.name} cannot: use torch."
            )
        inputs = {key: features[key].numpy() for key in ("input_ids", "attention_mask")}
        return torch.from_numpy(self.engine.run(inputs))

    def _forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        self._select_hidden_states()
        out: dict[str, Tensor] = self.model(dict(features))
        return out

    def _select_hidden_states(self) -> None:
        """A backbone shared by several poolings shows all its layers only to those that mix."""
        self.backbone.config.output_hidden_states = self.pooling in LAYER_MIXES

    def _default_budget(self) -> int:
        if self.token_budget is not None:
            return self.token_budget
        return _TOKEN_BUDGETS.get(self.device.type, _ACCELERATOR_BUDGET)

    @property
    def prompt(self) -> str:
        """What is put before every text, as the model was saved with."""
        return self.model.prompts.get(self.model.default_prompt_name or "") or ""

    def prompt_features(self, prompt: str) -> dict[str, Any]:
        """Models that leave the prompt out of the pooling need to know its length."""
        if not prompt or getattr(self.model[1], "include_prompt", True):
            return {}
        ids = self.tokenizer(prompt)["input_ids"]
        return {"prompt_length": len(ids) - (ids[-1] in self.tokenizer.all_special_ids)}


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; what was training before it is training after it."""
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
