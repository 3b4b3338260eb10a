"""Golden cases: where they are, how one is read and compared."""

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModel, PreTrainedModel

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("TERTIUM_GOLDEN") or ROOT / ".." / "shared" / "golden").resolve()


@dataclass(frozen=True)
class Case:
    path: Path

    @property
    def id(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @cached_property
    def content(self) -> dict[str, Any]:
        return json.loads(self.path.read_text())

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        file = self.content.get("tensor_file")
        return load_file(self.path.parent / file) if file else {}

    @property
    def key(self) -> tuple[str, str]:
        return self.content["method"], self.content["kind"]

    @property
    def settings(self) -> dict[str, Any]:
        return self.content["hyperparameters"]

    def model(self, *, folder: str | None = None, **options: Any) -> PreTrainedModel:
        """The case's encoder, or another one beside it."""
        path = self.path.parent / (folder or self.content["model"])
        options = {"attn_implementation": "eager", "add_pooling_layer": False, **options}
        return AutoModel.from_pretrained(path, **options)

    def leaf(self, name: str) -> Tensor:
        """An input or weight, ready to receive a gradient."""
        return self.tensors[name].clone().requires_grad_()

    def same(self, actual: Tensor | float, expected: Tensor | float | str) -> None:
        """Equal within the case's own tolerance; a name stands for the tensor of that name."""
        label = expected if isinstance(expected, str) else None
        wanted = self.tensors[expected] if isinstance(expected, str) else expected
        torch.testing.assert_close(
            torch.as_tensor(actual).detach().double(),
            torch.as_tensor(wanted).double(),
            **self.content["tolerance"],
            msg=lambda text: f"{self.id} {label or ''}: {text}",
        )


def cases() -> list[Case]:
    found = sorted(FOLDER.glob("*/*.json")) if FOLDER.is_dir() else []
    return [Case(path) for path in found]
