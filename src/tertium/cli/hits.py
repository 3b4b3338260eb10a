"""What a search found: a file, JSON or a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tertium.cli.output import cell

if TYPE_CHECKING:
    from tertium.corpus import Hit, TextIndex

__all__ = ["listed", "show", "write"]


def write(
    index: "TextIndex",
    queries: list[str],
    file: Path | None,
    column: str | None,
    output: Path,
    *,
    k: int,
    threshold: float | None,
    spreadsheet_safe: bool,
) -> int:
    """Search for queries window by window, and write a row for everything found."""
    from tertium.corpus.inputs import table
    from tertium.data.readers import iter_texts
    from tertium.models.batching import chunks
    from tertium.progress import bar

    asked = queries if file is None else iter_texts(file, column=column)
    count = 0
    columns = ("query", "rank", "id", "text", "similarity")
    with (
        table(output, columns, spreadsheet_safe=spreadsheet_safe) as write,
        bar(total=None, label="searching", unit="query") as shown,
    ):
        for window in chunks(asked, 1024):
            found = index.search_many(window, k=k, threshold=threshold, progress=False)
            for query, hits in zip(window, found, strict=True):
                for rank, hit in enumerate(hits, 1):
                    write((query, rank, hit.id, hit.text, hit.score))
            count += len(window)
            shown.update(len(window))
    return count


def listed(queries: list[str], found: list[list["Hit"]]) -> list[dict[str, Any]]:
    """What was found, for JSON."""
    return [
        {
            "query": query,
            "hits": [{"id": hit.id, "text": hit.text, "score": hit.score} for hit in hits],
        }
        for query, hits in zip(queries, found, strict=True)
    ]


def show(queries: list[str], found: list[list["Hit"]]) -> None:
    """What was found, for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for query, hits in zip(queries, found, strict=True):
        console.print(cell(query, style="bold"))
        table = Table("cosine", "id", "text", box=None, pad_edge=False)
        for hit in hits:
            table.add_row(f"{hit.score:.3f}", cell(hit.id), cell(hit.text))
        console.print(table)
