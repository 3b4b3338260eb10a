"""Cheap mistakes are reported before anything heavy is imported, by every command."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tertium.cli import app

# One process for all cases: it refuses heavy modules, so a case that reaches them shows it.
RUNNER = """
import contextlib, io, json, sys

HEAVY = {
    *("accelerate", "captum", "datasets", "matplotlib", "mteb", "onnx", "onnxruntime", "openvino"),
    *("ray", "scipy", "sentence_transformers", "sklearn", "torch", "transformers", "usearch"),
}

def refuse(event, arguments):
    if event == "import" and arguments[0] in HEAVY:
        raise RuntimeError(f"{arguments[0]} was imported")

sys.addaudithook(refuse)
from tertium.cli import main

found = []
for arguments in json.load(sys.stdin):
    sys.argv = ["tertium", *arguments]
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
            main()
        code = 0
    except SystemExit as stop:
        code = stop.code
    except Exception as error:
        code = repr(error)
    found.append((code, err.getvalue()))
assert not HEAVY & sys.modules.keys()
json.dump(found, sys.stdout)
"""

INVALID = "Invalid value for '--"
MISSING = "no such file"
NOWHERE = "There is no folder"
NO_ENGINE = "No engine 'onyx'. Did you mean 'onnx'?"
CASES: list[tuple[str, str]] = [
    ("compare a b -m ./nowhere", NOWHERE),
    ("compare a b --engine onyx", NO_ENGINE),
    ("explain a b -m ./nowhere", NOWHERE),
    ("explain a b --engine onyx", NO_ENGINE),
    ("explain a b --method gradient", "No method 'gradient'. Did you mean 'gradients'?"),
    ("explain a b -o words.pdf", "the output must be one of .html, .png, .svg."),
    ("score missing.tsv -o out.tsv", MISSING),
    ("score pairs.tsv -o out.xlsx", "scores go to .tsv, .csv, .jsonl or .parquet files"),
    ("score pairs.tsv -o out.tsv -m ./nowhere", NOWHERE),
    ("score pairs.tsv -o out.tsv --engine onyx", NO_ENGINE),
    ("score pairs.tsv -o pairs.tsv", "named twice"),
    ("score pairs.tsv -o out.tsv --jobs 2", "--jobs is for an output folder"),
    ("score pairs.tsv -o shards/ --workers 0", "at least one worker"),
    (
        "score pairs.tsv -o shards/ --on-error ignore",
        "No on_error setting 'ignore'. Known: fail, skip-and-log",
    ),
    ("score missing.tsv -o shards/", MISSING),
    ("encode missing.txt -o out.npy", MISSING),
    ("encode texts.txt -o out.csv", "vectors go to .npy or .parquet files"),
    ("encode texts.txt -o out.npy -m ./nowhere", NOWHERE),
    ("encode texts.txt -o out.npy --engine onyx", NO_ENGINE),
    ("encode texts.txt -o folder.npy", "is a folder. Give a file name"),
    ("encode texts.txt -o shards/ --dtype int4", "float32 or float16, not int4"),
    ("encode texts.txt -o shards/ --shard-rows 0", "at least one row"),
    ("encode texts.txt -o shards/ --engine-cluster slurm", "Unknown cluster 'slurm'"),
    ("index build missing.txt -o index", MISSING),
    ("index build texts.txt -o index --dtype int4", "No dtype 'int4'"),
    ("index build texts.txt -o full", "exists and is not empty"),
    ("index build texts.txt -o index -m ./nowhere", NOWHERE),
    ("index build texts.txt -o index --vectors missing.npy", MISSING),
    (
        "index build texts.txt -o index --vectors texts.txt",
        "vectors are read from .npy and .parquet",
    ),
    ("index add ./nowhere texts.txt", "nowhere"),
    ("index search ./nowhere a", "nowhere"),
    ("index stats ./nowhere", "nowhere"),
    ("index update ./nowhere texts.txt", "nowhere"),
    ("index update ./nowhere", "Give a table of texts, or a filter"),
    ("index delete ./nowhere 1", "nowhere"),
    ("index delete ./nowhere", "Say which texts"),
    ("index compact ./nowhere", "nowhere"),
    ("index export ./nowhere -o out --to csv", "No format 'csv'"),
    ("dedupe texts.txt", "--output FILE, or --dry-run"),
    ("dedupe texts.txt -o out.txt --to 3 --against texts.txt", "exclude each other"),
    ("fit default missing.tsv -o out", MISSING),
    ("fit ./nowhere pairs.tsv -o out", NOWHERE),
    ("fit default pairs.tsv -o out --precision 2", "a share between 0 and 1"),
    ("silver missing.txt --teacher default -o out.tsv", MISSING),
    ("silver texts.txt --teacher ./nowhere -o out.tsv", NOWHERE),
    ("label missing.txt -m default -o labels.jsonl", MISSING),
    ("label texts.txt -m ./nowhere -o labels.jsonl", NOWHERE),
    ("mine missing.txt -o out.tsv", MISSING),
    ("mine texts.txt -o out.xlsx", "the output must be a .tsv, .csv or .jsonl file."),
    ("mine texts.txt -o out.tsv --threshold 80", "The threshold is a cosine"),
    ("mine texts.txt -o out.tsv --method hnws", "No method 'hnws'. Did you mean 'hnsw'?"),
    ("mine texts.txt -o out.tsv --top-k 0", INVALID),
    ("mine texts.txt -o out.tsv -m ./nowhere", NOWHERE),
    ("dedupe missing.txt -o out.txt", MISSING),
    ("dedupe texts.txt -o out.xlsx", "the output must be a .txt, .tsv, .csv or .jsonl file."),
    ("dedupe texts.txt -o out.txt --report gone.xlsx", "gone.xlsx: the output must be"),
    ("dedupe texts.txt -o out.txt --method hnws", "No method 'hnws'"),
    ("cluster missing.txt -o out.tsv", MISSING),
    ("cluster texts.txt -o out.xlsx", "the output must be a .tsv, .csv or .jsonl file."),
    ("cluster texts.txt -o out.tsv --threshold 7", "The threshold is a cosine"),
    ("cluster texts.txt -o out.tsv --engine onyx", NO_ENGINE),
    ("evaluate ./nowhere", NOWHERE),
    ("evaluate --suite sts,tranfer", "No suite 'tranfer'. Did you mean 'transfer'?"),
    ("evaluate --data ./nowhere", "no such data folder"),
    ("evaluate --pooling mean,cls_pml", "No pooling 'cls_pml'. Did you mean 'cls_mlp'?"),
    ("evaluate --baseline ./nowhere", NOWHERE),
    ("evaluate --text cooked", "No form of text 'cooked'"),
    ("evaluate --exclude-overlap missing.tsv:train", MISSING),
    ("evaluate -o report.pdf", "the output must be a .json, .md, .markdown or .tex file."),
    ("evaluate --predictions scores.tsv", "scores.tsv: the output must be a .json file."),
    ("evaluate --bootstrap -1", INVALID),
    ("train simcse-minilmm -o model", "No recipe 'simcse-minilmm'. Did you mean 'simcse-minilm'?"),
    ("train missing.yaml -o model", "no such recipe file"),
    ("train sts-regression-minilm missing.tsv -o model", MISSING),
    ("train simcse-minilm --texts missing.txt -o model", MISSING),
    ("train simcse-minilm -o model --data ./nowhere", "no such data folder"),
    ("train simcse-minilm -o trained", "holds a run already"),
    ("train simcse-minilm -o model --set stages.0.train.epochs", "write it as a.b=value"),
    ("train simcse-minilm -o model --set stages.7.train.epochs=1", "no '7' here"),
    ("distil ./nowhere --texts texts.txt -o model", NOWHERE),
    ("distil default --texts missing.txt -o model", MISSING),
    ("distil default --texts texts.txt -o model --student ./nowhere", NOWHERE),
    ("distil default --texts texts.txt -o model --pooling max", "No pooling 'max'"),
    ("distil default --texts texts.txt -o model --layers all", "--layers all: give how many"),
    ("distil default --texts texts.txt -o model --weight 0.5", "needs at least two models"),
    ("distil default --texts texts.txt -o trained", "holds a run already"),
    ("sweep nothing -o sweeps", "No sweep 'nothing'"),
    ("sweep missing.yaml -o sweeps", "no such sweep file"),
    ("sweep sts-regression-minilm-losses -o sweeps --jobs 0", INVALID),
    ("lowshot simcse-minilmm -o runs", "No recipe 'simcse-minilmm'"),
    ("lowshot simcse-minilm -o runs --sizes few", "--sizes few: write whole numbers"),
    ("lowshot simcse-minilm -o runs --sizes 100,0", "at least one sentence"),
    ("lowshot simcse-minilm -o runs --data ./nowhere", "no such data folder"),
    ("augment text --view ad", "No view 'ad'. Did you mean 'add'?"),
    ("augment text --aggregation mean", "No aggregation 'mean'"),
    ("augment text -m ./nowhere", NOWHERE),
    ("attention missing.txt -o pictures", MISSING),
    ("attention texts.txt -o pictures -m ./nowhere", NOWHERE),
    ("focus a b --on c -m ./nowhere", NOWHERE),
    ("focus a b --on c --baseline ./nowhere", NOWHERE),
    ("serve -m ./nowhere", NOWHERE),
    ("serve --conditional-model ./nowhere", NOWHERE),
    ("serve --engine onyx", NO_ENGINE),
    ("serve --index ./nowhere", "nowhere"),
    ("serve --port 80000", "--port: Input should be less than or equal to 65535"),
    ("serve --config missing.yaml", "There is no settings file missing.yaml."),
    ("inspect ./nowhere", NOWHERE),
    ("inspect --texts missing.txt", MISSING),
    ("report ./nowhere -o page", NOWHERE),
    ("report default -o page --pairs missing.tsv", MISSING),
    ("report default -o page --texts missing.txt", MISSING),
    ("report default -o page --data ./nowhere", "no such data folder"),
    ("report default -o page --sets STS99", "No graded set 'STS99'"),
    ("convert ./nowhere -o model", NOWHERE),
    ("convert default -o full", "exists and is not empty"),
    ("convert default -o model --pooling max", "No pooling 'max'"),
    ("export ./nowhere --engine onnx", NOWHERE),
    ("export --engine onyx", NO_ENGINE),
    ("export --engine torch", "There is nothing to export for torch."),
    ("export --engine onnx --keep-float 2", "keep_float applies only to int8"),
    ("export --engine onnx -o full", "exists and is not empty"),
    ("tune -m ./nowhere", NOWHERE),
    ("tune --texts missing.txt", MISSING),
    ("tune --seconds -1", INVALID),
    ("ensemble ./nowhere -o both", NOWHERE),
    ("ensemble default default -o full", "exists and is not empty"),
    ("ensemble default default -o both --weight 2", "must be between 0 and 1"),
    ("backtranslate missing.txt -o out", MISSING),
    ("backtranslate texts.txt -o out --pivot xx", "No pivot 'xx'"),
    ("backtranslate texts.txt -o out --beams 0", INVALID),
    ("data check missing.tsv", MISSING),
    ("recipes simcse-minilmm", "No recipe 'simcse-minilmm'"),
]
WITHOUT = {"models", "doctor"}  # take nothing that could be wrong


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, str]]:
    """Exit code and standard error of every case."""
    folder = tmp_path_factory.mktemp("early")
    (folder / "texts.txt").write_text("A cat sleeps.\nA dog runs.\n")
    (folder / "pairs.tsv").write_text("sentence1\tsentence2\nA cat sleeps.\tA dog runs.\n")
    for place in ("full/file", "trained/run/recipe.yaml", "folder.npy/file"):
        (folder / place).parent.mkdir(parents=True)
        (folder / place).touch()
    before = sorted(folder.rglob("*"))
    ran = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps([case.split() for case, _ in CASES]),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", "TERM": "dumb"},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert sorted(folder.rglob("*")) == before, "a refused command left something behind"
    found = json.loads(ran.stdout)
    return {case: (code, err) for (case, _), (code, err) in zip(CASES, found, strict=True)}


@pytest.mark.parametrize(("case", "sentence"), CASES, ids=[case for case, _ in CASES])
def test_a_cheap_mistake(case: str, sentence: str, outcomes: dict[str, tuple[Any, str]]) -> None:
    code, err = outcomes[case]
    assert (code, "Traceback" in err) == (2, False), err
    assert sentence in err


def test_every_command_has_cases() -> None:
    shown = [command for command in app.registered_commands if not command.hidden]
    names = {command.name or command.callback.__name__ for command in shown}  # type: ignore[union-attr]
    groups = {group.name for group in app.registered_groups}
    assert {case.split()[0] for case, _ in CASES} | WITHOUT == names | groups
