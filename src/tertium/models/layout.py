"""Whether a folder holds an encoder, and all of it: transformers fills gaps with random numbers."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Size
from transformers import AutoConfig, AutoModel

from tertium.errors import TertiumError
from tertium.models.contrastive import MLP
from tertium.models.weights import PICKLED, SAFE, read_weights, weights_file

__all__ = ["check_layout", "check_purpose"]

_PREFIXES = {"bert": "bert.", "roberta": "roberta."}  # by the model_type in config.json
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_CLASSIFIER = "ForSequenceClassification"
_ENCODER = "SentenceTransformer"  # what sentence-transformers calls one
_LEGACY = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))


def check_purpose(folder: Path) -> None:
    """Raise if ``folder`` was saved as something else than an encoder.

    sentence-transformers would take a cross-encoder's backbone for one, and its cosines mean
    nothing.
    """
    saved_as = _fields(folder / "config_sentence_transformers.json").get("model_type", _ENCODER)
    if saved_as != _ENCODER:
        raise TertiumError(
            f"{folder} holds a {saved_as} of sentence-transformers, which tertium does not load: "
            "name an encoder."
        )
    if (folder / "modules.json").exists():
        return
    architectures = _fields(folder / "config.json").get("architectures") or ()
    classifier = next((str(name) for name in architectures if _CLASSIFIER in str(name)), None)
    if classifier is not None:
        raise TertiumError(
            f"{folder} holds a classifier or cross-encoder ({classifier} in config.json), which "
            "tertium does not load: name an encoder."
        )


def check_layout(folder: Path) -> None:
    """Raise unless ``folder`` has a tokenizer and all the weights that its config asks for.

    Other architectures, models with code of their own and weights in several files are left to
    transformers.
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
    return _fields(file)


def _fields(file: Path) -> dict[str, Any]:
    """The entries of a JSON file; none where there is no file."""
    if not file.exists():
        return {}
    try:
        config = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise TertiumError(f"{file} is no JSON object. Copy it again from where it comes from.")
    return config


def _shapes(folder: Path) -> dict[str, Size]:
    shapes = {}
    for name, tensor in read_weights(folder).items():
        for old, new in _LEGACY:
            name = name.replace(old, new)
        shapes[name] = tensor.shape
    return shapes


def _expected(folder: Path) -> dict[str, Size]:
    factory: Any = AutoModel
    with torch.device("meta"):
        model = factory.from_config(AutoConfig.from_pretrained(folder))
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


def _check_weights(
    file: Path, found: dict[str, Size], expected: dict[str, Size], prefix: str
) -> None:
    needed = {name: shape for name, shape in expected.items() if not name.startswith("pooler.")}
    if not any(name.startswith(prefix) for name in found):
        prefix = ""
    missing = [name for name in needed if prefix + name not in found]
    if len(missing) == len(needed):
        raise TertiumError(
            f"{file} fits no known layout: it holds {_some(found)}; expected names like "
            f"{_some(needed)}, alone or after one of {', '.join(_PREFIXES.values())}."
        )
    if missing:
        raise TertiumError(
            f"{file} lacks {len(missing)} of the weights that config.json asks for: "
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
                f"{file}: {name} is {held}, and config.json asks for {tuple(shape)}. Copy weights "
                "and config.json from the same model."
            )


def _some(names: list[str] | dict[str, Size]) -> str:
    shown = sorted(names)[:3]
    return (", ".join(shown) or "nothing") + (", …" if len(names) > len(shown) else "")
