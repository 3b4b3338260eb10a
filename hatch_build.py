"""What the package index shows: the README with links that work there, and the project's addresses.

The README links to files beside it. With `repository` set in pyproject.toml
(`[tool.hatch.metadata.hooks.custom]`), these become absolute when a package is built; while
it is empty they become plain text, since a relative link leads nowhere on a package index.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


class Metadata(MetadataHookInterface):
    """Fills in what pyproject.toml names as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set readme and urls."""
        base = self.config["repository"].rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": linked(text, base)}
        metadata["urls"] = addresses(base)


def linked(text: str, base: str) -> str:
    """The text with links from a package index to the repository, or without links."""

    def turned(match: re.Match[str]) -> str:
        picture, name, target = match.groups()
        if not base:
            return f"*{name}*" if picture else name
        return f"{picture}[{name}]({base}/{'raw' if picture else 'blob'}/HEAD/{target})"

    return LINK.sub(turned, text)


def addresses(base: str) -> dict[str, str]:
    """Addresses of the project, as far as there are any."""
    if not base:
        return {}
    pages = {"Changelog": "CHANGELOG.md", "Documentation": "docs/index.md"}
    files = {name: f"{base}/blob/HEAD/{file}" for name, file in pages.items()}
    return {"Repository": base, "Issues": f"{base}/issues", **files}
