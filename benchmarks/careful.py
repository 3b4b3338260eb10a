"""How careful should a grader be? When a judge is asked, and what it takes from grades.

python benchmarks/careful.py --fast sts-fast --judge judge        # data: TERTIUM_DATA

Choices look at the choosing halves of contrasts and everyday opposites, at opposites and role swaps
that nothing learned from, and at the three genres of STS-B's development part. The reporting halves
and the STS sets are printed beside them, and must not choose.
"""

import argparse
import itertools
from collections.abc import Sequence

import numpy as np
from common import publish

import tertium
from tertium.data import benchmarks
from tertium.data.contrasts import items
from tertium.data.contrasts.opposites import everyday_opposites, opposites
from tertium.data.contrasts.roles import role_swaps
from tertium.data.differences import another_value
from tertium.data.overlap import pair_key
from tertium.evaluation import spearman
from tertium.evaluation.tasks.contrast import NEGATION
from tertium.models import Caution

SETS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
STRENGTHS = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
THRESHOLDS = (0.8, 0.9)
WORDS = (1, 2, 3)
LIFTS = (0.0, 0.8)
TOUR = ("The patient is allergic to penicillin.", "The patient is not allergic to penicillin.")


class Scored:
    """Grades and contradictions of pairs, from which every caution follows."""

    def __init__(self, fast: tertium.Model, judge: tertium.Model, pairs: Sequence) -> None:
        self.scale = fast.scale
        self.pairs = list(pairs)
        self.grades = fast.score(pairs)
        self._asked = {
            words: np.array([Caution(1, words=words).asks(pair) for pair in self.pairs])
            for words in WORDS
        }
        self.contradiction = np.zeros(len(self.pairs), np.float32)
        found = np.flatnonzero(self._asked[WORDS[-1]])  # those that the widest asks about
        if len(found):
            self.contradiction[found] = judge.score([self.pairs[at] for at in found])
        sure = [another_value(*pair) for pair in self.pairs]
        self.contradiction[sure] = 1
        for asked in self._asked.values():
            asked |= sure

    def by(self, caution: Caution) -> np.ndarray:
        """Grades that so much caution leaves."""
        asked = self._asked[caution.words]
        return caution.corrected(self.pairs, self.grades, self.contradiction * asked, self.scale)


def main() -> None:
    """Print the figures of every strength and threshold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fast", default="sts-fast")
    parser.add_argument("--judge", default="judge")
    parser.add_argument("--sets", action="store_true", help="also the seven STS sets")
    asked = parser.parse_args()
    fast, judge = tertium.load(asked.fast), tertium.load(asked.judge)

    def scored(pairs: Sequence) -> Scored:
        return Scored(fast, judge, pairs)

    kinds = np.array([item.kind for item in items()])
    halves = np.array([item.half for item in items()])
    near = scored([(item.text, item.nearer) for item in items()])
    far = scored([(item.text, item.farther) for item in items()])
    written = np.array([each.half for each in everyday_opposites()])
    kept = [each for each in opposites(subjects=2) if not each.learned]
    made, everyday = (
        [
            scored([(e.text, getattr(e, side)) for e in each])
            for side in ("same", "denied", "opposite")
        ]
        for each in (kept, everyday_opposites())
    )
    roles = [
        scored([(e.text, getattr(e, side)) for e in role_swaps(parties=3) if not e.learned])
        for side in ("same", "swapped")
    ]
    dev = benchmarks.load("STS-B", split="dev", text="raw").rows
    genres = np.array([row.subset for row in dev])
    graded = scored([(row.sentence1, row.sentence2) for row in dev])
    gold = np.array([row.score for row in dev])
    tour = scored([TOUR])
    sets = {name: _set(name, scored) for name in (SETS if asked.sets else ())}
    denied = np.isin(kinds, NEGATION)
    rows = []
    for words, threshold, strength, lift in itertools.product(WORDS, THRESHOLDS, STRENGTHS, LIFTS):
        if strength == 0 and (lift, threshold, words) != (0, THRESHOLDS[0], WORDS[0]):
            continue
        caution = Caution(strength, threshold, words, lift)
        right = near.by(caution) > far.by(caution)
        row = [f"{words}", f"{threshold:g}", f"{strength:g}", f"{lift:g}"]
        row += [_share(right[denied & (halves == half)]) for half in ("choosing", "reporting")]
        row += [_share(right[halves == half]) for half in ("choosing", "reporting")]
        denials, daily = (
            _nearest(*(side.by(caution) for side in each)) for each in (made, everyday)
        )
        row.append(_share(denials))
        row += [_share(daily[written == half]) for half in ("choosing", "reporting")]
        one, other = (side.by(caution) for side in roles)
        row.append(_share(one > other))
        row += [
            _share(right[(kinds == "role swap") & (halves == half)])
            for half in ("choosing", "reporting")
        ]
        row.append(f"{tour.by(caution)[0]:.2f}")
        for genre in dict.fromkeys(genres):
            rows_of = genres == genre
            row.append(f"{100 * spearman(gold[rows_of], graded.by(caution)[rows_of]):.2f}")
        figures = [_figures(caution, *found) for found in sets.values()]
        row += [f"{whole:.2f}" for whole, _ in figures]
        if figures:
            whole, clean = np.mean(figures, axis=0)
            row += [f"{whole:.2f}", f"{clean:.2f}"]
        rows.append(row)
    heads = ["words", "from", "strength", "lift", "denied, choosing", "denied, reporting"]
    heads += ["all, choosing", "all, reporting", "opposites", "everyday, choosing"]
    heads += ["everyday, reporting", "roles", "role swap, choosing"]
    heads += ["role swap, reporting", "tour", *dict.fromkeys(genres.tolist()), *sets]
    heads += ["average", "leak-free"] if sets else []
    publish(f"careful_{asked.fast}", f"{asked.fast} made careful by {asked.judge}", heads, rows)


def _set(name: str, scored) -> tuple:  # noqa: ANN001
    """Gold, grades and which pairs STS-B's training or development part does not have."""
    rows = benchmarks.load(name, split="test").rows
    seen = {
        pair_key(row.sentence1, row.sentence2)
        for split in ("train", "dev")
        for text in ("raw", "senteval")
        for row in benchmarks.load("STS-B", split=split, text=text).rows
    }
    clean = np.array([pair_key(row.sentence1, row.sentence2) not in seen for row in rows])
    found = scored([(row.sentence1, row.sentence2) for row in rows])
    return np.array([row.score for row in rows]), found, clean


def _figures(caution: Caution, gold: np.ndarray, found: Scored, clean: np.ndarray) -> tuple:
    grades = found.by(caution)
    return 100 * spearman(gold, grades), 100 * spearman(gold[clean], grades[clean])


def _nearest(same: np.ndarray, denied: np.ndarray, opposite: np.ndarray) -> np.ndarray:
    return same > np.maximum(denied, opposite)


def _share(right: np.ndarray) -> str:
    return f"{100 * right.mean():.1f}"


if __name__ == "__main__":
    main()
