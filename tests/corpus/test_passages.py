import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tertium
from tertium.corpus import Index
from tertium.engines.static import distil_static
from tertium.models import CrossScorer
from tertium.models.passages import align, cut_long, sentences
from tertium.models.tokens import TokenizationStats, TruncationWarning
from tests.fakes import HashEncoder
from tests.models.test_conditional import scorer_of


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
    assert cut_long(distil_static(model.encoder), [text]) == [[]]


def test_a_score_by_passages_is_the_mean_of_best_partners() -> None:
    found = align([("abcd", "xy", "on")], [[(0, 2), (2, 4)], []])
    assert found is not None and found.parts == ["ab", "cd", "xy"]
    assert list(found.items()) == [("ab", "xy", "on"), ("cd", "xy", "on")]
    # of the first text the mean of 1 and 3; of the second, its best partner, 3
    assert found.join(np.array([1.0, 3.0])).tolist() == [2.5]
    both = align([("abcd", "wxyz")], [[(0, 2), (2, 4)], [(0, 2), (2, 4)]])
    assert both is not None  # ab-wx, ab-yz, cd-wx, cd-yz
    assert both.join(np.array([0.0, 4.0, 2.0, 3.0])).tolist() == [(3.5 + 3.0) / 2]
    assert align([("ab", "cd")], [[], []]) is None
    first = align([("abcd", "xy")], [[(0, 2), (2, 4)], []], most=1)
    assert first is not None and first.cut == 1 and first.parts == ["ab", "xy"]


def test_long_texts_are_compared_to_their_end(tiny_bert: Path) -> None:
    model = tertium.load(tiny_bert)
    start = "the cat sleeps . " * 30
    texts = [start + ending for ending in ("a dog barks . " * 30, "x y z . " * 40, "")]
    pairs = [(texts[0], texts[0]), (texts[0], texts[1]), (texts[0], texts[2])]
    same, changed, shorter = model.score(pairs)
    assert same == pytest.approx(1, abs=1e-6) and max(changed, shorter) < 0.9999
    passages = [[t[a:b] for a, b in cut_long(model, [t])[0]] for t in texts[:2]]
    matrix = model.similarity(*passages)
    expected = (matrix.max(axis=1).mean() + matrix.max(axis=0).mean()) / 2
    assert changed == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(model.similarity(texts[:1], texts)[0], model.score(pairs))
    assert model.rank(texts[0], texts)[0].id == "0"
    scores, cosines = model.score_and_cosine(pairs)
    np.testing.assert_array_equal(scores, cosines)


def test_a_cross_encoder_reads_sixty_four_passages(tiny_bert: Path) -> None:
    model = CrossScorer(scorer_of(tiny_bert, {"kind": "cross", "regressor": "mean"}))
    text = " ".join(f"the cat {letter} sleeps ." for letter in "abcdefgh" * 70)
    counts = []
    for part in (text, text[: len(text) // 9]):
        stats = TokenizationStats(unit="pair")
        model.score_items([(part, "a dog")], truncation=stats)
        counts.append(stats.cut)
    assert counts == [1, 0]


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
    hit = index.search(passage, top_k=1)[0]
    assert (hit.id, hit.text, hit.passage) == ("long", document, passage)
    assert len(passage) < 1000
    assert sorted(hit.id for hit in index.search("the cat .", top_k=10)) == ["long", "s", "t"]
    index.delete(["long"])
    assert index.manifest.dead == index.manifest.rows - 2
    assert [hit.id for hit in index.search("dog", top_k=5, hybrid=True)] == [
        hit.id for hit in index.search("dog", top_k=5)
    ]
    index.update(["the dog . " * 60], ids=["t"])
    index.compact()
    index.check()
    assert index.manifest.passages and index.get("t").passages > 1  # type: ignore[union-attr]
    with pytest.warns(TruncationWarning):
        short = Index.build(tmp_path / "short", texts, model, passages=False, progress=False)
    assert short.manifest.rows == 3
