"""How much data a stage runs on, and how much its recipe was published with."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tertium.recipes.schema import DataSpec

__all__ = ["Amount"]

_UNITS = {
    "graded": "pairs",
    "texts": "sentences",
    "triplets": "triplets",
    "conditional": "triples",
}


@dataclass(frozen=True)
class Amount:
    """How much data a stage runs on.

    Attributes:
        used: rows that are used, those held out to choose the checkpoint included.
        of: how many the recipe was published with or asks for, whichever is more; None if it
            says neither.
        unit: what is counted.
        short: whether fewer are there than are asked for. A limit below the published size is
            the user's choice, and not short of anything.
    """

    used: int
    of: int | None
    unit: str
    short: bool

    @classmethod
    def count(cls, spec: "DataSpec", sources: Sequence[int], *, kept: int) -> "Amount":
        """Compare what was found with what the recipe asks for.

        Args:
            spec: the stage's data.
            sources: rows found in each source, before its limit and before repeated texts went.
            kept: examples left after all limits.
        """
        limits = [source.limit for source in spec.sources]
        pairs = list(zip(sources, limits, strict=True))
        rows = sum(found if limit is None else min(found, limit) for found, limit in pairs)
        missing = sum(max(0, (limit or 0) - found) for found, limit in pairs)
        own = any(source.name is None for source in spec.sources)
        published = None if own else spec.published
        asked = spec.limit or published or (rows + missing if missing else None)
        used = rows if spec.limit is None else kept
        known = [size for size in (asked, published) if size is not None]
        short = asked is not None and used < asked
        return cls(used, max(known, default=None), _UNITS[spec.kind], short)

    @property
    def partial(self) -> bool:
        """Whether less is used than was published or asked for."""
        return self.of is not None and self.used < self.of

    def to_json(self) -> dict[str, Any]:
        """Plain values, as in a run's ``data.json``."""
        return asdict(self)

    def __str__(self) -> str:
        """As a card says it.

        >>> print(Amount(58_674, 1_000_000, "sentences", short=True))
        58,674 of 1,000,000 sentences
        >>> print(Amount(5_749, 5_749, "pairs", short=False))
        5,749 pairs
        """
        of = f" of {self.of:,}" if self.partial else ""
        return f"{self.used:,}{of} {self.unit}"
