"""The import graph is the drawing of ``docs/concepts/architecture.md``, lazy imports included.

``lint-imports`` checks the floors too; here names that a package fetches on first use count as
imports of the module that defines them, and modules that import each other in a circle are found,
wherever in a function the import stands.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tertium
from tertium.lazy import lazy_names

ROOT = Path(__file__).resolve().parents[1]
SRC = Path(tertium.__file__).resolve().parent
FACE = {"", "__main__", "client", "registration"}  # on no floor: what surrounds the house


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    """The source of every module."""
    return {
        module_name(path): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SRC.rglob("*.py"))
    }


def fetched(name: str) -> dict[str, str]:
    """The modules of the names that a package fetches on first use."""
    source = ast.unparse(trees()[name])
    return lazy_names(source) if "= lazy(__name__)" in source else {}


def statements(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports that may run."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for other in node.orelse:
                yield from statements(other)
        else:
            yield from statements(node)


def resolve(package: str, name: str) -> str:
    """The module behind ``from package import name``."""
    if f"{package}.{name}" in trees():
        return f"{package}.{name}"
    home = fetched(package).get(name)
    return package if home is None else resolve(home, name)


@cache
def graph() -> dict[str, set[str]]:
    """What each module imports, now or later."""
    found: dict[str, set[str]] = {}
    for name, tree in trees().items():
        edges = set()
        for node in statements(tree):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0 and node.module, f"{name}: imports are absolute"
                if node.module in trees():
                    edges |= {resolve(node.module, alias.name) for alias in node.names}
            else:
                edges |= {alias.name for alias in node.names if alias.name in trees()}
        found[name] = edges - {name}
    return found


def room(module: str) -> str:
    return [*module.split("."), ""][1]


@cache
def floors() -> dict[str, int]:
    """The floor of every room, counted from the top."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    return {
        room(name): at
        for at, layer in enumerate(contract["layers"])
        for name in re.split(r"[|:]", layer.replace(" ", ""))
    }


def test_every_room_is_on_one_floor() -> None:
    rooms = {room(name) for name in trees()}
    assert rooms - FACE == set(floors())


def test_imports_go_down_only() -> None:
    ground = max(floors().values())
    wrong = [
        f"{name} imports {other}"
        for name, edges in graph().items()
        for other in sorted(edges)
        if room(name) != room(other) and room(name) not in FACE and room(other) not in FACE
        if not (floors()[room(name)] < floors()[room(other)] or floors()[room(name)] == ground)
    ]
    assert wrong == []


def test_nobody_imports_what_surrounds_the_house() -> None:
    """But for ``import tertium``, the public face."""
    wrong = [
        f"{name} imports {other}"
        for name, edges in graph().items()
        for other in sorted(edges)
        if room(name) not in FACE and room(other) in FACE - {""}
    ]
    assert wrong == []


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Modules that reach each other: components of more than one, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(edges[name]):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in edges:
        if name not in order:
            visit(name)
    return found


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    inside = {name: edges - {"tertium"} for name, edges in graph().items()}
    assert circles(inside) == []
