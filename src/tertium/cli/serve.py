"""``tertium serve``: serve models over HTTP, with a page to try them."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tertium.cli import checks
from tertium.cli.options import Json
from tertium.cli.output import emit, note
from tertium.serve.settings import Settings, declared, read_settings

if TYPE_CHECKING:
    from tertium.serve.service import Service

__all__ = ["serve"]

_NEEDED = ("fastapi", "orjson", "prometheus_client", "uvicorn")


def serve(*, config: Path | None = None, as_json: bool = False, **flags: Any) -> None:
    """Serve embeddings, similarities, explanations and search over HTTP.

    Example: tertium serve --port 8080
    """
    from tertium.errors import require
    from tertium.progress import silence

    require("serve", purpose="The server", packages=_NEEDED)
    settings = read_settings(
        {name: value for name, value in flags.items() if value != []}, config=config
    )
    _check(settings)

    def ready(url: str, service: "Service") -> None:
        silence()
        names = [served.name for served in settings.served]
        if as_json:
            scale = service.pool.known[names[0]]["scale"]
            emit({"url": url, "model": names[0], "scale": scale, "models": names})
        else:
            note(f"{url}: serving {', '.join(names)}; stop with Ctrl-C")

    from tertium.serve.app import serve as run

    note(f"loading {settings.model[0]}")
    run(settings, ready=ready)


def _check(settings: Settings) -> None:
    """Raise for missing models, engines or indexes before a worker is started."""
    from tertium.models.names import takes_conditions

    for served in settings.served:
        checks.model(served.source)
        served.check(takes_conditions=takes_conditions(served.source))
    checks.engine(settings.engine)
    checks.index(settings.index)


def _signature() -> inspect.Signature:
    """A flag for every setting; None if not given, so that variables and the file apply."""
    parameters: dict[str, tuple[Any, Any]] = {}
    for setting in declared():
        name, kind, _, about = setting
        flag = name.replace("_", "-")
        usual = f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}"
        default = f" (default: {setting.shown_default})" if setting.shown_default else ""
        parameters[name] = (
            list[str] | None if kind == tuple[str, ...] else kind | None,
            typer.Option(
                None,
                *(about.flags or (usual,)),
                help=f"{about.help}{default}.",
                rich_help_panel=about.panel,
            ),
        )
    parameters["config"] = (
        Path | None,
        typer.Option(
            *(None, "--config"),
            help="YAML file of settings; flags and variables override it.",
            rich_help_panel="Where",
        ),
    )
    parameters["as_json"] = (Json, False)
    serve.__annotations__ = {name: kind for name, (kind, _) in parameters.items()}
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)
            for name, (kind, option) in parameters.items()
        ]
    )


serve.__signature__ = _signature()  # type: ignore[attr-defined]
