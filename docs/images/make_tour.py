"""Draw docs/images/tour.svg from the output of examples/tour.py.

python docs/images/make_tour.py
"""

import io
import re
import runpy
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.terminal_theme import TerminalTheme

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_name("tour.svg")
COLUMNS = 112

THEME = TerminalTheme(
    (251, 250, 246),
    (44, 48, 56),
    [
        *((44, 48, 56), (176, 58, 46), (46, 125, 80), (150, 111, 20)),
        *((46, 96, 158), (125, 75, 140), (31, 122, 134), (120, 124, 130)),
    ],
)


def main() -> None:
    """Run the tour on a console that remembers, and export what it printed."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=False, color_system=None
    )
    with patch("rich.console.Console", return_value=console):
        runpy.run_path(str(ROOT / "examples" / "tour.py"), run_name="__main__")
    svg = console.export_svg(title="make demo", theme=THEME, unique_id="tour")
    PICTURE.write_text(self_contained(svg), encoding="utf-8")


def self_contained(svg: str) -> str:
    """Without web fonts and remarks: any monospaced font will do, for widths are given."""
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: Fira Code[^;]*;", "font-family: monospace;", svg)
    svg = re.sub(r"font-family: arial;", "font-family: sans-serif;", svg)
    return re.sub(r"\n\s*\n+", "\n", svg)


if __name__ == "__main__":
    main()
