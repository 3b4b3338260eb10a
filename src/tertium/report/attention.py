"""Sections about attention: maps and sinks, two views of a text, what ADD would drop."""

from collections.abc import Sequence
from typing import Any

from tertium.analysis import (
    attention_map_figure,
    dropped_figure,
    information_scatter,
    sink_figure,
)
from tertium.report.look import PartLook
from tertium.report.parts import Block, Drawn, Section, rounded
from tertium.report.study import Study

__all__ = ["attention_section", "dropped_section", "views_section"]


def attention_section(studies: Sequence[Study], sentence: str, texts: int) -> Section | None:
    """Attention maps of one sentence, and where attention drains to on many."""
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"sentence": sentence, "texts": texts, "sinks": {}, "maps": {}}
    for number, part in _parts(studies):
        if part.maps is not None:
            caption = (
                f"{part.label}. A row is a token that looks, a column one that is looked at; "
                "yellow is much, on a scale of square roots. A bright column is a sink: tokens "
                "look there for want of anything better. JTCSE finds it under separators and final "
                "punctuation (bold, reddish); with other models it is the first token."
            )
            blocks.append(
                Drawn(
                    name=f"attention-maps-{number}",
                    figure=attention_map_figure(part.maps),
                    title=f"Attention of each layer, {part.label}",
                    caption=caption,
                    alt=f"A heat map for each of {len(part.maps.maps)} layers on “{sentence}”.",
                    function="attention_map_figure",
                    paper="JTCSE, Figure 9",
                )
            )
            numbers["maps"][part.label] = {
                "tokens": list(part.maps.tokens),
                "layers": [[rounded(row) for row in layer] for layer in part.maps.maps.tolist()],
            }
        if part.sinks is not None:
            last = dict(zip(part.sinks.roles, part.sinks.received[-1].tolist(), strict=True))
            told = ", ".join(f"{role} {100 * share:.0f} %" for role, share in last.items())
            blocks.append(
                Drawn(
                    name=f"attention-sinks-{number}",
                    figure=sink_figure(part.sinks),
                    title=f"Where attention goes, {part.label}",
                    caption=(
                        f"{part.label}, the mean over {texts} texts, all heads and all tokens that "
                        "look. Dotted: the share that each kind would get if attention were even. "
                        "A line far above its dotted one is a sink."
                    ),
                    alt=f"Lines over layers. In the last layer: {told}.",
                    function="sink_figure",
                )
            )
            numbers["sinks"][part.label] = {
                "roles": [str(role) for role in part.sinks.roles],
                "received": [rounded(row) for row in part.sinks.received.tolist()],
                "even": rounded(part.sinks.tokens.tolist()),
            }
    if not blocks:
        return None
    lead = (
        f"The maps show one sentence, “{sentence}”, and the lines below them many. Attention tells "
        "where a layer looked, not why the model decided as it did."
    )
    return Section("attention", "Attention and its sinks", lead, tuple(blocks), numbers)


def views_section(studies: Sequence[Study], texts: int) -> Section | None:
    """Whether two dropout views of a text attend alike."""
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"texts": texts, "information": {}}
    for number, part in _parts(studies):
        if part.information is not None:
            found = part.information
            same, other = found.positive_information.mean(), found.negative_information.mean()
            blocks.append(
                Drawn(
                    name=f"attention-information-{number}",
                    figure=information_scatter(found),
                    title=f"Meaning and structure of two views, {part.label}",
                    caption=(
                        f"{part.label}. A point is a pair of views under dropout: of the same "
                        "text, or of two. Across, their cosine; up, how much the attention of "
                        "one tells of that of the other. Two clouds far apart in height: "
                        "attention alone tells the same text from another."
                    ),
                    alt=f"Two clouds. Mean information {same:.2f} nats for the same text, "
                    f"{other:.2f} for two texts.",
                    function="information_scatter",
                    paper="miCSE, Figure 1",
                )
            )
            numbers["information"][part.label] = {
                "same": float(same),
                "different": float(other),
                "points": {
                    "same": [
                        rounded(found.positive_cosines.tolist()),
                        rounded(found.positive_information.tolist()),
                    ],
                    "different": [
                        rounded(found.negative_cosines.tolist()),
                        rounded(found.negative_information.tolist()),
                    ],
                },
            }
        if part.histograms is not None:
            blocks.append(
                Drawn(
                    name=f"attention-histograms-{number}",
                    figure=part.histograms,
                    title=f"Joint attention of two views, {part.label}",
                    caption=(
                        f"{part.label}. A panel per slice of upper layers: log attention in one "
                        "view against the other; yellow is many positions. On the diagonal both "
                        "views attend alike. A bend or a second cloud is where the formula of "
                        "attention mutual information is only an approximation."
                    ),
                    alt="Joint histograms of log attention, slice by slice.",
                    function="attention_histograms",
                    paper="miCSE, Figure 6",
                )
            )
    if not blocks:
        return None
    lead = (
        f"Each of {texts} texts is read twice with the model's own dropout. Whether the two views "
        "attend alike is what miCSE's attention term works on."
    )
    return Section("views", "Two views of a text", lead, tuple(blocks), numbers)


def dropped_section(studies: Sequence[Study], sentence: str) -> Section | None:
    """Which tokens attention-driven dropout would leave out."""
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"sentence": sentence, "models": {}}
    for number, part in _parts(studies):
        if part.dropped is None:
            continue
        told = "; ".join(
            f"{name}: {', '.join(step.token for step in found.steps)}"
            for name, found in part.dropped.items()
        )
        blocks.append(
            Drawn(
                name=f"dropped-{number}",
                figure=dropped_figure(part.dropped),
                title=f"What would go, {part.label}",
                caption=(
                    f"{part.label}. Bars: attention that a token receives over all layers, by "
                    "ADD's two aggregations. Numbers: the order in which tokens would go. If "
                    "words that carry the meaning go first, this view will not do with this model."
                ),
                alt=f"Bars per token. Dropped first: {told}.",
                function="dropped_figure",
                paper="ADD, the example of naive aggregation",
            )
        )
        numbers["models"][part.label] = {
            name: {
                "tokens": list(found.tokens),
                "scores": rounded(found.scores),
                "dropped": [{"token": step.token, "left": step.text} for step in found.steps],
            }
            for name, found in part.dropped.items()
        }
    if not blocks:
        return None
    lead = (
        "Attention-driven dropout makes a second view of a sentence by leaving out the tokens that "
        f"receive least attention. On “{sentence}”:"
    )
    title = "What attention would leave out"
    return Section("dropped", title, lead, tuple(blocks), numbers)


def _parts(studies: Sequence[Study]) -> list[tuple[int, PartLook]]:
    return list(enumerate((part for study in studies for part in study.parts), 1))
