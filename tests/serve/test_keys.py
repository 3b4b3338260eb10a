import hashlib
import logging
from pathlib import Path

import pytest

from tertium.errors import TertiumError
from tertium.serve.access import KeyFile

OLD, NEW = "old-key-0123456789", "new-key-0123456789"


def test_keys_as_they_are_and_hashed(tmp_path: Path) -> None:
    hashed = hashlib.sha256(NEW.encode()).hexdigest()
    file = tmp_path / "keys"
    file.write_text(f"# ours\n{OLD}  # for the web shop\n\nsha256:{hashed}\n")
    keys = KeyFile(file)
    assert keys.accepts(OLD) and keys.accepts(NEW)
    assert not keys.accepts("") and not keys.accepts(OLD + "x") and not keys.accepts(hashed)
    assert not keys.accepts(f"sha256:{hashed}")


def test_a_changed_file_counts_at_once(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(OLD)
    keys = KeyFile(file, look_every=0)
    file.write_text(f"{NEW}\n")
    assert keys.accepts(NEW) and not keys.accepts(OLD)
    file.write_text("")  # nobody, rather than everybody
    assert not keys.accepts(NEW) and not keys.accepts("")


def test_a_file_that_cannot_be_read_leaves_the_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text(OLD)
    keys = KeyFile(file, look_every=0)
    logging.getLogger("tertium.serve").propagate = True
    file.write_text("two words\n")
    assert keys.accepts(OLD)
    file.unlink()
    assert keys.accepts(OLD)
    assert "keys stay as they were" in caplog.text and OLD not in caplog.text


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "holds no key"), ("# none\n", "holds no key"), ("short\n", "line 1 is no key")],
)
def test_a_file_without_keys_stops_the_start(content: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(content)
    with pytest.raises(TertiumError, match=said):
        KeyFile(file)
    with pytest.raises(TertiumError, match="cannot be read"):
        KeyFile(tmp_path / "none")
