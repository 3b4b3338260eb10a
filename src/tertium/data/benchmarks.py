"""Benchmark sets by name, from a local folder or else from the hub."""

import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from tertium.data import csts, hub, senteval
from tertium.data.contradictions import contradictions
from tertium.data.contrasts import items, part_of
from tertium.data.contrasts.opposites import everyday_opposites
from tertium.data.hub import HubSource
from tertium.data.readers import Scale, read_rows, rows_of
from tertium.data.rows import (
    ConditionalPair,
    GradedPair,
    LabelledPair,
    LabelledText,
    NegatedSentence,
    NliPair,
    Row,
    Sentence,
    Triplet,
)
from tertium.errors import TertiumError, TertiumWarning, unknown_name
from tertium.files import sha256

__all__ = ["DATASETS", "Dataset", "Loaded", "TextForm", "check_text", "find_folder", "load"]

TextForm = Literal["senteval", "raw"]


@dataclass(frozen=True)
class Dataset:
    """A description of a set.

    Attributes:
        name: its name in the literature.
        row_type: type of its rows.
        files: its file in a flat folder, for each available form of the text.
        rows: number of rows of each split, as published.
        licence: terms of its text and labels, in short.
        split_column: whether its file contains all splits, told apart by a column.
        public: name of the distributed file with the whole set, which takes precedence, and whether
            that file has a split column.
        scale: lowest and highest score.
        corpus: whether it is training data, of which a part is enough; recipes state how much they
            need.
        hub: repositories with its splits; the first one that has a split is used.
        split_of: returns the split of a row, if its file does not have it.
        made_of: other sets from whose rows ``make`` makes its own.
        make: returns its rows if it has no file, from the split and the folder.
    """

    name: str
    row_type: type[Row]
    files: dict[TextForm, str]
    rows: dict[str, int]
    licence: str
    split_column: bool = False
    public: tuple[str, bool] | None = None
    scale: Scale | None = None
    corpus: bool = False
    hub: tuple[HubSource, ...] = ()
    split_of: Callable[[Any], str] | None = None
    made_of: tuple[str, ...] = ()
    make: Callable[[str, Path | None], list[Any]] | None = None

    @property
    def file_names(self) -> tuple[str, ...]:
        """Possible names of its file in a flat folder."""
        public = () if self.public is None else (self.public[0],)
        return (*self.files.values(), *public)


@dataclass(frozen=True)
class Loaded:
    """One split of a set, and where it came from.

    Attributes:
        name: key of ``DATASETS``.
        split: the split of ``rows``; if it is not the requested one, a warning says so.
        text: form of the text of ``rows``.
        rows: validated rows, in the order of the file.
        source: file, folder or hub repository.
        sha256: hash of the file, or of the hashes of several files; None for the hub.
        revision: commit on the hub, or ``main``; None for a file.
        licence: terms in short.
    """

    name: str
    split: str
    text: TextForm
    rows: tuple[Any, ...] = field(repr=False)
    source: str
    sha256: str | None
    revision: str | None
    licence: str


def load(
    name: str,
    *,
    split: str = "test",
    folder: Path | None = None,
    text: TextForm = "senteval",
    check_rows: bool = True,
) -> Loaded:
    """Read one split of a benchmark set.

    Args:
        name: key of ``DATASETS``.
        split: key of the set's ``rows``.
        folder: folder with the files (default: see ``find_folder``).
        text: tokenised and lower-cased as in SentEval, or raw; ignored for sets with only one form.
        check_rows: warn if the number of rows is not the published one; never for a corpus.

    Raises:
        TertiumError: there is no such set or split, or it is not available.
        DataError: a row is bad.
    """
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    check_text(text)
    dataset = DATASETS[name]
    if split not in dataset.rows:
        raise unknown_name(f"split of {name}", split, dataset.rows)
    found = find_folder(folder)
    if dataset.make is not None:
        rows = dataset.make(split, found)
        return _loaded(dataset, split, "raw", rows, source=", ".join(dataset.made_of))
    loaded = _from_folder(dataset, split, text, found) if found else None
    loaded = loaded or _from_hub(dataset, split, text, found)
    expected = dataset.rows.get(loaded.split)
    if check_rows and not dataset.corpus and len(loaded.rows) != expected:
        _warn(
            f"{name} {loaded.split}: {len(loaded.rows):,} rows in {loaded.source}, "
            f"but {expected:,} are expected. Scores do not compare with published ones."
        )
    return loaded


def check_text(text: str) -> None:
    """Raise unless ``text`` is a known form of text."""
    if text not in get_args(TextForm):
        raise unknown_name("form of text", text, get_args(TextForm))


def find_folder(explicit: Path | None = None) -> Path | None:
    """The benchmark folder: ``explicit``, else ``TERTIUM_DATA``, else None.

    Raises:
        TertiumError: a folder was named and does not exist.
    """
    named = explicit or os.environ.get("TERTIUM_DATA")
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        raise TertiumError(f"{folder}: no such data folder. Correct --data or TERTIUM_DATA.")
    return folder


def _from_folder(dataset: Dataset, split: str, text: TextForm, folder: Path) -> Loaded | None:
    """Read flat files, SentEval's own layout, or a C-STS bundle, whichever is there."""
    form = text if text in dataset.files else next(iter(dataset.files))
    encrypted = dataset.name in csts.PUBLISHED
    file: Path | None = folder / dataset.files[form]
    if encrypted:
        file = csts.find_file(folder, split, dataset.name)
    has_splits = dataset.split_column
    if dataset.public is not None and (folder / dataset.public[0]).is_file():
        file, has_splits = folder / dataset.public[0], dataset.public[1]
    if file and file.is_file() and dataset.name == "C-STS-relabelled":
        original = load("C-STS", split=split, folder=folder).rows
        careful = csts.relabelled(original, file, scale=dataset.scale or (1, 5))
        return _loaded(dataset, split, form, careful, source=str(file), sha256=sha256(file))
    if file and file.is_file():
        wanted = split if has_splits and split != "all" else None
        rows = read_rows(file, dataset.row_type, split=wanted, scale=dataset.scale)
        if dataset.split_of is not None and split != "all":
            rows = [row for row in rows if dataset.split_of(row) == split]
        return _loaded(dataset, split, form, rows, source=str(file), sha256=sha256(file))
    files = senteval.find_files(folder, dataset.name, split) if form == "senteval" else ()
    if not files or dataset.scale is None:
        return None
    graded = senteval.read_files(files, dataset.name, scale=dataset.scale)
    digests = "".join(sha256(file) for file in files)
    digest = hashlib.sha256(digests.encode()).hexdigest()
    return _loaded(dataset, split, form, graded, source=str(files[0].parent), sha256=digest)


def _from_hub(dataset: Dataset, split: str, text: TextForm, folder: Path | None) -> Loaded:
    source = next((s for s in dataset.hub if split in s.splits or "all" in s.splits), None)
    if source is None:
        files = " or ".join(dataset.file_names)
        get = f"Put {files} into a data folder"
        if dataset.name in csts.PUBLISHED:
            get = csts.PUBLISHED[dataset.name].how_to_get
        raise TertiumError(
            f"{dataset.name} is neither in {folder or 'a local folder'} nor on a hub repository "
            f"that tertium knows. {get}; name the folder with --data or TERTIUM_DATA."
        )
    actual = split if split in source.splits else "all"
    snapshot = hub.fetch(source, actual, name=dataset.name)
    if actual != split:
        _warn(
            f"{dataset.name}: {source.repo} does not tell '{split}' from the rest, so all pairs "
            "are used. Scores do not compare with published ones."
        )
    form: TextForm = "raw" if "raw" in dataset.files else "senteval"
    if text in dataset.files and text != form:
        _warn(f"{dataset.name}: {source.repo} holds raw text, not SentEval's.")
    rows = list(rows_of(snapshot.records, dataset.row_type, file=source.repo, scale=dataset.scale))
    revision = snapshot.revision
    return _loaded(dataset, actual, form, rows, source=source.repo, revision=revision)


def _loaded(
    dataset: Dataset,
    split: str,
    text: TextForm,
    rows: Sequence[Row],
    *,
    source: str,
    sha256: str | None = None,
    revision: str | None = None,
) -> Loaded:
    name, licence = dataset.name, dataset.licence
    return Loaded(name, split, text, tuple(rows), source, sha256, revision, licence)


def _warn(message: str) -> None:
    warnings.warn(message, TertiumWarning, stacklevel=3)


_SEMEVAL = "scores CC BY-SA 4.0; text under the terms of its sources"
_RESEARCH = "research use, no explicit licence"
_CSTS = "its authors ask that neither plain text nor password is shared"
_NLI = "SNLI CC BY-SA 4.0; MNLI mixed open terms; others as their authors state"


def _year(name: str, rows: int) -> Dataset:
    stem = name.lower()
    return Dataset(
        name=name,
        row_type=GradedPair,
        files={"senteval": f"{stem}.tsv", "raw": f"{stem}_raw.tsv"},
        rows={"test": rows},
        licence=_SEMEVAL,
        scale=(0, 5),
        hub=(HubSource(f"mteb/{stem}-sts", {"test": "test"}, task=name),),
    )


def _classification(name: str, rows: dict[str, int], *hub: HubSource) -> Dataset:
    return Dataset(
        name=name,
        row_type=LabelledText,
        files={"senteval": f"{name.lower()}.tsv"},
        rows=rows,
        licence=_RESEARCH,
        split_column="all" not in rows,
        hub=hub,
    )


def _contradictions(split: str, folder: Path | None) -> list[GradedPair]:
    """Pairs and whether they contradict each other; see :mod:`tertium.data.contradictions`."""
    grades = load("STS-B", split="train", folder=folder, text="raw").rows
    graded = () if split == "train-ungraded" else grades
    negated = load("negation-pairs", split="train", folder=folder).rows
    return contradictions(
        nli=[
            (row.sentence1, row.sentence2, row.label)
            for row in load("NLI", split="train", folder=folder).rows
            if not row.source.startswith("xnli")  # not for commercial use
        ],
        negated=[(row.sentence, row.negated) for row in negated],
        graded=[(row.sentence1, row.sentence2, row.score) for row in graded],
        texts=[row.sentence for row in load("wiki", split="train", folder=folder).rows],
        without=[
            *(row.text for row in items()),
            *(text for row in everyday_opposites() for text in row.texts),
        ],
    )


_SETS = (
    _year("STS12", 3108),
    _year("STS13", 1500),
    _year("STS14", 3750),
    _year("STS15", 3000),
    _year("STS16", 1186),
    Dataset(
        name="STS-B",
        row_type=GradedPair,
        files={"senteval": "stsb.tsv", "raw": "stsb_raw.tsv"},
        rows={"train": 5749, "dev": 1500, "test": 1379},
        licence=_SEMEVAL,
        split_column=True,
        scale=(0, 5),
        hub=(
            HubSource(
                "mteb/stsbenchmark-sts",
                {"train": "train", "dev": "validation", "test": "test"},
                task="STSBenchmark",
            ),
        ),
    ),
    Dataset(
        name="SICK-R",
        row_type=GradedPair,
        files={"senteval": "sick.tsv", "raw": "sick_raw.tsv"},
        rows={"train": 4500, "dev": 500, "test": 4927, "all": 9927},
        licence="CC BY-NC-SA 3.0",
        split_column=True,
        scale=(1, 5),
        # MTEB calls all 9,927 pairs its test split.
        hub=(HubSource("mteb/sickr-sts", {"all": "test"}, task="SICK-R"),),
    ),
    Dataset(
        name="C-STS",
        row_type=ConditionalPair,
        files={"raw": csts.BUNDLE},
        rows={"train": 11342, "validation": 2834, "test": 4732},
        licence=_CSTS,
        scale=(1, 5),
    ),
    Dataset(
        name="C-STS-revised",
        row_type=ConditionalPair,
        files={"raw": csts.PUBLISHED["C-STS-revised"].bundle},
        rows={"train": 11342, "validation": 2834},
        licence=f"revised conditions and labels: none stated; text: {_CSTS}",
        scale=(1, 5),
    ),
    Dataset(
        name="C-STS-relabelled",
        row_type=ConditionalPair,
        files={"raw": csts.PUBLISHED["C-STS-relabelled"].bundle},
        rows={"validation": 2834},
        licence=f"labels: MIT; text: {_CSTS}",
        scale=(1, 5),
    ),
    Dataset(
        name="NLI",
        row_type=NliPair,
        files={"raw": "nli_pairs.tsv.gz"},
        public=("AllNLI.tsv.gz", True),
        rows={"train": 942_069},  # SNLI 549,367 and MNLI 392,702, without pairs lacking a label
        licence=_NLI,
        corpus=True,
        hub=(
            HubSource(
                "sentence-transformers/all-nli",
                {"train": "train"},
                config="pair-class",
                labels=("entailment", "neutral", "contradiction"),
            ),
        ),
    ),
    Dataset(
        name="NLI-triplets",
        row_type=Triplet,
        files={"raw": "nli_triplets.tsv.gz"},
        public=("nli_for_simcse.csv", False),
        rows={"train": 275_601},
        licence=_NLI,
        corpus=True,
        hub=(HubSource("sentence-transformers/all-nli", {"train": "train"}, config="triplet"),),
    ),
    Dataset(
        name="negation-pairs",
        row_type=NegatedSentence,
        files={"raw": "negation_pairs.tsv"},
        rows={"train": 15_544, "test": 1_740, "all": 17_284},
        licence="CC BY-SA 4.0",
        split_of=lambda row: part_of(row.sentence),
    ),
    Dataset(
        name="contradictions",
        row_type=GradedPair,
        files={},
        rows={"train": 62_378, "train-ungraded": 56_339},
        licence="as NLI, negation-pairs, STS-B and wiki",
        scale=(0, 1),
        corpus=True,
        made_of=("NLI", "negation-pairs", "STS-B", "wiki"),
        make=_contradictions,
    ),
    Dataset(
        name="wiki",
        row_type=Sentence,
        files={"raw": "wiki_sentences.txt.gz"},
        public=("wiki1m_for_simcse.txt", False),
        rows={"train": 1_000_000},
        licence="Wikipedia text, CC BY-SA",
        corpus=True,
        hub=(HubSource("sentence-transformers/wiki1m-for-simcse", {"train": "train"}),),
    ),
    Dataset(
        name="wiki1m-head",
        row_type=Sentence,
        files={"raw": "wiki1m_for_simcse_head.txt.gz"},
        rows={"train": 11914},
        licence="Wikipedia text, CC BY-SA",
        hub=(HubSource("sentence-transformers/wiki1m-for-simcse", {"train": "train[:11914]"}),),
    ),
    _classification(
        "MR",
        {"all": 10662},
        HubSource("cornell-movie-review-data/rotten_tomatoes", {"all": "train+validation+test"}),
    ),
    _classification("CR", {"all": 3775}, HubSource("SetFit/SentEval-CR", {"all": "train+test"})),
    _classification("SUBJ", {"all": 10000}, HubSource("SetFit/subj", {"all": "train+test"})),
    _classification("MPQA", {"all": 10606}),
    _classification(
        "SST2",
        {"train": 67349, "dev": 872, "test": 1821},
        HubSource("stanfordnlp/sst2", {"train": "train", "dev": "validation"}),
        HubSource("SetFit/sst2", {"test": "test"}),  # the only one that tells the test labels
    ),
    _classification(
        "TREC",
        {"train": 5452, "test": 500},
        HubSource(
            "SetFit/TREC-QC",
            {"train": "train", "test": "test"},
            columns={"label": "label_coarse_original"},
        ),
    ),
    Dataset(
        name="MRPC",
        row_type=LabelledPair,
        files={"senteval": "mrpc.tsv"},
        rows={"train": 4076, "test": 1725},
        licence="Microsoft Research terms, research use",
        split_column=True,
        hub=(
            HubSource("nyu-mll/glue", {"train": "train+validation", "test": "test"}, config="mrpc"),
        ),
    ),
)

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _SETS}
