"""Loading and saving without the libraries' own bars and notices."""

import contextlib
from collections.abc import Iterator

from transformers.utils import logging

__all__ = ["quiet"]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' progress bars and warnings inside the block, then restore both."""
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
