import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tertium
from tertium.corpus import Index
from tertium.models.passages import cut_long, sentences
from tertium.models.tokens import TruncationWarning
from tests.fakes import HashEncoder


@given(text=st.text("ab .!?\n\u3002\u201d", max_size=60))
def test_sentences_are_in_order_and_leave_out_white_space_only(text: str) -> None:
    spans = sentences(text)
    at = 0
    for start, stop in spans:
        assert at <= start < stop and not text[at:start].strip()
        assert text[start:stop] == text[start:stop].strip()
        at = stop
    assert not text[at:].strip()


def test_passages_fit_the_model_and_overlap(tiny_bert: Path) -> None:
    model = tertium.load(tiny_bert)  # reads 64 tokens
    text = " ".join(f"the cat {letter} sleeps ." for letter in "abcdefghijklmnopqrstuvwxyz" * 3)
    short, (spans) = cut_long(model, ["the cat .", text])
    assert short == []
    counts = model.readers[0].text_tokenizer.ids([text[a:b] for a, b in spans])
    assert all(len(ids) <= 64 for ids in counts)
    assert spans[0][0] == 0 and spans[-1][1] == len(text)
    for (_, stop), (start, _) in itertools.pairwise(spans):
        assert start < stop  # some sentences are in both
    endless = "a" + " b" * 300
    pieces = cut_long(model, [endless])[0]
    assert "".join(endless[a:b] for a, b in pieces).count("b") == 300
    assert cut_long(HashEncoder(), [text]) == [[]]  # it reads everything


def test_a_long_document_is_found_by_its_passage(tiny_bert: Path, tmp_path: Path) -> None:
    model = tertium.load(tiny_bert)
    pages = " ".join(["the cat sleeps ."] * 4000)  # some 200 pages
    needle = "x y z dog barks , the dog barks ."
    document = f"{pages} {needle} {pages}"
    texts = ["a b c .", document, "the cat ."]
    index = Index.build(tmp_path / "index", texts, model, ids=["s", "long", "t"], progress=False)
    index.check()
    assert len(index) == 3 and index.manifest.rows > 500 and index.manifest.passages
    spans = [document[a:b] for a, b in cut_long(model, [document])[0]]
    passage = next(part for part in spans if "dog barks" in part)
    hit = index.search(passage, k=1)[0]
    assert (hit.id, hit.text, hit.passage) == ("long", document, passage)
    assert len(passage) < 1000
    assert sorted(hit.id for hit in index.search("the cat .", k=10)) == ["long", "s", "t"]
    index.delete(["long"])
    assert index.manifest.dead == index.manifest.rows - 2
    assert [hit.id for hit in index.search("dog", k=5, hybrid=True)] == [
        hit.id for hit in index.search("dog", k=5)
    ]
    index.update(["the dog . " * 60], ids=["t"])
    index.compact()
    index.check()
    assert index.manifest.passages and index.get("t").passages > 1  # type: ignore[union-attr]
    with pytest.warns(TruncationWarning):
        short = Index.build(tmp_path / "short", texts, model, passages=False, progress=False)
    assert short.manifest.rows == 3
