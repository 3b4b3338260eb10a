"""Training by several processes, as the documentation tells to start them."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import tertium
from tests.recipes.toys import contrast_stage, toy_recipe, toy_text_file

# Without a graphics card, accelerate starts one process whatever the number, unless it is told
# --multi_gpu; it then calls torchrun, and the processes find out by themselves what they run on.
LAUNCHER = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.long
@pytest.mark.integration
def test_accelerate_launches_two_processes_that_train_one_model(
    tiny_bert: Path, tmp_path: Path
) -> None:
    texts = toy_text_file(tmp_path / "texts.txt", 32)
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, contrast_stage(texts))
    output = tmp_path / "model"
    ran = subprocess.run(
        [
            *(sys.executable, "-m", *LAUNCHER, "--main_process_port", free_port()),
            *("-m", "tertium"),
            *("train", recipe, "-o", str(output), "--no-evaluation", "--json"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)  # the first process alone speaks
    assert answer["model"] == str(output)
    last = answer["log"]["contrast"][-1]
    assert (last["step"], last["epoch"]) == (2, 1.0)  # 2 steps of 2 times 8 are all 32 texts
    assert tertium.load(output).encode(["the cat"]).shape == (1, 32)
