"""Several models in one server: chosen by name, loaded when asked for, at most so many."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tertium.corpus import Index
from tertium.serve import pool
from tests.serve.fakes import FakeModel, launch_fork
from tests.serve.here import Here, awaited, running
from tests.serve.test_pool import counter, started, until

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


async def embed(client: Here, model: str | None = None, text: str = "a cat") -> Any:
    body = {"input": text} if model is None else {"input": text, "model": model}
    return await client.post("/v1/embeddings", json=body)


async def states(client: Here) -> dict[str, str]:
    listed = (await client.get("/v1/models")).json()["data"]
    return {each["id"]: each["state"] for each in listed}


def loads(client: Here, name: str) -> float:
    labels = {"model": name}
    found = client.service.metrics.registry.get_sample_value("tertium_model_loads_total", labels)
    return found or 0


@awaited
async def test_a_request_names_its_model_and_the_first_is_the_default() -> None:
    async with running(model=["hash", "other"]) as client:
        assert await states(client) == {"hash": "loaded", "other": "unloaded"}
        for name, wanted in ((None, "hash"), ("hash", "hash"), ("other", "other")):
            answer = (await embed(client, name)).json()
            assert answer["model"] == wanted
            vector = FakeModel(wanted).encode(["a cat"])[0]
            expected = vector / np.linalg.norm(vector)
            assert np.allclose(answer["data"][0]["embedding"], expected, atol=1e-6)
        assert await states(client) == {"hash": "loaded", "other": "loaded"}
        scored = await client.post("/v1/similarity", json={"pairs": [["a", "b"]], "model": "other"})
        assert scored.json()["model"] == "other"
        why = await client.post("/v1/explain", json={"a": "a", "b": "b", "model": "other"})
        assert why.json()["model"] == "other"
        text = (await client.get("/metrics")).text
    assert 'tertium_texts_total{model="hash"} 2.0' in text
    assert 'tertium_texts_total{model="other"} 3.0' in text
    assert 'tertium_model_workers{model="other"} 1.0' in text


@awaited
async def test_an_unknown_name_is_404_with_those_that_would_do() -> None:
    async with running(model=["hash", "other"], conditional_model=["respects"]) as client:
        for path, body, names in (
            ("embeddings", {"input": "a"}, ["'hash' or 'other'", "'gpt'"]),
            ("similarity", {"pairs": [["a", "b"]]}, ["'hash' or 'other'"]),
            ("conditional", {"triples": [["a", "b", "c"]]}, ["'respects'"]),
            ("explain", {"a": "a", "b": "b", "on": "c"}, ["'respects'"]),
        ):
            answer = await client.post(f"/v1/{path}", json={**body, "model": "gpt"})
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (404, "model_not_found")
            assert all(name in error["message"] for name in names)
        wrong = await client.post("/v1/embeddings", json={"input": "a", "model": "respects"})
        assert wrong.status_code == 404


@awaited
async def test_models_that_take_conditions_are_chosen_likewise() -> None:
    async with running(conditional_model=["respects", "reasons"]) as client:
        triples = [["a", "b", "c"]]
        for name in (None, "respects", "reasons"):
            body = {"triples": triples, **({} if name is None else {"model": name})}
            answer = (await client.post("/v1/conditional", json=body)).json()
            assert answer["model"] == (name or "respects") and answer["scale"] == [1.0, 5.0]
        why = await client.post("/v1/explain", json={"a": "a", "b": "b", "on": "c"})
        assert why.status_code == 501
        listed = (await client.get("/v1/models")).json()["data"]
        assert [each["answers"] for each in listed[1:]] == [
            ["conditional"],
            ["conditional", "explain"],
        ]


@awaited
async def test_a_model_says_how_wide_it_is_once_it_is_loaded() -> None:
    async with running(model=["hash", "other"]) as client:
        first, other = (await client.get("/v1/models")).json()["data"]
        assert first["dimension"] == 16 and first["scale"] == [-1.0, 1.0]
        assert other["dimension"] is None and other["scale"] is None
        body = {"input": "a", "model": "other", "dimensions": 17}
        answer = await client.post("/v1/embeddings", json=body)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "dimensions"
        assert (await client.get("/v1/models")).json()["data"][1]["dimension"] == 16


@awaited
async def test_only_so_many_are_in_memory() -> None:
    async with running(model=["a", "b", "c"], max_models=2) as client:
        for name in "abcacb":
            assert (await embed(client, name)).json()["model"] == name
        found = await states(client)
        assert sorted(found.values()) == ["loaded", "loaded", "unloaded"]
        assert found == {"a": "unloaded", "b": "loaded", "c": "loaded"}
        assert [loads(client, name) for name in "abc"] == [2, 2, 1]


@awaited
async def test_two_models_in_turn_where_there_is_room_for_one() -> None:
    async with running(model=["a", "b"], max_models=1) as client:
        asked = [embed(client, "ab"[number % 2], f"text {number}") for number in range(40)]
        answers = await asyncio.gather(*asked)
        assert {answer.status_code for answer in answers} == {200}
        assert [answer.json()["model"] for answer in answers] == list("ab" * 20)
        # All that waits is run before a model goes; how much waits by then is a matter of timing.
        assert loads(client, "a") + loads(client, "b") <= 10


@awaited
async def test_others_are_answered_while_a_model_is_loaded() -> None:
    async with running(model=["hash", "late:1.5"]) as client:
        late = asyncio.ensure_future(embed(client, "late:1.5"))
        await until(lambda: client.service.pool.state("late:1.5") == "loading")
        assert (await embed(client)).status_code == 200 and not late.done()
        assert (await client.get("/readyz")).json() == {"status": "ok"}
        assert (await late).status_code == 200


@awaited
async def test_the_deadline_holds_for_one_that_is_being_loaded() -> None:
    async with running(model=["hash", "late:1.0"], deadline=0.4) as client:
        assert (await embed(client, "late:1.0")).status_code == 504
        assert (await embed(client)).status_code == 200
        await until(lambda: client.service.pool.state("late:1.0") == "loaded")
        assert (await embed(client, "late:1.0")).status_code == 200
        assert counter(client, "tertium_texts_total") == 2
        assert not client.service.queue.held


@awaited
async def test_models_share_a_worker_equally() -> None:
    async with running(model=["slow:0.05", "hash"], batch_tokens=8) as client:
        await embed(client, "hash")
        many = [asyncio.ensure_future(embed(client, "slow:0.05", f"t {n}")) for n in range(60)]
        await until(lambda: started(client))
        for number in range(5):
            assert (await embed(client, "hash", f"quick {number}")).status_code == 200
        assert not all(each.done() for each in many)
        assert {answer.status_code for answer in await asyncio.gather(*many)} == {200}


@awaited
async def test_a_model_that_cannot_be_loaded_costs_the_others_nothing() -> None:
    async with running(model=["hash", "broken"]) as client:
        for _ in range(2):
            answer = await embed(client, "broken")
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "model_unavailable"
            assert "secret" not in answer.text
        assert answer.headers["retry-after"] == "30"  # known by then
        assert (await embed(client)).status_code == 200
        assert await states(client) == {"hash": "loaded", "broken": "failed"}
        assert (await client.get("/readyz")).json() == {"status": "ok", "failed": ["broken"]}


@awaited
async def test_a_model_that_cannot_be_loaded_is_tried_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "_GIVEN_UP", 0.2)
    async with running(conditional_model="noted") as client:  # it does not take conditions
        ask = {"triples": [["a", "b", "c"]]}
        assert (await client.post("/v1/conditional", json=ask)).status_code == 503
        await asyncio.sleep(0.3)
        assert (await states(client))["noted"] == "unloaded"
        assert (await client.post("/v1/conditional", json=ask)).status_code == 503


@awaited
async def test_a_model_whose_loading_kills_is_given_up_and_takes_nobody_along() -> None:
    async with running(model=["slow:0.05", "deadly"], launch=launch_fork, workers=2) as client:
        await until(lambda: counter(client, "tertium_workers_ready") == 2)
        others = [asyncio.ensure_future(embed(client, None, f"text {n}")) for n in range(20)]
        deadly = await asyncio.gather(*(embed(client, "deadly", f"die {n}") for n in range(3)))
        assert {answer.status_code for answer in deadly} == {503}
        assert {answer.json()["error"]["code"] for answer in deadly} == {"model_unavailable"}
        assert {answer.status_code for answer in await asyncio.gather(*others)} == {200}
        died = counter(client, "tertium_worker_restarts_total")
        assert died == 2
        assert (await embed(client, "deadly")).status_code == 503
        await until(lambda: client.service.pool.ready)
        assert (await embed(client)).status_code == 200
        assert counter(client, "tertium_worker_restarts_total") == died


@awaited
async def test_a_worker_that_is_killed_costs_no_model_an_answer() -> None:
    models = ["slow:0.05", "other", "third"]
    async with running(model=models, launch=launch_fork, workers=2, max_models=2) as client:
        await until(lambda: counter(client, "tertium_workers_ready") == 2)
        asked = [asyncio.ensure_future(embed(client, models[n % 3], f"t {n}")) for n in range(30)]
        await asyncio.sleep(0.1)
        client.service.pool._workers[0].process.kill()
        answers = await asyncio.gather(*asked)
        assert {answer.status_code for answer in answers} == {200}
        assert [answer.json()["model"] for answer in answers] == models * 10


@awaited
async def test_each_model_keeps_to_the_worker_that_has_it() -> None:
    async with running(model=["a", "b"], workers=2, max_models=1) as client:
        await until(lambda: counter(client, "tertium_workers_ready") == 2)
        for _ in range(5):
            both = await asyncio.gather(embed(client, "a"), embed(client, "b"))
            assert {answer.status_code for answer in both} == {200}
        assert (loads(client, "a"), loads(client, "b")) == (2, 1)


@awaited
async def test_a_model_in_demand_is_loaded_by_a_second_worker() -> None:
    async with running(model=["a", "slow:0.2"], workers=2) as client:
        await until(lambda: counter(client, "tertium_workers_ready") == 2)
        await embed(client, "slow:0.2")
        assert loads(client, "slow:0.2") == 1
        await asyncio.gather(*(embed(client, "slow:0.2", f"text {n}") for n in range(6)))
        assert loads(client, "slow:0.2") == 2


@awaited
async def test_the_model_of_an_index_stays_whatever_else_is_asked_for(tmp_path: Path) -> None:
    Index.build(tmp_path / "index", ["a cat", "a dog"], FakeModel("b"))
    async with running(model=["a", "b", "c"], max_models=1, index=tmp_path / "index") as client:
        for name in "acb":
            assert (await embed(client, name)).status_code == 200
            found = await client.post("/v1/search", json={"query": "a dog", "top_k": 1})
            assert found.json()["results"][0][0]["text"] == "a dog"
        assert loads(client, "b") == 1 and (await states(client))["b"] == "loaded"
