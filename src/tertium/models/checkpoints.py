"""Checkpoints on disk: reading weights, checking folders, and the pooling of published models."""

from __future__ import annotations

import contextlib
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import load_file

from tertium.errors import TertiumError, TertiumWarning
from tertium.models.tokenizer import read_json
from tertium.types import Pooling

if TYPE_CHECKING:
    from torch import Size, Tensor

__all__ = [
    "MLP",
    "PICKLED",
    "PUBLISHED",
    "SAFE",
    "Arrays",
    "check_layout",
    "check_purpose",
    "default_pooling",
    "modern_name",
    "published_pooling",
    "quiet",
    "read_arrays",
    "read_options",
    "read_tensors",
    "read_weights",
    "trained_mlp",
    "weights_file",
]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence progress bars and warnings of transformers inside the block."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


Arrays = dict[str, NDArray[Any]]

SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"


def weights_file(folder: Path) -> Path | None:
    """The file of weights, preferably safetensors; None if there is none, or several shards."""
    if (folder / f"{SAFE}.index.json").exists():
        return None
    files = (folder / SAFE, folder / PICKLED)
    return next((file for file in files if file.exists()), None)


def read_options(folder: Path) -> dict[str, Any]:
    """Options for transformers to read ``folder`` as safetensors, else as tensors without code."""
    file = weights_file(folder)
    if file is None or file.name == SAFE:
        return {"use_safetensors": True}
    return {"use_safetensors": False, "weights_only": True}


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of ``folder`` by name, mapped from a single file; empty without such a file."""
    file = weights_file(folder)
    if file is None:
        return {}
    return read_tensors(file) if file.name == SAFE else _read_pickled(file)


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, mapped from it."""
    from safetensors.torch import load_file

    try:
        return dict(load_file(file))
    except (OSError, SafetensorError) as error:
        raise TertiumError(f"{file} cannot be read ({error}). Fetch or copy it again.") from error


def read_arrays(file: Path) -> Arrays:
    """The arrays of a safetensors file by name; bfloat16, which numpy lacks, becomes float32."""
    try:
        try:
            return dict(load_file(file))
        except (TypeError, AttributeError):  # numpy has no such type
            return {name: _array(view) for name, view in deserialize(file.read_bytes())}  # type: ignore[no-untyped-call]
    except (OSError, SafetensorError, ValueError) as error:
        raise TertiumError(f"{file} cannot be read ({error}). Fetch or copy it again.") from error


def _array(view: dict[str, Any]) -> NDArray[Any]:
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}
    if view["dtype"] not in kinds:
        raise ValueError(f"{view['dtype']} is not a type of weights")
    found = np.frombuffer(view["data"], kinds[view["dtype"]]).reshape(view["shape"])
    if view["dtype"] != "BF16":
        return found
    return (found.astype(np.uint32) << 16).view(np.float32)


def _read_pickled(file: Path) -> dict[str, Tensor]:
    import torch

    refusal = (
        f"{file} is not a plain state dict, and tertium runs no code to read it. If the file is "
        "complete (not a Git LFS pointer or a broken copy) and you trust it, load it with the "
        f"library that wrote it and save its state dict as {SAFE}."
    )
    mapped = zipfile.is_zipfile(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    except OSError:
        raise
    except Exception as error:  # damaged files cause errors of many kinds
        raise TertiumError(refusal) from error
    if not isinstance(found, dict) or not all(isinstance(t, torch.Tensor) for t in found.values()):
        raise TertiumError(refusal)
    return dict(found)


def modern_name(name: str) -> str:
    """A tensor's name as current transformers writes it."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


_SIMCSE = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")

# After unsupervised training the MLP is dropped; after supervised training it is part of the
# model. The files on the hub contain it as the pooler.
PUBLISHED: dict[str, Pooling] = {
    **{f"princeton-nlp/unsup-simcse-{size}": Pooling.CLS for size in _SIMCSE},
    **{f"princeton-nlp/sup-simcse-{size}": Pooling.POOLER for size in _SIMCSE},
    "sap-ai-research/miCSE": Pooling.CLS,
    # Baselines of JTCSE, as evaluated in their READMEs. SNCSE (a mask token in a template) and
    # WhitenedCSE (subfolders) need their own code.
    "voidism/diffcse-bert-base-uncased-sts": Pooling.CLS,
    "voidism/diffcse-bert-base-uncased-trans": Pooling.CLS,
    "voidism/diffcse-roberta-base-sts": Pooling.CLS,
    "voidism/diffcse-roberta-base-trans": Pooling.CLS,
    "ffgcc/esimcse-bert-base-uncased": Pooling.POOLER,
    "ffgcc/InfoCSE-bert-base": Pooling.CLS,
    "ffgcc/InfoCSE-bert-large": Pooling.CLS,
    **{f"qiyuw/pcl-{size}": Pooling.CLS for size in _SIMCSE},
    # Towers and distilled encoders of TNCSE and JTCSE.
    **{
        f"UCASzty/{folder}": Pooling.CLS
        for folder in (
            *("BERT_1", "BERT_2", "RoBERTa1", "RoBERTa2"),
            *("TNCSE_D_BERT", "TNCSE_D_RoBERTa", "TNCSE_UC_D_BERT", "TNCSE_UC_D_RoBERTa"),
            *("JTCSE_bert_ckpt_encoder_1", "JTCSE_bert_ckpt_encoder_2"),
            *("JTCSE_roberta_ckpt_encoder_1", "JTCSE_roberta_ckpt_encoder_2"),
            *("JTCSE_BERT_D", "JTCSE_RoBERTa_D", "JTCSE_BERT_UCD", "JTCSE_RoBERTa_UCD"),
        )
    },
}
_FOLDERS = {name.partition("/")[2]: pooling for name, pooling in PUBLISHED.items()}


def published_pooling(name: str, folder: Path) -> Pooling | None:
    """The pooling of a published model, or None for any other.

    Args:
        name: recognised if it is a hub id.
        folder: recognised if it has the name of the model, or is its snapshot in the hub's cache
            (``models--organisation--model/snapshots/revision``).
    """
    path = folder.absolute()
    cached = path.parent.parent.name.split("--")
    return (
        PUBLISHED.get(name)
        or _FOLDERS.get(path.name)
        or (PUBLISHED.get("/".join(cached[1:])) if cached[0] == "models" else None)
    )


# The scripts of SimCSE, ADD and miCSE save a BertForCL or RobertaForCL: the backbone's weights
# begin with ``bert.`` or ``roberta.``, the MLP is ``mlp.dense``, and a language-model head may
# follow.
MLP = "mlp.dense"


def trained_mlp(folder: Path) -> tuple[Tensor, Tensor] | None:
    """Weight and bias of the MLP in a training script's folder; None in any other folder."""
    weights = read_weights(folder)
    backbone = any(name.startswith(("bert.", "roberta.")) for name in weights)
    if not backbone or f"{MLP}.weight" not in weights:
        return None
    return weights[f"{MLP}.weight"].clone(), weights[f"{MLP}.bias"].clone()


def default_pooling(name: str, folder: Path) -> Pooling:
    """The default pooling of a plain transformers folder.

    Args:
        name: the name given by the user, perhaps a hub id.
        folder: the folder with the files.
    """
    known = published_pooling(name, folder)
    if trained_mlp(folder) is None:
        return known or Pooling.MEAN
    if known is not None:
        return Pooling.CLS_MLP if known is Pooling.POOLER else known
    warnings.warn(
        f"{folder} comes from a contrastive training script and does not say whether its MLP is "
        "part of the model. It is dropped (cls), as after unsupervised training; after supervised "
        'training, set pooling="cls_mlp" (--pooling cls_mlp).',
        TertiumWarning,
        stacklevel=2,
    )
    return Pooling.CLS


_PREFIXES = {"bert": "bert.", "roberta": "roberta."}  # by the model_type in config.json
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_CLASSIFIER = "ForSequenceClassification"
_ENCODER = "SentenceTransformer"  # what sentence-transformers calls one


def check_purpose(folder: Path) -> None:
    """Raise if ``folder`` was saved as something other than an encoder.

    sentence-transformers would load a cross-encoder's backbone, whose cosines mean nothing.
    """
    saved_as = read_json(folder / "config_sentence_transformers.json").get("model_type", _ENCODER)
    if saved_as != _ENCODER:
        raise TertiumError(
            f"{folder} contains a {saved_as} of sentence-transformers, which tertium does not "
            "load: name an encoder."
        )
    if (folder / "modules.json").exists():
        return
    architectures = read_json(folder / "config.json").get("architectures") or ()
    classifier = next((str(name) for name in architectures if _CLASSIFIER in str(name)), None)
    if classifier is not None:
        raise TertiumError(
            f"{folder} contains a classifier or cross-encoder ({classifier} in config.json), which "
            "tertium does not load: name an encoder."
        )


def check_layout(folder: Path) -> None:
    """Raise unless ``folder`` has a tokenizer and all the weights that its configuration requires.

    Other architectures, models with their own code and sharded weights are left to transformers.
    """
    config = _config(folder / "config.json")
    prefix = _PREFIXES.get(str(config.get("model_type")))
    file = weights_file(folder)
    if prefix is None or "auto_map" in config:
        if file is not None and file.name == PICKLED:
            raise TertiumError(
                f"{file}: only BERT and RoBERTa are read from {PICKLED}. Save the model as {SAFE}."
            )
        return
    if not any(True for pattern in _TOKENIZERS for _ in folder.glob(pattern)):
        raise TertiumError(
            f"{folder} has no tokenizer ({', '.join(_TOKENIZERS)}). Copy its files from the model "
            "that the training started from."
        )
    if file is None:
        if not (folder / f"{SAFE}.index.json").exists():
            raise TertiumError(
                f"{folder} has no weights: neither {SAFE} nor {PICKLED}. Copy them beside "
                "config.json."
            )
        return
    _check_weights(file, _shapes(folder), _expected(folder), prefix)


def _config(file: Path) -> dict[str, Any]:
    if not file.exists():
        raise TertiumError(f"{file} is missing. Copy it from where the weights come from.")
    return read_json(file)


def _shapes(folder: Path) -> dict[str, Size]:
    return {modern_name(name): tensor.shape for name, tensor in read_weights(folder).items()}


def _expected(folder: Path) -> dict[str, Size]:
    import torch
    from transformers import AutoConfig, AutoModel

    factory: Any = AutoModel
    with torch.device("meta"):
        model = factory.from_config(AutoConfig.from_pretrained(folder))
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


def _check_weights(
    file: Path, found: dict[str, Size], expected: dict[str, Size], prefix: str
) -> None:
    from torch import Size

    needed = {name: shape for name, shape in expected.items() if not name.startswith("pooler.")}
    if not any(name.startswith(prefix) for name in found):
        prefix = ""
    missing = [name for name in needed if prefix + name not in found]
    if len(missing) == len(needed):
        raise TertiumError(
            f"{file} fits no known layout: it contains {_some(found)}; expected names like "
            f"{_some(needed)}, alone or after one of {', '.join(_PREFIXES.values())}."
        )
    if missing:
        raise TertiumError(
            f"{file} lacks {len(missing)} of the weights that config.json requires: "
            f"{_some(missing)}. Copy weights and config.json from the same model."
        )
    wanted = {prefix + name: shape for name, shape in expected.items() if prefix + name in found}
    if prefix and f"{MLP}.weight" in found:
        width = needed["embeddings.word_embeddings.weight"][1]
        wanted |= {f"{MLP}.weight": Size([width, width]), f"{MLP}.bias": Size([width])}
    for name, shape in wanted.items():
        if found.get(name) != shape:
            held = tuple(found[name]) if name in found else "missing"
            raise TertiumError(
                f"{file}: {name} is {held}, but config.json requires {tuple(shape)}. Copy weights "
                "and config.json from the same model."
            )


def _some(names: list[str] | dict[str, Size]) -> str:
    shown = sorted(names)[:3]
    return (", ".join(shown) or "nothing") + (", …" if len(names) > len(shown) else "")
