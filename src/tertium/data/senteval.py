"""SentEval's own folder of STS sets: ``STS/STS12-en-test``, ``STS/STSBenchmark``, ``SICK``."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tertium.data.readers import Scale, rows_of
from tertium.data.rows import GradedPair
from tertium.data.tables import Problem, Record, read_lines
from tertium.errors import TertiumError

__all__ = ["Graded", "find_files", "parse_sick", "parse_sts", "parse_stsb", "read_files"]

Graded = tuple[str, str, float]

SUBSETS: dict[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "OnWN", "images", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}

_SICK = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}

FILES: dict[str, dict[str, tuple[str, ...]]] = {
    **{
        year: {"test": tuple(f"STS/{year}-en-test/STS.input.{part}.txt" for part in parts)}
        for year, parts in SUBSETS.items()
    },
    "STS-B": {split: (f"STS/STSBenchmark/sts-{split}.csv",) for split in ("train", "dev", "test")},
    "SICK-R": {
        **{split: (f"SICK/{file}",) for split, file in _SICK.items()},
        "all": tuple(f"SICK/{file}" for file in _SICK.values()),
    },
}


def find_files(folder: Path, name: str, split: str) -> tuple[Path, ...]:
    """The files of a split, in ``folder`` or in SentEval's subfolders; none if there are none.

    Raises:
        TertiumError: some of them are missing.
    """
    wanted = FILES.get(name, {}).get(split, ())
    for root in (folder, folder / "downstream", folder / "data" / "downstream"):
        found = tuple(root / file for file in wanted)
        missing = [file for file in found if not file.is_file()]
        if found and not missing:
            return found
        if missing and len(missing) < len(found):
            raise TertiumError(f"{name} lacks {', '.join(map(str, missing))}. Copy it there too.")
    return ()


def read_files(files: Sequence[Path], name: str, *, scale: Scale) -> list[GradedPair]:
    """Rows of the files from ``find_files``, each year's subsets one after another."""
    rows: list[GradedPair] = []
    for file in files:
        subset, lines = "", list(read_lines(file))
        if name in SUBSETS:
            subset = file.name.removeprefix("STS.input.").removesuffix(".txt")
            gold = read_lines(file.with_name(file.name.replace(".input.", ".gs.")))
            graded = parse_sts(lines, list(gold), file=str(file), scale=scale)
        elif name == "STS-B":
            graded = parse_stsb(lines, file=str(file), scale=scale)
        else:
            graded = parse_sick(lines, file=str(file), scale=scale)
        rows += (
            GradedPair(sentence1=first, sentence2=second, score=score, subset=subset)
            for first, second, score in graded
        )
    return rows


def parse_sts(
    input_lines: Sequence[str],
    gold_lines: Sequence[str],
    *,
    file: str = "STS.input",
    scale: Scale | None = None,
) -> list[Graded]:
    """STS12-16: two sentences per line, with the score on the same line of a second file.

    Pairs without a score were never graded and are left out. The others are sorted by numbers of
    words and score, like the reference does for its batches; this does not affect any metric.
    """
    if len(input_lines) != len(gold_lines):
        raise TertiumError(
            f"{file}: {len(input_lines)} lines, but {len(gold_lines)} scores. Fetch both again."
        )
    lines = (
        (number, f"{gold}\t{text}")
        for number, (text, gold) in enumerate(zip(input_lines, gold_lines, strict=True), 1)
        if gold.strip()
    )
    graded = _parse(lines, score=0, first=1, second=2, file=file, scale=scale)
    return sorted(graded, key=lambda row: (len(row[0].split()), len(row[1].split()), row[2]))


def parse_stsb(
    lines: Sequence[str], *, file: str = "sts.csv", scale: Scale | None = None
) -> list[Graded]:
    """STS-B: tab separated despite its ending, with the score before the sentences."""
    return _parse(enumerate(lines, 1), score=4, first=5, second=6, file=file, scale=scale)


def parse_sick(
    lines: Sequence[str], *, file: str = "SICK.txt", scale: Scale | None = None
) -> list[Graded]:
    """SICK: tab separated with a header, and the relatedness after the sentences."""
    body = enumerate(lines[1:], 2)
    return _parse(body, score=3, first=1, second=2, file=file, scale=scale)


def _parse(
    lines: Iterable[tuple[int, str]],
    *,
    score: int,
    first: int,
    second: int,
    file: str,
    scale: Scale | None,
) -> list[Graded]:
    """Split lines at tabs; words are joined by single spaces, and further columns are ignored."""
    columns = {"score": score, "sentence1": first, "sentence2": second}
    rows = rows_of(_records(lines, columns, file=file), GradedPair, file=file, scale=scale)
    return [(row.sentence1, row.sentence2, row.score) for row in rows]


def _records(
    lines: Iterable[tuple[int, str]], columns: dict[str, int], *, file: str
) -> Iterator[Record | Problem]:
    width = max(columns.values()) + 1
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) < width:
            yield Problem(file, number, "", line, "too few columns between tabs; fetch it again")
        else:
            values = {name: " ".join(fields[place].split()) for name, place in columns.items()}
            yield Record(number, values)
