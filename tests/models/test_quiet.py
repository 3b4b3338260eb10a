import pytest
from transformers.utils import logging

from tertium.models.checkpoints import quiet


def test_settings_come_back_even_after_an_error() -> None:
    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    with pytest.raises(RuntimeError, match="mine"), quiet():
        assert logging.get_verbosity() == logging.ERROR
        assert not logging.is_progress_bar_enabled()
        raise RuntimeError("mine")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (level, shown)
