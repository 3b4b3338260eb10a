"""When all texts are compared with all others, and when a graph names the candidates."""

from enum import StrEnum

from tertium.errors import TertiumError

__all__ = ["EXACT_PAIRS", "EXACT_SEARCH", "Method", "check_threshold"]

EXACT_SEARCH = 20_000  # vectors up to which an index is searched exactly
EXACT_PAIRS = 1_000_000  # texts up to which mining and cleaning compare all with all


class Method(StrEnum):
    """How neighbours are found."""

    AUTO = "auto"  # exact up to EXACT_PAIRS texts, beyond by a graph
    EXACT = "exact"  # every pair is looked at
    HNSW = "hnsw"  # a graph names candidates; what it overlooks is not found

    def chosen(self, count: int) -> "Method":
        """What ``auto`` means for so many texts.

        >>> Method.AUTO.chosen(1000), Method.AUTO.chosen(10**7), Method.HNSW.chosen(3)
        (<Method.EXACT: 'exact'>, <Method.HNSW: 'hnsw'>, <Method.HNSW: 'hnsw'>)
        """
        if self is not Method.AUTO:
            return self
        return Method.EXACT if count <= EXACT_PAIRS else Method.HNSW


def check_threshold(threshold: float) -> None:
    """Raise unless ``threshold`` can be a cosine."""
    if not -1 <= threshold <= 1:
        raise TertiumError(f"The threshold is a cosine, from -1 to 1, not {threshold:g}.")
