import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.engines.loading import needs_engine
from tertium.models.base import TripleScorer
from tertium.models.tokens import TokenizationStats
from tests.engines.models import write

PAIRS = [("the cat sleeps .", "a b"), ("", "a"), ("a b c d e f g h", "the dog")]
TRIPLES = [(*pair, condition) for pair in PAIRS for condition in ("c d", "the cat")]
VECTORS = ["mean", "cls", "mix", "pair", "twin", "ensemble"]
HEADS = ["cross", "seaver", "rand_aug", "bi", "asked", "tri", "average"]

BLOCKED = """
import sys
HEAVY = ("torch", "transformers", "sentence_transformers", "scipy", "sklearn")
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HEAVY:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
import tertium
"""


@pytest.mark.parametrize("kind", [*VECTORS, *HEADS])
def test_the_same_answers_as_torch(kind: str, tmp_path: Path) -> None:
    folder = write(kind, tmp_path)
    light, torch = tertium.load(folder), tertium.load(folder, engine="torch")
    assert needs_engine(light) and not needs_engine(torch)
    assert light.fingerprint == torch.fingerprint and light.scale == torch.scale
    items = TRIPLES if isinstance(light, TripleScorer) else PAIRS
    np.testing.assert_allclose(light.score(items), torch.score(items), atol=1e-5)


@pytest.mark.parametrize("name", ["default", "sts", "conditional"])
def test_what_ships_gives_the_same_answers(name: str) -> None:
    light, torch = tertium.load(name), tertium.load(name, engine="torch")
    pairs = [("A cat sleeps.", "A cat is asleep."), ("Stocks fell.", "Ärger [SEP] 猫 " * 90)]
    items = [(*pair, "The animal.") for pair in pairs] if light.takes_conditions else pairs
    found, expected = (
        model.score_items(items, truncation=TokenizationStats()) for model in (light, torch)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert light.fingerprint == torch.fingerprint


def test_torch_is_never_imported(tmp_path: Path) -> None:
    script = (
        BLOCKED
        + """
from tertium.cli import app
from typer.testing import CliRunner
def run(*arguments):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, (arguments, done.output, done.exception)
    return done.output
folder = sys.argv[1]
open(f"{folder}/texts.txt", "w").write("A dog barks.\\nA cat sleeps.\\n")
open(f"{folder}/pairs.tsv", "w").write("text1\\ttext2\\nA dog barks.\\tA dog is barking.\\n")
assert "4.7" in run("compare", "A cat sleeps.", "A cat is asleep.")
run("compare", "A cat sleeps.", "A dog sleeps.", "--on", "The animal.")
run("score", f"{folder}/pairs.tsv", "-o", f"{folder}/scores.tsv")
run("encode", f"{folder}/texts.txt", "-o", f"{folder}/vectors.npy")
run("index", "build", f"{folder}/texts.txt", "-o", f"{folder}/index")
assert "cat" in run("index", "search", f"{folder}/index", "a sleeping cat")
assert not [name for name in HEAVY if name in sys.modules]
print("light")
"""
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0 and "light" in ran.stdout, ran.stdout + ran.stderr
