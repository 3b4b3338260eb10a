"""What commands print with ``--json`` has the shape of an example in docs/json.md."""

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "json.md"

# Below these keys, names of tasks, stages, variants or packages are keys themselves, or the shape
# depends on options: tables of the page describe it.
OPEN = {
    "doctor": {"packages", "extras", "engines", "data", "model"},
    "evaluate": {"results", "poolings", "versions", "models", "recognised", "raters"},
    "label": {"raters", "agreement"},
    "fit": {"by", "figures", "recognised", "source"},
    "export": {"settings", "parity"},
    "models fetch": {"files"},
    "lowshot": {"recipes", "subsets"},
    "recipes": {"encoder", "stages"},
    "report": {"sections", "provenance"},
    "sweep": {"runs", "data"},
    "train": {"data", "log", "report"},
}
ALIKE = {"distil": "train"}


def check_shape(command: str, document: Any) -> None:
    """Raise unless an example of the page has the keys of ``document``.

    Further keys are allowed that the text of the section names.
    """
    command = ALIKE.get(command, command)
    section = _sections()[command]
    blocks = re.findall(r"^```json\n(.*?)^```$", section, re.M | re.S)
    examples = [json.loads(block) for block in blocks]
    named = {
        word
        for code in re.findall(
            r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", section, flags=re.M | re.S)
        )
        for word in re.findall(r"\w+", code)
    }
    found = [
        _differences(example, document, OPEN.get(command, set()), named) for example in examples
    ]
    assert [] in found, f"docs/json.md, {command}: {min(found, key=len)}"


def _sections() -> dict[str, str]:
    found = re.findall(
        r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
    return {name: text for head, text in found for name in re.findall(r"`([^`]+)`", head)}


def _differences(example: Any, document: Any, closed: set[str], named: set[str]) -> list[str]:
    if isinstance(example, list) and isinstance(document, list):
        pairs = [(_merged(example), _merged(document))]
        return [] if not (example and document) else _differences(*pairs[0], closed, named)
    if example is None or document is None:
        return []
    if not (isinstance(example, dict) and isinstance(document, dict)):
        number = int | float
        same = isinstance(example, number) == isinstance(document, number)
        return (
            [] if same and not isinstance(document, dict | list) else [f"{example} or {document}"]
        )
    missing = [f"no {key}" for key in example.keys() - document.keys()]
    unknown = [f"unknown {key}" for key in document.keys() - example.keys() - named]
    inside = [
        difference
        for key in (example.keys() & document.keys()) - closed
        for difference in _differences(example[key], document[key], closed, named)
    ]
    return [*missing, *unknown, *inside]


def _merged(items: list[Any]) -> Any:
    """One item with the keys of all; of the values under a key, the first that is not null."""
    if not all(isinstance(item, dict) for item in items):
        return items[0] if items else None
    merged: dict[str, Any] = {}
    for item in items:
        merged |= {key: value for key, value in item.items() if merged.get(key) is None}
    return merged
