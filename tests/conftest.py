"""No network, one hypothesis profile, fast tests first."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from tertium import probe, progress
from tertium.models.embedded import default_folder
from tests.fakes import tiny_model

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
settings.register_profile("tertium", deadline=None, max_examples=30)
settings.load_profile("tertium")
torch.set_num_threads(1)  # tiny models: threads would only wait for each other

collect_ignore = ["fixtures/make.py"]  # runs in the checkout of an earlier version

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("TERTIUM_DATA") or ROOT / ".." / "shared" / "data").resolve()

_LOOPBACK = ("127.", "localhost", "::1")
_connect = socket.socket.connect


def _guarded_connect(self: socket.socket, address: object) -> object:
    host = address[0] if isinstance(address, tuple) else "unix"
    if isinstance(address, tuple) and not str(host).startswith(_LOOPBACK):
        raise OSError(f"tests run without a network: {host}")
    return _connect(self, address)  # type: ignore[arg-type]


def _no_lookup(host: object, *args: object, **kwargs: object) -> object:
    if str(host).startswith(_LOOPBACK):
        return _getaddrinfo(host, *args, **kwargs)  # type: ignore[arg-type]
    raise socket.gaierror(f"tests run without a network: {host}")


_getaddrinfo = socket.getaddrinfo


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> None:
    socket.socket.connect = _guarded_connect  # type: ignore[method-assign, assignment]
    socket.getaddrinfo = _no_lookup  # type: ignore[assignment]


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["TERTIUM_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    default_folder()  # else a note of its unpacking stands beside what some test expects


@pytest.fixture(autouse=True, scope="session")
def _no_benchmarks_unasked() -> None:
    """Only what asks for ``data_folder`` reads the real sets."""
    os.environ.pop("TERTIUM_DATA", None)


@pytest.fixture(autouse=True, scope="session")
def _no_progress_lines() -> None:
    progress._LINE_SECONDS = 1e6  # or a slow machine would write more than a test expects


@pytest.fixture
def unprobed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing was tried yet, in a process that has started no runtime."""
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(probe.VARIABLE, "")  # so that it is put back as it was
    monkeypatch.delenv(probe.VARIABLE)
    for name, value in {"_tried": {}, "_started": {}, "_own": None}.items():
        monkeypatch.setattr(probe, name, value)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The real benchmark sets, or a skip that says what is missing."""
    if not DATA.is_dir():
        pytest.skip(f"no benchmark data in {DATA} (set TERTIUM_DATA)")
    return DATA


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("bert") / "tiny-bert")


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("roberta") / "tiny-roberta", "roberta")


@pytest.fixture
def reserve(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], str]:
    """Give a folder a reserved name, as bases of adapters need one."""
    from tertium.models.names import NAMES, NamedModel
    from tertium.types import Kind

    def named(name: str, folder: Path) -> str:
        monkeypatch.setitem(NAMES, name, NamedModel(lambda: folder, Kind.ENCODER, "for a test"))
        return name

    return named


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first, so that a simple mistake shows within seconds.

    Of the others the longest come first, so that no process waits for another at the end.
    """
    order = ("golden", "long", "slow", "data", "integration")
    items.sort(
        key=lambda item: max((order.index(m) + 1 for m in order if m in item.keywords), default=0)
    )
