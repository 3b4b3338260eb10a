"""A careful scorer: a fast scorer grades from vectors; a judge reads both texts and corrects it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tertium.data.differences import another_value, denies_opposite, may_contradict
from tertium.errors import TertiumError
from tertium.files import atomic_folder
from tertium.models.base import Embedder, Member, Model, digest
from tertium.models.cross import CrossScorer
from tertium.models.names import INNER
from tertium.models.pair import PairScorer
from tertium.models.tokens import TokenizationStats, checked_pairs
from tertium.records.manifest import FILE_NAME, write_manifest
from tertium.types import Kind, TextPair

__all__ = ["CarefulScorer", "Caution"]

Matrix = NDArray[np.float32]
FAST, JUDGE = INNER  # folders inside a model that was saved whole


@dataclass(frozen=True)
class Caution:
    """When to ask a judge, and how much its answer changes a grade.

    Attributes:
        strength: share of the grade that a certain contradiction removes.
        threshold: below it, the judge's answer counts as no contradiction.
        words: ask the judge if one text has more negations than the other, if the texts contain
            opposites, if they differ in at most this many words, or only in the order of their
            words; None always asks it.
        lift: share of the gap to the highest grade that is added if one text denies the opposite of
            the other ("asleep", "not awake") and the judge is sure that they agree.
    """

    strength: float
    threshold: float = 0.0
    words: int | None = None
    lift: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.strength <= 1 and 0 <= self.threshold < 1 and (self.words or 0) >= 0):
            raise TertiumError(
                "caution: strength lies from 0 to 1, threshold from 0 to below 1 and words is 0 or "
                f"more, not {self.strength}, {self.threshold} and {self.words}."
            )
        if not 0 <= self.lift <= 1:
            raise TertiumError(f"caution: lift lies from 0 to 1, not {self.lift}.")

    def asks(self, pair: TextPair) -> bool:
        """Whether to ask the judge about a pair."""
        return self.words is None or may_contradict(*pair, words=self.words)

    def corrected(
        self,
        pairs: Sequence[TextPair],
        grades: Matrix,
        contradiction: Matrix,
        scale: tuple[float, float],
    ) -> Matrix:
        """Grades, lowered by how sure the judge is (from 0 to 1) of a contradiction, or lifted."""
        low, high = scale
        span = 1 - self.threshold
        doubt = (contradiction - self.threshold).clip(0) / span
        found = low + (grades - low) * (1 - self.strength * doubt)
        if self.lift:
            agreed = (1 - contradiction / span).clip(0)
            agreed *= np.array([denies_opposite(*pair) for pair in pairs], np.float32)
            found += self.lift * agreed * (high - found)
        return np.asarray(found, np.float32)


class CarefulScorer(Embedder):
    """Graded similarity that detects contradictions, with the vectors of the fast scorer.

    A score needs both texts together, so vectors are not enough; ``encode``, and with it an index
    or the search for duplicates, uses the fast scorer.

    Args:
        fast: grades pairs from their vectors.
        judge: scores from 0 to 1 how much two texts contradict each other.
        caution: how much that changes a grade.
        name: the model's name in results.

    Example:
        >>> import tertium
        >>> tertium.load("sts").score([("He is asleep.", "He is not asleep.")]) < 4
        array([ True])
    """

    kind = Kind.CAREFUL
    name: str = ""
    reads_together: ClassVar[bool] = True

    def __init__(
        self, fast: PairScorer, judge: CrossScorer, caution: Caution, *, name: str = "careful"
    ) -> None:
        if judge.scale != (0.0, 1.0):
            raise TertiumError(f"{judge.name} does not judge from 0 to 1.")
        self.fast = fast
        self.judge = judge
        self.caution = caution
        self.name = name

    @property
    def scale(self) -> tuple[float, float]:
        """The fast scorer's."""
        return self.fast.scale

    @property
    def members(self) -> tuple[Member, ...]:
        """The fast scorer's encoder, and the members of the judge."""
        return (*self.fast.members, *self.judge.members)

    @property
    def vector_model(self) -> Model:
        """The fast scorer."""
        return self.fast

    @property
    def pooling(self) -> Any:
        """The fast scorer's."""
        return self.fast.pooling

    @property
    def encoder(self) -> Any:
        """The fast scorer's."""
        return self.fast.encoder

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        return self.fast.dimension

    @property
    def labels(self) -> Any:
        """The scale of scores."""
        return self.fast.labels

    @property
    def fingerprint(self) -> str:
        """The hash of everything that its scores depend on."""
        return digest([self.fast.fingerprint, self.judge.fingerprint, asdict(self.caution)])

    def encode(self, texts: str | Sequence[str], **options: Any) -> Any:
        """Embeddings of the fast scorer."""
        return self.fast.encode(texts, **options)

    def classify(self, pairs: Iterable[TextPair], **options: Any) -> list[str] | list[float]:
        """The label nearest to each pair's score."""
        return self.fast.labels.nearest(self.score(pairs, **options))

    def contradiction(self, pairs: Iterable[TextPair], **options: Any) -> Matrix:
        """How sure the judge is, from 0 to 1, of a contradiction.

        0 where it is not asked; 1, without asking, where only a number, a unit or a day differs.
        """
        checked = checked_pairs(pairs)
        found = np.array([another_value(*pair) for pair in checked], np.float32)
        asked = [at for at, pair in enumerate(checked) if not found[at] and self.caution.asks(pair)]
        if asked:
            found[asked] = self.judge.score([checked[at] for at in asked], **options)
        return found

    def score(
        self,
        items: Iterable[TextPair],
        *,
        progress: bool | None = None,
        truncation: TokenizationStats | None = None,
        **options: Any,
    ) -> Matrix:
        """Score of each pair, within the scale, in input order; options of :meth:`encode`."""
        kept = {} if truncation is None else {"truncation": truncation}
        grade = partial(self._grade_pairs, progress=progress)
        found = self._graded(checked_pairs(items), grade, progress=progress, **kept, **options)
        return found[0].clip(*self.scale)

    def _grade_pairs(
        self,
        pairs: list[TextPair],
        first: Matrix,
        second: Matrix,
        *,
        progress: bool | None = False,
    ) -> Matrix:
        """Grades of the fast scorer, corrected by the judge, not clipped to the scale."""
        # Cut texts are already counted where the vectors are computed.
        cut = TokenizationStats(unit="pair")
        doubt = self.contradiction(pairs, progress=progress, truncation=cut)
        grades = self.fast.grade_vectors(first, second)
        return self.caution.corrected(pairs, grades, doubt, self.scale)

    def grade_vectors(self, first: Matrix, second: Matrix) -> Matrix:
        """Raises: the score cannot be computed from vectors."""
        raise TertiumError(self._needs_texts())

    def compare(self, first: Any, second: Any) -> Any:
        """Raises: the score cannot be computed from vectors."""
        raise TertiumError(self._needs_texts())

    def _grade_matrix(self, first: Matrix, second: Matrix) -> Matrix:
        raise TertiumError(self._needs_texts())

    def save(self, folder: Path | str) -> None:
        """Save the whole model, with a folder for the fast scorer and one for the judge."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            self.fast.save(temporary / FAST)
            self.judge.save_member(temporary / JUDGE)
            inside = {name: f"./{name}" for name in (FAST, JUDGE)}  # else read as reserved names
            write_manifest(temporary, self._manifest(**inside, caution=asdict(self.caution)))

    def _needs_texts(self) -> str:
        return (
            f"{self.name} reads both texts of a pair together: give it texts, or take "
            f"{self.fast.name}, which compares vectors."
        )
