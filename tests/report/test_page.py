import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tertium.drawing import blank_figure
from tertium.report.page import Drawn, Note, Section, Table, inline_svg, render, save_figure

VOID = {"meta", "img", "br", "link", "hr"}


class Outline(HTMLParser):
    """Ids, and whether every element is closed by its own end."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.attributes.append((tag, found))
        if "id" in found:
            self.ids.append(str(found["id"]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    assert found.open == []
    return found


def drawn(name: str) -> Drawn:
    figure: Any = blank_figure(3, 2)
    axes = figure.add_subplot()
    axes.scatter(range(500), range(500))
    axes.plot([1, 2], [3, 4], clip_on=True)
    return Drawn(name, figure, "A title", "Read it so.", 'What "it" <shows>', "drawn", "A, 1")


def test_a_page_is_whole_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    pictures = {name: save_figure(drawn(name), tmp_path) for name in ("one", "two")}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "one.png",
        "one.svg",
        "two.png",
        "two.svg",
    ]
    blocks = (
        drawn("one"),
        drawn("two"),
        Table("Bad <names>", ["model", "x"], [["<script>alert(1)</script>", "1"]], folded=True),
        Note("a & b"),
    )
    page = render(
        [Section("results", "Results", "So.", blocks)],
        pictures,
        title="<b>bold</b>",
        subtitle="s",
        warning="Not all went well.",
    )
    found = outline(page)
    assert len(found.ids) == len(set(found.ids))
    assert "<script" not in page and "&lt;script&gt;" in page and "<b>" not in page
    links = set(re.findall(r"https?://[^\"')\s<]+", page))
    assert {link for link in links if not link.startswith("http://www.w3.org/")} == set()
    figures = [a for tag, a in found.attributes if tag == "svg"]
    assert [a["aria-label"] for a in figures] == ['What "it" <shows>'] * 2
    assert all(a["role"] == "img" for a in figures)
    targets = re.findall(r'href="#([^"]+)"', page)
    assert set(targets) <= set(found.ids)


def test_many_marks_become_a_picture(tmp_path: Path) -> None:
    svg = save_figure(drawn("one"), tmp_path)
    assert "data:image/png;base64," in svg and len(svg) < 60_000


def test_the_same_figure_gives_the_same_file(tmp_path: Path) -> None:
    pictures = [save_figure(drawn("one"), tmp_path / name) for name in ("a", "b")]
    assert "<metadata>" not in pictures[0] and "<!--" not in pictures[0]
    assert len(pictures[0]) == pytest.approx(len(pictures[1]), abs=0)


def test_references_inside_follow_their_names() -> None:
    svg = inline_svg(
        '<?xml version="1.0"?><svg><metadata>x</metadata><g id="a" clip-path="url(#b)"/>'
        '<use xlink:href="#a"/></svg>',
        name="n",
        alt="x",
    )
    assert 'id="n-a"' in svg and "url(#n-b)" in svg and 'xlink:href="#n-a"' in svg
    assert "xml version" not in svg and "metadata" not in svg
