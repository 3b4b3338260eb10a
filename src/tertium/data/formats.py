"""Files that vectors and scores are written to, known by their endings."""

from pathlib import Path

from tertium.errors import TertiumError, require
from tertium.files import existing_file

__all__ = ["SCORES", "VECTORS", "check_format", "check_stored_vectors"]

VECTORS = (".npy", ".parquet")
SCORES = (".tsv", ".csv", ".jsonl", ".parquet")


def check_format(output: Path, endings: tuple[str, ...], *, what: str) -> None:
    """Raise unless the ending of ``output`` says a format that can be written here.

    Args:
        output: the file.
        endings: those that there are.
        what: goes to the file, as the subject of the message.
    """
    if output.suffix not in endings:
        known = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise TertiumError(f"{output}: {what} go to {known} files, or to a folder: DIR/")
    if output.suffix == ".parquet":
        require("scale", purpose="Writing Parquet", packages=("pyarrow",))


def check_stored_vectors(path: Path) -> None:
    """Raise unless ``path`` can be what ``tertium encode`` wrote: a .npy file, or a folder."""
    if path.is_dir():
        return
    if path.suffix != ".npy":
        raise TertiumError(
            f"{path}: vectors are read from .npy files and from folders, as tertium encode writes "
            "them."
        )
    existing_file(path)
