"""The page in a real browser."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tertium
from tertium.corpus import Index
from tests.serve.fakes import FakeModel
from tests.serve.live import Live, live

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
KEY = "a-key-0123456789"
ROOT = Path(__file__).resolve().parents[2]
AXE = Path(os.environ.get("AXE_CORE", ROOT / "node_modules" / "axe-core")) / "axe.min.js"
LARGEST = 100_000  # bytes that a first visit may load
needs_axe = pytest.mark.skipif(
    not AXE.exists(), reason="axe-core is not installed: npm install --no-save axe-core"
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("search") / "index"
    columns = [{"year": year} for year in (1, 2, 3)]
    Index.build(folder, ["a cat", "a dog", "a bird"], FakeModel("hash"), columns=columns)
    with live(conditional_model="respects", index=folder) as started:
        yield started


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1100, "height": 800})
    context.set_default_timeout(60_000)
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "console",
        lambda message: wrong.append(message.text) if "Policy" in message.text else None,
    )
    yield opened
    context.close()
    assert not wrong


def compare(page: Any, site: Live, a: str = "a cat sleeps", b: str = "a dog sleeps") -> None:
    page.goto(site.url)
    page.get_by_label("First text").fill(a)
    page.get_by_label("Second text").fill(b)
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector("#words")


def test_two_texts_are_compared_and_explained(page: Any, site: Live) -> None:
    page.goto(site.url)
    page.get_by_text("Enter two texts").wait_for()
    compare(page, site)
    assert re.search(r"\d\.\d\d cosine", page.inner_text("#scores").replace("\n", " "))
    assert page.locator("#words .words").count() == 2
    assert page.locator("#words .plus").first.inner_text() == "a"
    assert "Without “a” of the first text the score would be 0.20." in page.inner_text("#words")
    assert page.locator("#alignment td").count() == 10  # nine, and the corner
    assert "Score" in page.inner_text("#live")


def test_any_number_of_respects(page: Any, site: Live) -> None:
    page.goto(site.url)
    page.get_by_label("First text").fill("a cat")
    page.get_by_label("Second text").fill("a dog")
    for number, condition in enumerate(["animal", "size", "noise made"], 1):
        page.get_by_role("button", name="Add a condition").click()
        page.get_by_label(f"Condition {number}", exact=True).fill(condition)
    page.get_by_label("Remove condition 2").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector("#scores")
    shown = page.inner_text("#scores")
    assert "with respect to: animal" in shown and "with respect to: noise made" in shown
    assert "with respect to: size" not in shown
    assert page.locator("#scores [role=meter]").count() == 3
    assert "of 5" in shown


def test_the_score_that_is_explained_can_be_chosen(page: Any, site: Live) -> None:
    asked: list[Any] = []

    def models(route: Any) -> None:
        told = route.fetch().json()
        for model in told["data"]:
            model["answers"].append("explain")
        route.fulfill(json=told)

    def explain(route: Any) -> None:
        body = route.request.post_data_json
        asked.append(body.pop("on", None))
        body.pop("model", None)  # one that explains stands in for the one that takes conditions
        route.fulfill(json={**route.fetch(post_data=body).json(), "condition": asked[-1]})

    page.route("**/v1/models", models)
    page.route("**/v1/explain", explain)
    page.goto(f"{site.url}/#compare?a=a+cat&b=a+dog&on=animal&on=size")
    page.wait_for_selector("#words")
    title = page.locator("#words h2")
    assert title.inner_text() == "The words behind the score"
    page.get_by_role("radio", name="overall").focus()
    page.keyboard.press("ArrowDown")
    title.filter(has_text="with respect to: animal").wait_for()
    page.get_by_role("radio", name="with respect to: size").check()
    title.filter(has_text="with respect to: size").wait_for()
    page.keyboard.press("ArrowUp")
    title.filter(has_text="with respect to: animal").wait_for()
    assert asked == [None, "animal", "size"]  # what is known is not asked for again


def test_scores_stay_when_the_explanation_fails(page: Any, site: Live) -> None:
    page.route("**/v1/explain", lambda route: route.abort())
    page.goto(f"{site.url}/#compare?a=a+cat&b=a+dog")
    page.wait_for_selector("#reasons [role=alert]")
    assert "cosine" in page.inner_text("#scores")
    page.unroute("**/v1/explain")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("#words")
    assert "cosine" in page.inner_text("#scores")


def test_only_the_last_question_is_answered(page: Any, site: Live) -> None:
    held: list[Any] = []
    page.route(
        "**/v1/similarity",
        lambda route: route.continue_() if held else held.append(route),
    )
    page.goto(f"{site.url}/#compare?a=a+cat&b=a+dog")
    page.wait_for_selector("[aria-busy=true] .waiting >> text=the model")
    page.get_by_label("Second text").fill("a cat")
    with page.expect_event("requestfailed") as failed:
        page.keyboard.press("Control+Enter")
    assert failed.value == held[0].request
    page.wait_for_selector("#words")
    assert "1.00" in page.inner_text("#scores")
    assert page.get_by_role("button", name="Compare", exact=True).is_enabled()


def test_the_example_shows_respects(page: Any, site: Live) -> None:
    page.goto(site.url)
    page.get_by_label("Second text").fill("something else")
    for _ in range(2):  # a second time replaces the first
        page.get_by_role("button", name="Show an example").first.click()
        page.wait_for_selector("#scores")
    assert page.locator("#scores [role=meter]").count() == 3
    assert page.locator("#condition-list li").count() == 2


def test_many_texts_show_matrix_groups_and_duplicates(page: Any, site: Live) -> None:
    page.goto(site.url)
    page.get_by_role("tab", name="Many texts").click()
    page.get_by_label("One text per line").fill("a cat\na dog\na cat\n\n  a bird ")
    page.get_by_role("button", name="Show the matrix").click()
    page.wait_for_selector("#matrix td")
    assert page.locator("#matrix tbody tr").count() == 4
    assert "Duplicates (1)" in page.inner_text("#duplicates")
    assert "Groups (1)" in page.inner_text("#groups")
    page.get_by_label("Groups from").fill("1")
    page.get_by_label("Duplicates from").fill("0.5")
    assert "Duplicates" in page.inner_text("#duplicates")
    page.get_by_label("One text per line").fill("only one")
    page.get_by_role("button", name="Show the matrix").click()
    assert "two lines or more" in page.inner_text("#many-result")


def test_the_index_is_searched_with_filters_words_and_in_a_respect(page: Any, site: Live) -> None:
    page.goto(f"{site.url}/#search?q=a+dog&where=year+%3E%3D+2&hybrid=1")
    page.wait_for_selector("#hits-list")
    assert page.is_checked("#hybrid") and page.input_value("#where") == "year >= 2"
    assert page.locator("#hits-list li").count() == 2
    assert "year: 2" in page.inner_text("#hits-list") and "a cat" not in page.inner_text(
        "#hits-list"
    )
    assert page.inner_text("#columns") == "Columns: year"
    page.fill("#search-on", "sound")
    page.fill("#where", "")
    page.click("#search-form [type=submit]")
    page.wait_for_selector("#hits-list li:nth-child(3)")
    assert "on=sound" in page.url and "where" not in page.url


def test_a_fitted_threshold_is_shown_with_its_origin(page: Any, tmp_path: Path) -> None:
    Index.build(tmp_path / "index", ["a cat", "a dog"], FakeModel("deciding"))
    with live(model="deciding", index=tmp_path / "index") as started:
        page.goto(f"{started.url}/#search?q=a+dog")
        page.wait_for_selector("#hits-list")
        first, second = page.locator("#hits-list .verdict").all_inner_texts()
        assert first == "duplicate: yes, 98 % sure" and second.startswith("duplicate: no")
        said = "Threshold 0.9000 for the best F1, fitted on 200 pairs of pairs.tsv."
        assert page.inner_text("#threshold") == said
        compare(page, started, "a cat", "a cat")
        assert page.inner_text(".verdict").splitlines() == ["duplicate: yes, 98 % sure", said]


def test_the_index_is_searched(page: Any, site: Live) -> None:
    page.goto(f"{site.url}/#search?q=a+dog")
    page.wait_for_selector("#hits-list")
    assert page.locator("#hits-list li").first.inner_text().split()[:3] == ["1.00", "a", "dog"]


def test_errors_are_told_and_can_be_tried_again(page: Any, site: Live) -> None:
    compare(page, site)
    page.route("**/v1/similarity", lambda route: route.abort())
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector("[role=alert]")
    assert "does not answer" in page.inner_text("[role=alert]")
    page.unroute("**/v1/similarity")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("#scores")
    page.get_by_label("First text").fill("fail")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector("[role=alert]")
    assert "The model failed on this text." in page.inner_text("[role=alert]")


def test_no_tab_is_dead_while_the_server_is_silent(page: Any, site: Live) -> None:
    page.route("**/v1/models", lambda route: route.abort())
    page.goto(f"{site.url}/#search?q=a+dog")
    page.wait_for_selector("#search-result [role=alert]")
    assert page.get_by_label("Find texts").input_value() == "a dog"
    for name in ("Compare", "Many texts"):
        page.get_by_role("tab", name=name).click()
        page.get_by_role("button", name="Try again").wait_for()
    page.unroute("**/v1/models")
    page.get_by_label("One text per line").fill("a cat\na dog")
    page.get_by_role("button", name="Show the matrix").click()
    page.wait_for_selector("#matrix td")
    page.get_by_role("tab", name="Search").click()
    assert "3 texts are waiting" in page.inner_text("#search-result")


def test_the_keyboard_is_enough(page: Any, site: Live) -> None:
    page.goto(site.url)
    page.wait_for_selector("#served:not(:empty)")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "tab-compare":
            break
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-many"
    page.keyboard.press("Home")
    assert page.get_by_role("tab", name="Compare").get_attribute("aria-selected") == "true"
    page.keyboard.press("Tab")
    page.keyboard.type("a cat")
    page.keyboard.press("Tab")
    page.keyboard.type("a dog")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # adds a respect, and goes there
    page.keyboard.type("the animal")
    page.keyboard.press("Enter")
    page.wait_for_selector("#scores")
    assert "with respect to: the animal" in page.inner_text("#scores")


def test_a_link_holds_everything_and_the_server_does_not_see_it(page: Any, site: Live) -> None:
    asked: list[str] = []
    compare(page, site, a="a cat & a dog", b="50 % #")
    link = page.url
    page.on("request", lambda request: asked.append(request.url))
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#scores")
    assert page.get_by_label("First text").input_value() == "a cat & a dog"
    assert page.get_by_label("Second text").input_value() == "50 % #"
    assert not any("cat" in url.partition("#")[0] for url in asked)
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(browser: Any, site: Live, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    context.set_default_timeout(60_000)
    page = context.new_page()
    compare(page, site, a="x" * 300 + " and a cat that sleeps", b="dog " * 12)
    page.get_by_text("As a table").click()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(246, 245, 241)" if scheme == "light" else "rgb(20, 25, 28)")
    page.get_by_role("tab", name="Many texts").click()
    page.click("#many-example")
    page.wait_for_selector("#matrix td")
    assert page.evaluate("document.querySelector('#matrix tbody th').offsetWidth") <= 100
    for name in ("Compare", "Many texts", "Search"):
        page.get_by_role("tab", name=name).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        sizes = page.evaluate(
            "[...document.querySelectorAll('button')].filter((b) => b.offsetParent)"
            ".map((b) => b.offsetHeight)"
        )
        assert min(sizes) >= 40
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_cell_can_be_read(page: Any, site: Live, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    compare(page, site)
    cells = page.evaluate(
        """async () => {
            const { heatMap } = await import("/assets/dom.js");
            const values = Array.from({ length: 81 }, (_, at) => (at - 40) / 40);
            const map = heatMap(["row"], values.map(String), [values], { caption: "all" });
            document.getElementById("alignment").append(map);
            const style = (element) => getComputedStyle(element);
            const card = style(document.getElementById("alignment")).backgroundColor;
            const words = document.querySelectorAll(".words span");
            return [...map.querySelectorAll("tbody td"), ...words]
                .map((cell) => [style(cell).color, style(cell).backgroundColor, card]);
        }"""
    )
    assert len(cells) > 81
    assert min(contrast(*cell) for cell in cells) >= 4.5


def contrast(ink: str, ground: str, card: str) -> float:
    """Of WCAG, on a ground that lets the card through."""
    colours = [[float(x) for x in re.findall(r"[\d.]+", name)] for name in (ink, ground, card)]
    share = colours[1][3] if len(colours[1]) > 3 else 1.0
    mixed = [share * x + (1 - share) * y for x, y in zip(colours[1], colours[2], strict=False)]
    low, high = sorted(map(luminance, (colours[0], mixed)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: list[float]) -> float:
    parts = [x / 255 for x in colour[:3]]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_key_is_asked_for_and_kept_in_memory(page: Any, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(KEY)
    with live(keys=file, model="mute") as site:
        page.goto(f"{site.url}/#many?t=a+cat%0Aa+dog")
        page.wait_for_selector("#many-result [role=alert]")
        page.wait_for_selector("#key:visible")
        page.keyboard.type(KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("#matrix td")
        page.get_by_role("tab", name="Compare").click()
        page.get_by_role("button", name="Show an example").click()
        page.get_by_text("does not explain scores").wait_for()
        assert "without a model that takes conditions" in page.inner_text("#conditions")
        page.get_by_role("tab", name="Search").click()
        assert "tertium index build" in page.inner_text("#search-result")
        assert page.evaluate("localStorage.length + document.cookie.length") == 0


def test_the_page_of_the_interface_lists_every_path(page: Any, site: Live) -> None:
    page.goto(f"{site.url}/docs")
    page.wait_for_selector("section")
    shown = page.inner_text("#paths")
    for path in ("/v1/embeddings", "/v1/similarity", "/v1/search", "/healthz", "/metrics"):
        assert path in shown


def test_one_of_several_models_is_chosen(page: Any) -> None:
    with live(model=["hash", "other"], conditional_model=["respects", "reasons"]) as site:
        asked: list[tuple[str, str]] = []

        def note(route: Any) -> None:
            body = route.request.post_data_json
            asked.append((route.request.url.rpartition("/")[2], body["model"]))
            route.continue_()

        page.route("**/v1/similarity", note)
        page.route("**/v1/conditional", note)
        page.route("**/v1/embeddings", note)
        page.goto(f"{site.url}/#compare?a=a+cat&b=a+dog&on=animal")
        page.wait_for_selector("#words")
        assert set(asked) == {("similarity", "hash"), ("conditional", "respects")}
        asked.clear()
        page.get_by_label("Model", exact=True).select_option("other")
        page.wait_for_selector("#words")
        page.get_by_label("Answered by").select_option("reasons")
        page.wait_for_selector("#words")
        assert asked[-2:] == [("similarity", "other"), ("conditional", "reasons")]
        page.get_by_role("tab", name="Many texts").click()
        page.get_by_label("One text per line").fill("a cat\na dog")
        page.get_by_role("button", name="Show the matrix").click()
        page.wait_for_selector("#matrix")
        assert asked[-1] == ("embeddings", "other")


def test_a_single_model_is_named_and_not_offered(page: Any, site: Live) -> None:
    page.goto(site.url)
    page.get_by_text("Enter two texts").wait_for()
    assert page.inner_text("#served") == "hash"
    assert page.locator("#models").is_hidden() and page.locator("#conditional-models").is_hidden()


def test_examples_are_one_click_away(page: Any, site: Live) -> None:
    page.goto(site.url)
    page.wait_for_selector("#served:not(:empty)")
    names = page.locator("#examples button").all_inner_texts()
    assert len(names) == 4
    for name in names:
        page.get_by_role("button", name=name).click()
        page.wait_for_selector("#scores")
    assert page.get_by_label("Second text").input_value().startswith("Please send me")


def test_a_grade_is_told_in_words(page: Any, site: Live) -> None:
    page.goto(f"{site.url}/#compare?a=a+cat&b=a+dog&on=animal")
    page.wait_for_selector("#scores")
    assert re.search(r"[1-5] = (?:somewhat |neither )?\w+", page.inner_text("#scores"))
    said = page.evaluate(
        """async () => {
            const { meaning } = await import("/assets/dom.js");
            const cases = [[3.2, [0, 5]], [5.4, [0, 5]], [0.9, [1, 5]], [0.3, [-1, 1]]];
            return cases.map((each) => meaning(...each));
        }"""
    )
    assert said[0] == "3 = roughly equivalent, some details differ"
    assert said[1:] == ["5 = the same meaning", "1 = dissimilar", None]


def test_results_are_copied_as_a_sentence_and_as_json(page: Any, site: Live) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{site.url}/#compare?a=a+cat&b=a+dog&on=animal")
    page.wait_for_selector("#scores")
    page.get_by_role("button", name="Copy as a sentence").click()
    page.get_by_text("Copied").first.wait_for()
    sentence = page.evaluate("navigator.clipboard.readText()")
    made = f"tertium {tertium.__version__}, model hash"
    assert sentence.startswith("The similarity of “a cat” and “a dog” is a cosine of ")
    assert made in sentence and "with respect to “animal”" in sentence
    page.get_by_role("button", name="Copy as JSON").click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('{'))")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied["a"] == "a cat" and copied["conditions"][0]["condition"] == "animal"


def test_a_first_visit_is_small_and_stays_at_home(page: Any, site: Live) -> None:
    asked: list[str] = []
    sizes: list[int] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfinished", lambda request: sizes.append(len(request.response().body())))
    page.goto(site.url)
    page.wait_for_selector("#served:not(:empty)")
    page.wait_for_load_state("networkidle")
    assert asked and all(url.startswith(site.url) for url in asked)
    assert 20_000 < sum(sizes) < LARGEST


def check_axe(page: Any) -> None:
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found] == []


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_out_of_reach(page: Any, site: Live, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{site.url}/#compare?a=a+cat&b=a+dog&on=animal")
    page.wait_for_selector("#words")
    page.get_by_text("As a table").click()
    page.get_by_text("Wrong for your texts?").click()
    check_axe(page)
    page.get_by_role("tab", name="Many texts").click()
    page.click("#many-example")
    page.wait_for_selector("#matrix td")
    check_axe(page)
    page.get_by_role("tab", name="Search").click()
    page.fill("#query", "a dog")
    page.click("#search-form [type=submit]")
    page.wait_for_selector("#hits-list")
    check_axe(page)
    page.goto(f"{site.url}/docs")
    page.wait_for_selector("section")
    check_axe(page)
