"""Photograph the page of a running server: docs/images/page-….png.

pip install playwright    # and a chromium, such as Debian's
python docs/images/make_page.py
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import tertium
from tertium.corpus import Index
from tertium.data.samples import sample_sentences

FOLDER = Path(__file__).parent
COLOURS = 128
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PAIR = {
    "a": "A man is playing a guitar on stage.",
    "b": "Someone plays an instrument for a crowd.",
    "on": ["what they do", "the number of people"],
}


def main() -> None:
    """The three tabs, wide and light; comparing once more, narrow and dark."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        Index.build(index, sample_sentences(), tertium.load())
        command = [sys.executable, "-m", "tertium", "serve", "--port", "0", "--json"]
        command += ["--index", str(index)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            lines = [server.stdout.readline()]
            while lines[-1] not in ("}\n", ""):
                lines.append(server.stdout.readline())
            photograph(json.loads("".join(lines))["url"])
        finally:
            server.terminate()
            server.wait()


def photograph(url: str) -> None:
    """Every picture of the documentation."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=FLAGS)
        for name, width, scheme in (("page", 1000, "light"), ("page-phone", 390, "dark")):
            view = {"width": width, "height": 800}
            context = browser.new_context(viewport=view, color_scheme=scheme)
            context.set_default_timeout(120_000)
            page = context.new_page()
            page.goto(f"{url}/#compare?{urlencode(PAIR, doseq=True)}")
            settle(page, "compare", "#reasons :is(#words, .hint)")
            keep(page, f"{name}-compare")
            if width > 600:
                page.get_by_role("tab", name="Many texts").click()
                page.click("#many-example")
                settle(page, "many", "#matrix td")
                keep(page, f"{name}-many")
                page.get_by_role("tab", name="Search").click()
                page.fill("#query", "The boat did not sail because of the storm.")
                page.click("#search-form [type=submit]")
                settle(page, "search", "#hits-list")
                keep(page, f"{name}-search")
            context.close()
        browser.close()


def settle(page: Page, tab: str, shown: str) -> None:
    """Wait for what a tab shall show; what went wrong instead ends the program."""
    failed = f"#{tab}-result .error"
    page.wait_for_selector(f"{shown}, {failed}")
    for error in page.query_selector_all(failed):
        sys.exit(error.inner_text().partition("\n")[0])


def keep(page: Page, name: str) -> None:
    """One picture, in few colours that leave out none."""
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    few = picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    few.save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
