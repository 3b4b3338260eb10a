"""Refresh what the reference pages copy from the code: `make reference`.

A page marks each copy with `<!-- reference: KIND NAME -->` and `<!-- /reference -->`; all other
text is written by hand and stays. With `--check`, nothing is written: stale pages are named, and
the exit code is 1.

    command NAME       usage, options with defaults, and the example of a command
    names MODULE       a table of what a module exports, with signatures
    signatures MODULE  a table whose first cells are calls: their signatures
    fields CLASS       a table whose first two cells are the fields of a pydantic model and their
                       defaults
    table FILE HEAD    the table of a file of the package whose first column is HEAD
    published          a table whose first cells are recipes: the last cell is the paper's figure
"""

import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main

from tertium.cli import app
from tertium.recipes.files import read_recipe

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))

BLOCK = re.compile(r"(<!-- reference: (\w+)(?: ([^\n]+?))? -->\n)(.*?)(<!-- /reference -->)", re.S)
RULE = re.compile(r"\|(?:[ :-]+\|)+")
CODE = re.compile(
    r"(?<![\w`])(--[a-z][a-z-]+|\.(?:tsv|csv|jsonl?|parquet|npy|html|png|svg|md|txt))"
)


def refreshed(text: str) -> str:
    """The text of a page with all its blocks as the code has them now."""
    return BLOCK.sub(lambda block: block[1] + KINDS[block[2]](block[3], block[4]) + block[5], text)


def commands(command: Any = None, name: str = "tertium") -> dict[str, Any]:
    """Commands by their full names, without hidden ones; a group stands for its members.

    A group that does something on its own is a command too.
    """
    command = typer.main.get_command(app) if command is None else command
    inside = getattr(command, "commands", None)
    if inside is None:
        return {name: command}
    own = {name: command} if command.invoke_without_command and name != "tertium" else {}
    return own | {
        full: leaf
        for key, inner in inside.items()
        if not inner.hidden
        for full, leaf in commands(inner, f"{name} {key}").items()
    }


def command_block(name: str, _: str) -> str:
    """Usage, what a command does, its options, and its example."""
    command = commands()[f"tertium {name}"]
    *paragraphs, example = inspect.cleandoc(command.help or "").split("\n\n")
    words = [f"tertium {name}"]
    rows = ["| option | default | means |", "|---|---|---|"]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        if parameter.param_type_name == "argument":
            shown = parameter.name.upper()
            words.append(f"{shown}..." if parameter.nargs == -1 else shown)
            words[-1] = words[-1] if parameter.required else f"[{words[-1]}]"
            first = f"`{shown}`"
        else:
            first = ", ".join(f"`{o}`" for o in (*parameter.opts, *parameter.secondary_opts))
            if parameter.required:
                words.append(f"{parameter.opts[0]} {parameter.opts[0].strip('-').upper()}")
        default, meaning = _option(parameter)
        rows.append(f"| {first} | {default} | {meaning} |")
    usage = " ".join([*words, "[OPTIONS]"])
    does = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    line = example.removeprefix("Example: ")
    return f"```\n{usage}\n```\n\n{does}\n\n" + "\n".join(rows) + f"\n\nExample: `{line}`\n"


def _option(parameter: Any) -> tuple[str, str]:
    """Default and meaning of a parameter, from what typer knows and from its help."""
    help_text = (parameter.help or "").replace("|", "\\|")
    named = re.search(r" ?\(default: ([^()]*(?:\([^()]*\))?[^()]*)\)", help_text)
    meaning = help_text if named is None else help_text.replace(named[0], "")
    meaning = meaning.rstrip(".")
    if meaning[1:2].islower() or meaning[1:2] == " ":
        meaning = meaning[0].lower() + meaning[1:]
    value = parameter.default
    value = ", ".join(value) if isinstance(value, list) and value else value
    if parameter.required:
        default = "required"
    elif isinstance(value, bool):
        default = "on" if value else "off"
    elif value is None or value == []:
        default = "none" if named is None else named[1]
    else:
        default = f"`{value}`" if isinstance(value, str | Path) else f"{value:g}"
    return CODE.sub(r"`\1`", default), CODE.sub(r"`\1`", meaning)


def table_block(place: str, _: str) -> str:
    """A table as it stands in another file, found by the head of its first column."""
    file, head = place.split()
    text = (ROOT / "src" / "tertium" / file).read_text(encoding="utf-8")
    found = re.search(rf"^\| {head} \|.*\n(?:\|.*\n)+", text, flags=re.M)
    if found is None:
        raise SystemExit(f"{file}: no table whose first column is {head}")
    return found[0]


def names_block(module: str, old: str) -> str:
    """A table of all public names; descriptions are kept, a new name has that of its docstring."""
    home = pkgutil.resolve_name(module)
    stated = {re.findall(r"`(\w+)", cells[0])[0]: cells[1] for cells in _cells(old)}
    rows = []
    for name in home.__all__:
        found = getattr(home, name)
        call = f"({_signature(found)})" if inspect.isfunction(found) else ""
        first = (inspect.getdoc(found) or "").partition("\n")[0].rstrip(".")
        rows.append(_row([f"`{name}{call}`".replace("|", "\\|"), stated.get(name, first)]))
    return "\n".join([*old.splitlines()[:2], *rows]) + "\n"


def signatures_block(module: str, old: str) -> str:
    """A table of calls with their present signatures; the other cells are kept."""
    return _rows(old, lambda cells: [_with_signatures(module, cells[0]), *cells[1:]])


def _with_signatures(module: str, cell: str) -> str:
    def signature(call: re.Match[str]) -> str:
        return f"`{call[1]}({_signature(_find(module, call[1]))})`".replace("|", "\\|")

    return re.sub(r"`([\w.]+)\([^`]*\)`", signature, cell)


def _find(module: str, name: str) -> Callable[..., Any]:
    try:
        found = pkgutil.resolve_name(f"{module}.{name}")
    except (AttributeError, ImportError):
        found = pkgutil.resolve_name(name)
    return getattr(found, name) if inspect.ismodule(found) else found  # type: ignore[no-any-return]


def _signature(function: Callable[..., Any]) -> str:
    parts: list[str] = []
    keywords = False
    for name, parameter in inspect.signature(function).parameters.items():
        if name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            parts.append("*")
        if parameter.kind is parameter.VAR_POSITIONAL:
            keywords = True
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(
            parameter.kind, ""
        )
        empty = parameter.default is parameter.empty
        parts.append(prefix + name + ("" if empty else f"={_value(parameter.default)}"))
    return ", ".join(parts)


def _value(default: Any) -> str:
    if isinstance(default, Enum):
        default = default.value
    if isinstance(default, str):
        return f'"{default}"'
    shown = repr(default)
    return "…" if " at 0x" in shown or "object" in shown else shown


def fields_block(name: str, old: str) -> str:
    """A table of a model's fields; descriptions are kept, and so are defaults said in words."""
    fields = pkgutil.resolve_name(name).model_fields
    stated = {re.findall(r"`([^`]+)`", cells[0])[0]: cells for cells in _cells(old)}
    head = old.splitlines()[:2]
    rows = []
    for field, info in fields.items():
        cells = stated.get(field, [f"`{field}`", "none", info.description or ""])
        default = info.default
        if isinstance(default, Enum):
            default = default.value
        if info.is_required():
            cells[1] = "required" if not cells[1].startswith("required") else cells[1]
        elif isinstance(default, str | int | float) and not cells[1].startswith(WORDS):
            cells[1] = _yaml(default)
        rows.append(_row(cells[: head[0].count("|") - 1]))
    return "\n".join([*head, *rows]) + "\n"


WORDS = ("see", "the ", "empty", "true for")  # begins a default that depends on other settings


def _yaml(value: str | float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"`{value}`"
    mantissa, _, exponent = repr(value).partition("e")
    return repr(value) if not exponent else f"{float(mantissa)}e{int(exponent)}"


def published_block(_: str, old: str) -> str:
    """A table of recipes whose last cell is the figure of the paper."""

    def row(cells: list[str]) -> list[str]:
        figures = [read_recipe(name).published for name in re.findall(r"`([^`]+)`", cells[0])]
        known = [f"{figure:.2f}" for figure in figures if figure is not None]
        return [*cells[:-1], ", ".join(known)]

    return _rows(old, row)


def _cells(table: str) -> Iterator[list[str]]:
    for line in table.splitlines()[2:]:
        if line.startswith("|"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]


def _rows(table: str, change: Callable[[list[str]], list[str]]) -> str:
    head = table.splitlines()[:2]
    assert RULE.fullmatch(head[1]), f"no table: {table[:80]}"
    return "\n".join([*head, *(_row(change(cells)) for cells in _cells(table))]) + "\n"


def _row(cells: list[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


KINDS: dict[str, Callable[[str, str], str]] = {
    "command": command_block,
    "names": names_block,
    "signatures": signatures_block,
    "fields": fields_block,
    "published": published_block,
    "table": table_block,
}


def main() -> None:
    """Refresh all pages, or with --check name those that are stale."""
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = refreshed(text)
        if new != text:
            stale.append(page.relative_to(ROOT).as_posix())
            if "--check" not in sys.argv:
                page.write_text(new, encoding="utf-8")
    print("\n".join(stale) if stale else "all pages are up to date")
    sys.exit(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    main()
