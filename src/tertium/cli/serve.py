"""``tertium serve``: the models over HTTP, with a page to try them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tertium.cli import checks
from tertium.cli.options import Json
from tertium.cli.output import emit, note

if TYPE_CHECKING:
    from tertium.serve.service import Service
    from tertium.serve.settings import Settings

__all__ = ["serve"]

_NEEDED = ("fastapi", "orjson", "prometheus_client", "pydantic_settings", "uvicorn")
_PLACE = "Where"
_MODELS = "Models"
_LIMITS = "Limits"
_ACCESS = "Access"


def serve(
    model: str | None = typer.Option(
        *(None, "--model", "-m"),
        help="Reserved name, folder or hub id (default: sts).",
        rich_help_panel=_MODELS,
    ),
    served_name: str | None = typer.Option(
        None, help="What answers call it (default: its name).", rich_help_panel=_MODELS
    ),
    conditional_model: str | None = typer.Option(
        *(None, "--conditional-model"),
        help="One that takes conditions, or none (default: conditional).",
        rich_help_panel=_MODELS,
    ),
    index: Path | None = typer.Option(
        None, help="Folder of an index to search.", rich_help_panel=_MODELS
    ),
    engine: str | None = typer.Option(
        None,
        help="torch (default), onnx, onnx-int8, openvino, openvino-int8, static, or auto.",
        rich_help_panel=_MODELS,
    ),
    workers: int | None = typer.Option(
        None, help="Processes with a copy of the models (default: 1).", rich_help_panel=_MODELS
    ),
    threads: int | None = typer.Option(
        None, help="Of each worker (default: all processors).", rich_help_panel=_MODELS
    ),
    batch_tokens: int | None = typer.Option(
        None, help="Tokens that run together (default: 4096).", rich_help_panel=_MODELS
    ),
    host: str | None = typer.Option(
        None, help="Address to listen on (default: 127.0.0.1).", rich_help_panel=_PLACE
    ),
    port: int | None = typer.Option(
        None, help="0 for a free one (default: 8080).", rich_help_panel=_PLACE
    ),
    config: Path | None = typer.Option(
        None, help="YAML file of settings; flags and variables go first.", rich_help_panel=_PLACE
    ),
    page: bool | None = typer.Option(
        None, "--page/--no-page", help="A page at / (default: yes).", rich_help_panel=_PLACE
    ),
    access_log: bool | None = typer.Option(
        *(None, "--access-log/--no-access-log"),
        help="A line for every request, without texts (default: no).",
        rich_help_panel=_PLACE,
    ),
    max_body_bytes: int | None = typer.Option(
        None, help="Of a request (default: 2 MiB).", rich_help_panel=_LIMITS
    ),
    max_inputs: int | None = typer.Option(
        None, help="Texts, pairs or triples of one (default: 512).", rich_help_panel=_LIMITS
    ),
    max_tokens: int | None = typer.Option(
        None, help="Tokens of one (default: 65536).", rich_help_panel=_LIMITS
    ),
    max_explained_words: int | None = typer.Option(
        None, help="Words of both texts (default: 128).", rich_help_panel=_LIMITS
    ),
    max_explained_characters: int | None = typer.Option(
        None, help="Characters of both texts (default: 2048).", rich_help_panel=_LIMITS
    ),
    max_hits: int | None = typer.Option(
        None, help="Hits of a search (default: 100).", rich_help_panel=_LIMITS
    ),
    queue_requests: int | None = typer.Option(
        None, help="Requests that may wait (default: 256).", rich_help_panel=_LIMITS
    ),
    queue_bytes: int | None = typer.Option(
        None, help="Their size together (default: 64 MiB).", rich_help_panel=_LIMITS
    ),
    deadline: float | None = typer.Option(
        None, help="Seconds for a request (default: 30).", rich_help_panel=_LIMITS
    ),
    max_header_bytes: int | None = typer.Option(
        None, help="Of a request's headers (default: 64 KiB).", rich_help_panel=_LIMITS
    ),
    max_headers: int | None = typer.Option(
        None, help="Number of headers (default: 100).", rich_help_panel=_LIMITS
    ),
    header_timeout: float | None = typer.Option(
        None, help="Seconds for the headers to arrive (default: 10).", rich_help_panel=_LIMITS
    ),
    max_connections: int | None = typer.Option(
        None, help="Open at a time (default: by the limit of files).", rich_help_panel=_LIMITS
    ),
    worker_timeout: float | None = typer.Option(
        *(None, "--worker-timeout"),
        help="Seconds of silence that end a worker (default: 10).",
        rich_help_panel=_LIMITS,
    ),
    batch_timeout: float | None = typer.Option(
        *(None, "--batch-timeout"),
        help="Seconds of one batch that end a worker (default: 120).",
        rich_help_panel=_LIMITS,
    ),
    index_retry: float | None = typer.Option(
        *(None, "--index-retry"),
        help="Seconds between two looks at a damaged index (default: 2).",
        rich_help_panel=_LIMITS,
    ),
    shutdown_grace: float | None = typer.Option(
        None, help="Seconds to finish when told to stop (default: 60).", rich_help_panel=_LIMITS
    ),
    keys: Path | None = typer.Option(
        None, help="File with one API key a line.", rich_help_panel=_ACCESS
    ),
    cors_origin: list[str] | None = typer.Option(
        None, help="Pages from here may call; repeat for several.", rich_help_panel=_ACCESS
    ),
    allowed_host: list[str] | None = typer.Option(
        None, help="Name that it answers to; repeat for several.", rich_help_panel=_ACCESS
    ),
    as_json: Json = False,
) -> None:
    """Serve embeddings, similarities, explanations and search over HTTP.

    Example: tertium serve --port 8080
    """
    given = {name: value for name, value in locals().items() if name not in ("config", "as_json")}
    from tertium.errors import require
    from tertium.progress import silence

    require("serve", purpose="The server", packages=_NEEDED)
    from tertium.serve.settings import read_settings

    flags: dict[str, Any] = dict(given)
    flags["cors_origins"] = flags.pop("cors_origin") or None
    flags["allowed_hosts"] = flags.pop("allowed_host") or None
    settings = read_settings(flags, config=config)
    _check(settings)

    def ready(url: str, service: "Service") -> None:
        silence()
        about = service.about
        if as_json:
            emit({"url": url, "model": about.name, "scale": list(about.scale)})
        else:
            note(f"{url}: serving {about.name}; stop with Ctrl-C")

    from tertium.serve.app import serve as run

    note(f"loading {settings.model}")
    run(settings, ready=ready)


def _check(settings: "Settings") -> None:
    """Say what is missing before a worker is started."""
    checks.model(settings.model)
    if settings.conditional_model != "none":
        checks.model(settings.conditional_model)
    checks.engine(settings.engine)
    checks.index(settings.index)
