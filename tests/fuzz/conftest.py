"""How hard to try: a little in ``make test``, for minutes in ``make test-all``."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

CORPUS = Path(__file__).parent / "corpus"

QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
LONG = settings(QUICK, max_examples=1500)

EFFORTS = [pytest.param(QUICK, id="quick"), pytest.param(LONG, id="long", marks=pytest.mark.long)]


def kept(folder: str) -> list[Path]:
    """Inputs that once broke something, or could."""
    return sorted((CORPUS / folder).iterdir())


def fuzz(effort: settings, test: Callable[[], None]) -> None:
    """Run a hypothesis test with so much effort."""
    effort(test)()
