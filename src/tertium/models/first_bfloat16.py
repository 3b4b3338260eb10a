"""The first use of bfloat16 on a machine, in a process of its own: what dies here dies alone.

Run by its path, as ``first_bfloat16.py FOLDER``; the reply is written into the folder.
"""

import json
import sys
from pathlib import Path

import torch


def main(folder: Path) -> None:
    """Train a layer on batches of a few shapes, and write the reply."""
    try:
        layer = torch.nn.Linear(96, 64)
        for rows in (1, 7, 256):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = layer(torch.ones(rows, 96)).square().mean()
            torch.autograd.backward(loss)
            stored = torch.ones(rows, 96, dtype=torch.bfloat16)
            torch.nn.functional.linear(stored, layer.weight.to(torch.bfloat16))
        reply: dict[str, object] = {"runs": True}
    except Exception as error:  # torch has kinds of its own
        reply = {"error": str(error).strip().splitlines()[0][:200]}
    (folder / "reply.json").write_text(json.dumps(reply), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
