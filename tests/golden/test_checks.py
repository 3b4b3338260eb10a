"""The checks themselves, on cases that the golden folder may not hold."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.golden import add
from tests.golden.cases import Case

PAD, START, END = 0, 2, 3


def test_more_tokens_may_be_dropped_than_a_sentence_has(tiny_bert: Path, tmp_path: Path) -> None:
    """Three of two: the row is empty, and the third dropped position is padding."""
    pair = [[START, 8, 9, END], [START, END, PAD, PAD]]
    ids = torch.tensor([*pair, *pair])
    setting = {
        "index": 0,
        "summation_method": "naive",
        "dropout_rate": "static",
        "n_dropout": 3,
        "min_tokens": 2,
        "dropped_positions": [[0, 1, 2], [1, 0, 2]],
    }
    content = {
        "method": "add",
        "kind": "drop",
        "model": str(tiny_bert),
        "tensor_file": "case.safetensors",
        "hyperparameters": {"settings": [setting]},
        "tolerance": {"rtol": 1e-4, "atol": 1e-5},
    }
    path = tmp_path / "case.json"
    path.write_text(json.dumps(content))
    case = Case(path)
    tokens = add._tokens(case, ids[1::2])
    attention = add._attention(case, tokens)
    tensors = {"input_ids": ids, "attentions": attention.contiguous()}
    for name, scores in add.AGGREGATIONS.items():
        for only, last in (("scores", False), ("scores_last_layer", True)):
            found = scores(attention, tokens.mask, last_layer_only=last, count_padding_queries=True)
            tensors[f"{only}.{name}"] = found.contiguous()
    emptied = ids.clone()
    emptied[1::2] = PAD
    tensors["out0.input_ids"] = emptied
    save_file(tensors, tmp_path / "case.safetensors")
    add.drop(case)
