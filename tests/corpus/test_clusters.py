from typing import Any

import numpy as np
import pytest
from sentence_transformers.util import community_detection

from tertium.corpus import Clustering, cluster
from tertium.errors import TertiumError, TertiumWarning
from tests.corpus.draws import all_cosines, clustered
from tests.fakes import HashEncoder

VECTORS = clustered(300, width=32, spread=0.5)
TEXTS = [f"text {number}" for number in range(300)]


def everywhere(found: Clustering) -> list[int]:
    return sorted([*found.alone, *(row for group in found.clusters for row in group.rows)])


def test_communities_gather_around_a_text() -> None:
    found = cluster(TEXTS, VECTORS, threshold=0.75, min_size=4)
    cosines = all_cosines(VECTORS)
    assert len(found.clusters) > 5 and everywhere(found) == list(range(300))
    sizes = [len(group.rows) for group in found.clusters]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] >= 4
    for group in found.clusters:
        assert group.rows[0] == group.centre
        assert min(group.scores) >= 0.75 - 1e-6
        np.testing.assert_allclose(group.scores, cosines[group.centre, group.rows], atol=1e-6)
        assert list(group.scores) == sorted(group.scores, reverse=True)


@pytest.mark.parametrize(("threshold", "size"), [(0.75, 4), (0.5, 10), (0.9, 2)])
def test_communities_are_those_of_sentence_transformers(threshold: float, size: int) -> None:
    theirs = community_detection(
        VECTORS.astype(np.float32), threshold=threshold, min_community_size=size
    )
    ours = cluster(TEXTS, VECTORS, threshold=threshold, min_size=size)
    assert {group.centre: set(group.rows) for group in ours.clusters} == {
        rows[0]: set(rows) for rows in theirs
    }


def test_k_groups_hold_everything() -> None:
    found = cluster(TEXTS, VECTORS, k=7)
    assert found.alone == () and everywhere(found) == list(range(300))
    assert len(found.clusters) == 7
    for group in found.clusters:
        assert group.rows[0] == group.centre
        assert list(group.scores) == sorted(group.scores, reverse=True)


def test_repeated_texts_fill_fewer_groups() -> None:
    vectors = np.repeat(np.eye(2), 10, axis=0)
    with pytest.warns(TertiumWarning, match="2 groups instead of 5"):
        found = cluster(TEXTS[:20], vectors, k=5)
    assert [len(group.rows) for group in found.clusters] == [10, 10]


def test_k_means_find_what_is_apart() -> None:
    vectors = np.repeat(np.eye(3), 5, axis=0) + 0.01 * np.random.default_rng(0).random((15, 3))
    found = cluster(TEXTS[:15], vectors, k=3)
    assert sorted(sorted(group.rows) for group in found.clusters) == [
        list(range(0, 5)),
        list(range(5, 10)),
        list(range(10, 15)),
    ]


@pytest.mark.parametrize("options", [{"threshold": 0.7}, {"k": 5}, {"k": 5, "seed": 3}])
def test_the_same_every_time(options: dict[str, Any]) -> None:
    assert cluster(TEXTS, VECTORS, **options) == cluster(TEXTS, VECTORS, **options)


def test_a_model_instead_of_vectors() -> None:
    model = HashEncoder()
    found = cluster(TEXTS[:20], model, threshold=0.3, min_size=2)
    assert found == cluster(TEXTS[:20], HashEncoder().encode(TEXTS[:20]), threshold=0.3, min_size=2)
    assert model.seen == TEXTS[:20]


def test_fewer_texts_than_a_community() -> None:
    assert cluster(TEXTS[:2], VECTORS[:2], min_size=3) == Clustering((), (0, 1))
    assert cluster([], HashEncoder()) == Clustering((), ())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"k": 4}, "3 texts cannot be put into 4 groups"),
        ({"k": 0}, "into 0 groups"),
        ({"min_size": 0}, "at least one text"),
        ({"threshold": 3}, "from -1 to 1"),
    ],
)
def test_mistakes(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TertiumError, match=said):
        cluster(TEXTS[:3], VECTORS[:3], **options)


def test_too_many_for_communities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertium.corpus.clusters._MOST", 299)
    with pytest.raises(TertiumError, match="at most 299"):
        cluster(TEXTS, VECTORS)
    assert len(cluster(TEXTS, VECTORS, k=2).clusters) == 2
