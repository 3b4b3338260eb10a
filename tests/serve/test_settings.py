from pathlib import Path
from typing import Any

import pytest

from tertium.errors import TertiumError
from tertium.serve.settings import Settings, read_settings


def test_flags_go_before_variables_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("port: 1\nhost: 0.0.0.0\nmodel: from-file\ncors_origins: [https://a.example]\n")
    monkeypatch.setenv("TERTIUM_SERVE_PORT", "2")
    monkeypatch.setenv("TERTIUM_SERVE_HOST", "127.0.0.2")
    found = read_settings({"port": 3, "host": None}, config=file)
    assert (found.port, found.host, found.model) == (3, "127.0.0.2", ("from-file",))
    assert found.cors_origins == ("https://a.example",)
    assert found.max_inputs == Settings.max_inputs


def test_a_variable_holds_several_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERTIUM_SERVE_ALLOWED_HOSTS", "a.example, b.example")
    assert read_settings({}).allowed_hosts == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("flags", "variables", "content", "said"),
    [
        ({"port": 70_000}, {}, "", r"--port: .*65535, not 70000\."),
        ({}, {"TERTIUM_SERVE_WORKERS": "two"}, "", r"TERTIUM_SERVE_WORKERS: .*'two'"),
        ({}, {"TERTIUM_SERVE_WORKER": "2"}, "", r"TERTIUM_SERVE_WORKER is not a .*mean workers\?"),
        ({}, {}, "prot: 1", r"'prot' is not a setting of the server\. Did you mean port\?"),
        ({}, {}, "deadline: -1", r"serve\.yaml, deadline: .*-1"),
        ({}, {}, "[1]", r"serve\.yaml must contain lines"),
        ({}, {}, "a: [", r"serve\.yaml is not a YAML file"),
        ({"queue_bytes": 2048}, {}, "", r"queue_bytes must be at least"),
        ({"served_name": " "}, {}, "", r"--served-name: .*blank"),
        ({"model": ["a", ""]}, {}, "", r"--model: .*blank"),
        ({}, {}, "model: []", r"serve\.yaml, model: the server needs at least one model"),
        ({}, {"TERTIUM_SERVE_MODEL": "a,"}, "", r"TERTIUM_SERVE_MODEL: .*blank"),
        ({"model": ["x/a", "y/a"]}, {}, "", r"served as 'a': give --served-name"),
        ({"model": ["conditional"]}, {}, "", r"Two models would be served as 'conditional'"),
        ({"served_name": ["a", "b", "c"]}, {}, "", r"3 names for 2 models"),
        ({"max_models": 0}, {}, "", r"--max-models: .*not 0"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    flags: dict[str, Any],
    variables: dict[str, str],
    content: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(content)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TertiumError, match=said):
        read_settings(flags, config=file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match=r"no settings file .*none\.yaml"):
        read_settings({}, config=tmp_path / "none.yaml")


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text("# nothing yet\n")
    assert read_settings({}, config=tmp_path / "serve.yaml").port == 8080


@pytest.mark.parametrize(
    ("flags", "hosts"),
    [
        ({}, {"localhost", "127.0.0.1", "::1"}),
        ({"host": "0.0.0.0"}, set()),
        ({"allowed_hosts": ["a.example"]}, {"a.example"}),
    ],
)
def test_on_a_loopback_address_only_local_names_are_answered(
    flags: dict[str, Any], hosts: set[str]
) -> None:
    assert set(read_settings(flags).hosts) == hosts


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({}, ["sts", "conditional"]),
        ({"model": "default", "conditional_model": "none"}, ["default"]),
        ({"model": ["/models/a/", "b/c"], "conditional_model": ["none"]}, ["a", "c"]),
        ({"model": ["x/a", "y/a"], "served_name": ["one"]}, ["one", "a", "conditional"]),
        ({"served_name": ["one", "two"]}, ["one", "two"]),
    ],
)
def test_models_have_names(flags: dict[str, Any], names: list[str]) -> None:
    served = read_settings(flags).served
    assert [each.name for each in served] == names
    assert not served[0].takes_conditions


def test_several_models_from_a_variable_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("model: [a, b]\nconditional_model: none\n")
    assert read_settings({}, config=file).model == ("a", "b")
    monkeypatch.setenv("TERTIUM_SERVE_MODEL", "c, d")
    assert read_settings({}, config=file).model == ("c", "d")
