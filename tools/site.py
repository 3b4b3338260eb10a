"""A hook of mkdocs: pages may link to files of the repository that are not documentation.

A link that leaves `docs` (to a benchmark's table, a model's card, an example) leads on the site to
a copy of that file under `repository/`: the same link works in a checkout and on the site.
"""

import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
SHOWN = (".md", ".png", ".svg")
COPIES = "repository"
ROLE = re.compile(r":\w+:<code>~?(?:\w+\.)*(\w+)</code>")  # of Sphinx, in docstrings


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that pages link to outside of `docs`, and those that these link to."""
    pages = [file for file in files if file.src_uri.endswith(".md")]
    waiting = [(f"docs/{page.src_uri}", page.content_string) for page in pages]
    while waiting:
        place, text = waiting.pop()
        for target in targets(place, text):
            copy = copied(target)
            if files.get_file_from_path(copy) is not None:
                continue
            data = (ROOT / target).read_bytes()
            content = data.decode() if copy.endswith(".md") else data
            if isinstance(content, str):
                if target.endswith(".ipynb"):
                    content = notebook(content)
                elif not target.endswith(".md"):
                    content = f"# {Path(target).name}\n\n```\n{content}\n```\n"
                waiting.append((target, content if target.endswith(".md") else ""))
            files.append(File.generated(config, copy, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that leave `docs` into links to the copies."""
    here = page.file.src_uri
    inside = here.removeprefix(f"{COPIES}/")
    place = inside.removesuffix(".txt.md") if inside != here else f"docs/{here}"

    def turned(match: re.Match[str]) -> str:
        target = resolved(place, match[2])
        if target is None:
            return match[0]
        goal = target.removeprefix("docs/") if target.startswith("docs/") else copied(target)
        link = posixpath.relpath(goal, posixpath.dirname(here))
        return f"{match[1]}{link}{match[3] or ''}{match[4]}"

    return LINK.sub(turned, markdown)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show the names that docstrings refer to without the role that marks them."""
    return ROLE.sub(r"<code>\1</code>", html)


def notebook(text: str) -> str:
    """A notebook as a page: its text, and its code in blocks."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    parts = [f"```python\n{body}\n```" if kind == "code" else body for kind, body in cells]
    return "\n\n".join(parts) + "\n"


def targets(place: str, text: str) -> list[str]:
    """Files outside of `docs` that a page links to."""
    found = (resolved(place, match[2]) for match in LINK.finditer(text))
    return [target for target in found if target and not target.startswith("docs/")]


def resolved(place: str, link: str) -> str | None:
    """What a link of the file at `place` names, from the root; None if it is no file of ours."""
    if "://" in link or link.startswith(("mailto:", "/")):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link))
    return target if (ROOT / target).is_file() else None


def copied(target: str) -> str:
    """Where the copy of a file lies on the site: code and tables of text become pages."""
    shown = target if target.endswith(SHOWN) else f"{target}.txt.md"
    return f"{COPIES}/{shown}"
