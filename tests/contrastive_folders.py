"""Tiny folders with the files and names that contrastive training scripts and the hub have."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

MLP_SEED = 7


def trained_folder(base: Path, folder: Path, *, pickled: bool = False) -> Path:
    """``base`` as the Trainer saves a BertForCL or RobertaForCL: no pooler, an MLP, an LM head."""
    shutil.copytree(base, folder)
    config = json.loads((folder / "config.json").read_text())
    prefix = config["model_type"]
    config["architectures"] = [f"{prefix.capitalize()}ForCL"]
    (folder / "config.json").write_text(json.dumps(config))
    weights = {
        f"{prefix}.{name}": tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
        if "pooler" not in name
    }
    weights[f"{prefix}.embeddings.position_ids"] = torch.arange(66)[None]
    weights |= {f"mlp.dense.{name}": tensor for name, tensor in mlp(config["hidden_size"]).items()}
    language = "cls.predictions" if prefix == "bert" else "lm_head"
    weights[f"{language}.bias"] = torch.ones(config["vocab_size"])
    write_weights(folder, weights, pickled=pickled)
    return folder


def hub_folder(base: Path, folder: Path) -> Path:
    """``base`` as the hub has it: plain names, with the MLP as the pooler."""
    shutil.copytree(base, folder)
    weights = load_file(folder / "model.safetensors")
    width = len(weights["pooler.dense.bias"])
    weights |= {f"pooler.dense.{name}": tensor for name, tensor in mlp(width).items()}
    write_weights(folder, weights)
    return folder


def mlp(width: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(MLP_SEED)
    return {
        "weight": torch.randn(width, width, generator=generator) * 0.2,
        "bias": torch.randn(width, generator=generator),
    }


def read(folder: Path) -> dict[str, Tensor]:
    """The weights, whichever file holds them."""
    if (folder / "model.safetensors").exists():
        return load_file(folder / "model.safetensors")
    return dict(torch.load(folder / "pytorch_model.bin", weights_only=True))


def write_weights(folder: Path, weights: dict[str, Tensor], *, pickled: bool = False) -> None:
    (folder / "model.safetensors").unlink(missing_ok=True)
    if pickled:
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        save_file(
            {name: tensor.contiguous() for name, tensor in weights.items()},
            folder / "model.safetensors",
            metadata={"format": "pt"},
        )
