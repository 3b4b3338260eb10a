"""Use without torch: in processes where the packages of ``tertium[train]`` are not there."""

import os
import subprocess
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

from tertium.serve.protocol import LOADER
from tests.serve.process import started

pytestmark = pytest.mark.integration

# Read by every Python process that starts with it on its path, workers included.
SITE = """
from importlib.machinery import PathFinder
HEAVY = ("torch", "transformers", "sentence_transformers", "scipy", "sklearn", "jaxtyping")
found = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in HEAVY else found(name, path, target)
PathFinder.find_spec = find_spec
"""

COMMANDS = """
import json
import sys
from pathlib import Path
from tertium.cli import app
from tertium.errors import MissingExtraError
from typer.testing import CliRunner
import sitecustomize
import tertium
def run(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (arguments, done.output, done.exception)
    return done.output
folder = Path(sys.argv[1])
texts, pairs, static = folder / "texts.txt", folder / "pairs.tsv", folder / "static"
texts.write_text("A dog barks.\\nA cat sleeps.\\nA dog barks!\\n")
pairs.write_text("text1\\ttext2\\nA dog barks.\\tA dog is barking.\\n")
assert "4.7" in run("compare", "A cat sleeps.", "A cat is asleep.")
run("compare", "A cat sleeps.", "A dog sleeps.", "--on", "The animal.")
run("score", pairs, "-o", folder / "scores.tsv")
run("encode", texts, "-o", folder / "vectors.npy")
run("encode", texts, "-o", folder / "vectors")  # by workers
run("index", "build", texts, "-o", folder / "index")
assert "cat" in run("index", "search", folder / "index", "a sleeping cat")
run("dedupe", texts, "-o", folder / "kept.txt")
run("mine", texts, "-o", folder / "mined.tsv")
run("cluster", texts, "-o", folder / "clusters.tsv")
asked = ["A cat sleeps.", "A dog sleeps.", "--json"]
assert json.loads(run("explain", *asked))["alignment"]
assert json.loads(run("explain", *asked, "--on", "The animal."))["attention"]
run("focus", *asked[:2], "--on", "The animal.")
run("models"), run("doctor"), run("data", "check", pairs)
run("compare", "a", "b", "--model", "sts", "--engine", "onnx-int8")
import os
assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
for arguments in (["train", "simcse-minilm", "-o", folder / "x"], ["inspect", "sts"],
                  ["explain", *asked, "--model", "default", "--method", "gradients"],
                  ["compare", "a", "b", "--engine", "torch"],
                  ["cluster", texts, "-o", folder / "c.tsv", "--k", "2"]):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    missing = isinstance(done.exception, MissingExtraError | ModuleNotFoundError)
    assert missing, (arguments, done.output, done.exception)
for name in ("train", "Encoder", "Recipe"):
    try:
        getattr(tertium, name)
    except MissingExtraError as error:
        assert "pip install 'tertium[train]'" in str(error)
    else:
        raise AssertionError(name)
assert not [name for name in sitecustomize.HEAVY if name in sys.modules]
print("light")
"""


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """The environment of such a process."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    path = os.pathsep.join(filter(None, [str(tmp_path / "site"), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}


def test_every_command_of_the_core(tmp_path: Path, without: dict[str, str]) -> None:
    command = [sys.executable, "-c", COMMANDS, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, env=without, check=False)
    assert ran.returncode == 0 and "light" in ran.stdout, ran.stdout + ran.stderr


def test_a_command_that_needs_torch_says_so(without: dict[str, str]) -> None:
    command = [sys.executable, "-m", "tertium", "augment", "A cat sleeps.", "--view", "delete"]
    ran = subprocess.run(command, capture_output=True, text=True, env=without, check=False)
    assert ran.returncode == 2 and ran.stdout == ""
    assert ran.stderr == "error: This needs torch. Install with: pip install 'tertium[train]'\n"


def test_a_server_with_its_page(without: dict[str, str]) -> None:
    served = {"model": "sts", "conditional_model": "conditional", "loader": LOADER}
    with started(env=without, **served) as site:
        with httpx.Client(base_url=site.url, timeout=300) as client:
            pairs = [["A cat sleeps.", "A cat is asleep."]]
            graded = client.post("/v1/similarity", json={"pairs": pairs})
            assert graded.status_code == 200, graded.text
            why = {"a": "A cat sleeps.", "b": "A dog sleeps.", "on": "The animal."}
            reasons = client.post("/v1/explain", json=why)
            assert reasons.status_code == 200 and reasons.json()["attention"], reasons.text
            assert "<html" in client.get("/").text
        for process in site.family():
            assert "libtorch" not in Path(f"/proc/{process}/maps").read_text()
