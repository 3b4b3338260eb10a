"""``_shards.jsonl``: one line for every finished shard, added when its file is whole."""

import os
from collections.abc import Mapping
from pathlib import Path

from tertium.data.shards import JOURNAL, Done, Shard, finished_shards
from tertium.files import atomic_path
from tertium.jobs.shards import disk_errors, is_sound
from tertium.progress import track

__all__ = ["Journal", "sound_shards"]


class Journal:
    """The finished shards of a folder.

    While a job runs, lines are added in the order in which shards end; ``close`` puts them into
    the order of the shards, so that the file does not tell how it was made.
    """

    def __init__(self, folder: Path, done: Mapping[int, Done]) -> None:
        self._folder = folder
        self.done = dict(done)
        self._rewrite()

    def add(self, done: Done) -> None:
        """Note that a shard is finished, so that a loss of power does not undo it."""
        with disk_errors(self._folder), (self._folder / JOURNAL).open("a", encoding="utf-8") as s:
            s.write(done.to_json() + "\n")
            s.flush()
            os.fsync(s.fileno())
        self.done[done.shard] = done

    def close(self) -> None:
        """Put the lines in order."""
        self._rewrite()

    def _rewrite(self) -> None:
        lines = [self.done[index].to_json() + "\n" for index in sorted(self.done)]
        path = self._folder / JOURNAL
        with disk_errors(self._folder), atomic_path(path, durable=True) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")


def sound_shards(folder: Path, shards: list[Shard], *, progress: bool | None) -> dict[int, Done]:
    """Finished shards whose files are what their records say; each is read once."""
    known = finished_shards(folder)
    found = [shard for shard in shards if shard.index in known]
    return {
        shard.index: known[shard.index]
        for shard in track(found, label="checking shards", unit="shard", show=progress)
        if is_sound(folder, shard, known[shard.index])
    }
