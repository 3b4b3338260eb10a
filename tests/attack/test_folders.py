"""What a server or a command is told to open was made by somebody who means harm."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tertium.corpus import Index
from tests.fakes import HashEncoder
from tests.serve.process import ROOT


class Payload:
    """Unpickling it writes a file."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.write_text, (self._target, "owned"))


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """The file that is there if anything of the attacker's has run."""
    return tmp_path / "owned"


def tertium(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tertium", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )


def sentence(*arguments: object) -> str:
    """The one line with which a command refuses."""
    ran = tertium(*arguments)
    assert ran.returncode == 2, ran
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("error: ") and "Traceback" not in ran.stderr
    assert not any(character in ran.stderr for character in "\x1b\x07\x08")
    return last


def serve(folder: Path, *more: object) -> str:
    return sentence("serve", "--port", 0, "--conditional-model", "none", "--model", folder, *more)


def test_weights_that_are_cut_off(tiny_bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "cut")
    file = folder / "model.safetensors"
    os.truncate(file, file.stat().st_size // 2)
    assert "model.safetensors" in serve(folder)


def test_a_pickle_is_not_run(tiny_bert: Path, tmp_path: Path, owned: Path) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Payload(owned)}))
    assert str(folder) in serve(folder)
    assert not owned.exists()


def test_code_in_a_folder_is_not_run(tiny_bert: Path, tmp_path: Path, owned: Path) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "coded")
    config = json.loads((folder / "config.json").read_text())
    names = {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"}
    config |= {"auto_map": names, "model_type": "evil", "architectures": ["EvilModel"]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(owned)!r}, 'w').write('owned')\n")
    (folder / "sitecustomize.py").write_text((folder / "evil.py").read_text())
    assert str(folder) in serve(folder)
    assert not owned.exists()


@pytest.mark.parametrize("command", ["serve --config", "train"])
def test_a_tag_in_yaml_is_not_run(command: str, tmp_path: Path, owned: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"port: !!python/object/apply:os.system ['touch {owned}']\n")
    output = () if command.startswith("serve") else ("-o", tmp_path / "model")
    assert "settings.yaml" in sentence(*command.split(), file, *output)
    assert not owned.exists()


def test_yaml_that_grows_is_refused_soon(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefghi", "bcdefghij", strict=True):
        lines.append(f"{name}: &{name} [{', '.join(['*' + before] * 10)}]")
    file = tmp_path / "settings.yaml"
    file.write_text("\n".join(lines))
    assert "is not a setting" in sentence("serve", "--config", file)


def test_an_index_with_a_pickle_is_not_run(tmp_path: Path, owned: Path, tiny_bert: Path) -> None:
    folder = tmp_path / "index"
    Index.build(folder, ["a cat", "a dog"], HashEncoder())
    for file in folder.rglob("*.npy"):
        np.save(file, np.array([Payload(owned)]), allow_pickle=True)
    refused = sentence("index", "search", folder, "a cat", "-m", tiny_bert)
    assert not owned.exists() and refused


def test_names_that_paint_the_terminal_are_made_visible(tmp_path: Path) -> None:
    folder = tmp_path / "\x1b]0;owned\x07\x1b[2Jmodel"
    folder.mkdir()
    assert "owned" in serve(folder)  # and no control character, as for all of them
