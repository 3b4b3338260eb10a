"""The encoder: a sentence-transformers model with batches that hardly need padding."""

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tertium.errors import TertiumError
from tertium.files import atomic_folder
from tertium.models.adapters import write_adapter
from tertium.models.attention import attention_maps, capture_attention
from tertium.models.base import digest
from tertium.models.bfloat16 import check_bfloat16
from tertium.models.checkpoints import (
    check_layout,
    check_purpose,
    default_pooling,
    quiet,
    read_options,
)
from tertium.models.fingerprint import (
    architecture,
    is_read,
    module_config,
    module_states,
    numbers,
    tensors_digest,
)
from tertium.models.graphs import GraphSource, Module
from tertium.models.pooling import infer_pooling, pooling_modules
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokenizer import NoSpansError, PairFrame, Span, Tokenizer, tokenizer_content
from tertium.models.tokens import TokenizationStats, check_texts, token_budget_batches
from tertium.models.twin import TwinModel
from tertium.records.manifest import (
    FILE_NAME,
    Manifest,
    TrainingData,
    read_manifest,
    write_manifest,
)
from tertium.types import LAYER_MIXES, Encoded, Kind, Pooling, Tokens

__all__ = ["Encoder", "evaluating"]

Matrix = NDArray[np.float32]


class Encoder(TextEncoder):
    """From texts to vectors, and from pairs of texts to cosines.

    Attributes:
        engine: runs ``encode`` instead of torch, if set; everything else runs on torch.

    Example:
        >>> import tertium
        >>> encoder = tertium.load("default")
        >>> encoder.encode(["A cat sleeps.", "A dog barks."]).shape
        (2, 384)
    """

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
        backbone_only: bool = False,
    ) -> "Encoder":
        """Load a sentence-transformers folder or a plain transformers folder.

        Args:
            folder: the folder with the files.
            manifest: the content of its ``tertium.json``, if already read.
            name: the model's name in results (default: the folder's name).
            pooling: use this instead of the saved pooling; the default of a plain transformers
                folder is that of the published model it contains, cls if it comes from a
                contrastive training script, else mean.
            device: torch device (default: the best available).
            max_length: maximum number of tokens of a text.
            trust_remote_code: run code that comes with the model.
            backbone_only: read it as a plain transformers folder, however it was saved.
        """
        if not backbone_only:
            check_purpose(folder)
        manifest = manifest or read_manifest(folder)
        if (folder / "modules.json").exists() and not backbone_only:
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
        """The same backbone with another pooling: all modules after it are replaced.

        Args:
            pooling: the new pooling.
            normalize: whether to scale vectors to length 1 (default: as the model does now).
        """
        modules = pooling_modules(
            self._transformer, pooling, checkpoint=self.source, name=self.name
        )
        if self.normalizes if normalize is None else normalize:
            modules.append(Normalize())
        model = SentenceTransformer(modules=[self._transformer, *modules], device=str(self.device))
        model.eval()
        return self.around(model, pooling=pooling)

    def copy(self) -> "Encoder":
        """An independent encoder with the same weights."""
        return self.around(copy.deepcopy(self.model), pooling=self.pooling)

    def around(
        self, model: SentenceTransformer, *, pooling: Pooling | None, name: str | None = None
    ) -> "Encoder":
        """An encoder around another model, with the other properties of this one."""
        return Encoder(
            model,
            name=name or self.name,
            pooling=pooling,
            source=self.source,
            training_data=self.training_data,
        )

    def attention(self, tokens: Tokens, *, whole: bool = False) -> Tensor:
        """Attention weights ``[l, n, h, t, t]`` of all layers, without dropout and gradients.

        Args:
            tokens: ids and mask.
            whole: also compute the rows of padding; by default they are left at 0 where texts are
                grouped by length, which saves time.
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
                maps[:, rows, :, :longest, :longest] = found.to(maps.dtype)  # bf16 under autocast
        return maps

    @property
    def kind(self) -> Kind:
        """The kind of model, as in ``tertium.json``."""
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
        """The hash of everything that its graph depends on: weights, configuration and pooling."""
        weights = ((n, x) for n, x in sorted(numbers(self.backbone).items()) if is_read(n))
        config, modules = self.backbone.config.to_dict(), self._modules
        return digest([tensors_digest(weights), architecture(config), module_states(modules)])

    @property
    def backbone_config(self) -> dict[str, Any]:
        """The backbone's configuration, with sizes under BERT's names for all architectures."""
        config = self.backbone.config
        names = ("hidden_size", "num_attention_heads", "num_hidden_layers")
        sizes = {name: getattr(config, name) for name in names}
        return {**config.to_dict(), **sizes, "hidden_act": getattr(config, "hidden_act", "gelu")}

    def graph_source(self) -> GraphSource:
        """The parts that a graph of the encoder is built from."""
        weights = {name: x.astype(np.float32) for name, x in numbers(self.backbone).items()}
        return GraphSource(self.backbone.config.to_dict(), weights, self._modules)

    @property
    def _modules(self) -> list[Module]:
        """The modules after the backbone, in the form that graphs are built from."""
        return [Module(*module_config(each), numbers(each)) for each in list(self.model)[1:]]

    @property
    def fingerprint(self) -> str:
        """The hash of everything its vectors depend on: graph, tokenizer, length and prompt."""
        fast = getattr(self.tokenizer, "backend_tokenizer", None)
        slow = fast is None
        vocabulary = sorted(self.tokenizer.get_vocab().items()) if slow else tokenizer_content(fast)
        read = [vocabulary, self.max_length, self.prompt, *self._cut_mark]
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
        """The device that holds the weights."""
        return torch.device(self.model.device)

    @property
    def device_kind(self) -> str:  # type: ignore[override]
        """``cpu``, ``cuda`` and so on."""
        return self.device.type

    @property
    def width(self) -> int:
        """Width of the model's vectors before truncation."""
        return int(self.model.get_embedding_dimension() or 0)

    @property
    def normalizes(self) -> bool:
        """Whether every embedding has length 1."""
        return isinstance(self.model[-1], Normalize)

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text."""
        return int(self.model.max_seq_length or self.tokenizer.model_max_length)

    @property
    def text_tokenizer(self) -> Tokenizer:
        """Turns texts into token ids."""
        return TransformersTokenizer(self.tokenizer)

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
        return self._padded(ids)

    def forward(
        self, features: dict[str, Tensor], *, attention_layers: Sequence[int] = ()
    ) -> Encoded:
        """One forward pass, with gradients if they are enabled.

        Args:
            features: token ids and masks, as :meth:`features` gives them.
            attention_layers: layers whose attention maps to return (from 0; negative numbers count
                from the end); all others use the fused kernel.
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
        """Save as a sentence-transformers folder with ``tertium.json``, atomically."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            self.write(temporary)
            write_manifest(temporary, self._manifest(**self._decided()))

    def save_adapter(
        self,
        folder: Path | str,
        adapter: Mapping[str, ArrayLike],
        *,
        base: str,
        layers: Sequence[int] | None = None,
    ) -> None:
        """Save only the difference from ``base``, a reserved name or a hub id.

        Args:
            folder: the folder to write.
            adapter: the result of :func:`tertium.models.adapters.extract_adapter`.
            base: the model that the adapter is added to.
            layers: the layers of ``base`` to keep, counted from 1 (default: all).
        """
        details = {"base": base, "normalize": self.normalizes, "max_length": self.max_length}
        if layers is not None:
            details["layers"] = list(layers)
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            write_adapter(adapter, temporary)
            write_manifest(temporary, self._manifest(**details))

    def write(self, folder: Path) -> None:
        """Write only the modules, for a kind of model that saves more beside them."""
        self._select_hidden_states()
        with quiet():
            self.model.save(str(folder), create_model_card=False, safe_serialization=True)

    def _padded(self, texts: Sequence[list[int]]) -> dict[str, Tensor]:
        """Ids and masks of texts as the backbone takes them."""
        return self._features(*self._batch(texts, range(len(texts))))

    def _features(self, ids: NDArray[Any], mask: NDArray[Any]) -> dict[str, Tensor]:
        features = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        if "token_type_ids" in self.tokenizer.model_input_names:
            features["token_type_ids"] = torch.zeros_like(features["input_ids"])
        device = self.device
        return {key: value.to(device) for key, value in features.items()}

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        if self.engine is not None:
            yield
            return
        with torch.inference_mode(), evaluating(self.model):
            yield

    def token_states(self, ids: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
        """Last hidden states ``[n, t, d]`` of a padded batch."""
        if self.engine is not None:
            return super().token_states(ids, mask)
        with self._running():
            states = self._forward(self._features(ids, mask))["token_embeddings"]
        return states.float().cpu().numpy()

    def _run(self, ids: NDArray[Any], mask: NDArray[Any], prompt_length: int) -> Matrix:
        """Vectors of a padded batch, from the engine or, if there is none, from torch."""
        if self.engine is not None:
            return self._run_engine(ids, mask, prompt_length)
        features: dict[str, Any] = self._features(ids, mask)
        if prompt_length:
            features["prompt_length"] = prompt_length
        return self._forward(features)["sentence_embedding"].float().cpu().numpy()

    def _tensor(self, rows: Matrix) -> Tensor:
        """Rows as a tensor on the model's device."""
        return torch.from_numpy(rows).to(self.device)

    def _forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        self._select_hidden_states()
        out: dict[str, Tensor] = self.model(dict(features))
        return out

    def _select_hidden_states(self) -> None:
        """Return all hidden states only if this pooling mixes layers; poolings share a backbone."""
        self.backbone.config.output_hidden_states = self.pooling in LAYER_MIXES

    @property
    def prompt(self) -> str:
        """The saved prompt that precedes every text."""
        return self.model.prompts.get(self.model.default_prompt_name or "") or ""

    @property
    def prompts(self) -> dict[str, str]:
        """Prompts that the model was trained with, by the use of a text (``query`` and so on)."""
        return {name: prompt for name, prompt in self.model.prompts.items() if prompt}

    @property
    def pools_prompt(self) -> bool:
        """Whether the prompt's tokens count in the pooling."""
        return bool(getattr(self.model[1], "include_prompt", True))

    def prompt_features(self, prompt: str) -> dict[str, Any]:
        """The prompt's length, as an input of models that exclude it from pooling."""
        length = 0 if self.pools_prompt else self._prompt_length(prompt)
        return {"prompt_length": length} if length else {}


class TransformersTokenizer(Tokenizer):
    """A tokenizer of transformers."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.pad_id = tokenizer.pad_token_id
        self.unknown_id = tokenizer.unk_token_id
        self.first_id = _first(tokenizer.cls_token_id, tokenizer.bos_token_id)
        self.separator_id = _first(tokenizer.sep_token_id, tokenizer.eos_token_id)
        self.pads_left = tokenizer.padding_side == "left"

    @property
    def frame(self) -> int:  # type: ignore[override]
        """Special tokens around a text."""
        return int(self.tokenizer.num_special_tokens_to_add())

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, special tokens included."""
        return self._ids(texts)

    def cut_ids(self, texts: Sequence[str], limit: int) -> list[list[int]]:
        """The same, cut to ``limit`` tokens including special ones."""
        return self._ids(texts, truncation=True, max_length=limit)

    def plain_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without special tokens; one written in a text is read as text."""
        return self._ids(texts, add_special_tokens=False, split_special_tokens=True)

    def framed_spans(self, text: str, limit: int) -> tuple[list[int], list[Span]]:
        """Ids of a text cut to ``limit`` tokens, and their spans."""
        found = self._with_spans(text, truncation=True, max_length=limit)
        return found["input_ids"], found["offset_mapping"]

    def plain_spans(self, text: str) -> list[Span]:
        """The span of each token of :meth:`plain_ids`."""
        options = {"add_special_tokens": False, "split_special_tokens": True}
        return cast(list[Span], self._with_spans(text, **options)["offset_mapping"])

    @property
    def pair_frame(self) -> PairFrame:
        """How it joins two texts."""
        pair = self.tokenizer("a", "a", verbose=False)
        types = pair.get("token_type_ids") or ()
        return PairFrame.of(pair["input_ids"], types, text=len(self.plain_ids(["a"])[0]))

    def names(self, text: str) -> list[str]:
        """The tokens of a text as strings of the vocabulary."""
        return self.tokenizer.tokenize(text, add_special_tokens=False)

    def _with_spans(self, text: str, **options: Any) -> Any:
        if not self.tokenizer.is_fast:
            raise NoSpansError
        return self.tokenizer(text, return_offsets_mapping=True, verbose=False, **options)

    def _ids(self, texts: Sequence[str], **options: Any) -> list[list[int]]:
        found = self.tokenizer(list(texts), verbose=False, return_attention_mask=False, **options)
        return cast(list[list[int]], found["input_ids"])


def _first(*ids: int | None) -> int | None:
    return next((each for each in ids if each is not None), None)


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Switch to evaluation mode inside the block, then restore the mode of each module."""
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
