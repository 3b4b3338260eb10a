import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from tertium import hardware
from tertium.engines.tuning import machine
from tertium.evaluation.report import Provenance
from tertium.hardware import cores, fast_bfloat16, instructions, processor

X86 = """\
processor\t: 0
model name\t: Example(R) CPU @ 2.00GHz
flags\t\t: fpu avx512_vnni AMX_int8

processor\t: 1
model name\t: Another
flags\t\t: fpu
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n"


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    yield
    processor.cache_clear()
    instructions.cache_clear()


def described(text: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Linux described the processor so, or there were no Linux."""
    processor.cache_clear()
    instructions.cache_clear()
    if text is not None:
        (folder / "cpuinfo").write_text(text)
    monkeypatch.setattr(hardware, "_CPUINFO", folder / "cpuinfo")


def test_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described(X86, tmp_path, monkeypatch)
    monkeypatch.delattr("torch.cpu.get_capabilities", raising=False)  # torch has it since 2.11
    assert processor() == "Example(R) CPU @ 2.00GHz"
    assert instructions() == {"fpu", "avx512vnni", "amxint8"}
    assert machine() == f"{platform.machine()}, Example(R) CPU @ 2.00GHz, {cores()} cores"
    found = Provenance("command", seed=1, seconds=1.0).machine
    assert found.startswith("Example(R) CPU @ 2.00GHz, ")


def test_linux_on_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described(ARM, tmp_path, monkeypatch)
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert processor() == platform.machine()
    assert instructions() == {"fp", "asimd"}


def test_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described(None, tmp_path, monkeypatch)
    values = {"machdep.cpu.brand_string": "Apple M9", "machdep.cpu.leaf7_features": "AVX512VNNI"}
    monkeypatch.setattr(hardware, "_sysctl", lambda name: values.get(name, ""))
    assert processor() == "Apple M9"
    assert instructions() == {"avx512vnni"}


def test_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described(None, tmp_path, monkeypatch)
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    monkeypatch.setattr(platform, "processor", lambda: "Intel64 Family 6")
    assert processor() == "Intel64 Family 6"
    assert instructions() == frozenset() and cores() >= 1


@pytest.mark.parametrize(
    ("text", "fast"),
    [(X86, False), (ARM, False), (None, True)]
    + [(f"flags\t: fpu {flag}\n", True) for flag in ("avx512_bf16", "amx_bf16", "bf16")],
)
def test_bfloat16(
    text: str | None, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described(text, tmp_path, monkeypatch)
    monkeypatch.setattr(hardware, "_sysctl", lambda name: "")
    assert fast_bfloat16() is fast
