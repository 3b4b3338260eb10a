"""Where attention goes under a condition: before SEAVER's reallocation, and after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from tertium.analysis.drawing import blank_figure
from tertium.encoders import Encoder
from tertium.encoders.encoder import evaluating, valid_text
from tertium.encoders.triples import Joiner
from tertium.errors import TertiumError
from tertium.functional.reallocation import reweighting
from tertium.heads import ConditionalHead, SeaverHead
from tertium.types import TextTriple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Focus", "focus", "focus_figure"]

_MARKED = 5  # one word in so many is marked
_MARK = "#B24700"


@dataclass(frozen=True)
class Focus:
    """One triple, word by word; special tokens are left out.

    Attributes:
        words: of both sentences, whole.
        split: how many of them belong to the first sentence.
        condition: as it was read.
        attention: of the last layer, the mean over heads; a row is the word that looks.
        weights: SEAVER's W of the sentence part, the mean over heads.
        relevance: attention that each word exchanges with the condition's words.
        marked: places of the words with most of it.
    """

    words: tuple[str, ...]
    split: int
    condition: str
    attention: Float[Tensor, "w w"]
    weights: Float[Tensor, "w w"]
    relevance: Float[Tensor, " w"]
    marked: tuple[int, ...]


@dataclass(frozen=True)
class _Reading:
    """What one sequence of a model shows: words of its sentences, and blocks of the matrices."""

    words: list[str]
    first: int
    attention: Tensor
    weights: Tensor
    relevance: Tensor


def focus(
    encoder: Encoder,
    triple: TextTriple,
    *,
    head: ConditionalHead | None = None,
    baseline: Encoder | None = None,
) -> Focus:
    """Attention between the words of two sentences, and how a condition reallocates it.

    Args:
        encoder: of a model that takes conditions, or any other.
        triple: two sentences and a condition.
        head: of that model (default: the triple is read as one sequence). One that reads each
            sentence by itself with the condition has nothing to show between the sentences: there
            the matrices are NaN.
        baseline: whose attention to show (default: the model's own, before reallocation).
    """
    if not all(text.strip() for text in triple):
        raise TertiumError("Two sentences and a condition are needed, and none may be empty.")
    sequences = [(0, 1, 2)] if head is None else head.sequences
    together = [members for members in sequences if 2 in members and len(members) > 1]
    if not together:
        raise TertiumError(
            f"{encoder.name} reads sentences and condition apart, so that none attends to the "
            "other. Take a model with head cross, seaver or bi."
        )
    reallocating = head if isinstance(head, SeaverHead) else None
    found = _read(encoder, triple, together, reallocating)
    attention = found.attention
    if baseline is not None:
        other = _read(baseline, triple, together, None)
        if other.words != found.words:
            raise TertiumError("The two models cut these sentences into different words.")
        attention = other.attention
    count = max(1, len(found.words) // _MARKED)
    marked = found.relevance.topk(count).indices.sort().values.tolist()
    return Focus(
        tuple(found.words),
        found.first,
        triple[2].strip(),
        attention,
        found.weights,
        found.relevance,
        tuple(marked),
    )


def focus_figure(found: Focus) -> "Figure":
    """Both matrices side by side, condition-relevant words marked: SEAVER, Figure 4."""
    size = 2.2 + 0.24 * len(found.words)
    figure = blank_figure(2 * size, 0.92 * size)
    panels = (("attention, last layer", found.attention), ("reallocated", found.weights))
    for place, (title, matrix) in enumerate(panels, 1):
        _draw(figure.add_subplot(1, 2, place), found, matrix, title)
    figure.suptitle(f"as to: {found.condition}")
    return figure


def _draw(axes: "Axes", found: Focus, matrix: Tensor, title: str) -> None:
    from matplotlib.patches import Rectangle

    shown = axes.imshow(matrix.numpy(), cmap="Blues", interpolation="nearest")
    places = range(len(found.words))
    axes.set_xticks(places, found.words, rotation=90, fontsize=8)
    axes.set_yticks(places, found.words, fontsize=8)
    for at in found.marked:
        for label in (axes.get_xticklabels()[at], axes.get_yticklabels()[at]):
            label.set(color=_MARK, fontweight="bold")
        high = len(found.words)
        axes.add_patch(Rectangle((at - 0.5, -0.5), 1, high, fill=False, edgecolor=_MARK, lw=1.2))
    axes.axhline(found.split - 0.5, color="0.35", lw=1.2)
    axes.axvline(found.split - 0.5, color="0.35", lw=1.2)
    axes.set_title(title, fontsize=10)
    axes.figure.colorbar(shown, ax=axes, fraction=0.046, pad=0.02).ax.tick_params(labelsize=7)


def _read(
    encoder: Encoder,
    triple: TextTriple,
    sequences: Sequence[tuple[int, ...]],
    head: SeaverHead | None,
) -> _Reading:
    readings = [
        _sequence(encoder, head, [triple[at] for at in members if at < 2], triple[2])
        for members in sequences
    ]
    return readings[0] if len(readings) == 1 else _beside(*readings)


@torch.inference_mode()
def _sequence(
    encoder: Encoder, head: SeaverHead | None, sentences: Sequence[str], condition: str
) -> _Reading:
    """Read sentences and condition as one sequence; word pieces are joined to words."""
    texts = [text.strip() for text in (*sentences, condition)]
    joiner = Joiner(encoder.tokenizer, max_length=encoder.max_length)
    ids = joiner.tokenize(texts)
    row = joiner.join([ids[text] for text in texts[:-1]], ids[texts[-1]])
    batch = joiner.batch([row])
    layers = (-1,) if head is None else head.attention_layers
    inputs = {key: batch[key].to(encoder.device) for key in ("input_ids", "attention_mask")}
    with evaluating(encoder.model):
        encoded = encoder.forward(inputs, attention_layers=layers)
    if encoded.attention is None:
        raise TertiumError(f"{encoder.name} shows no attention.")
    attention = encoded.attention[-1] if head is None else head.attention(encoded)
    temperature = 1.0 if head is None else head.augmentation.temperature
    segments = batch["segments"].to(encoder.device)
    weights = reweighting(attention, segments, temperature=temperature)[0].mean(dim=0).cpu()
    plain = attention[0].mean(dim=0).cpu()
    lengths = _kept(row.ids, joiner.separator)
    words, spans, firsts = [], [], []
    start = 1
    for text, length in zip(texts, lengths, strict=True):
        for word, (left, right) in _words(encoder, text, length):
            words.append(word)
            spans.append((start + left, start + right))
        start += length + 1
        firsts.append(len(words))
    own = firsts[-2]
    joined = _by_word(plain, spans)
    asked = slice(own, len(words))
    relevance = joined[:own, asked].sum(dim=1) + joined[asked, :own].mean(dim=0)
    return _Reading(
        words[:own],
        firsts[0],
        joined[:own, :own],
        _by_word(weights, spans[:own]),
        relevance,
    )


def _kept(ids: list[int], separator: int) -> list[int]:
    """Tokens of each text between the special ones."""
    ends = [at for at, token in enumerate(ids) if token == separator]
    return [end - start for start, end in zip([1, *(e + 1 for e in ends[:-1])], ends, strict=True)]


def _words(encoder: Encoder, text: str, length: int) -> list[tuple[str, tuple[int, int]]]:
    """Whole words of the first ``length`` tokens of a text, with the tokens of each."""
    clean = valid_text(text)
    encoding = encoder.tokenizer(clean, add_special_tokens=False, split_special_tokens=True)
    found: list[tuple[str, tuple[int, int]]] = []
    numbers = encoding.word_ids(0)[:length] if encoding.is_fast else list(range(length))
    names = encoder.tokenizer.convert_ids_to_tokens(encoding["input_ids"][:length])
    for at, number in enumerate(numbers):
        if at and number is not None and number == numbers[at - 1]:
            word, (left, _) = found[-1]
            found[-1] = (word, (left, at + 1))
            continue
        span = encoding.word_to_chars(number) if encoding.is_fast and number is not None else None
        word = clean[span.start : span.end].strip() if span else names[at]
        found.append((word or names[at], (at, at + 1)))
    return found


def _by_word(matrix: Tensor, spans: Sequence[tuple[int, int]]) -> Tensor:
    """The mean over the pieces of both words, so that a word is not more for having more pieces."""
    columns = torch.stack([matrix[:, left:right].mean(dim=1) for left, right in spans], dim=1)
    return torch.stack([columns[left:right].mean(dim=0) for left, right in spans])


def _beside(first: _Reading, second: _Reading) -> _Reading:
    """Two sequences as one, with nothing between them."""

    def blocks(one: Tensor, two: Tensor) -> Tensor:
        joined = torch.full((len(one) + len(two),) * 2, torch.nan)
        joined[: len(one), : len(one)], joined[len(one) :, len(one) :] = one, two
        return joined

    return _Reading(
        first.words + second.words,
        len(first.words),
        blocks(first.attention, second.attention),
        blocks(first.weights, second.weights),
        torch.cat([first.relevance, second.relevance]),
    )
