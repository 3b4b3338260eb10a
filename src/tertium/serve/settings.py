"""How the server is set up: flags before variables before a file, all checked before it starts."""

import difflib
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from tertium.errors import TertiumError

__all__ = ["PREFIX", "Settings", "is_loopback", "read_settings"]

PREFIX = "TERTIUM_SERVE_"
Names = Annotated[tuple[str, ...], NoDecode]


class Settings(BaseSettings):
    """Everything that can be set; each name is also a key of the file and ends a variable.

    Attributes:
        host: address to listen on.
        port: 0 takes a free one.
        model: reserved name, folder or hub id.
        served_name: what answers call the model (default: its name without folders).
        conditional_model: the one that takes conditions; ``none`` serves none.
        index: folder of an index to search.
        engine: what runs the models.
        workers: processes, each with its own copy of the models.
        threads: of each worker (default: the processors, shared out).
        batch_tokens: a worker gathers so many tokens of what waits, then runs them together.
        max_body_bytes: of a request.
        max_inputs: texts, pairs or triples of a request.
        max_tokens: of a request, as far as the model reads its texts.
        max_explained_words: of the texts that are explained; each is one more scoring of them.
        max_explained_characters: of the same texts.
        max_hits: neighbours that a search may ask for.
        queue_requests: accepted and not yet answered; more are told to come back later.
        queue_bytes: the same for the size of their bodies.
        deadline: seconds from the arrival of a request to its answer.
        max_header_bytes: of a request's first line and headers together.
        max_headers: lines of headers.
        header_timeout: seconds for the headers to arrive, from the connection or the first byte on.
        max_connections: open at a time (default: what the limit of open files leaves room for).
        worker_timeout: seconds of silence after which a worker is killed and replaced.
        batch_timeout: seconds after which a worker that is still at the same batch is.
        index_retry: seconds between two looks at an index that is damaged.
        shutdown_grace: seconds to finish accepted requests when told to stop.
        keys: file with one API key a line; without it nobody is asked for one.
        cors_origins: pages of these origins may call the server.
        allowed_hosts: names by which it may be called (default: any; on a loopback address those
            of the machine itself).
        page: whether there is a page at ``/``.
        access_log: write a line for every request, without any text.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65_535)
    model: str = "sts"
    served_name: str | None = None
    conditional_model: str = "conditional"
    index: Path | None = None
    engine: str = "torch"
    workers: int = Field(1, ge=1, le=64)
    threads: int | None = Field(None, ge=1, le=256)
    batch_tokens: int = Field(4096, ge=1)
    max_body_bytes: int = Field(2 * 2**20, ge=1024)
    max_inputs: int = Field(512, ge=1)
    max_tokens: int = Field(65_536, ge=1)
    max_explained_words: int = Field(128, ge=1)
    max_explained_characters: int = Field(2048, ge=1)
    max_hits: int = Field(100, ge=1)
    queue_requests: int = Field(256, ge=1)
    queue_bytes: int = Field(64 * 2**20, ge=1024)
    deadline: float = Field(30.0, gt=0, le=3600)
    max_header_bytes: int = Field(65_536, ge=1024)
    max_headers: int = Field(100, ge=8)
    header_timeout: float = Field(10.0, gt=0, le=3600)
    max_connections: int | None = Field(None, ge=1)
    worker_timeout: float = Field(10.0, gt=0, le=3600)
    batch_timeout: float = Field(120.0, gt=0, le=3600)
    index_retry: float = Field(2.0, gt=0, le=3600)
    shutdown_grace: float = Field(60.0, gt=0, le=3600)
    keys: Path | None = None
    cors_origins: Names = ()
    allowed_hosts: Names = ()
    page: bool = True
    access_log: bool = False

    @field_validator("cors_origins", "allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """A variable holds several names with commas between them."""
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @field_validator("served_name")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("a name cannot be blank")
        return value

    @model_validator(mode="after")
    def _room(self) -> "Settings":
        if self.queue_bytes < self.max_body_bytes:
            raise ValueError("queue_bytes must leave room for one body of max_body_bytes")
        return self

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names that a request may call the server by; none for any."""
        if self.allowed_hosts or not is_loopback(self.host):
            return self.allowed_hosts
        return ("localhost", "127.0.0.1", "::1", self.host)


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
        flags: those that were given; None stands for one that was not.
        config: the file.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    filed = {} if config is None else _read_file(config)
    variables = {
        name.removeprefix(PREFIX).lower(): name for name in os.environ if name.startswith(PREFIX)
    }
    for name, shown in variables.items():
        _check_name(name, f"The variable {shown}")

    class Configured(Settings):
        """With the file as the last source."""

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            last = InitSettingsSource(settings_cls, init_kwargs=filed)
            return init_settings, env_settings, last

    try:
        found = Configured(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        source = _source(name, given, variables, config)
        value = f", not {first['input']!r}" if name else ""
        raise TertiumError(f"{source}{first['msg']}{value}.") from None
    return found


def _source(
    name: str, given: Mapping[str, Any], variables: Mapping[str, str], config: Path | None
) -> str:
    if not name:
        return "The settings do not fit together: "
    if name in given:
        return f"--{name.replace('_', '-')}: "
    return f"{variables[name]}: " if name in variables else f"{config}, {name}: "


def _read_file(path: Path) -> dict[str, Any]:
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
        raise TertiumError(f"{path} must hold lines such as 'port: 8080'.")
    for name in content:
        _check_name(str(name), f"{path}: '{name}'")
    return {str(name): value for name, value in content.items() if value is not None}


def _check_name(name: str, shown: str) -> None:
    if name not in Settings.model_fields:
        close = difflib.get_close_matches(name, Settings.model_fields, n=1)
        guess = f" Did you mean {close[0]}?" if close else ""
        raise TertiumError(f"{shown} is no setting of the server.{guess}")
