"""Metrics: SentEval's aggregates, alignment and uniformity, file parsing."""

import math

import torch

from tertium.data import senteval
from tertium.evaluation.metrics import cosines
from tertium.evaluation.tasks.sts import subset_correlations
from tertium.functional import alignment, uniformity
from tests.golden.cases import Case


def sts_multi_subset(case: Case) -> None:
    names = case.settings["subsets_in_order"]
    subsets = {}
    for name in names:
        predicted = cosines(case.tensors[f"{name}.x"], case.tensors[f"{name}.y"])
        case.same(torch.from_numpy(predicted), f"{name}.cosine")
        subsets[name] = (case.tensors[f"{name}.gold"].numpy(), predicted)
    found = subset_correlations(subsets)
    expected = case.content["expected_scalars"]
    for measure in ("pearson", "spearman"):
        for summary in ("all", "mean", "wmean"):
            case.same(found[summary][measure], expected["all"][measure][summary])
        for name in names:
            case.same(found["subsets"][name][measure], expected[name][measure])
            assert found["subsets"][name]["pairs"] == expected[name]["nsamples"]


def alignment_uniformity(case: Case) -> None:
    order = case.settings["order"]
    parts = {n: [case.tensors[f"{n}.{k}"] for k in ("x", "y", "gold")] for n in order}
    parts["ALL"] = [torch.cat(column) for column in zip(*parts.values(), strict=True)]
    for name, (x, y, gold) in parts.items():
        expected = case.content["expected_scalars"][name]
        positive = gold > 4
        assert int(positive.sum()) == expected["positives"]
        value = alignment(x[positive], y[positive])
        if expected["alignment"] is None:
            assert math.isnan(value)
        else:
            case.same(value, expected["alignment"])
        case.same(uniformity(torch.cat([x, y])), expected["uniformity"])


def sts_file_parsing(case: Case) -> None:
    content = case.content
    years, stsb, sick = content["sts12_16"], content["sts_benchmark"], content["sick"]
    _same_rows(senteval.parse_sts(years["input_lines"], years["gold_lines"]), years["loaded"])
    _same_rows(senteval.parse_stsb(stsb["lines"]), stsb["loaded"])
    _same_rows(senteval.parse_sick(sick["lines"]), sick["loaded"])


def _same_rows(rows: list[tuple[str, str, float]], loaded: dict[str, list[object]]) -> None:
    expected = zip(loaded["sentence1"], loaded["sentence2"], loaded["gold"], strict=True)
    assert [tuple(row) for row in rows] == list(expected)
