"""``tertium models``: what can be loaded by name."""

from tertium.cli.output import JSON, cell, emit

__all__ = ["models"]


def models(as_json: bool = JSON) -> None:
    """List the models that come with tertium.

    Example: tertium models
    """
    from tertium.errors import TertiumError
    from tertium.models import NAMES

    rows = []
    for name, model in NAMES.items():
        try:
            folder, problem = str(model.folder()), None
        except TertiumError as error:
            folder, problem = None, str(error)
        rows.append(
            {
                "name": name,
                "kind": str(model.kind),
                "summary": model.summary,
                "folder": folder,
                "problem": problem,
            }
        )
    if as_json:
        emit({"models": rows})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "kind", "what it is", box=None, pad_edge=False)
    for row, model in zip(rows, NAMES.values(), strict=True):
        table.add_row(row["name"], row["kind"], cell(row["problem"] or model.summary))
    console = Console()
    console.print(table)
    console.print(
        "Also: any sentence-transformers or transformers folder, or a hub id.", style="dim"
    )
