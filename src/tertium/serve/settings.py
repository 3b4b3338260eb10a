"""Settings of the server: flags override environment variables, which override a file.

Only the standard library is imported until settings are read, because the command line builds its
flags from them.
"""

import difflib
import ipaddress
import itertools
import os
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from tertium.errors import TertiumError

__all__ = [
    "PREFIX",
    "About",
    "Served",
    "Setting",
    "Settings",
    "declared",
    "is_loopback",
    "read_settings",
    "short_name",
]

PREFIX = "TERTIUM_SERVE_"
Names = tuple[str, ...]  # comma-separated in an environment variable


@dataclass(frozen=True)
class About:
    """The declaration of a setting, beyond its name, type and default.

    Attributes:
        help: its description.
        panel: the panel of its flag in the help.
        flags: its flags, if not its name.
        default: its default as shown in the help, if not the value.
        ge: minimum.
        gt: exclusive minimum.
        le: maximum.
    """

    help: str
    panel: str = "Limits"
    flags: tuple[str, ...] = ()
    default: str | None = None
    ge: float | None = None
    gt: float | None = None
    le: float | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings; each is a flag, a key of the file, and an environment variable."""

    model: Annotated[
        Names,
        About(
            "Reserved name, folder or hub id; may be repeated",
            panel="Models",
            flags=("--model", "-m"),
        ),
    ] = ("sts",)
    served_name: Annotated[
        Names,
        About(
            "Name in requests and responses; may be repeated, in the order of the models",
            panel="Models",
            default="its name",
        ),
    ] = ()
    conditional_model: Annotated[
        Names, About("Model that takes conditions, or none; may be repeated", panel="Models")
    ] = ("conditional",)
    max_models: Annotated[
        int,
        About(
            "Maximum models a worker keeps loaded; the least recently used is unloaded",
            panel="Models",
            ge=1,
        ),
    ] = 4
    index: Annotated[Path | None, About("Folder of an index to search", panel="Models")] = None
    engine: Annotated[
        str,
        About(
            "default, torch, onnx, onnx-int8, openvino, openvino-int8, static, or auto",
            panel="Models",
        ),
    ] = "default"
    workers: Annotated[
        int,
        About("Worker processes, each with copies of the models", panel="Models", ge=1, le=64),
    ] = 1
    threads: Annotated[
        int | None,
        About("Threads per worker", panel="Models", default="all processors", ge=1, le=256),
    ] = None
    batch_tokens: Annotated[int, About("Maximum tokens per batch", panel="Models", ge=1)] = 4096
    host: Annotated[str, About("Address to listen on", panel="Where")] = "127.0.0.1"
    port: Annotated[int, About("Port, or 0 for a free one", panel="Where", ge=0, le=65_535)] = 8080
    page: Annotated[bool, About("Serve a page at /", panel="Where")] = True
    access_log: Annotated[
        bool, About("Log a line for every request, without texts", panel="Where")
    ] = False
    max_body_bytes: Annotated[int, About("Maximum size of a request body", ge=1024)] = 2 * 2**20
    max_inputs: Annotated[int, About("Maximum texts, pairs or triples per request", ge=1)] = 512
    max_tokens: Annotated[int, About("Maximum tokens per request, after truncation", ge=1)] = 65_536
    max_explained_words: Annotated[int, About("Maximum words to explain, in both texts", ge=1)] = (
        128
    )
    max_explained_characters: Annotated[
        int, About("Maximum characters to explain, in both texts", ge=1)
    ] = 2048
    max_hits: Annotated[int, About("Maximum hits of a search", ge=1)] = 100
    queue_requests: Annotated[int, About("Maximum waiting requests", ge=1)] = 256
    queue_bytes: Annotated[int, About("Maximum bytes of waiting requests", ge=1024)] = 64 * 2**20
    deadline: Annotated[float, About("Seconds to answer a request", gt=0, le=3600)] = 30.0
    max_header_bytes: Annotated[int, About("Maximum size of request headers", ge=1024)] = 65_536
    max_headers: Annotated[int, About("Maximum number of request headers", ge=8)] = 100
    header_timeout: Annotated[float, About("Seconds for the headers to arrive", gt=0, le=3600)] = (
        10.0
    )
    max_connections: Annotated[
        int | None, About("Maximum open connections", default="by the limit on open files", ge=1)
    ] = None
    worker_timeout: Annotated[
        float, About("Seconds without a heartbeat before a worker is replaced", gt=0, le=3600)
    ] = 10.0
    batch_timeout: Annotated[
        float, About("Seconds for one batch before a worker is replaced", gt=0, le=3600)
    ] = 120.0
    index_retry: Annotated[
        float, About("Seconds between attempts to reopen a damaged index", gt=0, le=3600)
    ] = 2.0
    shutdown_grace: Annotated[
        float, About("Seconds to finish accepted requests when stopped", gt=0, le=3600)
    ] = 60.0
    keys: Annotated[Path | None, About("File with one API key per line", panel="Access")] = None
    cors_origins: Annotated[
        Names,
        About(
            "Origin whose pages may call; may be repeated", panel="Access", flags=("--cors-origin",)
        ),
    ] = ()
    allowed_hosts: Annotated[
        Names,
        About("Host name to answer to; may be repeated", panel="Access", flags=("--allowed-host",)),
    ] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Accepted host names; empty for any."""
        if self.allowed_hosts or not is_loopback(self.host):
            return self.allowed_hosts
        return ("localhost", "127.0.0.1", "::1", self.host)

    @property
    def served(self) -> "tuple[Served, ...]":
        """All served models; the first of each kind answers requests that name none."""
        triples = [name for name in self.conditional_model if name != "none"]
        sources = [*((name, False) for name in self.model), *((name, True) for name in triples)]
        return tuple(
            Served(name or short_name(source), source, takes_conditions)
            for (source, takes_conditions), name in itertools.zip_longest(sources, self.served_name)
        )


@dataclass(frozen=True)
class Served:
    """A served model.

    Attributes:
        name: its name in requests and responses.
        source: reserved name, folder or hub id.
        takes_conditions: whether it scores triples, and has no embeddings.
    """

    name: str
    source: str
    takes_conditions: bool = False

    def check(self, *, takes_conditions: bool) -> None:
        """Raise if it was given with the wrong flag."""
        if self.takes_conditions and not takes_conditions:
            raise TertiumError(
                f"The model '{self.source}' does not take conditions. Use --conditional-model with "
                "'conditional', or a model of a recipe such as seaver-minilm."
            )
        if takes_conditions and not self.takes_conditions:
            raise TertiumError(
                f"{self.source} takes conditions and has no embeddings: give it with "
                "--conditional-model, and an encoder such as default with --model."
            )


def short_name(name: str) -> str:
    """A model's name without its folders.

    >>> short_name("/models/my-model/"), short_name("sts")
    ('my-model', 'sts')
    """
    return name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or name


class Setting(NamedTuple):
    """One setting as it is declared."""

    name: str
    type: Any
    default: Any
    about: About

    @property
    def shown_default(self) -> str | None:
        """The default as the help states it; None where there is nothing to state."""
        if self.about.default is not None or self.default in (None, ()):
            return self.about.default
        if isinstance(self.default, tuple):
            return ", ".join(self.default)
        if isinstance(self.default, bool):
            return "yes" if self.default else "no"
        if self.name.endswith("_bytes"):
            kibibytes = self.default / 2**10
            return f"{kibibytes / 2**10:g} MiB" if kibibytes >= 2**10 else f"{kibibytes:g} KiB"
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


def declared() -> list[Setting]:
    """All settings.

    >>> [setting.shown_default for setting in declared() if setting.name.endswith("_bytes")]
    ['2 MiB', '64 MiB', '64 KiB']
    """
    types = typing.get_type_hints(Settings, include_extras=True)
    found = []
    for each in fields(Settings):
        kind, about = typing.get_args(types[each.name])
        found.append(Setting(each.name, kind, each.default, about))
    return found


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_settings(flags: Mapping[str, Any], *, config: Path | None = None) -> Settings:
    """Settings from flags, then variables ``TERTIUM_SERVE_…``, then a YAML file.

    Args:
        flags: values by name; None for a flag that was not given.
        config: the file.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    filed = {} if config is None else _read_file(config)
    variables = {
        name.removeprefix(PREFIX).lower(): name for name in os.environ if name.startswith(PREFIX)
    }
    for name, shown in variables.items():
        _check_name(name, f"The variable {shown}")
    named = {name: os.environ[shown] for name, shown in variables.items()}

    def source(name: str) -> str:
        if name in given:
            return f"--{name.replace('_', '-')}"
        return variables.get(name, f"{config}, {name}")

    return _checked({**filed, **named, **given}, source)


def _checked(values: dict[str, Any], source: Callable[[str], str]) -> Settings:
    """The settings; raises with the source of the first invalid one."""
    from pydantic import Field, ValidationError, create_model

    model: dict[str, Any] = {}
    for name, kind, default, about in declared():
        model[name] = (kind, Field(default, ge=about.ge, gt=about.gt, le=about.le))
        if kind == Names and isinstance(values.get(name), str):  # comma-separated
            values[name] = tuple(part.strip() for part in values[name].split(","))
    try:
        found = Settings(**vars(create_model("Settings", **model)(**values)))
    except ValidationError as error:
        first = error.errors()[0]
        where = source(str(first["loc"][0]))
        raise TertiumError(f"{where}: {first['msg']}, not {first['input']!r}.") from None
    _check_served(found, source)
    if found.queue_bytes < found.max_body_bytes:
        raise TertiumError(
            "The settings are inconsistent: queue_bytes must be at least max_body_bytes."
        )
    return found


def _check_served(found: Settings, source: Callable[[str], str]) -> None:
    """Raise unless every model has a name of its own."""
    for name in ("model", "conditional_model", "served_name"):
        if not all(each.strip() for each in getattr(found, name)):
            raise TertiumError(f"{source(name)}: a name must not be blank.")
    if not found.model:
        raise TertiumError(f"{source('model')}: the server needs at least one model.")
    count = len(replace(found, served_name=()).served)
    if len(found.served_name) > count:
        raise TertiumError(
            f"{source('served_name')}: {len(found.served_name)} names for {count} models."
        )
    names = [each.name for each in found.served]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise TertiumError(
            f"Two models would be served as '{twice}': give --served-name once for each model."
        )


def _read_file(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TertiumError(f"There is no settings file {path}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise TertiumError(f"{path} is not a YAML file of settings: {reason}.") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise TertiumError(f"{path} must contain lines such as 'port: 8080'.")
    for name in content:
        _check_name(str(name), f"{path}: '{name}'")
    return {str(name): value for name, value in content.items() if value is not None}


def _check_name(name: str, shown: str) -> None:
    known = [setting.name for setting in fields(Settings)]
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f" Did you mean {close[0]}?" if close else ""
        raise TertiumError(f"{shown} is not a setting of the server.{guess}")
