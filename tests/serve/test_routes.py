import asyncio
import base64
import logging
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

import tertium
from tertium.corpus import Index
from tertium.errors import TertiumError
from tertium.models.tokens import TokenizationStats
from tertium.serve.errors import APIError
from tertium.serve.readers import TextReader
from tertium.serve.routes import ENDPOINTS, Call, Endpoint
from tests.serve.fakes import FakeModel
from tests.serve.here import Here, awaited, running

TEXTS = ["a cat sleeps", "a dog barks", "", "a cat sleeps"]


def unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


async def post(client: Here, path: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def refused(client: Here, path: str, **body: Any) -> tuple[int, str, str | None]:
    answer = await client.post(f"/v1/{path}", json=body)
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "code", "param"} and error["message"].endswith(".")
    return answer.status_code, error["code"], error["param"]


@awaited
async def test_embeddings_are_those_of_the_model_at_length_1() -> None:
    wanted = unit(FakeModel("hash").encode(TEXTS))
    async with running() as client:
        found = await post(client, "embeddings", input=TEXTS, model="hash", user="me", extra=1)
        one = await post(client, "embeddings", input=TEXTS[0])
        short = await post(client, "embeddings", input=TEXTS, dimensions=4)
    assert [each["index"] for each in found["data"]] == [0, 1, 2, 3]
    rows = np.array([each["embedding"] for each in found["data"]])
    assert np.allclose(rows, wanted, atol=1e-6)
    assert found["usage"] == {"prompt_tokens": 17, "total_tokens": 17} and not found["truncated"]
    assert np.allclose(one["data"][0]["embedding"], wanted[0], atol=1e-6) and len(one["data"]) == 1
    cut = np.array([each["embedding"] for each in short["data"]])
    assert np.allclose(cut, unit(wanted[:, :4]), atol=1e-6)


@awaited
async def test_base64_holds_the_same_numbers() -> None:
    async with running() as client:
        plain = await post(client, "embeddings", input="a cat")
        packed = await post(client, "embeddings", input="a cat", encoding_format="base64")
    content = base64.b64decode(packed["data"][0]["embedding"])
    numbers = struct.unpack(f"<{len(content) // 4}f", content)
    assert np.allclose(numbers, plain["data"][0]["embedding"], atol=1e-7)


@awaited
async def test_similarity_is_the_models_score() -> None:
    pairs = [["a cat", "a dog"], ["a cat", "a cat"], ["a dog", "a cat"]]
    async with running(served_name="mine") as client:
        found = await post(client, "similarity", pairs=pairs)
    wanted = FakeModel("hash").score([(a, b) for a, b in pairs])
    assert np.allclose(found["scores"], wanted, atol=1e-6)
    assert found["scale"] == [-1.0, 1.0] and found["model"] == "mine"


@awaited
async def test_conditions_go_to_the_model_that_takes_them() -> None:
    triple = ["a cat", "a dog", "the animal"]
    async with running(conditional_model="respects") as client:
        found = await post(client, "conditional", triples=[triple, [*triple[:2], "ab"]])
        assert (found["scores"], found["scale"]) == ([1.0, 3.0], [1.0, 5.0])
        assert await refused(client, "explain", a="a", b="b", on="c") == (
            501,
            "no_explanation",
            None,
        )
    async with running() as client:
        answer = await client.post("/v1/conditional", json={"triples": [triple]})
        assert (
            answer.status_code == 503 and "--conditional-model" in answer.json()["error"]["message"]
        )


@awaited
async def test_explanations_are_the_librarys() -> None:
    async with running() as client:
        found = await post(client, "explain", a="a cat", b="a dog")
        assert [each["word"] for each in found["texts"][1]["words"]] == ["a", "dog"]
        assert found["model"] == "hash" and found["score"] == 0.5
        assert found["alignment"][0] == pytest.approx([1.0, 0.2])
        assert found["smallest_change"]["removed"] == [{"text": 0, "place": 0, "word": "a"}]
    async with running(model="mute") as client:
        assert await refused(client, "explain", a="a", b="b") == (501, "no_explanation", None)


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        ({"a": "word " * 129, "b": "a"}, "too_many_words"),
        ({"a": "/".join(["word"] * 65), "b": "a"}, "too_many_words"),
        ({"a": "a", "b": "猫" * 129}, "too_many_words"),
        ({"a": "a", "b": "a", "on": "a, " * 64}, "too_many_words"),
        ({"a": "a " * 50, "b": "b " * 50}, "too_many_tokens"),
        ({"a": "a", "b": "b", "on": "c " * 100}, "too_many_tokens"),
        ({"a": "a" * 2_000_000, "b": "b"}, "too_many_characters"),
        ({"a": "a", "b": "a", "on": "a" * 3000}, "too_many_characters"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_what_takes_too_long_to_explain_is_refused(texts: dict[str, str], code: str) -> None:
    @awaited
    async def test() -> None:
        async with running(conditional_model="reasons", max_tokens=64) as client:
            assert await refused(client, "explain", **texts) == (413, code, None)

    test()


@awaited
async def test_search_finds_what_is_added_meanwhile(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", ["a cat", "a dog"], FakeModel("hash"))
    async with running(index=tmp_path / "index") as client:
        found = await post(client, "search", query=["a dog", "a cat"], top_k=1)
        assert [hits[0]["text"] for hits in found["results"]] == ["a dog", "a cat"]
        assert found["results"][0][0]["id"] == "2"
        index.add(["a bird"])
        found = await post(client, "search", query="a bird", top_k=5, threshold=0.9)
        assert [hit["text"] for hit in found["results"][0]] == ["a bird"]
        assert (await client.get("/v1/models")).json()["data"][-1]["texts"] == 3
        assert await refused(client, "search", query="a", top_k=101) == (
            400,
            "too_many_hits",
            "top_k",
        )


@awaited
async def test_search_with_filters_words_and_conditions(tmp_path: Path) -> None:
    texts, columns = ["a cat", "a dog", "a bird sings"], [{"year": 1}, {"year": 2}, {"year": 3}]
    index = Index.build(tmp_path / "index", texts, FakeModel("hash"), columns=columns)
    async with running(index=tmp_path / "index", conditional_model="respects") as client:
        found = await post(client, "search", query="a dog", where="year >= 2")
        assert [hit["text"] for hit in found["results"][0]] == ["a dog", "a bird sings"]
        assert found["results"][0][0]["columns"] == {"year": 2}
        found = await post(client, "search", query="bird", hybrid=True)
        wanted = index.search("bird", hybrid=True)
        assert [(hit["id"], hit["score"]) for hit in found["results"][0]] == [
            (hit.id, pytest.approx(hit.score)) for hit in wanted
        ]
        listed = (await client.get("/v1/models")).json()["data"][-1]
        assert (listed["texts"], listed["columns"]) == (3, ["year"])
        for where in ("yeer = 1", "year = 1; DROP TABLE texts", "1 = 1"):
            refusal = await refused(client, "search", query="a", where=where)
            assert refusal == (400, "invalid_filter", "where")
        found = await post(client, "search", query="a dog", on="sound", top_k=2)
        triples = [["a dog", text, "sound"] for text in texts]
        graded = await post(client, "conditional", triples=triples)
        best = sorted(graded["scores"], reverse=True)[:2]
        assert [hit["score"] for hit in found["results"][0]] == pytest.approx(best)
        found = await post(client, "search", query="a dog", rerank="hash", top_k=1)
        assert found["results"][0][0]["score"] == pytest.approx(1, abs=1e-5)
        refusal = await refused(client, "search", query="a", on="b", rerank_top=101)
        assert refusal == (400, "too_many_hits", "rerank_top")
        assert (await post(client, "search", query="a", where="year > 9", on="b"))["results"] == [
            []
        ]
        index.delete(["2"])
        found = await post(client, "search", query="a dog")
        assert [hit["text"] for hit in found["results"][0]] != ["a dog", "a cat", "a bird sings"]
        assert len(found["results"][0]) == 2


@awaited
async def test_reranking_in_two_dialects() -> None:
    texts = ["a cat", "a dog", "a bird"]
    async with running(conditional_model="respects") as client:
        found = await post(
            client,
            "rerank",
            model="hash",
            query="a dog",
            documents=["a cat", {"text": "a dog"}, "a bird"],
            return_documents=True,
            top_n=2,
            max_chunks_per_doc=3,
        )
        first, second = found["results"]
        assert (first["index"], first["document"]) == (1, {"text": "a dog"})
        assert first["relevance_score"] == pytest.approx(1, abs=1e-5)
        assert second["relevance_score"] < 0.9
        listed: Any = await post(client, "rerank", query="a dog", texts=texts, raw_scores=True)
        scores = FakeModel("hash").score([("a dog", text) for text in texts])
        order = np.argsort(-scores)
        assert [each["index"] for each in listed] == order.tolist()
        np.testing.assert_allclose([x["score"] for x in listed], scores[order], atol=1e-5)
        assert listed[0]["text"] is None
        graded: Any = await post(client, "rerank", query="a", texts=texts, on="sound")
        assert all(0 <= each["score"] <= 1 for each in graded)


def test_token_ids_of_the_model_itself(tiny_bert: Path) -> None:
    model = tertium.load(tiny_bert)
    reader = TextReader(model)
    texts = ["the cat sleeps", "a b c " * 40]
    read = reader.read(texts)
    whole = [model.readers[0].text_tokenizer.ids([text])[0] for text in texts]
    given = reader.read(whole)
    assert [item.ids for item in given] == [item.ids for item in read]
    assert [item.cut for item in given] == [False, True]
    np.testing.assert_allclose(
        reader.run(given), model.encode(texts, truncation=TokenizationStats()), atol=1e-5
    )
    frame = whole[0][0], whole[0][-1]
    for wrong in ([9906, 1917], whole[0][1:], [frame[0], 10**6, frame[1]]):
        with pytest.raises(APIError, match=r"token"):
            reader.read([wrong])


@awaited
async def test_what_has_no_words_is_not_explained() -> None:
    async with running(conditional_model="reasons") as client:
        for texts in ({"a": "", "b": " "}, {"a": "a", "b": "b", "on": ""}):
            assert await refused(client, "explain", **texts) == (400, "no_words", None)


async def until_search_is(client: Here, wanted: str) -> None:
    async with asyncio.timeout(20):
        while (await client.get("/readyz")).json() != {"status": "ok", "search": wanted}:
            await asyncio.sleep(0.02)


def broken(folder: Path) -> None:
    for path in folder.glob("index.sqlite*"):
        path.unlink()
    (folder / "index.sqlite").write_bytes(b"not a database at all" * 99)


def missing(folder: Path) -> None:
    for path in folder.glob("index.sqlite*"):
        path.unlink()


def shortened(folder: Path) -> None:
    next(folder.rglob("vectors*")).write_bytes(b"")


@pytest.mark.parametrize("damage", [broken, missing, shortened])
def test_a_damaged_index_costs_the_search_and_nothing_else(
    damage: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("tertium.serve").propagate = True
    caplog.set_level(logging.INFO, "tertium.serve")
    folder, copy = tmp_path / "index", tmp_path / "copy"
    Index.build(folder, ["a cat", "a dog"], FakeModel("hash"))
    shutil.copytree(folder, copy)
    damage(folder)

    @awaited
    async def test() -> None:
        async with running(index=folder, index_retry=0.05) as client:
            await until_search_is(client, "unavailable")
            for _ in range(3):
                assert await refused(client, "search", query="a") == (
                    503,
                    "index_unavailable",
                    None,
                )
            await post(client, "embeddings", input="a")
            assert [each["id"] for each in (await client.get("/v1/models")).json()["data"]] == [
                "hash"
            ]
            folder.rename(tmp_path / "damaged")
            copy.rename(folder)
            await until_search_is(client, "ok")
            found = await post(client, "search", query="a dog", top_k=1)
            assert found["results"][0][0]["text"] == "a dog"

    test()
    said = [record.getMessage() for record in caplog.records if "index" in record.getMessage()]
    assert [line.split(":")[0] for line in said] == [
        "search is disabled until the index is repaired",
        "the index can be searched again",
    ]


@awaited
async def test_an_index_that_is_lost_meanwhile_comes_back_and_no_path_is_told(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "index"
    Index.build(folder, ["a cat", "a dog"], FakeModel("hash"))
    async with running(index=folder, index_retry=0.05) as client:
        await until_search_is(client, "ok")
        folder.rename(tmp_path / "elsewhere")
        answer = await client.post("/v1/search", json={"query": "a"})
        assert answer.status_code == 503 and "index_unavailable" in answer.text
        assert str(tmp_path) not in answer.text and "manifest" not in answer.text
        await until_search_is(client, "unavailable")
        (tmp_path / "elsewhere").rename(folder)
        await until_search_is(client, "ok")
        shutil.rmtree(folder)
        Index.build(folder, ["a bird"], FakeModel("other"))
        assert (await client.post("/v1/search", json={"query": "a"})).status_code == 503
        await until_search_is(client, "ok")
        found = await post(client, "search", query="a bird")
        assert found["model"] == "other" and found["results"][0][0]["text"] == "a bird"


@awaited
async def test_faults_of_the_server_are_503_without_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise TertiumError("/secret/folder is damaged.")

    async with running() as client:
        monkeypatch.setattr(FakeModel, "encode", fail)
        answer = await client.post("/v1/embeddings", json={"input": "a"})
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "unavailable"
        assert "secret" not in answer.text


@awaited
async def test_an_index_brings_its_own_model(tmp_path: Path) -> None:
    Index.build(tmp_path / "index", ["a cat", "a dog"], FakeModel("other"))
    async with running(index=tmp_path / "index") as client:
        found = await post(client, "search", query="a dog", top_k=1)
        assert found["model"] == "other" and found["results"][0][0]["text"] == "a dog"
        listed = (await client.get("/v1/models")).json()["data"]
    assert [(each["id"], each["answers"], each["texts"]) for each in listed] == [
        ("hash", ["embeddings", "similarity", "explain"], None),
        ("other", ["search"], 2),
    ]


@pytest.mark.parametrize(
    ("path", "body", "wanted"),
    [
        ("embeddings", {}, (400, "invalid_request", "input")),
        ("embeddings", {"input": []}, (400, "invalid_request", "input")),
        ("embeddings", {"input": [1, 2]}, (400, "token_array", "input")),
        ("embeddings", {"input": [[1], [2]]}, (400, "token_array", "input")),
        ("embeddings", {"input": None}, (400, "invalid_request", "input")),
        ("embeddings", {"input": {"a": "b"}}, (400, "invalid_request", "input")),
        ("embeddings", {"input": ["a", 1]}, (400, "invalid_request", "input.1")),
        ("embeddings", {"input": ["a", [3]]}, (400, "invalid_request", "input")),
        ("embeddings", {"input": [[1], []]}, (400, "invalid_request", "input.1")),
        ("embeddings", {"input": [-1]}, (400, "invalid_request", "input.0")),
        ("rerank", {"query": "a"}, (400, "invalid_request", None)),
        ("rerank", {"query": "a", "texts": ["b"] * 9}, (413, "too_many_inputs", "documents")),
        ("rerank", {"query": "a", "texts": ["b"], "on": "c"}, (503, "no_conditional_model", None)),
        ("embeddings", {"input": "a", "model": 1}, (400, "invalid_request", "model")),
        ("search", {"query": ["a", None]}, (400, "invalid_request", "query.1")),
        ("embeddings", {"input": "a", "dimensions": 0}, (400, "invalid_request", "dimensions")),
        (
            "embeddings",
            {"input": "a", "dimensions": 17},
            (400, "too_many_dimensions", "dimensions"),
        ),
        ("embeddings", {"input": "a", "model": "gpt"}, (404, "model_not_found", "model")),
        ("embeddings", {"input": ["a"] * 9}, (413, "too_many_inputs", "input")),
        ("embeddings", {"input": "a " * 99}, (413, "too_many_tokens", None)),
        ("similarity", {"pairs": [["a"]]}, (400, "invalid_request", "pairs.0")),
        ("similarity", {"pairs": [["a", "b", "c"]]}, (400, "invalid_request", "pairs.0")),
        ("similarity", {"pairs": [["a", "b"]], "pear": 1}, (400, "invalid_request", "pear")),
        ("search", {"query": "a"}, (503, "no_index", None)),
        ("embeddings", {"input": "fail"}, (500, "failed", None)),
    ],
)
def test_refusals_have_one_shape(
    path: str, body: dict[str, Any], wanted: tuple[int, str, str | None]
) -> None:
    @awaited
    async def test() -> None:
        async with running(max_inputs=8, max_tokens=64) as client:
            assert await refused(client, path, **body) == wanted

    test()


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "input: List should have at least 1 item"),
        (None, "input: Input should be a text or a list of texts, or their token ids."),
        (["a", [3]], "input: Send either texts or token ids, not both."),
    ],
)
def test_a_refusal_says_what_is_wrong(texts: Any, said: str) -> None:
    @awaited
    async def test() -> None:
        async with running() as client:
            answer = await client.post("/v1/embeddings", json={"input": texts})
            assert answer.json()["error"]["message"].startswith(said)

    test()


@pytest.mark.parametrize(
    ("content", "kind", "wanted"),
    [
        (b"{", "application/json", (400, "invalid_json")),
        (b"", "application/json", (400, "invalid_json")),
        (b'{"input": "\xff\xfe"}', "application/json", (400, "invalid_json")),
        (b'{"input": "\\ud800"}', "application/json", (400, "invalid_json")),
        (b"[1]", "application/json", (400, "invalid_request")),
        (b"[" * 100_000, "application/json", (400, "invalid_json")),
        (b'{"input": "a"}', "text/plain", (415, "not_json")),
        (b"a=b", "application/x-www-form-urlencoded", (415, "not_json")),
        (b'{"input": "%s"}' % (b"a" * 10_000_000), "application/json", (413, "body_too_large")),
    ],
)
def test_bodies_that_are_none(content: bytes, kind: str, wanted: tuple[int, str]) -> None:
    @awaited
    async def test() -> None:
        async with running() as client:
            headers = {"content-type": kind}
            answer = await client.post("/v1/embeddings", content=content, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == wanted

            async def parts() -> Any:  # the length is not told
                yield content

            answer = await client.post("/v1/embeddings", content=parts(), headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == wanted

    test()


@awaited
async def test_paths_and_methods_that_do_not_exist() -> None:
    async with running() as client:
        for answer, wanted in (
            (await client.get("/v2/embeddings"), (404, "not_found")),
            (await client.get("/v1/embeddings"), (405, "method_not_allowed")),
            (await client.get("/assets/..%2fapp.py"), (404, "not_found")),
            (await client.get("/assets/index.html"), (404, "not_found")),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == wanted
        assert (await client.get("/v1/embeddings")).headers["allow"] == "POST"


@awaited
async def test_health_and_counters() -> None:
    async with running() as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).json() == {"status": "ok"}
        for path in ("/healthz", "/readyz"):
            assert (await client.head(path)).status_code == 200
        await post(client, "embeddings", input=["a cat", "a dog"])
        await client.get("/secret-name")
        text = (await client.get("/metrics")).text
        client.service.stopping = True
        assert (await client.get("/readyz")).status_code == 503
    assert 'tertium_requests_total{route="/v1/embeddings",status="200"} 1.0' in text
    assert 'tertium_requests_total{route="other",status="404"} 1.0' in text
    assert 'tertium_tokens_total{model="hash"} 8.0' in text and "tertium_workers_ready 1.0" in text
    assert "secret-name" not in text and "cat" not in text


@awaited
async def test_an_endpoint_is_one_entry_of_the_registry() -> None:
    class LengthsRequest(BaseModel):
        texts: list[str]

    class LengthsAnswer(BaseModel):
        tokens: int

    async def lengths(call: Call, asked: LengthsRequest) -> dict[str, Any]:
        """Tokens of all texts."""
        count = len(asked.texts)
        more: dict[str, Any] = {"model": "hash", "dimensions": None}
        found, _ = await call.ask("embed", asked.texts, count=count, param="texts", **more)
        return {"tokens": found["tokens"]}

    toy = Endpoint("How long texts are", LengthsRequest, LengthsAnswer, lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENDPOINTS, "lengths", toy)
        async with running(max_inputs=4) as client:
            assert await post(client, "lengths", texts=TEXTS) == {"tokens": 17}
            assert await refused(client, "lengths", texts=[1]) == (
                *(400, "invalid_request"),
                "texts.0",
            )
            assert (await refused(client, "lengths", texts=["a"] * 5))[1] == "too_many_inputs"
            described = (await client.get("/openapi.json")).json()["paths"]["/v1/lengths"]["post"]
            assert described["summary"] == toy.summary
            assert described["description"] == "Tokens of all texts."
            counted = (await client.get("/metrics")).text
            assert 'tertium_requests_total{route="/v1/lengths",status="200"} 1.0' in counted
