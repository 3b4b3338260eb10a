"""Whether an engine agrees with torch, on a fixed set of texts."""

from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from tertium.data.samples import sample_pairs, sample_sentences
from tertium.errors import TertiumError
from tertium.types import TextTriple

__all__ = [
    "Parity",
    "calibration_texts",
    "calibration_triples",
    "check_parity",
    "parity_texts",
    "parity_triples",
    "score_parity",
    "vector_parity",
]

# Requirements for exact engines and for int8. The worst text counts for an exact engine, the mean
# for int8. Lengths count too, since ensembles and heads depend on them.
_COSINE = {True: 0.9999, False: 0.99}
_LENGTH = {True: 0.001, False: 0.1}  # largest difference, relative to the length
_SCORE = {True: 0.001, False: 0.02}  # difference, relative to the scale

_ODD = (
    "",
    " ",
    "a",
    "?!",
    "42",
    "2026-11-16, 06:30:15, -0.0001 %",
    "NOBODY MOVE!",
    "the the the the the the the the",
    "Der Zug fährt um fünf nach zwölf.",
    "γάτα",
    "猫が寝ている。",
    "🙂🙃🙂",
    "http://example.org/a?b=c&d=e",
    "one line\nanother line\tand a tab",
    "<b>bold</b> [CLS] and [SEP]",
    "an" * 60,
)
_CONDITIONS = (
    "the time of day",
    "the number of people",
    "what it is about",
    "the place",
    "the mood of the speaker",
)


class Parity(BaseModel):
    """Agreement of an engine with torch.

    Attributes:
        measure: ``cosine`` of both vectors of a text, or ``score``, the difference of both scores
            of a triple relative to the scale.
        items: number of texts or triples compared.
        worst: the smallest cosine, or the largest difference.
        mean: the mean.
        length: largest relative difference of a vector's length; None for scores.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    measure: Literal["cosine", "score"]
    items: int
    worst: float
    mean: float
    length: float | None = None

    def __str__(self) -> str:
        if self.measure == "cosine":
            return f"cosine to torch {self.worst:.5f} at worst, {self.mean:.5f} on average"
        return (
            f"scores differ from torch's by {100 * self.worst:.3f} % of the scale at worst, "
            f"{100 * self.mean:.3f} % on average"
        )


def vector_parity(found: np.ndarray, expected: np.ndarray) -> Parity:
    """Cosine and length of each row of ``found`` against torch's row."""
    a, b = found.astype(np.float64), expected.astype(np.float64)
    lengths, wanted = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (a * b).sum(axis=1) / (lengths * wanted)
        differences = np.abs(lengths / wanted - 1)
    return Parity(
        measure="cosine",
        items=len(a),
        worst=float(cosines.min()),
        mean=float(cosines.mean()),
        length=float(differences.max()),
    )


def score_parity(found: np.ndarray, expected: np.ndarray, scale: tuple[float, float]) -> Parity:
    """Difference of each score from torch's."""
    share = np.abs(found.astype(np.float64) - expected) / (scale[1] - scale[0])
    return Parity(
        measure="score", items=len(share), worst=float(share.max()), mean=float(share.mean())
    )


def check_parity(parity: Parity, *, exact: bool, what: str) -> None:
    """Raise if an engine differs too much from torch.

    Args:
        parity: the measured agreement.
        exact: whether the engine should differ only by rounding.
        what: model and engine, for the message.
    """
    figure = parity.worst if exact else parity.mean
    if parity.measure == "cosine":
        least, length = _COSINE[exact], _LENGTH[exact]
        assert parity.length is not None
        good = figure >= least and parity.length <= length
        needs = f"{'every' if exact else 'the mean'} cosine must reach {least:g}, and lengths agree"
        needs += f" to {100 * length:g} % (they do to {100 * parity.length:.3g} %)"
    else:
        most = _SCORE[exact]
        good = figure <= most
        needs = f"{'no' if exact else 'the mean'} difference may exceed {100 * most:g} %"
    if not good:  # including NaN
        remedy = "" if exact else ", or keep some layers in float (tertium export --keep-float 4)"
        raise TertiumError(f"{what} is refused: {parity}; {needs}. Use another engine{remedy}.")


def parity_texts() -> list[str]:
    """Sentences, unusual texts, and one longer than any model reads."""
    sentences = sample_sentences()
    return [*sentences, *_ODD, " ".join(sentences * 3)]


def calibration_texts() -> list[str]:
    """Texts for the ranges of values in a graph, different from :func:`parity_texts`."""
    sentences = list(dict.fromkeys(t for p in sample_pairs() for t in (p.sentence1, p.sentence2)))
    odd = ["x", "0.5", "WHAT?", "Le chat dort.", "Кошка спит.", "고양이가 잔다.", "…", "ha " * 20]
    return [*sentences, *odd, " ".join(sentences[:40]), " ".join(reversed(sentences))]


def parity_triples() -> list[TextTriple]:
    """Sentences under conditions, and unusual triples."""
    sentences = sample_sentences()
    pairs = zip(sentences[0::2], sentences[1::2], strict=True)
    usual = [(a, b, _CONDITIONS[at % len(_CONDITIONS)]) for at, (a, b) in enumerate(pairs)]
    long = " ".join(sentences)
    odd: list[Any] = [("", "a", "b"), ("a", "", "b"), ("a", "a", "a"), (long, long, long)]
    return [*usual, *odd, *((text, sentences[0], "its length") for text in _ODD)]


def calibration_triples() -> list[TextTriple]:
    """Triples for the ranges of values in a graph, different from :func:`parity_triples`."""
    return [
        (pair.sentence1, pair.sentence2, _CONDITIONS[(at + 2) % len(_CONDITIONS)])
        for at, pair in enumerate(sample_pairs())
    ]
