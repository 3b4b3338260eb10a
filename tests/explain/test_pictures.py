import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tertium
from tertium.explain import Explanation
from tertium.explain.occlusion import SmallestChange
from tertium.explain.pictures import (
    explanation_figure,
    explanation_html,
    smallest_sentence,
    strongest_words,
    write_explanation_figure,
)
from tertium.models import Encoder
from tests.models.test_conditional import scorer_of

HOSTILE = '<script src="http://evil.example/x.js">$a$ & "b"</script>'


class Page(HTMLParser):
    """Every tag with its attributes, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.said: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.said.append(data)


@pytest.fixture
def encoder(tiny_bert: Path) -> Encoder:
    loaded = tertium.load(tiny_bert, engine="torch")
    assert isinstance(loaded, Encoder)
    return loaded


@pytest.fixture
def triple(tiny_bert: Path) -> Explanation:
    scorer = scorer_of(tiny_bert, {"kind": "seaver"})
    return scorer.explain("the cat sleeps", "a dog", condition=f"{HOSTILE} x")


def test_the_page_needs_nothing_and_runs_nothing(triple: Explanation) -> None:
    html = explanation_html(triple)
    page = Page(html)
    assert "script" not in page.tags and "link" not in page.tags and "img" not in page.tags
    assert not page.attributes & {"src", "href", "onload", "onclick"}
    assert not re.search(r"url\(|@import", html)
    assert "http://" not in html.replace("http://evil.example", "")  # what the user wrote, as text
    assert HOSTILE in "".join(page.said)
    assert "reallocated" in html and "Where attention goes" in html


def test_what_a_model_does_not_reallocate_is_not_shown(
    tiny_bert: Path, triple: Explanation
) -> None:
    plain = scorer_of(tiny_bert, {"kind": "bi"}).explain("the cat", "a dog", condition="x")
    for found, shown in ((plain, False), (triple, True)):
        assert ("reallocated" in explanation_html(found)) == shown
        legends = [axes.get_legend() for axes in explanation_figure(found).axes]
        assert [len(each.get_texts()) for each in legends if each is not None] == [2 + shown]
        assert (found.to_json()["attention"]["reallocated"] is not None) == shown


def test_the_page_has_words_with_signed_numbers(encoder: Encoder) -> None:
    found = encoder.explain("the <b>cat</b>\0 sleeps", "a dog", method="gradients")
    page = Page(explanation_html(found))
    assert page.tags.count("small") == sum(map(len, found.words)) and "b" not in page.tags
    numbers = [said for said in page.said if re.fullmatch(r"[+-]\d+\.\d\d", said)]
    values = [value for own in found.contributions for value in own]
    assert [float(number) for number in numbers] == pytest.approx(values, abs=0.006)
    assert "\0" not in "".join(page.said)


def test_pages_of_odd_explanations(encoder: Encoder) -> None:
    assert "Which words belong" not in explanation_html(encoder.explain("the cat", ""))
    alone = replace(encoder.explain("a", "b"), alignment=None, notes=("Needs <torch>.",))
    assert "Needs &lt;torch&gt;." in explanation_html(alone)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_pictures(triple: Explanation, ending: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / f"why.{ending}"
    write_explanation_figure(triple, path)
    assert path.stat().st_size > 5000
    assert list(path.parent.iterdir()) == [path]
    if ending == "svg":
        assert path.read_text().count("<svg") == 1


def test_pictures_of_odd_texts(encoder: Encoder, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="vocabulary"):
        found = encoder.explain("🎸", "$x$ _^{", method="gradients")
    write_explanation_figure(found, tmp_path / "odd.png")
    write_explanation_figure(encoder.explain("a", ""), tmp_path / "empty.png")
    alone = replace(found, alignment=None, notes=("Take the engine torch.",))
    write_explanation_figure(alone, tmp_path / "alone.png")


def test_long_texts_are_shown_by_their_strongest_words(encoder: Encoder) -> None:
    found = encoder.explain("a b c d e f " * 9, "the cat", most=0)
    places = strongest_words(found, 0, 5)
    assert places == sorted(places) and len(places) == 5
    least = min(abs(found.occlusion[0][at]) for at in places)
    rest = [abs(v) for at, v in enumerate(found.occlusion[0]) if at not in places]
    assert max(rest) <= least
    labels = explanation_figure(found).axes[0].get_yticklabels()
    assert len(labels) == 40


def test_the_smallest_change_in_a_sentence(encoder: Encoder) -> None:
    found = encoder.explain("the cat", "a dog")
    one = replace(found, smallest=SmallestChange(((0, 1), (1, 1)), 0.25, 0.2, reached=True))
    assert smallest_sentence(one) == "Without “cat” (A), “dog” (B) the score is 0.25."
    none = replace(found, smallest=SmallestChange((), 0.25, 0.2, reached=False))
    assert "No words were found" in smallest_sentence(none)
    far = replace(found, smallest=SmallestChange(((0, 0),), 0.25, 0.2, reached=False))
    assert smallest_sentence(far).endswith("without “the” (A) it is 0.25.")
