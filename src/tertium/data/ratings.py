"""Files of ratings, one per line, and tasks and answers of other labelling programs."""

import json
import math
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tertium.errors import TertiumError
from tertium.files import write_text

__all__ = ["LabelFile", "Rating", "read_answers", "write_tasks"]

Pair = tuple[str, str]


@dataclass(frozen=True)
class Rating:
    """One rater's label of one pair."""

    pair: Pair
    rater: str
    label: float

    def line(self) -> str:
        """The rating as a line of the file."""
        first, second = self.pair
        label = int(self.label) if float(self.label).is_integer() else self.label
        row = {"sentence1": first, "sentence2": second, "label": label, "rater": self.rater}
        return json.dumps(row, ensure_ascii=False) + "\n"


class LabelFile:
    """A JSONL file of ratings, each of which is on disk before the next one is accepted.

    An incomplete last line, left by a killed process, is dropped when the file is opened.

    Args:
        path: the file; created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ratings: list[Rating] = []
        self._lock = threading.Lock()
        if path.exists():
            *lines, rest = path.read_bytes().split(b"\n")
            self.ratings = [_rating(line, path, at) for at, line in enumerate(lines, 1)]
            if rest:
                self._write()

    def add(self, *ratings: Rating) -> None:
        """Append ratings, and wait until they are on disk."""
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write("".join(rating.line() for rating in ratings))
                stream.flush()
                os.fsync(stream.fileno())
            self.ratings += ratings

    def undo(self, rater: str) -> Rating | None:
        """Remove and return the last rating of a rater; None if there is none."""
        with self._lock:
            for at in range(len(self.ratings) - 1, -1, -1):
                if self.ratings[at].rater == rater:
                    taken = self.ratings.pop(at)
                    self._write()
                    return taken
            return None

    def rated(self, rater: str) -> set[Pair]:
        """The pairs that a rater has labelled."""
        return {rating.pair for rating in self.ratings if rating.rater == rater}

    def _write(self) -> None:
        write_text(self.path, "".join(r.line() for r in self.ratings), durable=True)


def _rating(line: bytes, path: Path, number: int) -> Rating:
    try:
        row = json.loads(line)
        texts = (str(row["sentence1"]), str(row["sentence2"]))
        return Rating(texts, str(row["rater"]), float(row["label"]))
    except (ValueError, KeyError, TypeError) as error:
        raise TertiumError(
            f"{path}:{number}: no rating with sentence1, sentence2, label and rater. Remove the "
            "line, or name another file."
        ) from error


def write_tasks(path: Path, pairs: Sequence[Pair], form: str, *, labels: Sequence[str]) -> None:
    """Write pairs as tasks of Label Studio, or as records of Argilla.

    Args:
        path: a .json file.
        pairs: pairs to label.
        form: ``label-studio`` or ``argilla``.
        labels: the possible answers.
    """
    if form == "label-studio":
        tasks: list[dict[str, Any]] = [
            {"id": at, "data": {"sentence1": a, "sentence2": b, "labels": list(labels)}}
            for at, (a, b) in enumerate(pairs, 1)
        ]
    else:
        tasks = [
            {"id": str(at), "fields": {"sentence1": a, "sentence2": b}, "responses": {}}
            for at, (a, b) in enumerate(pairs, 1)
        ]
    write_text(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")


def read_answers(path: Path, *, names: Mapping[str, float]) -> list[Rating]:
    """Ratings from an export of Label Studio or Argilla, without skipped tasks.

    Args:
        path: a .json file with a list of tasks or records.
        names: numbers of labels that are words.
    """
    try:
        tasks = json.loads(path.read_bytes())
    except ValueError as error:
        raise _no_export(path, "it is not JSON") from error
    if not isinstance(tasks, list):
        raise _no_export(path, "it is not a list")
    found: list[Rating] = []
    for number, task in enumerate(tasks, 1):
        try:
            found += _answers(task, names)
        except _UnknownAnswerError as error:
            raise TertiumError(
                f"{path}: entry {number:,} of the list has the answer {str(error)!r}, which is "
                f"neither a number nor one of: {', '.join(names)}. Correct it, or remove the entry."
            ) from error
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            fault = (
                f"entry {number:,} of its list lacks its two sentences, or the value of an answer"
            )
            raise _no_export(path, fault) from error
    return found


class _UnknownAnswerError(ValueError):
    """An answer that stands for no number."""


def _no_export(path: Path, fault: str) -> TertiumError:
    return TertiumError(
        f"{path} is no export of Label Studio (JSON) or of Argilla (records with fields and "
        f"responses): {fault}. Export it again."
    )


def _answers(task: dict[str, Any], names: Mapping[str, float]) -> list[Rating]:
    if "data" in task:  # Label Studio
        pair = (str(task["data"]["sentence1"]), str(task["data"]["sentence2"]))
        return [
            Rating(pair, _who(annotation.get("completed_by")), _number(_choice(result), names))
            for annotation in task.get("annotations", [])
            if not annotation.get("was_cancelled")
            for result in annotation["result"][:1]
        ]
    pair = (str(task["fields"]["sentence1"]), str(task["fields"]["sentence2"]))
    given = task.get("responses") or {}
    return [
        Rating(pair, _who(answer.get("user_id")), _number(answer["value"], names))
        for answers in given.values()
        for answer in answers
        if answer.get("status", "submitted") == "submitted"
    ]


def _choice(result: dict[str, Any]) -> Any:
    value = result["value"]
    for key in ("choices", "rating", "number", "text"):
        if key in value:
            found = value[key]
            return found[0] if isinstance(found, list) else found
    raise KeyError


def _who(user: Any) -> str:
    if isinstance(user, dict):
        user = user.get("email") or user.get("id")
    return "rater" if user is None else str(user)


def _number(label: Any, names: Mapping[str, float]) -> float:
    word = str(label).strip().lower()
    try:
        found = names[word] if word in names else float(word)
    except ValueError as error:
        raise _UnknownAnswerError(label) from error
    if not math.isfinite(found):
        raise _UnknownAnswerError(label)
    return found
