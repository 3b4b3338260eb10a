"""Encoders without torch: read from their files, run by an engine as a graph."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from tertium.errors import TertiumError, require
from tertium.files import remembered_digest, remembered_sha256, remembered_value
from tertium.models.adapters import change_weights, kept_layers
from tertium.models.base import digest
from tertium.models.checkpoints import (
    MLP,
    SAFE,
    Arrays,
    check_purpose,
    modern_name,
    published_pooling,
)
from tertium.models.fingerprint import (
    architecture,
    is_read,
    module_states,
    tensors_digest,
    weights_in,
)
from tertium.models.graphs import (
    Config,
    GraphSource,
    Module,
    NoGraphError,
    check_graph,
    needed_weights,
    pooling_mode,
)
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokenizer import FileTokenizer, NotLightError, read_json
from tertium.records.manifest import Manifest, TrainingData, read_manifest
from tertium.types import LAYER_MIXES, Kind, Pooling

if TYPE_CHECKING:
    from tertium.models.encoder import Encoder

__all__ = ["LightEncoder", "StoredEncoder", "TorchOnDemand", "load_encoder", "saved_prompts"]

Matrix = NDArray[np.float32]

_MODULES = "modules.json"
_PREFIXES = ("bert.", "roberta.", "mpnet.", "distilbert.")
_LAYER = "encoder.layer."
_FLOATS = ("F32", "F16", "F64")  # what numpy reads


@dataclass(frozen=True)
class StoredEncoder:
    """An encoder as its files describe it.

    Attributes:
        folder: folder of the backbone.
        config: configuration of the backbone.
        modules: the modules after it.
        tokenizer: its tokenizer.
        max_length: maximum number of tokens of a text.
        prompt: precedes every text.
        prompts: precede texts of some use, by its name.
        adapters: files of adapters in the order they are applied, each with the layers that it
            keeps, counted from 1; None for all.
        backbone_only: the folder was saved as something else that contains this backbone.
    """

    folder: Path
    config: Config
    modules: Sequence[Module]
    tokenizer: FileTokenizer
    max_length: int
    prompt: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    adapters: tuple[tuple[Path, tuple[int, ...] | None], ...] = field(default=())
    backbone_only: bool = False

    @property
    def file(self) -> Path:
        """The file with the backbone's weights."""
        return self.folder / SAFE

    def weights(self) -> dict[str, NDArray[Any]]:
        """All tensors of the backbone by name, in single precision, with adapters applied."""
        found = {name: np.asarray(x, np.float32) for name, x in self._tensors(self.file).items()}
        for adapter, layers in self.adapters:
            found = change_weights(_kept(found, layers), adapter)
        return {name: tensor for name, tensor in found.items() if is_read(name)}

    @cached_property
    def weights_digest(self) -> str:
        """The hash of all tensors, with adapters applied."""
        if self.backbone_only:
            return remembered_digest(
                self.file,
                lambda file: tensors_digest(sorted(self._tensors(file).items())),
                what="backbone",
            )
        if not self.adapters:
            return weights_in(self.file)
        adapters = [[remembered_sha256(adapter), layers] for adapter, layers in self.adapters]
        return remembered_value(
            digest([weights_in(self.file), adapters]),
            lambda: tensors_digest(sorted(self.weights().items())),
        )

    def _tensors(self, file: Path) -> Arrays:
        """The backbone's tensors, as they are stored."""
        found = {_plain(name): tensor for name, tensor in load_file(file).items()}
        return {n: found[n] for n in needed_weights(self.config)} if self.backbone_only else found

    def with_pooling(self, pooling: Pooling, *, normalize: bool) -> "StoredEncoder":
        """The same backbone with another pooling: all modules after it are replaced."""
        modules = _pooling_modules(pooling, self.config)
        if normalize:
            modules.append(Module("Normalize", {}, {}))
        return replace(self, modules=modules)


class TorchOnDemand(TextEncoder):
    """An encoder that was read without torch, and loads itself in torch for what needs it."""

    @cached_property
    def encoder(self) -> "Encoder":
        """The same encoder in torch, loaded on first use."""
        require("train", purpose=f"What only torch can do with {self.name}", packages=["torch"])
        found = self._in_torch()
        found.training_data = self.training_data
        found.truncate_dim = self.truncate_dim
        return found

    @abstractmethod
    def _in_torch(self) -> "Encoder":
        """Read the same files with torch."""

    def __getattr__(self, name: str) -> Any:
        """Get attributes that this class lacks from the encoder in torch."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.encoder, name)

    def save(self, folder: Path | str) -> None:
        """Save the whole model, with torch."""
        self.encoder.decision = self.decision
        self.encoder.save(folder)


class LightEncoder(TorchOnDemand):
    """From texts to vectors without torch: an engine runs the graph that the files describe.

    What only torch can do (:meth:`Encoder.forward`, ``backbone``, ``save`` and so on) is delegated
    to the same model in torch, which is loaded on first use.

    Args:
        stored: the content of the files.
        name: the model's name in results.
        pooling: how token vectors become a sentence vector, if it is one of ours.
        training_data: the data that the model was trained on.
        kind: the kind of model, as in ``tertium.json``.
    """

    kind = Kind.ENCODER
    needs_engine = True

    def __init__(
        self,
        stored: StoredEncoder,
        *,
        name: str,
        pooling: Pooling | None,
        training_data: tuple[TrainingData, ...] = (),
        kind: Kind = Kind.ENCODER,
    ) -> None:
        self.stored = stored
        self.name = name
        self.pooling = pooling
        self.training_data = training_data
        self.kind = kind

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        manifest: Manifest | None = None,
        name: str | None = None,
        pooling: Pooling | None = None,
        max_length: int | None = None,
        backbone_only: bool = False,
    ) -> "LightEncoder":
        """Read a sentence-transformers folder or a plain transformers folder.

        Takes the options of :meth:`Encoder.load`.

        Raises:
            NotLightError: the model needs torch.
        """
        if not backbone_only:
            check_purpose(folder)
        manifest = manifest or read_manifest(folder)
        called = name or folder.name
        stored, saved = _read(folder, called, manifest, pooling, backbone_only=backbone_only)
        if pooling not in (None, saved):
            normalizes = stored.modules[-1].kind == "Normalize"
            stored, saved = stored.with_pooling(pooling, normalize=normalizes), pooling
        if max_length is not None:
            stored = replace(stored, max_length=max_length)
        kind = Kind.TWIN if stored.config.get("model_type") == "tertium-twin" else Kind.ENCODER
        data = manifest.training_data if manifest else ()
        return cls(stored, name=called, pooling=saved, training_data=data, kind=kind)

    def adapted(
        self, file: Path, manifest: Manifest, *, pooling: Pooling | None = None
    ) -> "LightEncoder":
        """This encoder with the adapter in ``file`` applied."""
        layers = kept_layers(file.parent, manifest)
        stored = replace(self.stored, adapters=(*self.stored.adapters, (file, layers)))
        if layers is not None:
            stored = replace(stored, config=_shortened(stored.config, layers))
        pooling = pooling or manifest.pooling
        if pooling is not None:
            normalize = manifest.details.get("normalize")
            normalize = self.normalizes if normalize is None else normalize
            stored = stored.with_pooling(pooling, normalize=normalize)
        return LightEncoder(
            stored,
            name=self.name,
            pooling=pooling or self.pooling,
            training_data=manifest.training_data,
            kind=self.kind,
        )

    def _in_torch(self) -> "Encoder":
        from tertium.models.adapters import load_adapter
        from tertium.models.encoder import Encoder

        stored = self.stored
        found = Encoder.load(
            stored.folder,
            name=self.name,
            device="cpu",
            max_length=stored.max_length,
            backbone_only=stored.backbone_only,
        )
        normalizes = self.normalizes
        if self.pooling is not None and (found.pooling, found.normalizes) != (
            self.pooling,
            normalizes,
        ):
            found = found.with_pooling(self.pooling, normalize=normalizes)
        for adapter, layers in stored.adapters:
            if layers is not None:
                from tertium.models.surgery import keep_layers

                found = keep_layers(found, layers)
            load_adapter(found.backbone, adapter)
        return found

    @property
    def text_tokenizer(self) -> FileTokenizer:
        """Turns texts into token ids."""
        return self.stored.tokenizer

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text."""
        return self.stored.max_length

    @property
    def prompt(self) -> str:
        """The saved prompt that precedes every text."""
        return self.stored.prompt

    @property
    def prompts(self) -> dict[str, str]:
        """Prompts that the model was trained with, by the use of a text (``query`` and so on)."""
        return dict(self.stored.prompts)

    @property
    def pools_prompt(self) -> bool:
        """Whether the prompt's tokens count in the pooling."""
        return all(module.config.get("include_prompt", True) for module in self.stored.modules)

    @property
    def normalizes(self) -> bool:
        """Whether every embedding has length 1."""
        return self.stored.modules[-1].kind == "Normalize"

    @property
    def width(self) -> int:
        """Width of the model's vectors before truncation."""
        widths = [m.config["out_features"] for m in self.stored.modules if m.kind == "Dense"]
        return int(widths[-1] if widths else hidden_size(self.stored.config))

    @property
    def backbone_config(self) -> dict[str, Any]:
        """The backbone's configuration, with sizes under BERT's names for all architectures."""
        config = self.stored.config
        one = config.get("first", config)
        sizes = {
            "hidden_size": hidden_size(one),
            "num_attention_heads": one.get("num_attention_heads") or one.get("n_heads") or 12,
            "num_hidden_layers": one.get("num_hidden_layers") or one.get("n_layers") or 12,
        }
        return {"hidden_act": one.get("activation", "gelu"), **config, **sizes}

    def graph_source(self) -> GraphSource:
        """The parts that a graph of the encoder is built from."""
        return GraphSource(self.stored.config, self.stored.weights(), self.stored.modules)

    @property
    def graph_fingerprint(self) -> str:
        """The hash of everything that its graph depends on: weights, configuration and pooling."""
        stored = self.stored
        return digest(
            [stored.weights_digest, architecture(stored.config), module_states(stored.modules)]
        )

    @property
    def fingerprint(self) -> str:
        """The hash of everything its vectors depend on: graph, tokenizer, length and prompt."""
        read = [self.text_tokenizer.content, self.max_length, self.prompt, *self._cut_mark]
        return digest([self.graph_fingerprint, read])

    def _run(self, ids: NDArray[Any], mask: NDArray[Any], prompt_length: int) -> Matrix:
        """Vectors of a padded batch."""
        return self._run_engine(ids, mask, prompt_length)


def load_encoder(folder: Path, *, light: bool = False, **options: Any) -> TextEncoder:
    """The encoder in ``folder``, with torch or without; takes the options of ``Encoder.load``."""
    if not light:
        from tertium.models.encoder import Encoder

        return Encoder.load(folder, **options)
    del options["device"], options["trust_remote_code"]
    return LightEncoder.load(folder, **options)


def saved_prompts(folder: Path) -> tuple[str, dict[str, str]]:
    """The default prompt of a sentence-transformers folder, and the prompts by use of a text."""
    settings = read_json(folder / "config_sentence_transformers.json")
    prompts = {name: text for name, text in (settings.get("prompts") or {}).items() if text}
    return prompts.get(settings.get("default_prompt_name") or "", ""), prompts


def hidden_size(config: Config) -> int:
    """Width of a backbone's hidden states."""
    if "first" in config:
        return hidden_size(config["first"])
    return int(config.get("hidden_size") or config.get("dim") or 768)


def _read(
    folder: Path,
    name: str,
    manifest: Manifest | None,
    pooling: Pooling | None,
    *,
    backbone_only: bool,
) -> tuple[StoredEncoder, Pooling | None]:
    """The encoder in a folder, and its pooling."""
    try:
        if backbone_only or not (folder / _MODULES).exists():
            found, chosen = _read_backbone(folder, name, pooling)
            return replace(found, backbone_only=backbone_only), chosen
        return _read_modules(folder, manifest)
    except NotLightError:
        raise
    except (NoGraphError, SafetensorError, OSError, LookupError, TypeError, ValueError) as error:
        raise NotLightError(f"{folder}: {error}") from error


def _read_modules(folder: Path, manifest: Manifest | None) -> tuple[StoredEncoder, Pooling | None]:
    entries = json.loads((folder / _MODULES).read_bytes())
    first, *others = entries
    if _kind(first) != "Transformer":
        raise NotLightError(f"{folder} begins with a {_kind(first)} module")
    modules = [_module(folder / str(entry["path"]), _kind(entry)) for entry in others]
    names = [module.kind for module in modules if module.kind != "Normalize"]
    saved = manifest.pooling if manifest else _infer_pooling(names, modules)
    prompt, prompts = saved_prompts(folder)
    found = _stored(folder / str(first["path"]), modules, prompt=prompt)
    return replace(found, prompts=prompts), saved


def _read_backbone(
    folder: Path, name: str, pooling: Pooling | None
) -> tuple[StoredEncoder, Pooling]:
    """A plain transformers folder; one with an MLP of its own is left to torch."""
    with safe_open(folder / SAFE, framework="numpy") as stored:
        if f"{MLP}.weight" in stored.keys():  # noqa: SIM118
            raise NotLightError(f"{folder} comes from a contrastive training script")
    chosen = pooling or published_pooling(name, folder) or Pooling.MEAN
    found = _stored(folder, [])
    return replace(found, modules=_pooling_modules(chosen, found.config)), chosen


def _stored(folder: Path, modules: Sequence[Module], *, prompt: str = "") -> StoredEncoder:
    config = read_json(folder / "config.json")
    if "auto_map" in config:
        raise NotLightError(f"{folder} has code of its own")
    check_graph(config, modules)
    _check_weights(folder / SAFE, config)
    settings = read_json(folder / "sentence_bert_config.json")
    if settings.get("do_lower_case"):
        raise NotLightError(f"{folder} lowers texts before its tokenizer")
    tokenizer = FileTokenizer(folder)
    length = settings.get("max_seq_length")
    if length is None:
        limits = [tokenizer.max_length, config.get("max_position_embeddings")]
        known = [int(limit) for limit in limits if limit is not None and limit > 0]
        if not known:
            raise NotLightError(f"{folder} does not state how many tokens the model reads")
        length = min(known)
    return StoredEncoder(folder, config, modules, tokenizer, int(length), prompt)


def _check_weights(file: Path, config: Config) -> None:
    """Raise unless all tensors are present and numpy can read them."""
    if file.with_name(f"{SAFE}.index.json").exists():
        raise NotLightError(f"{file.parent} holds its weights in several files")
    with safe_open(file, framework="numpy") as stored:
        names = list(stored.keys())
        kinds = {stored.get_slice(name).get_dtype() for name in names}
    missing = set(needed_weights(config)) - {_plain(name) for name in names}
    if missing:
        raise NotLightError(f"{file} lacks {min(missing)}")
    other = {kind for kind in kinds if kind not in _FLOATS and not kind.startswith(("I", "U"))}
    if other:
        raise NotLightError(f"{file} is stored in {', '.join(sorted(other))}")


def _shortened(config: Config, layers: Sequence[int]) -> dict[str, Any]:
    """The configuration of a backbone with only these layers, as ``keep_layers`` makes it."""
    depth = config.get("num_hidden_layers", 12)
    kept, known = list(layers), range(1, depth + 1)
    if config.get("model_type") not in ("bert", "roberta") or not kept:
        raise NotLightError("only BERT- and RoBERTa-like models keep some of their layers")
    if kept != sorted(set(kept)) or not set(kept) <= set(known):
        raise TertiumError(f"layers {kept} cannot be kept: name some from 1 to {depth}, in order.")
    return {**config, "num_hidden_layers": len(kept)}


def _kept(weights: Arrays, layers: Sequence[int] | None) -> Arrays:
    """Weights with only these layers, counted from 1 and renumbered."""
    if layers is None:
        return weights
    places = {str(layer - 1): str(at) for at, layer in enumerate(layers)}
    kept = {}
    for name, tensor in weights.items():
        before, layer, after = name.partition(_LAYER)
        number, _, rest = after.partition(".")
        if not layer:
            kept[name] = tensor
        elif number in places:
            kept[f"{before}{layer}{places[number]}.{rest}"] = tensor
    return kept


def _module(folder: Path, kind: str) -> Module:
    config = read_json(folder / "config.json")
    file = folder / SAFE
    weights = load_file(file) if file.exists() else {}
    if kind == "Dense" and not weights:
        raise NotLightError(f"{folder} has no {SAFE}")
    return Module(kind, config, weights)


def _kind(entry: Mapping[str, Any]) -> str:
    return str(entry["type"]).rpartition(".")[2]


def _infer_pooling(names: Sequence[str], modules: Sequence[Module]) -> Pooling | None:
    """Which of our poolings the modules implement, if any; see ``models.pooling``."""
    mode = pooling_mode(modules[0].config) if modules else ""
    if list(names) == ["Pooling"]:
        return Pooling(mode) if mode in ("cls", "mean") else None
    return Pooling.CLS_MLP if list(names) == ["Pooling", "Dense"] and mode == "cls" else None


def _pooling_modules(pooling: Pooling, config: Config) -> list[Module]:
    """The modules of a pooling that has no weights of its own."""
    if pooling in (Pooling.CLS, Pooling.MEAN):
        return [Module("Pooling", {"pooling_mode": str(pooling)}, {})]
    if pooling not in LAYER_MIXES:
        raise NotLightError(f"The pooling {pooling} needs torch")
    layers = int(config.get("num_hidden_layers") or config.get("n_layers") or 12)
    one, other = (index % (layers + 1) for index in LAYER_MIXES[pooling])
    weights = np.zeros(layers + 1 - one, np.float32)
    weights[[0, other - one]] = 1.0
    mix = Module("WeightedLayerPooling", {"layer_start": one}, {"layer_weights": weights})
    return [mix, Module("Pooling", {"pooling_mode": "mean"}, {})]


def _plain(name: str) -> str:
    """A tensor's name without the prefixes of training scripts, in its modern form."""
    name = modern_name(name)
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name
