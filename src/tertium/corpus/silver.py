"""Silver labels: a strong grader labels mined pairs, and as many of each grade are kept."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.inputs import table
from tertium.corpus.mining import mine
from tertium.data.overlap import pair_key
from tertium.data.shapes import Recognised, Shape, read_examples
from tertium.errors import TertiumError
from tertium.models.base import Embedder, Model
from tertium.models.tokens import chunks
from tertium.progress import bar

__all__ = ["Silver", "candidates", "silver"]

_WINDOW = 256  # pairs between two lines of the journal
_NEIGHBOURS = 8  # of each text, among which pairs are mined
_LEAST = 0.2  # cosine of a mined pair; what is lower is drawn at random

Pair = tuple[str, str]


@dataclass(frozen=True)
class Silver:
    """What was labelled and kept.

    Attributes:
        output: the file.
        scale: of the labels, that of the teacher.
        candidates: pairs that were labelled.
        kept: pairs that were written.
        bins: of equal width on the scale, how many pairs each had and how many are kept.
        resumed: labels that an interrupted call had made.
    """

    output: Path
    scale: tuple[float, float]
    candidates: int
    kept: int
    bins: tuple[tuple[int, int], ...]
    resumed: int


def candidates(found: Recognised, model: Embedder | None, *, most: int, seed: int) -> list[Pair]:
    """Pairs of a file; of single texts, near ones by a model and as many at random.

    Args:
        found: what the file is.
        model: finds near texts; not needed for a file of pairs.
        most: how many pairs.
        seed: for drawing.
    """
    texts = [example.texts for example in read_examples(found)]
    if found.shape is not Shape.TEXTS:
        return _distinct([(sides[0], sides[1]) for sides in texts], most, seed)
    lines = list(dict.fromkeys(sides[0] for sides in texts))
    if len(lines) < 2:
        raise TertiumError(f"{found.file}: two different texts are needed to make a pair.")
    if model is None:
        raise ValueError("pairs of single texts are found by a model")
    mined = mine(lines, model, threshold=_LEAST, top_k=_NEIGHBOURS)
    near = [(lines[a], lines[b]) for a, b, _ in mined]
    near = _distinct(near, most - most // 3, seed)
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(lines), (2 * most, 2)).tolist()
    known = {pair_key(*pair) for pair in near}
    far = [(lines[a], lines[b]) for a, b in drawn if a != b]
    far = [pair for pair in far if pair_key(*pair) not in known]
    return [*near, *_distinct(far, most - len(near), seed)]


def _distinct(pairs: Sequence[Pair], most: int, seed: int) -> list[Pair]:
    """Different pairs, at most so many, drawn by hash."""
    kept = {pair_key(*pair): pair for pair in reversed(pairs)}
    return sorted(kept.values(), key=lambda pair: _hash(pair, seed))[:most]


def _hash(pair: Pair, seed: int) -> str:
    return hashlib.sha256(f"{seed}\0{pair[0]}\0{pair[1]}".encode(errors="replace")).hexdigest()


def silver(
    pairs: Sequence[Pair],
    teachers: Sequence[Model],
    output: Path,
    *,
    bins: int = 10,
    per_bin: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Silver:
    """Label pairs and write as many of each bin of grades; after an interruption it resumes.

    Labels are kept beside ``output`` until it is written: a second call with the same pairs and
    teachers goes on where the first one was stopped.

    Args:
        pairs: to be labelled.
        teachers: their mean is the label; they must have one scale.
        output: .tsv, .csv or .jsonl with sentence1, sentence2 and score.
        bins: of equal width on the scale.
        per_bin: pairs of a bin at most (default: as many as the median bin that is not empty has).
        seed: chooses the pairs of a full bin.
        progress: False for no progress on standard error.
    """
    scales = {teacher.scale for teacher in teachers}
    if len(scales) != 1:
        found = ", ".join(f"{t.name} {t.scale[0]:g} to {t.scale[1]:g}" for t in teachers)
        raise TertiumError(f"Teachers must grade on one scale, not {found}.")
    if any(teacher.takes_conditions for teacher in teachers):
        raise TertiumError("A teacher of pairs takes no conditions. Take sts or a cross-encoder.")
    (low, high) = scales.pop()
    journal = output.with_name(f".{output.name}.labels.jsonl")
    known = dict(_resumed(journal, _request(pairs, teachers)))
    labels = np.array([known.get(at, np.nan) for at in range(len(pairs))])
    missing = np.flatnonzero(np.isnan(labels)).tolist()
    with (
        journal.open("a", encoding="utf-8") as stream,
        bar(total=len(missing), label="labelling", unit="pair", show=progress) as shown,
    ):
        for window in chunks(missing, _WINDOW):
            items = [pairs[at] for at in window]
            graded = np.mean([teacher.score(items, progress=False) for teacher in teachers], axis=0)
            if not np.isfinite(graded).all():
                raise TertiumError("A teacher gave a score that is not finite.")
            labels[window] = graded
            lines = (json.dumps([at, float(labels[at])]) + "\n" for at in window)
            stream.write("".join(lines))
            stream.flush()
            os.fsync(stream.fileno())
            shown.update(len(window))
    kept, counts = _balanced(pairs, labels, (low, high), bins=bins, per_bin=per_bin, seed=seed)
    with table(output, ("sentence1", "sentence2", "score"), spreadsheet_safe=False) as write:
        for at in kept:
            write((*pairs[at], round(float(labels[at]), 4)))
    journal.unlink()
    return Silver(output, (low, high), len(pairs), len(kept), counts, len(known))


def _request(pairs: Sequence[Pair], teachers: Sequence[Model]) -> str:
    found = hashlib.sha256()
    for pair in pairs:
        found.update(f"{pair[0]}\0{pair[1]}\n".encode(errors="replace"))
    for teacher in teachers:
        found.update(teacher.fingerprint.encode())
    return found.hexdigest()


def _resumed(journal: Path, request: str) -> Iterator[tuple[int, float]]:
    """Labels of an earlier call; a last line that was cut off does not count."""
    if journal.exists():
        first, *lines = journal.read_text(encoding="utf-8").split("\n")
        if first != json.dumps({"request": request}):
            raise TertiumError(
                f"{journal} holds labels of other pairs or teachers: the same command resumes. "
                "Remove it to begin anew."
            )
        whole = lines[:-1]  # what follows the last line break was cut off
        with journal.open("w", encoding="utf-8") as stream:
            stream.write("".join(f"{line}\n" for line in [first, *whole]))
        for line in whole:
            at, label = json.loads(line)
            yield int(at), float(label)
        return
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_text(json.dumps({"request": request}) + "\n", encoding="utf-8")


def _balanced(
    pairs: Sequence[Pair],
    labels: NDArray[np.float64],
    scale: tuple[float, float],
    *,
    bins: int,
    per_bin: int | None,
    seed: int,
) -> tuple[list[int], tuple[tuple[int, int], ...]]:
    """Rows to keep, in their order, and what each bin had and keeps."""
    low, high = scale
    place = np.clip(((labels - low) / (high - low) * bins).astype(int), 0, bins - 1)
    sizes = np.bincount(place, minlength=bins)
    most = int(np.median(sizes[sizes > 0])) if per_bin is None else per_bin
    kept: list[int] = []
    for number in range(bins):
        rows = sorted(
            np.flatnonzero(place == number).tolist(), key=lambda at: _hash(pairs[at], seed)
        )
        kept += rows[:most]
    counts = tuple((int(size), int(min(size, most))) for size in sizes)
    return sorted(kept), counts
