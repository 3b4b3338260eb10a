"""The effect of a view on one sentence, step by step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tertium.drawing import COLOURS, blank_figure
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.types import Tokens
from tertium.views import AttentionDropout, View
from tertium.views.attention_dropout import least_attended

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Augmented", "Step", "augment", "drop_by_attention", "dropped_figure"]

_KEPT, _GOES, _PROTECTED = COLOURS[0], COLOURS[1], "0.7"


@dataclass(frozen=True)
class Step:
    """One dropped token.

    Attributes:
        position: its position in the sentence, counting special tokens.
        token: the token.
        text: the remaining text.
    """

    position: int
    token: str
    text: str


@dataclass(frozen=True)
class Augmented:
    """A sentence under attention-driven dropout.

    Attributes:
        tokens: tokens of the sentence, including special ones.
        scores: the attention that each receives.
        droppable: which of them may be dropped.
        steps: the dropped tokens, in order.
    """

    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    droppable: tuple[bool, ...]
    steps: tuple[Step, ...]


def drop_by_attention(encoder: Encoder, view: AttentionDropout, text: str) -> Augmented:
    """The first k tokens that ``view`` would drop.

    The number does not depend on the view's rate, so that short and long sentences show the same.
    """
    tokens = _tokens(encoder, text)
    names = encoder.tokenizer.convert_ids_to_tokens(tokens.ids[0].tolist())
    scores = view.scores(tokens, encoder.attention)
    droppable = view.droppable(tokens)
    steps: list[Step] = []
    before = torch.zeros_like(droppable)
    for k in range(1, view.k + 1):
        count = torch.tensor([k], device=scores.device)
        dropped = least_attended(scores, count, droppable, spared=view.spared)
        new = (dropped & ~before)[0].nonzero().flatten().tolist()
        if not new:
            break
        left = tokens.ids[0][~dropped[0]]
        steps.append(Step(new[0], names[new[0]], _text(encoder, left)))
        before = dropped
    return Augmented(
        tuple(names), tuple(scores[0].tolist()), tuple(droppable[0].tolist()), tuple(steps)
    )


def augment(encoder: Encoder, views: Sequence[View], text: str, *, seed: int) -> str:
    """The sentence after a chain of views."""
    generator = torch.Generator(device=encoder.device).manual_seed(seed)
    tokens = _tokens(encoder, text)
    for view in views:
        tokens = view(tokens, attend=encoder.attention, generator=generator)
    return _text(encoder, tokens.ids[0][tokens.mask[0].bool()])


def _tokens(encoder: Encoder, text: str) -> Tokens:
    if not text.strip():
        raise TertiumError("The text is empty.")
    features = encoder.features([text])
    return Tokens(features["input_ids"], features["attention_mask"])


def _text(encoder: Encoder, ids: Tensor) -> str:
    tokenizer = encoder.tokenizer
    boundaries = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id}
    kept = [token for token in ids.tolist() if token not in boundaries]
    return str(tokenizer.decode(kept))


def dropped_figure(found: Mapping[str, Augmented]) -> "Figure":
    """Attention that each token receives, and the order in which ADD would drop them.

    Args:
        found: results for the same sentence, by aggregation.
    """
    most = max(len(augmented.tokens) for augmented in found.values())
    figure = blank_figure(3.4 * len(found) + 0.6, 0.21 * most + 1.2)
    for place, (name, augmented) in enumerate(found.items(), 1):
        axes = figure.add_subplot(1, len(found), place)
        _bars(axes, augmented)
        axes.set_title(name)
        axes.set_xlabel("attention received")
    figure.legend(
        handles=_legend(), frameon=False, loc="outside lower left", ncols=3, handlelength=1.2
    )
    return figure


def _bars(axes: "Axes", augmented: Augmented) -> None:
    """One bar per token; protected ones are cut off, since CLS would dwarf all others."""
    order = {step.position: number for number, step in enumerate(augmented.steps, 1)}
    may = [s for s, ok in zip(augmented.scores, augmented.droppable, strict=True) if ok]
    edge = 1.25 * max(may or augmented.scores)
    places = range(len(augmented.tokens))
    colours = [
        _GOES if at in order else _KEPT if augmented.droppable[at] else _PROTECTED for at in places
    ]
    axes.barh(places, [min(s, edge) for s in augmented.scores], color=colours, height=0.72)
    for at, score in enumerate(augmented.scores):
        if at in order:
            axes.text(score, at, f" {order[at]}.", va="center", fontsize=8, fontweight="bold")
        elif score > edge:
            text = f"{score:.1f} "
            axes.text(edge, at, text, va="center", ha="right", fontsize=7)
    axes.set_xlim(0, edge)
    axes.set_yticks(places, augmented.tokens, fontsize=8)
    axes.set_ylim(len(augmented.tokens) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.25)


def _legend() -> list[object]:
    from matplotlib.patches import Patch

    return [
        Patch(color=_GOES, label="dropped, in this order"),
        Patch(color=_KEPT, label="kept"),
        Patch(color=_PROTECTED, label="always kept"),
    ]
