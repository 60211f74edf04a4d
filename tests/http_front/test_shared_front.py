"""What all calls of a process share: identities, bytes held, what is known of nodes."""

import asyncio

import pytest

from harness.waiting import until
from penstock.http import front as front_module
from penstock.http.front import IDENTITIES_MAX, Front
from penstock.http.limits import BODY_BYTES_MAX, Held
from penstock.http.problems import Problem
from penstock.http.upstream.connection import Credentials
from penstock.remoting.wire.codes import RequestCode
from tests.http_front.scripted_node import calling, front_of, ok, scripted

NOWHERE = "127.0.0.1:1"


def _full(front: Front) -> list[Credentials]:
    keys = [Credentials(f"key-{number}", "s") for number in range(IDENTITIES_MAX)]
    for one in keys:
        front.identity(one)
    return keys


def test_the_access_key_that_was_used_least_recently_gives_way() -> None:
    async def run() -> None:
        front = front_of(NOWHERE)
        keys = _full(front)
        first, second = (front.identity(one) for one in keys[:2])
        third = front.identity(keys[2])
        front.identity(Credentials("one-more", "s"))
        assert front.identity(keys[0]) is first
        assert front.identity(keys[1]) is second
        assert front.identity(keys[2]) is third
        front.close()

    asyncio.run(run())


def test_an_access_key_in_use_stays_and_without_another_the_next_one_waits() -> None:
    async def run() -> None:
        front = front_of(NOWHERE)
        keys = _full(front)
        for one in keys[:-1]:
            front.identity(one).calls += 1
        kept = front.identity(keys[0])
        front.identity(Credentials("one-more", "s")).calls += 1
        assert front.identity(keys[0]) is kept
        with pytest.raises(Problem) as refused:
            front.identity(Credentials("two-more", "s"))
        assert refused.value.code == "too-many-identities"
        front.close()

    asyncio.run(run())


def test_bytes_up_to_the_bound_are_held_and_not_one_more() -> None:
    held = Held(10)
    assert held.take(7, "one")
    assert held.take(3, "two")
    assert not held.take(1, "two")
    held.give_back(3, "two")
    assert not held.take(4, "two")
    assert held.bytes_now == 7


def test_what_was_refused_is_not_given_back() -> None:
    front = front_of(NOWHERE)
    one, other = calling(front).call, calling(front).call
    one.hold(100)
    with pytest.raises(Problem):
        other.hold(front.held.bytes_max)
    other.hold(1)
    other.end()
    assert front.held.bytes_now == 100
    one.end()
    assert front.held.bytes_now == 0


@pytest.mark.parametrize(("more", "code"), [(0, None), (1, "too-large")])
def test_a_body_as_large_as_the_bound_is_taken(more: int, code: str | None) -> None:
    front = front_of(NOWHERE)
    call = calling(front, bytes(BODY_BYTES_MAX + more)).call
    del call.headers[b"content-length"]
    told = None
    try:
        assert len(asyncio.run(call.body())) == BODY_BYTES_MAX
    except Problem as problem:
        told = problem.code
    assert told == code
    call.end()


def test_a_look_for_a_node_that_takes_long_is_not_begun_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(front_module, "HEALTH_FRESH_S", 0.0)

    async def run() -> None:
        async with scripted(ok) as node:
            node.may_tell_routes.clear()
            front = front_of(node.address)
            looks = [asyncio.create_task(front.health.is_reached()) for _ in range(3)]
            await until(lambda: node.asked)
            looks.append(asyncio.create_task(front.health.is_reached()))
            await asyncio.sleep(0.01)
            node.may_tell_routes.set()
            assert await asyncio.gather(*looks) == [True] * 4
            assert len(node.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1
            await asyncio.sleep(0.001)
            assert await front.health.is_reached()
            assert len(node.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 2
            front.close()

    asyncio.run(run())


def test_a_look_for_a_node_keeps_its_connections_while_other_access_keys_come() -> None:
    async def run() -> None:
        async with scripted(ok) as node:
            node.may_tell_routes.clear()
            front = front_of(node.address)
            look = asyncio.create_task(front.health.is_reached())
            await until(lambda: node.asked)
            _full(front)
            node.may_tell_routes.set()
            assert await look
            front.close()

    asyncio.run(run())
