"""Back-translation: translate a text file into another language and back, row by row."""

import csv
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tertium.data.readers import iter_texts
from tertium.errors import TertiumError, unknown_name
from tertium.files import atomic_path, sha256, write_text
from tertium.models.names import resolve
from tertium.progress import bar
from tertium.records.lock import lock

if TYPE_CHECKING:
    from tertium.models.base import Embedder
    from tertium.models.tokens import TokenizationStats
    from tertium.models.translator import ProgramTranslator, Translator

    _Way = Translator | ProgramTranslator

__all__ = ["ENGINES", "PIVOTS", "Kept", "RoundTrip", "keep_similar", "round_trip"]

# Languages that have MarianMT models from and to English on the hub.
PIVOTS = (
    *("ar", "cs", "da", "de", "es", "fi", "fr", "hu"),
    *("id", "it", "nl", "ru", "sv", "uk", "vi", "zh"),
)
ENGINES = ("torch", "ctranslate2")
_TO, _BACK = "Helsinki-NLP/opus-mt-en-{pivot}", "Helsinki-NLP/opus-mt-{pivot}-en"
_WINDOW = 256  # texts per write; an interruption loses at most this many


@dataclass(frozen=True)
class RoundTrip:
    """The back-translations through one language.

    Attributes:
        pivot: the language's code.
        file: one line per text of the input, in the same order.
        texts: number of lines.
        unchanged: how many came back unchanged.
    """

    pivot: str
    file: Path
    texts: int
    unchanged: int


@dataclass(frozen=True)
class Kept:
    """Back-translations filtered by their similarity to the original.

    Attributes:
        pairs: file of the kept ones, with columns ``anchor`` and ``positive``.
        dropped: file of the others, with their ``similarity``, lowest first.
        kept: number of kept pairs.
        unchanged: how many of them are identical texts.
        below: number of dropped pairs.
        blank: number of blank texts, which are in neither file.
        mean: mean similarity of all pairs.
    """

    pairs: Path
    dropped: Path
    kept: int
    unchanged: int
    below: int
    blank: int
    mean: float


def keep_similar(
    texts: Path, trip: RoundTrip, model: "Embedder", *, above: float, progress: bool | None = None
) -> Kept:
    """Compare every text with its back-translation, and drop those that are too dissimilar.

    Args:
        texts: the input of ``trip``.
        trip: the back-translations.
        model: computes the cosines.
        above: minimum cosine of a pair to keep.
        progress: False for no progress on standard error.
    """
    if not -1 <= above <= 1:
        raise TertiumError(f"--keep-above {above}: the cosine must be between -1 and 1.")
    import numpy as np

    lines = trip.file.read_text(encoding="utf-8").split("\n")[:-1]
    pairs = [(_flat(text), line) for text, line in zip(iter_texts(texts), lines, strict=True)]
    said = [pair for pair in pairs if pair[0]]
    if not said:
        raise TertiumError(f"{texts} contains no text.")
    both = [side for pair in said for side in pair]
    rows = model.encode(both, normalize_embeddings=True, progress=progress)
    cosines = np.clip((rows[0::2] * rows[1::2]).sum(axis=1), -1.0, 1.0)
    near = [pair for pair, cosine in zip(said, cosines, strict=True) if cosine >= above]
    far = sorted(
        (float(cosine), *pair) for pair, cosine in zip(said, cosines, strict=True) if cosine < above
    )
    kept = trip.file.with_suffix(".pairs.tsv")
    dropped = trip.file.with_suffix(".dropped.tsv")
    _write_table(kept, ("anchor", "positive"), near)
    header = ("similarity", "anchor", "positive")
    _write_table(dropped, header, [(f"{cosine:.4f}", *pair) for cosine, *pair in far])
    return Kept(
        kept,
        dropped,
        len(near),
        sum(first == second for first, second in near),
        len(far),
        len(pairs) - len(said),
        float(cosines.mean()),
    )


def _write_table(path: Path, header: tuple[str, ...], rows: list[Any]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)


def round_trip(
    texts: Path,
    output: Path,
    pivot: str,
    *,
    to: str | None = None,
    back: str | None = None,
    language: str = "en",
    beams: int = 4,
    max_length: int = 128,
    engine: str = "torch",
    program: str | None = None,
    progress: bool | None = None,
) -> RoundTrip:
    """Translate every text of a file into a pivot language and back.

    Texts are processed in windows, each translated in batches of similar length and then written.
    The same call after an interruption resumes with the first missing window and produces the same
    file; a finished file is left alone. A blank text stays blank, and a text whose translation is
    blank stays unchanged.

    Args:
        texts: a text file with one text per line, or a table.
        output: folder for ``PIVOT.txt``, and ``PIVOT.json`` with its settings.
        pivot: language code, as the models spell it.
        to: model from the language of the texts to the pivot: a folder or a hub id, in which
            ``{pivot}`` stands for the code (default: MarianMT from English).
        back: model for the way back (default: ``to`` if given, for a multilingual model such as
            NLLB, else MarianMT to English).
        language: language code of the texts, for a multilingual model.
        beams: beam size.
        max_length: maximum tokens of a text and of its translation.
        engine: ``ctranslate2`` runs MarianMT models in 8 bit.
        program: a command that translates line by line instead of a model; see
            :class:`tertium.models.translator.ProgramTranslator`.
        progress: False for no progress on standard error.
    """
    _check_pivot(pivot, language, own_model=to is not None or program is not None)
    if engine not in ENGINES:
        raise unknown_name("translator", engine, ENGINES)
    if program is not None and (to is not None or back is not None or engine != "torch"):
        raise TertiumError(
            "--program translates both ways: leave out --to, --from and --translator."
        )
    settings: dict[str, Any] = {
        "texts": texts.name,
        "rows": sum(1 for _ in iter_texts(texts)),
        "sha256": sha256(texts),
        "language": language,
        "pivot": pivot,
        "to": program or (to or _TO).replace("{pivot}", pivot),
        "back": program or (back or to or _BACK).replace("{pivot}", pivot),
        "beams": beams,
        "max_length": max_length,
        **({} if engine == "torch" else {"engine": engine}),
        **({} if program is None else {"engine": "program"}),
    }
    file, record = output / f"{pivot}.txt", output / f"{pivot}.json"
    found = _found(file, record, settings)
    if not file.exists():
        ways = _load(settings)
        with lock(output / f".{pivot}.lock", protects=file, wait=0):
            _write(record, settings)
            _translate(texts, file, ways, settings, progress=progress)
    if "unchanged" not in found:
        found = {**settings, "unchanged": _unchanged(texts, file)}
        _write(record, found)
    return RoundTrip(pivot, file, settings["rows"], int(found["unchanged"]))


def _check_pivot(pivot: str, language: str, *, own_model: bool) -> None:
    if not re.fullmatch(r"[\w-]+", pivot):
        raise TertiumError(f"'{pivot}' is not a language code: write de, or deu_Latn for NLLB.")
    if pivot == language:
        raise TertiumError(f"The texts are already in '{pivot}': choose another pivot.")
    if not own_model and pivot not in PIVOTS:
        raise unknown_name("pivot", pivot, PIVOTS, remedy="Or give models with --to and --from.")


def _found(file: Path, record: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The record of an earlier call; raises if its settings were different."""
    if not record.exists():
        if file.exists():
            raise TertiumError(
                f"{file} exists without its record {record.name}. Remove it, or choose another "
                "folder."
            )
        return {}
    found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    for name, value in {"engine": None, **settings}.items():
        if found.get(name) != value:
            raise TertiumError(
                f"{record} was made with another {name} ({found.get(name)}, now {value}). Use the "
                "same, or choose another folder."
            )
    return found if file.exists() else {}  # removed or unfinished


def _load(settings: dict[str, Any]) -> "tuple[_Way, _Way]":
    """The models for both directions; a multilingual one is loaded once."""
    from tertium.models.translator import CTranslate2Translator, ProgramTranslator, Translator

    if settings.get("engine") == "program":
        program = ProgramTranslator(settings["to"])
        return program, program
    kind = CTranslate2Translator if settings.get("engine") == "ctranslate2" else Translator
    to = kind.load(resolve(settings["to"]), name=settings["to"])
    if settings["back"] != settings["to"]:
        return to, kind.load(resolve(settings["back"]), name=settings["back"])
    if not to.multilingual:
        raise TertiumError(f"{to.name} translates one way only. Give the other model with --from.")
    return to, to


def _translate(
    texts: Path,
    file: Path,
    ways: "tuple[_Way, _Way]",
    settings: dict[str, Any],
    *,
    progress: bool | None,
) -> None:
    """Append the missing windows, and rename the file once it is complete."""
    from tertium.models.tokens import TokenizationStats, chunks

    part = file.with_suffix(".txt.part")
    done = _whole_windows(part)
    truncation = TokenizationStats()
    with (
        part.open("a", encoding="utf-8", newline="\n") as stream,
        bar(total=settings["rows"], label=file.stem, unit="text", show=progress) as shown,
    ):
        for number, window in enumerate(chunks(iter_texts(texts), _WINDOW)):
            if number >= done:
                lines = _there_and_back(window, ways, settings, truncation)
                stream.write("".join(f"{line}\n" for line in lines))
                stream.flush()
                os.fsync(stream.fileno())
            shown.update(len(window))
    part.replace(file)
    truncation.report()


def _unchanged(texts: Path, file: Path) -> int:
    with file.open(encoding="utf-8", newline="\n") as stream:
        pairs = zip(iter_texts(texts), stream, strict=True)
        return sum(_flat(text) == line.removesuffix("\n") for text, line in pairs)


def _whole_windows(part: Path) -> int:
    """How many complete windows an earlier call has written; an incomplete one is removed."""
    if not part.exists():
        return 0
    lines = part.read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n")]
    windows = len(whole) // _WINDOW
    with part.open("r+b") as stream:
        stream.truncate(sum(map(len, whole[: windows * _WINDOW])))
    return windows


def _there_and_back(
    texts: list[str],
    ways: "tuple[_Way, _Way]",
    settings: dict[str, Any],
    truncation: "TokenizationStats",
) -> list[str]:
    """One line per text; blank texts are not translated."""
    lines = [_flat(text) for text in texts]
    rows = [row for row, line in enumerate(lines) if line]
    said = [lines[row] for row in rows]
    limits = {"beams": settings["beams"], "max_length": settings["max_length"]}
    own, pivot = settings["language"], settings["pivot"]
    there = ways[0].translate(said, source=own, target=pivot, truncation=truncation, **limits)
    back = ways[1].translate(there, source=pivot, target=own, **limits)
    for row, line in zip(rows, back, strict=True):
        lines[row] = line or lines[row]
    return lines


def _flat(text: str) -> str:
    return " ".join(text.split())


def _write(record: Path, content: dict[str, Any]) -> None:
    write_text(record, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
