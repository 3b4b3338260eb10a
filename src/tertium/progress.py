"""Progress bars on standard error for whatever takes more than two seconds."""

from collections.abc import Iterable, Iterator
from typing import Never, TypeVar

from tqdm import tqdm

__all__ = ["bar", "track"]

T = TypeVar("T")


def bar(
    *, total: int | None, label: str, unit: str, show: bool | None = None, initial: int = 0
) -> "tqdm[Never]":
    """A bar that appears after two seconds; ``show=None`` means only on a terminal.

    ``initial`` units were there before, and do not count towards the rate.
    """
    return tqdm(
        total=total,
        desc=label,
        unit=unit,
        delay=2,
        disable=_disable(show=show),
        leave=False,
        initial=initial,
    )


def track(items: Iterable[T], *, label: str, unit: str, show: bool | None = None) -> Iterator[T]:
    """Iterate over ``items`` under a bar."""
    yield from tqdm(items, desc=label, unit=unit, delay=2, disable=_disable(show=show), leave=False)


def _disable(*, show: bool | None) -> bool | None:
    return None if show is None else not show
