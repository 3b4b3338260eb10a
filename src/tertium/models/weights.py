"""The weights in a transformers folder, read without running anything that lies there."""

import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from tertium.errors import TertiumError

__all__ = ["PICKLED", "SAFE", "read_options", "read_tensors", "read_weights", "weights_file"]

SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"


def weights_file(folder: Path) -> Path | None:
    """The one file of weights, safetensors first; None where there is none, or several shards."""
    if (folder / f"{SAFE}.index.json").exists():
        return None
    files = (folder / SAFE, folder / PICKLED)
    return next((file for file in files if file.exists()), None)


def read_options(folder: Path) -> dict[str, Any]:
    """What transformers must be told to read ``folder``: safetensors, else tensors and no code."""
    file = weights_file(folder)
    if file is None or file.name == SAFE:
        return {"use_safetensors": True}
    return {"use_safetensors": False, "weights_only": True}


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of ``folder`` by name, mapped from their one file; empty without such a file."""
    file = weights_file(folder)
    if file is None:
        return {}
    return read_tensors(file) if file.name == SAFE else _read_pickled(file)


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, mapped from it."""
    try:
        return dict(load_file(file))
    except (OSError, SafetensorError) as error:
        raise TertiumError(f"{file} cannot be read ({error}). Fetch or copy it again.") from error


def _read_pickled(file: Path) -> dict[str, Tensor]:
    refusal = (
        f"{file} is no plain state dict, and tertium runs no code to read it. If the file is whole "
        "(no Git LFS pointer, no broken copy) and you trust it, load it with the library that "
        f"wrote it and save its state dict as {SAFE}."
    )
    mapped = zipfile.is_zipfile(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    except OSError:
        raise
    except Exception as error:  # of many kinds, by where the bytes cease to make sense
        raise TertiumError(refusal) from error
    if not isinstance(found, dict) or not all(isinstance(t, Tensor) for t in found.values()):
        raise TertiumError(refusal)
    return dict(found)
