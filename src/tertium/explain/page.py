"""An explanation of a score as a page that needs nothing else."""

from collections.abc import Sequence
from html import escape

from tertium.explain import Explanation, Focus
from tertium.explain.figures import explanation_title, smallest_sentence, strongest_words

__all__ = ["explanation_html"]

_MOST = 40  # words of a text in a table
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin-top: 2rem }
.text { font-size: 1.15rem; line-height: 1.3 }
.word { display: inline-block; text-align: center; padding: .1em .3em; margin: 0 .1em .4em;
  border-radius: .2em; vertical-align: top }
.word small { display: block; font-size: .65em; font-variant-numeric: tabular-nums }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums }
td, th { padding: .15rem .4rem; text-align: right } th { font-weight: 600 }
thead th { vertical-align: bottom } .long thead th { writing-mode: vertical-rl; text-align: left }
.note { color: #555; font-size: .9rem }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #16181c } .note { color: #aaa } }
"""


def explanation_html(found: Explanation) -> str:
    """Words in colours with their contributions, the smallest change, tables of the rest.

    No script, nothing from elsewhere, and all text escaped.
    """
    title = _text(explanation_title(found))
    parts = [
        *(_words(found, text) for text in (0, 1)),
        f'<p class="note">{_legend(found)}</p>',
        f"<h2>The smallest change</h2>\n<p>{_text(smallest_sentence(found))}</p>",
        _alignment(found),
        "" if found.focus is None else _attention(found.focus),
        *(f'<p class="note">{_text(note)}</p>' for note in found.notes),
    ]
    body = "\n".join(part for part in parts if part)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
{body}
<p class="note">Model: {_text(found.model)}</p>
</body>
</html>
"""


def _words(found: Explanation, text: int) -> str:
    reach = max((abs(v) for values in found.contributions for v in values), default=0) or 1.0
    spans = " ".join(
        f'<span class="word" style="background: {_tint(value / reach)}">{_text(word.text)}'
        f"<small>{value:+z.2f}</small></span>"
        for word, value in zip(found.words[text], found.contributions[text], strict=True)
    )
    return f'<p class="text"><strong>{"AB"[text]}</strong> {spans}</p>'


def _legend(found: Explanation) -> str:
    colours = "Blue words (+) hold the texts together, orange ones (-) set them apart"
    if found.gradients is None:
        return f"{colours}: the drop or rise in score when the word is removed."
    first, second = found.gradients.baselines
    return (
        f"{colours}: integrated gradients from a text that says nothing, where the score is "
        f"{first:.2f} for A and {second:.2f} for B. They add up to the score within "
        f"{100 * found.gradients.error:.2f} %."
    )


def _alignment(found: Explanation) -> str:
    if found.alignment is None or not all(found.words):
        return ""
    rows, columns = (strongest_words(found, text, _MOST) for text in (0, 1))
    cells = [
        [f'<td style="background: {_tint(max(value, 0.0))}">{value:z.2f}</td>' for value in line]
        for line in ([found.alignment[row][column] for column in columns] for row in rows)
    ]
    table = _table(
        [found.word((1, at)) for at in columns], [found.word((0, at)) for at in rows], cells
    )
    return (
        f'<h2>Which words belong together</h2>\n{table}\n<p class="note">Cosines of the states of '
        "words in the last layer; words of A are rows.</p>"
    )


def _attention(focus: Focus) -> str:
    columns = focus.shares
    cells = [[f"<td>{values[at]:.2f}</td>" for values in columns] for at in range(len(focus.words))]
    labels = [
        f"{'AB'[at >= focus.split]} {word}{' *' if at in focus.marked else ''}"
        for at, word in enumerate(focus.words)
    ]
    names = ["without the condition", "with it", "reallocated"][: len(columns)]
    table = _table(names, labels, cells)
    return (
        f'<h2>Where attention goes</h2>\n{table}\n<p class="note">What a word receives from the '
        "others in the last layer; 1 is an even share. * exchanges most with the condition.</p>"
    )


def _table(head: Sequence[str], labels: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    tall = ' class="long"' if len(head) > 12 else ""
    top = "".join(f"<th>{_text(word)}</th>" for word in head)
    lines = "\n".join(
        f"<tr><th>{_text(label)}</th>{''.join(row)}</tr>"
        for label, row in zip(labels, rows, strict=True)
    )
    return (
        f'<div class="scroll"><table{tall}><thead><tr><th></th>{top}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody></table></div>"
    )


def _text(text: str) -> str:
    """Escaped, and without the one character that no page may hold."""
    return escape(text.replace("\0", "\ufffd"))


def _tint(share: float) -> str:
    red, green, blue = (0, 114, 178) if share >= 0 else (213, 94, 0)
    return f"rgba({red}, {green}, {blue}, {0.55 * abs(share):.2f})"
