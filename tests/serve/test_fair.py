from tertium.serve.batching import FairQueue, TimeShares


def served(queue: FairQueue[str]) -> list[str]:
    found = []
    while (turn := queue.pop()) is not None:
        found.append(turn.item)
        queue.finish(turn, used=turn.cost)
    return found


def test_equal_items_go_in_the_order_of_their_arrival() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in "abc":
        queue.add(item, client="one", cost=5)
    assert queue and served(queue) == ["a", "b", "c"] and not queue


def test_what_is_put_back_keeps_its_place() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in "ab":
        queue.add(item, client="one", cost=5)
    turn = queue.pop()
    assert turn is not None and turn.item == "a"
    queue.put_back(turn)
    assert served(queue) == ["a", "b"]


def test_a_client_that_was_idle_has_saved_up_nothing() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(100):
        queue.add(f"early {number}", client="one", cost=5)
        served(queue)
    for number in range(3):
        queue.add(f"a{number}", client="one", cost=5)
        queue.add(f"b{number}", client="two", cost=5)
    assert served(queue) == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_time_is_shared_equally_however_long_the_turns() -> None:
    shares: TimeShares[str] = TimeShares()
    seconds = {"batches": 0.4, "explanations": 0.1}
    spent = dict.fromkeys(seconds, 0.0)
    for _ in range(100):
        chosen = shares.next(list(seconds))
        assert chosen is not None
        shares.charge(chosen, seconds[chosen])
        spent[chosen] += seconds[chosen]
    assert abs(spent["batches"] - spent["explanations"]) <= 0.41


def test_who_was_idle_does_not_make_up_for_it() -> None:
    shares: TimeShares[str] = TimeShares()
    for _ in range(100):
        assert shares.next(["a"]) == "a"
        shares.charge("a", 1.0)
    turns = []
    for _ in range(10):
        chosen = shares.next(["a", "b"])
        assert chosen is not None
        turns.append(chosen)
        shares.charge(chosen, 1.0)
    assert 4 <= turns.count("b") <= 6 and shares.next([]) is None
