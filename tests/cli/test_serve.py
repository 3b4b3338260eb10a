import json
from dataclasses import fields
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from tertium.cli import app
from tertium.errors import TertiumError
from tertium.serve import app as running
from tertium.serve.settings import Settings


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that the server was started with; it is ready at once, and ends."""
    found: list[Settings] = []

    class Pool:
        known: ClassVar = {"sts": {"scale": [0.0, 5.0]}}

    class Service:
        pool = Pool()

    def serve(settings: Settings, *, ready: Any) -> None:
        found.append(settings)
        ready("http://127.0.0.1:8080", Service())

    monkeypatch.setattr(running, "serve", serve)
    return found


def test_flags_are_settings(asked: list[Settings]) -> None:
    flags = "--model default --port 0 --no-page --cors-origin https://a.example --cors-origin"
    ran = CliRunner().invoke(app, ["serve", *flags.split(), "https://b.example", "--deadline", "5"])
    assert ran.exit_code == 0, ran.output
    [settings] = asked
    assert (settings.model, settings.port, settings.page, settings.deadline) == (
        ("default",),
        0,
        False,
        5.0,
    )
    assert settings.cors_origins == ("https://a.example", "https://b.example")
    assert settings.max_inputs == 512 and settings.allowed_hosts == ()


def test_models_are_repeated_flags_of_the_right_kind(asked: list[Settings]) -> None:
    ran = CliRunner().invoke(app, ["serve", "--model", "sts", "-m", "default"])
    assert ran.exit_code == 0, ran.output
    assert [served.name for served in asked[0].served] == ["sts", "default", "conditional"]
    for flags, said in (
        (["--model", "conditional", "--conditional-model", "none"], "has no embeddings"),
        (["--conditional-model", "default"], "does not take conditions"),
        (["--model", "nowhere/at-all"], "nowhere/at-all"),
    ):
        ran = CliRunner().invoke(app, ["serve", *flags])
        assert isinstance(ran.exception, TertiumError) and said in str(ran.exception)


def test_json_tells_where_it_listens(asked: list[Settings]) -> None:
    ran = CliRunner().invoke(app, ["serve", "--json"])
    assert json.loads(ran.stdout) == {
        "url": "http://127.0.0.1:8080",
        "model": "sts",
        "scale": [0.0, 5.0],
        "models": ["sts", "conditional"],
    }


def test_every_setting_has_its_flag_and_its_default_in_the_help() -> None:
    ran = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"})
    plural = {"cors_origins": "cors_origin", "allowed_hosts": "allowed_host"}
    lines = ran.output.splitlines()
    for field in fields(Settings):
        name = field.name
        flag = f"--{plural.get(name, name).replace('_', '-')} "
        [line] = [line for line in lines if line.startswith(f"│ {flag}")]
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            kibibytes, mebibytes = field.default / 2**10, field.default / 2**20
            size = f"{mebibytes:g} MiB" if mebibytes >= 1 else f"{kibibytes:g} KiB"
            shown = size if name.endswith("bytes") else f"{field.default:g}"
            assert f"(default: {shown})" in line
