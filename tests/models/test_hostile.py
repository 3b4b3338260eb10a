"""Model folders that are broken, or were made to do harm: one sentence each, and no traceback."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import tertium
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError
from tertium.heads import CosineHead
from tertium.jobs.request import hash_model_files
from tertium.models import Encoder, Ensemble, PairScorer
from tertium.models.adapters import ADAPTER, extract_adapter
from tertium.models.mixture import ConditionalAverage
from tertium.records.manifest import FILE_NAME
from tests.models.test_conditional import scorer_of

pytestmark = pytest.mark.attack
NESTED = b"[" * 100_000


@pytest.fixture(scope="module")
def folders(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of every kind."""
    root = tmp_path_factory.mktemp("kinds")
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    shutil.copytree(tiny_bert, root / "plain")
    encoder.save(root / "encoder")
    Ensemble([encoder, encoder]).save(root / "ensemble")
    pair = PairScorer(encoder, CosineHead(low=0.0, high=5.0), OrderedLabels(0.0, 5.0))
    pair.save(root / "pair")
    graded = scorer_of(tiny_bert, {"kind": "bi"})
    graded.save(root / "conditional")
    ConditionalAverage([graded, graded]).save(root / "average")
    tuned = {
        name: tensor if "embeddings" in name else tensor + 0.1
        for name, tensor in encoder.backbone.state_dict().items()
    }
    adapter = extract_adapter(encoder.backbone, tuned, rank=2)
    pair.save_adapter(root / "adapter", adapter, base="tiny")
    return root


@pytest.fixture
def copy(
    folders: Path, tmp_path: Path, tiny_bert: Path, reserve: Callable[[str, Path], str]
) -> Callable[[str], Path]:
    reserve("tiny", tiny_bert)
    return lambda kind: shutil.copytree(folders / kind, tmp_path / kind)


def refusal(folder: Path) -> str:
    """The one sentence with which loading ends."""
    with pytest.raises(TertiumError) as caught:
        tertium.load(folder)
    message = str(caught.value)
    assert "\n" not in message and str(folder) in message and len(message) < 600
    return message


def edit(folder: Path, **details: Any) -> None:
    manifest = json.loads((folder / FILE_NAME).read_text())
    manifest["details"] |= details
    (folder / FILE_NAME).write_text(json.dumps(manifest))


def broken(whole: bytes) -> dict[str, bytes]:
    """Ways in which a safetensors file can be wrong."""
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + length])

    def headed(content: Any) -> bytes:
        text = json.dumps(content).encode()
        return struct.pack("<Q", len(text)) + text + whole[8 + length :]

    name = next(key for key in header if key != "__metadata__")
    entry = header[name]
    return {
        "empty": b"",
        "cut in the header": whole[: 8 + length // 2],
        "cut in the tensors": whole[: len(whole) - 100],
        "huge header": struct.pack("<Q", 2**63 - 1) + whole[8:],
        "no JSON": struct.pack("<Q", 8) + b"{{{{{{{{",
        "nested": struct.pack("<Q", len(NESTED)) + NESTED,
        "offsets beyond the file": headed({**header, name: {**entry, "data_offsets": [0, 2**60]}}),
        "negative shape": headed({**header, name: {**entry, "shape": [-1]}}),
        "endless shape": headed({**header, name: {**entry, "shape": [2**62, 2**62]}}),
        "unknown dtype": headed({**header, name: {**entry, "dtype": "Q7"}}),
        "a pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    }


WAYS = tuple(broken(struct.pack("<Q", 8) + b'{"a":{}}'))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("plain", "model.safetensors"),
        ("encoder", "model.safetensors"),
        ("pair", "head.safetensors"),
        ("conditional", "head.safetensors"),
        ("conditional", "encoder/model.safetensors"),
        ("adapter", ADAPTER),
        ("ensemble", "member-2/model.safetensors"),
        ("average", "member-1/head.safetensors"),
    ],
)
def test_weights_that_cannot_be_read(
    kind: str, file: str, way: str, copy: Callable[[str], Path]
) -> None:
    folder = copy(kind)
    if file.endswith("head.safetensors"):  # heads that learn nothing have no weights of their own
        save_file({"a": torch.ones(100)}, folder / file)
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(broken(whole)[way])
    refusal(folder)


@pytest.mark.parametrize("base", [".", "..", "../tiny", "/", "tiny/..", "./tiny", "", 7, None, {}])
def test_a_base_that_is_neither_reserved_nor_on_the_hub(
    base: object, copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy("adapter")
    monkeypatch.chdir(folder.parent)
    edit(folder, base=base)
    assert "is neither a reserved name" in refusal(folder)
    with pytest.raises(TertiumError, match="is neither a reserved name"):
        hash_model_files(str(folder))


def test_a_base_is_not_looked_for_among_the_folders_here(
    copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = copy("adapter"), copy("encoder")
    monkeypatch.chdir(folder.parent)
    for base in (other.name, str(other)):
        edit(folder, base=base)
        with pytest.raises(TertiumError, match="hub"):
            tertium.load(folder)


def test_a_base_that_names_itself(
    copy: Callable[[str], Path], reserve: Callable[[str, Path], str]
) -> None:
    folder = copy("adapter")
    edit(folder, base=reserve("circle", folder))
    assert "lead back to the model itself" in refusal(folder)
    hash_model_files(str(folder))  # and this ends


def test_adapters_on_adapters_without_end(
    copy: Callable[[str], Path], reserve: Callable[[str, Path], str]
) -> None:
    folder = copy("adapter")
    for number in range(30):
        above = shutil.copytree(folder, folder.with_name(f"adapter-{number}"))
        edit(above, base=reserve(f"base-{number}", folder))
        folder = above
    assert "or too deep" in refusal(folder)


MEMBERS = [7, "x", {}, [], None, [7], [[]], [{}], [{"folder": 1, "name": 2, "weight": "x"}]]


@pytest.mark.parametrize("members", MEMBERS, ids=json.dumps)
@pytest.mark.parametrize("kind", ["ensemble", "average"])
def test_members_that_are_none(kind: str, members: object, copy: Callable[[str], Path]) -> None:
    folder = copy(kind)
    edit(folder, members=members)
    assert "members" in refusal(folder)


@pytest.mark.parametrize("place", [".", "", "..", "../encoder", "member-1/../..", "/", "link"])
@pytest.mark.parametrize("kind", ["ensemble", "average"])
def test_members_elsewhere(kind: str, place: str, copy: Callable[[str], Path]) -> None:
    folder, other = copy(kind), copy("encoder")
    (folder / "link").symlink_to(other)
    edit(folder, members=[{"folder": place, "name": "x", "weight": 1.0}])
    assert "is not a folder inside" in refusal(folder)


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_weights_of_members_are_finite(weight: float, copy: Callable[[str], Path]) -> None:
    folder = copy("ensemble")
    edit(folder, members=[{"folder": "member-1", "name": "x", "weight": weight}])
    assert "finite" in refusal(folder)


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"7", NESTED, b"\xff\xfe", b'{"a":' * 5000]
)
@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("plain", "config.json"),
        ("plain", "tokenizer.json"),
        ("encoder", "config.json"),
        ("encoder", "modules.json"),
        ("encoder", FILE_NAME),
        ("conditional", "encoder/config.json"),
        ("average", "member-1/tertium.json"),
    ],
)
def test_json_that_says_nothing(
    kind: str, file: str, content: bytes, copy: Callable[[str], Path]
) -> None:
    folder = copy(kind)
    (folder / file).write_bytes(content)
    refusal(folder)


@pytest.mark.parametrize(
    "head", [7, None, [], {}, {"kind": []}, {"kind": "x"}, {"kind": "bi", "y": 1}]
)
@pytest.mark.parametrize("kind", ["pair", "conditional"])
def test_a_head_that_is_none(kind: str, head: object, copy: Callable[[str], Path]) -> None:
    folder = copy(kind)
    edit(folder, head=head)
    refusal(folder)


@pytest.mark.parametrize("labels", [7, {}, {"low": "x", "high": []}, {"low": 5, "high": 1}])
@pytest.mark.parametrize("kind", ["pair", "conditional"])
def test_labels_that_are_none(kind: str, labels: object, copy: Callable[[str], Path]) -> None:
    folder = copy(kind)
    edit(folder, labels=labels)
    refusal(folder)


@pytest.mark.parametrize("change", ["shape", "half", "part"])
def test_an_adapter_that_does_not_fit(change: str, copy: Callable[[str], Path]) -> None:
    folder = copy("adapter")
    tensors = load_file(folder / ADAPTER)
    key = next(name for name in tensors if name.endswith(".up"))
    tensor = tensors.pop(key)
    if change == "shape":
        tensors[key] = tensor[:1].clone()
    elif change == "part":
        tensors[key.replace(".up", ".other")] = tensor
    save_file(tensors, folder / ADAPTER)
    assert "does not fit" in refusal(folder)
