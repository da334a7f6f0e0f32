"""The pure cores: no window of a minute holds more than its limit, no endpoint more than its places, nobody starves."""

from __future__ import annotations

import asyncio
import math
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.llm.config import Endpoint
from envharness.llm.endpoints import EndpointQueue
from envharness.llm.rates import WINDOW_SECONDS, SlidingWindow
from envharness.llm.retry import FIRST_SECONDS, LONGEST_BACKOFF_SECONDS, backoff, retry_after
from envharness.llm.scheduling import EndpointState, Grant, choose, give_back, take
from envharness.llm.share import split

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
calls = st.lists(
    st.tuples(st.floats(0, 30, allow_subnormal=False), st.integers(1, 50)), min_size=1, max_size=40
)  # (pause before the call, its amount)


@given(limit=st.integers(1, 60), asked=calls)
def test_no_minute_holds_more_than_the_limit(limit: int, asked: list[tuple[float, int]]) -> None:
    window, now, taken = SlidingWindow(limit), 0.0, list[tuple[float, float]]()
    for pause, amount in asked:
        now += pause
        while (wait := window.wait(now, amount)) > 0:
            assert wait <= WINDOW_SECONDS + 1e-6
            now += max(wait, 1e-6)
        taken.append((now, window.take(now, amount).amount))
    for start, _ in taken:
        assert sum(amount for at, amount in taken if start <= at < start + WINDOW_SECONDS) <= limit + 1e-9


@given(limit=st.integers(2, 60), asked=calls)
def test_a_wait_is_no_longer_than_it_must_be(limit: int, asked: list[tuple[float, int]]) -> None:
    window, now = SlidingWindow(limit), 0.0
    for pause, amount in asked:
        now += pause
        wait = window.wait(now, amount)
        if wait > 1e-3:
            spent_just_before = sum(e.amount for e in window._spent if e.at + WINDOW_SECONDS > now + wait - 1e-3)
            assert spent_just_before + min(amount, limit) > limit
        now += wait + 1e-6
        window.take(now, amount)


def test_what_was_estimated_too_high_makes_room() -> None:
    window = SlidingWindow(100)
    entry = window.take(0.0, 90)
    assert window.wait(1.0, 50) == pytest.approx(59.0)
    window.correct(entry, 10)
    assert window.wait(1.0, 50) == 0.0


@given(data=st.data(), limits=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_no_endpoint_has_more_calls_than_places_and_a_free_one_takes_the_next(
    data: st.DataObject, limits: list[int]
) -> None:
    states = [EndpointState(concurrency=limit) for limit in limits]
    held: list[int] = []
    for _ in range(30):
        if held and data.draw(st.booleans()):
            index = held.pop(data.draw(st.integers(0, len(held) - 1)))
            give_back(states, Grant(index), None)
            continue
        index, wait = choose(states, 0.0, 1.0)
        assert (index is None) == (len(held) == sum(limits)) == (wait == math.inf)
        if index is not None:
            take(states, index, 0.0, 1.0)
            held.append(index)
        assert all(state.in_flight <= state.concurrency for state in states)
        assert [state.in_flight for state in states] == [held.count(i) for i in range(len(states))]


def test_an_endpoint_to_avoid_is_taken_only_where_all_others_have_failed() -> None:
    states = [EndpointState(concurrency=1), EndpointState(concurrency=1)]
    assert choose(states, 0.0, 1.0, avoid=0)[0] == 1
    take(states, 1, 0.0, 1.0)
    assert choose(states, 0.0, 1.0, avoid=0) == (None, math.inf), "the other is busy, and worth waiting for"
    states[1].failures = 1
    assert choose(states, 0.0, 1.0, avoid=0)[0] == 0


def test_calls_that_come_one_by_one_use_every_endpoint_by_its_places() -> None:
    states = [EndpointState(concurrency=1), EndpointState(concurrency=3)]
    taken: list[int] = []
    for _ in range(8):
        index, _ = choose(states, 0.0, 1.0)
        assert index is not None
        taken.append(index)
        give_back(states, take(states, index, 0.0, 1.0), None)
    assert [taken.count(0), taken.count(1)] == [2, 6]


def test_a_paused_endpoint_takes_nothing_until_its_time() -> None:
    states = [EndpointState(concurrency=1, paused_until=10.0)]
    assert choose(states, 4.0, 1.0) == (None, 6.0)
    assert choose(states, 10.0, 1.0) == (0, 0.0)


def test_limits_are_shared_between_processes() -> None:
    endpoint = Endpoint(base_url="http://x", concurrency=10, requests_per_minute=60, tokens_per_minute=1000)
    state = EndpointState.of(endpoint, places=2)
    assert state.concurrency == 2
    assert [window and window.limit for window in (state.requests, state.tokens)] == [12, 200]
    least = EndpointState.of(endpoint.model_copy(update={"concurrency": 100}), places=1)
    assert [window and window.limit for window in (least.requests, least.tokens)] == [1, 10]


@given(limits=st.lists(st.integers(1, 300), min_size=1, max_size=5), seats=st.integers(1, 40))
def test_seats_share_all_of_every_limit_and_no_more(limits: list[int], seats: int) -> None:
    parts = split(limits, seats)
    asking = [part for part in parts if part]
    assert len(parts) == seats
    assert len(asking) == min(seats, *limits)
    assert parts[: len(asking)] == asking
    assert [sum(part[endpoint] for part in asking) for endpoint in range(len(limits))] == limits
    assert all(place >= 1 for part in asking for place in part)
    totals = [sum(part) for part in asking]
    assert max(totals) - min(totals) <= 1


def test_no_limits_are_no_parts() -> None:
    assert split([], 3) == [[], [], []]


@given(failures=st.integers(1, 100), seed=st.integers())
def test_backoff_grows_and_stays_in_bounds(failures: int, seed: int) -> None:
    seconds = backoff(failures, random.Random(seed))
    ceiling = min(FIRST_SECONDS * 2.0 ** min(failures - 1, 60), LONGEST_BACKOFF_SECONDS)
    assert ceiling / 2 <= seconds <= ceiling


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@given(st.integers(0, 10**6))
def test_a_date_says_the_same_as_its_seconds(seconds: int) -> None:
    date = (NOW + timedelta(seconds=seconds)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert retry_after({"retry-after": date}, NOW) == seconds


def test_the_queue_serves_in_order_and_survives_cancelled_callers() -> None:
    async def play() -> list[int]:
        queue = EndpointQueue([Endpoint(base_url="http://x", concurrency=1)])
        served: list[int] = []

        async def caller(number: int) -> None:
            async with queue.place(1.0):
                served.append(number)
                await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(caller(number)) for number in range(6)]
        await asyncio.sleep(0.005)
        for number in (1, 3):
            tasks[number].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(1), queue.place(1.0):
            return served

    assert asyncio.run(play()) == [0, 2, 4, 5]


def test_a_faster_endpoint_steals_the_work_of_a_slower_one() -> None:
    async def play() -> list[int]:
        queue = EndpointQueue([Endpoint(base_url="http://x", concurrency=1)] * 2)
        served = [0, 0]

        async def caller() -> None:
            async with queue.place(1.0) as place:
                served[place.endpoint] += 1
                await asyncio.sleep(0.1 if place.endpoint == 0 else 0.005)

        await asyncio.gather(*(caller() for _ in range(20)))
        return served

    slow, fast = asyncio.run(play())
    assert slow + fast == 20
    assert fast >= 3 * slow


def test_a_rate_opens_with_time_alone() -> None:
    async def play() -> float:
        now = [0.0]
        queue = EndpointQueue([Endpoint(base_url="http://x", requests_per_minute=1)], clock=lambda: now[0])
        async with queue.place(1.0):
            pass
        waiting = asyncio.ensure_future(queue.place(1.0).__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
        assert queue._alarm is not None
        left = queue._alarm.when() - asyncio.get_running_loop().time()
        now[0] = WINDOW_SECONDS
        queue._hand_out()
        await waiting
        queue.close()
        return left

    assert asyncio.run(play()) == pytest.approx(WINDOW_SECONDS, abs=1.0)
