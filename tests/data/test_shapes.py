import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tertium.data.columns import Columns
from tertium.data.shapes import AmbiguousFileError, Recognised, Shape, read_examples, recognise
from tertium.data.tables import DataError
from tertium.errors import TertiumError

from .conftest import Write

A, B = "A cat sleeps.", "A kitten naps."
C, D = "Stocks fell.", "It rains."


def _table(write: Write, header: str, *rows: str, name: str = "file.tsv") -> Path:
    """A TSV file from lines with commas between the cells."""
    lines = [line.replace(",", "\t") for line in (header, *rows)]
    return write(name, "\n".join(lines) + "\n")


HEADERS = {
    Shape.GRADED: [
        *("sentence1,sentence2,score", "Sentence 1,Sentence 2,Score", "text1,text2,similarity"),
        *("a,b,gold", "question1,question2,label", "premise,hypothesis,rating", "s1,s2,grade"),
        *(
            "sentence_A,sentence_B,relatedness_score",
            "text-a,text-b,SIM",
            "sent1,sent2,human_score",
        ),
    ],
    Shape.BINARY: [
        *("question1,question2,is_duplicate", "text1,text2,label", "a,b,dup", "s1,s2,match"),
        *("sentence1,sentence2,Quality", "Title1,Title2,duplicate", "first,second,same"),
        *("sentence_1,sentence_2,paraphrase", "query,document,label", "string1,string2,y"),
    ],
    Shape.POSITIVES: [
        *(
            "anchor,positive",
            "Anchor,Positive",
            "query,positive",
            "question,answer",
            "query,passage",
        ),
        *("query,document", "sent0,sent1", "anchor,pos", "QUERY,POS", "question,passage"),
    ],
    Shape.TRIPLETS: [
        *("anchor,positive,negative", "anchor,positive,hard_negative", "query,positive,negative"),
        *("sent0,sent1,hard_neg", "sent0,sent1,sent2", "query,pos,neg", "Anchor,Positive,Negative"),
        *("anchor,pos,hard-negative", "question,positive,negative", "query,passage,hard_negative"),
    ],
    Shape.PAIRS: [
        *("sentence1,sentence2", "a,b", "text1,text2", "Text_A,Text_B", "question1,question2"),
        *("premise,hypothesis", "s1,s2", "sent_1,sent_2", "phrase1,phrase2", "title 1,title 2"),
    ],
    Shape.WORDS: [
        *("premise,hypothesis,label", "sentence1,sentence2,gold_label", "a,b,relation"),
        *("sentence_A,sentence_B,entailment_judgment", "text1,text2,class", "s1,s2,category"),
        *("Premise,Hypothesis,Gold Label", "sent1,sent2,entailment_label", "a,b,judgement"),
        "text-a,text-b,Annotation",
    ],
    Shape.CONDITIONAL: [
        *("sentence1,sentence2,condition,label", "text1,text2,aspect,score", "a,b,respect,gold"),
        *("Sentence 1,Sentence 2,Condition,Label", "s1,s2,CONDITION,similarity"),
        *("sentence_a,sentence_b,Aspect,rating", "sent1,sent2,Respect,grade", "a,b,condition,sim"),
        *("text_a,text_b,ASPECT,Score", "question1,question2,condition,human_score"),
    ],
    Shape.TEXTS: [
        *("sentence", "text", "Sentence", "TEXT", "texts", "sentences", " text ", "Texts"),
        *("SENTENCES", " Sentence"),
    ],
}
CELLS = {
    Shape.GRADED: [f"{A},{B},4.5", f"{C},{D},0", f"{A},{C},5"],
    Shape.BINARY: [f"{A},{B},1", f"{C},{D},0"],
    Shape.POSITIVES: [f"{A},{B}", f"{C},{D}"],
    Shape.TRIPLETS: [f"{A},{B},{C}", f"{C},{D},{A}"],
    Shape.PAIRS: [f"{A},{B}", f"{C},{D}"],
    Shape.WORDS: [f"{A},{B},entailment", f"{C},{D},neutral", f"{A},{C},contradiction"],
    Shape.CONDITIONAL: [f"{A},{B},colour,3", f"{C},{D},size,1"],
    Shape.TEXTS: [A, B, C],
}


@pytest.mark.parametrize(
    ("shape", "header"), [(shape, name) for shape, names in HEADERS.items() for name in names]
)
def test_every_spelling_is_recognised(write: Write, shape: Shape, header: str) -> None:
    found = recognise(_table(write, header, *CELLS[shape]))
    assert (found.shape, found.rows, found.kept) == (shape, len(CELLS[shape]), ())
    assert [row.texts for row in read_examples(found)] == [
        tuple(cells.split(",")[: len(found.texts)]) for cells in CELLS[shape]
    ]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "tsv.gz"])
def test_every_format(write: Write, tmp_path: Path, form: str) -> None:
    rows = [{"Text 1": A, "Text 2": B, "Gold": 4.5}, {"Text 1": C, "Text 2": D, "Gold": 0.0}]
    path = tmp_path / f"file.{form}"
    if form == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pyarrow.Table.from_pylist(rows), path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [list(rows[0]), *(list(map(str, row.values())) for row in rows)]
        between = "," if form == "csv" else "\t"
        text = "".join(between.join(line) + "\n" for line in lines)
        if form == "csv":
            path.write_text(text)
        else:
            import gzip

            path.write_bytes(gzip.compress(text.encode()))
    found = recognise(path)
    assert (found.shape, found.columns.first, found.columns.label) == (
        Shape.GRADED,
        ("text_1",),
        ("gold",),
    )
    assert [row.label for row in read_examples(found)] == [4.5, 0.0]


@pytest.mark.parametrize(
    ("labels", "scale", "assumed"),
    [
        ("0,5,2.5", (0, 5), False),
        ("1,5,3", (1, 5), False),
        ("0.2,4.8", (0, 5), True),
        ("0.1,0.9", (0, 1), True),
        ("-0.5,0.9", (-1, 1), True),
        ("0,4,2", (0, 4), False),
        ("1,7,4", (1, 7), False),
        ("3,77,50", (0, 100), True),
        ("0,2500,17", (0, 2500), True),
    ],
)
def test_the_scale_of_grades(
    write: Write, labels: str, scale: tuple[float, float], assumed: bool
) -> None:
    path = _table(
        write, "a,b,score", *(f"{A},{B} {n},{label}" for n, label in enumerate(labels.split(",")))
    )
    found = recognise(path)
    assert found.labels is not None and (found.labels.low, found.labels.high) == scale
    assert found.ends_seen is not assumed and bool(found.notes) is assumed
    fixed = recognise(path, scale=(-10, 5000))
    assert fixed.labels is not None and fixed.labels.high == 5000 and not fixed.notes


WORDS = [
    ("yes,no,yes", Shape.BINARY, ("no", "yes"), [1, 0, 1]),
    ("TRUE,False,true", Shape.BINARY, ("false", "true"), [1, 0, 1]),
    ("duplicate,not_duplicate,duplicate", Shape.BINARY, None, [1, 0, 1]),
    ("entailment,neutral,contradiction", Shape.WORDS, None, [2, 1, 0]),
    ("Entails,neutral,contradicts", Shape.WORDS, None, [2, 1, 0]),
    ("not_entailment,entailment,entailment", Shape.BINARY, None, [0, 1, 1]),
]


@pytest.mark.parametrize(("labels", "shape", "names", "values"), WORDS)
def test_words_with_a_known_order(
    write: Write, labels: str, shape: Shape, names: tuple[str, ...] | None, values: list[float]
) -> None:
    rows = [f"{A},{B} {n},{label}" for n, label in enumerate(labels.split(","))]
    found = recognise(_table(write, "text1,text2,label", *rows))
    assert found.shape is shape and found.labels is not None
    assert names is None or found.labels.names == names
    assert [row.label for row in read_examples(found)] == values


def test_booleans_of_json(write: Write) -> None:
    rows = [{"a": A, "b": B, "dup": True}, {"a": C, "b": D, "dup": False}]
    found = recognise(write("f.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    assert found.shape is Shape.BINARY and [r.label for r in read_examples(found)] == [1, 0]


def test_words_in_the_order_that_is_given(write: Write) -> None:
    path = _table(write, "a,b,label", f"{A},{B},Very Similar", f"{C},{D},unlike", f"{A},{C},so-so")
    found = recognise(path, labels=["unlike", "so-so", "very similar"])
    assert found.shape is Shape.WORDS and str(found).endswith("unlike < so so < very similar")
    assert [row.label for row in read_examples(found)] == [2, 0, 1]
    with pytest.raises(DataError, match=r"file.tsv:4: column 'label': 'so so': none of the labels"):
        recognise(path, labels=["unlike", "very similar"])


AMBIGUOUS: list[tuple[str, list[str], str]] = [
    ("a,b,label", [f"{A},{B},close", f"{C},{D},far"], "--labels close,far"),
    ("a,b,score,label", [f"{A},{B},3,yes"], "--label-column score"),
    ("premise,hypothesis,label", [f"{A},{B},0", f"{C},{D},2", f"{C},{A},1"], "--labels 2,1,0"),
    ("text,sentence", [f"{A},{B}"], "--column sentence"),
]


@pytest.mark.parametrize(("header", "rows", "remedy"), AMBIGUOUS)
def test_ambiguous_files_are_named_with_the_remedy(
    write: Write, header: str, rows: list[str], remedy: str
) -> None:
    with pytest.raises(AmbiguousFileError, match=remedy) as caught:
        recognise(_table(write, header, *rows))
    assert "ambiguous" in str(caught.value)


@pytest.mark.parametrize("label", ["1e300", "-2e12"])
def test_a_number_that_is_no_grade(write: Write, label: str) -> None:
    path = _table(write, "a,b,score", f"{A},{B},5", f"{C},{D},{label}")
    with pytest.raises(
        DataError, match=r":3: column 'score': .*: too large for a grade; see --lab"
    ):
        recognise(path)


def test_decimal_commas(write: Write) -> None:
    path = write("file.tsv", f"a\tb\tscore\n{A}\t{B}\t4,5\n{C}\t{D}\t1,0\n")
    with pytest.raises(DataError, match=r":2: column 'score': '4,5': .* with a decimal point"):
        recognise(path)


def test_columns_without_a_usual_name_are_proposed(write: Write) -> None:
    path = _table(write, "id,ticket_a,ticket_b,bug", f"1,{A},{B},1", f"2,{C},{D},0")
    with pytest.raises(DataError, match="--column1 ticket_a --column2 ticket_b --label-column bug"):
        recognise(path)
    columns = Columns.parse(column1="ticket_a", column2="Ticket B", label_column="bug")
    found = recognise(path, columns=columns)
    assert (found.shape, found.kept) == (Shape.BINARY, ("id",))
    with pytest.raises(DataError, match="no such column; there are: id, ticket_a"):
        recognise(path, columns=Columns.parse(label_column="dup", column1="a", column2="b"))


@pytest.mark.parametrize("between", [";", "\t"])
def test_a_csv_file_with_other_separators(write: Write, between: str) -> None:
    path = write("file.csv", f"a{between}b{between}score\n{A}{between}{B}{between}4,5\n")
    with pytest.raises(DataError, match=r"file.csv:1: .*not separated by commas") as caught:
        recognise(path)
    assert len(caught.value.problems) == 1


def test_a_file_without_a_header(write: Write) -> None:
    path = _table(write, f"{A},{B},4.5", f"{C},{D},1")
    with pytest.raises(DataError, match="the first line looks like a row"):
        recognise(path)


def test_columns_are_joined_and_html_is_stripped(write: Write) -> None:
    path = _table(write, "subject,body,id", "Help,<p>It&nbsp;broke</p><br>again,7", f",{B},8")
    columns = Columns.parse(column="subject,body", strip_html=True)
    found = recognise(path, columns=columns)
    assert [row.texts[0] for row in read_examples(found)] == ["Help It broke again", B]
    assert found.kept == ("id",)


RATED: dict[str, tuple[str, list[str]]] = {
    "numbered": ("a,b,rater1,rater2", [f"{A},{B},4,5", f"{C},{D},1,0"]),
    "underscore": ("a,b,Annotator_A,Annotator_B", [f"{A},{B},4,5", f"{C},{D},1,0"]),
    "scores": ("a,b,score1,score2", [f"{A},{B},4,5", f"{C},{D},1,0"]),
    **{
        stem: (f"a,b,{stem}1,{stem}2", [f"{A},{B},4,5", f"{C},{D},1,0"])
        for stem in ("Judge ", "coder_", "rating", "label", "Ann-")
    },
    "long": (
        "a,b,rater,score",
        [f"{A},{B},ann,4", f"{C},{D},ann,1", f"{A},{B},bob,5", f"{C},{D},bob,0"],
    ),
    "worker": (
        "Worker ID,a,b,score",
        [f"w1,{A},{B},4", f"w2,{A},{B},5", f"w1,{C},{D},1", f"w2,{C},{D},0"],
    ),
}


@pytest.mark.parametrize("form", list(RATED))
def test_several_raters(write: Write, form: str) -> None:
    header, rows = RATED[form]
    found = recognise(_table(write, header, *rows))
    examples = read_examples(found)
    assert found.shape is Shape.GRADED and len(found.raters) == 2
    assert [row.label for row in examples] == [4.5, 0.5]
    assert list(examples[0].ratings.values()) == [4, 5]
    assert list(examples[0].ratings) == list(found.raters)


def test_raters_by_names_of_their_own(write: Write) -> None:
    path = _table(write, "a,b,ann,bob", f"{A},{B},4,5", f"{C},{D},,0")
    found = recognise(path, columns=Columns.parse(label_column="ann,bob"))
    assert found.raters == ("ann", "bob")
    assert [(row.label, dict(row.ratings)) for row in read_examples(found)] == [
        (4.5, {"ann": 4, "bob": 5}),
        (0, {}),
    ]


def test_a_rater_column_without_second_opinions(write: Write) -> None:
    found = recognise(_table(write, "a,b,rater,score", f"{A},{B},x,4", f"{C},{D},y,1"))
    assert not found.raters and "no pair was rated twice" in found.notes[0]


def test_a_label_beside_raters(write: Write) -> None:
    found = recognise(_table(write, "a,b,score,rater1,rater2", f"{A},{B},5,4,5", f"{C},{D},0,0,1"))
    assert found.columns.label == ("score",) and "--label-column rater1,rater2" in found.notes[0]


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("a,b,score", [f"{A},{B},", f"{C},{D},"], "column score is empty"),
        ("a,b,label", [f"{A},{B},1", f"{C},{D},1"], "every label is 1"),
        ("a,b,score,split", [f"{A},{B},1,dev", f"{C},{D},3,train"], "choose one with --split"),
    ],
)
def test_what_is_said_besides(write: Write, header: str, rows: list[str], said: str) -> None:
    assert any(said in note for note in recognise(_table(write, header, *rows)).notes)


BROKEN: list[tuple[str, str, Callable[[Path], object]]] = [
    ("a,b,score", f"{A},{B},x7", lambda path: recognise(path)),
    ("a,b,score", f",{B},3", lambda path: read_examples(recognise(path))),
    ("id,score", "1,2", lambda path: recognise(path)),
]


@pytest.mark.parametrize(("header", "row", "read"), BROKEN)
def test_broken_files_are_one_sentence(
    write: Write, header: str, row: str, read: Callable[[Path], object]
) -> None:
    path = _table(write, header, row, f"{C},{D},1" if header != "id,score" else "3,4")
    with pytest.raises(DataError, match=r"file\.tsv"):
        read(path)


def test_a_missing_label_is_named_by_its_line(write: Write) -> None:
    found = recognise(_table(write, "a,b,score", f"{A},{B},5", f"{C},{D},"))
    assert found.notes[-1] == "rows without a label: 1"
    with pytest.raises(DataError, match=r"file\.tsv:3: column 'score': '': no label"):
        read_examples(found)


def test_shapes_that_are_said(write: Write) -> None:
    path = _table(write, "a,b", f"{A},{B}", f"{C},{D}")
    assert recognise(path).shape is Shape.PAIRS
    found = recognise(path, shape="positives")
    assert found.shape is Shape.POSITIVES and len(read_examples(found)) == 2
    with pytest.raises(DataError, match="not of triplets"):
        recognise(path, shape="triplets")
    with pytest.raises(TertiumError, match="pairs without labels"):
        recognise(path, shape="graded")
    graded = _table(write, "a,b,score", f"{A},{B},1", f"{C},{D},0", name="g.tsv")
    assert recognise(graded, shape="graded").shape is Shape.GRADED


def test_one_part_of_a_file(write: Write) -> None:
    path = _table(
        write, "a,b,score,split", f"{A},{B},0,dev", f"{C},{D},3,train", f"{A},{D},5,train"
    )
    found: Recognised = recognise(path, split="train")
    assert (found.rows, len(read_examples(found)), found.notes) == (2, 2, found.notes[:1])


def test_json_and_words(write: Write) -> None:
    found = recognise(_table(write, "ID,a,b,score", f"1,{A},{B},0", f"2,{C},{D},5"))
    assert str(found).endswith("graded pairs, 2 rows; texts in a and b; labels in score: 0 to 5")
    assert found.to_json() == {
        "shape": "graded",
        "columns": {"first": ["a"], "second": ["b"], "label": ["score"]},
        "kept": ["ID"],
        "labels": {"low": 0.0, "high": 5.0, "names": None, "assumed": False},
        "raters": [],
    }
