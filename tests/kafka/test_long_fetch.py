"""Fetches of many partitions: what they find, how they wait, and how many may wait."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.broker.fetch import operation
from penstock.broker.fetch import partition_shares as fetch_partitions
from penstock.broker.fetch.long_fetch import LongFetch
from penstock.broker.fetch.partition_shares import PARTITION_BYTES
from penstock.broker.fetch.served import find_records
from penstock.broker.long_places import LONG_PLACES
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.view import TierClient
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.broker.cluster import produce_fields
from tests.kafka.test_produce_fetch import create
from tests.live_node import ANSWER_SECONDS, LiveNode, RawClient

PARTITIONS = 1_200
VERSION = 12


@pytest.fixture
def wide(node: LiveNode) -> LiveNode:
    create(node, "wide", partitions=PARTITIONS)
    return node


def fields(
    *topics: str, count: int = PARTITIONS, wait_ms: int = 0, **session: int
) -> dict[str, Any]:
    partitions = [
        {
            "partition": number,
            "current_leader_epoch": -1,
            "fetch_offset": 0,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        for number in range(count)
    ]
    return {
        "replica_id": -1,
        "max_wait_ms": wait_ms,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": partitions} for topic in topics],
        "forgotten_topics_data": [],
        "rack_id": "",
    } | session


def produce(client: RawClient, partition: int) -> None:
    fields = produce_fields("wide", (b"value",), 1, {}, partition)
    client.ask(ApiKey.PRODUCE, 9, fields)


def with_records(answer: Any) -> list[int]:
    return [
        part.partition_index
        for topic in answer.responses
        for part in topic.partitions
        if part.records
    ]


def test_every_partition_is_answered_and_those_with_records_have_them(
    wide: LiveNode, client: RawClient
) -> None:
    produce(client, PARTITIONS - 1)
    answer = client.ask(ApiKey.FETCH, VERSION, fields("wide", "absent"))
    found, absent = (topic.partitions for topic in answer.responses)
    assert [part.partition_index for part in found] == list(range(PARTITIONS))
    assert {int(part.error_code) for part in found} == {0}
    assert {int(part.error_code) for part in absent} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert with_records(answer) == [PARTITIONS - 1]


def test_a_long_fetch_that_waits_is_woken_by_any_of_its_partitions(
    wide: LiveNode, client: RawClient
) -> None:
    client.send(ApiKey.FETCH, VERSION, fields("wide", wait_ms=25_000))
    other = wide.connect()
    produce(other, 777)
    other.close()
    assert with_records(client.receive(ApiKey.FETCH, VERSION)) == [777]
    assert wide.until(lambda: not wide.broker.fetch_partitions.parked)


def test_a_wake_that_comes_while_a_long_fetch_parks_is_not_forgotten(
    wide: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    park, woken = HostedPartition.park, list[HostedPartition]()
    first = wide.call(lambda: wide.broker.partitions.find("wide", 0))
    assert first is not None

    def park_and_wake(hosted: HostedPartition, waiter: Any, high_watermark: int) -> None:
        park(hosted, waiter, high_watermark)
        if hosted.partition == PARTITIONS - 1 and not woken:
            woken.append(hosted)
            first.wake()  # as an append does that leaves nothing to read

    monkeypatch.setattr(HostedPartition, "park", park_and_wake)
    client.send(ApiKey.FETCH, VERSION, fields("wide", wait_ms=25_000))
    assert wide.until(lambda: woken and first.waiters)
    with contextlib.closing(wide.connect()) as other:
        produce(other, 0)
    assert with_records(client.receive(ApiKey.FETCH, VERSION)) == [0]


def test_a_session_of_many_partitions_goes_on_with_short_requests(
    wide: LiveNode, client: RawClient
) -> None:
    opened = client.ask(ApiKey.FETCH, VERSION, fields("wide", session_epoch=0))
    produce(client, 3)
    session = {"session_id": opened.session_id, "session_epoch": 1}
    answer = client.ask(ApiKey.FETCH, VERSION, fields(**session))
    assert opened.session_id > 0
    assert with_records(answer) == [3]
    (topic,) = answer.responses
    assert [part.partition_index for part in topic.partitions] == [3], "the others have no news"


def test_who_finds_no_room_to_wait_is_answered_at_once(
    wide: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_partitions, "PARKED_MAX", PARTITIONS - 1)
    answer = client.ask(ApiKey.FETCH, VERSION, fields("wide", wait_ms=25_000))
    assert with_records(answer) == []


def test_a_parked_long_fetch_ends_when_its_client_has_gone(
    wide: LiveNode, client: RawClient
) -> None:
    leaving = wide.connect()
    leaving.send(ApiKey.FETCH, VERSION, fields("wide", wait_ms=30_000))
    leaving.close()
    client.send(ApiKey.FETCH, VERSION, fields("wide", wait_ms=2_500))
    client.receive(ApiKey.FETCH, VERSION)
    assert wide.until(lambda: not wide.broker.fetch_partitions.parked)
    partition = wide.broker.partitions.find("wide", 5)
    assert partition is not None
    assert wide.call(lambda: len(partition.waiters)) == 0


@contextlib.contextmanager
def changing(node: LiveNode, partition: HostedPartition) -> Iterator[None]:
    """A partition wakes who waits on it, again and again, and gets no records."""
    timers: list[asyncio.TimerHandle] = []

    def change() -> None:
        partition.changed()
        timers[:] = [node.loop.call_later(0.01, change)]

    def stop() -> None:
        timers[0].cancel()

    node.call(change)
    yield
    node.call(stop)


def test_a_long_fetch_that_is_woken_for_nothing_again_and_again_ends_with_its_time(
    wide: LiveNode, client: RawClient
) -> None:
    # So do appends of an open transaction wake a consumer of committed records.
    partition = wide.broker.partitions.find("wide", 7)
    assert partition is not None
    with changing(wide, partition):
        answer = client.ask(ApiKey.FETCH, VERSION, fields("wide", wait_ms=300))
    assert with_records(answer) == []


def test_a_change_while_a_long_fetch_is_parked_on_its_partitions_does_not_end_the_watch(
    wide: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A partition that wakes its waiters has none any more: they have to park on it again.
    partition = wide.broker.partitions.find("wide", 7)
    assert partition is not None
    watch, look_again = LongFetch._watch, LongFetch._look_again
    looks: list[bool] = []

    async def watch_a_change(fetch: LongFetch) -> None:
        await watch(fetch)
        if not looks:
            partition.changed()

    async def counted(fetch: LongFetch) -> bool:
        found = await look_again(fetch)
        looks.append(found)
        return found

    monkeypatch.setattr(LongFetch, "_watch", watch_a_change)
    monkeypatch.setattr(LongFetch, "_look_again", counted)
    client.send(ApiKey.FETCH, VERSION, fields("wide", wait_ms=25_000))
    assert wide.until(lambda: looks)
    other = wide.connect()
    produce(other, 7)
    other.close()
    assert with_records(client.receive(ApiKey.FETCH, VERSION)) == [7]


def test_the_tier_wakes_a_long_fetch_and_knows_its_connection(
    wide: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[TierClient] = []
    there: list[bool] = []

    def find(*arguments: Any) -> Any:
        """Records that only the tier has, until `there`."""
        if there:
            return find_records(*arguments)
        asked.append(arguments[-1])
        return None

    produce(client, 7)
    monkeypatch.setattr(operation, "find_records", find)
    client.send(ApiKey.FETCH, VERSION, fields("wide", wait_ms=25_000))
    assert wide.until(lambda: len(asked) == 2), "before and after it was parked"
    there.append(True)
    wide.call(asked[0].wake)
    assert with_records(client.receive(ApiKey.FETCH, VERSION)) == [7]
    listener = wide.node._listener
    assert listener is not None
    assert [one.connection for one in asked] == 2 * list(listener.connections)


@contextlib.contextmanager
def no_places(node: LiveNode) -> Iterator[None]:
    """All places of long requests are taken."""
    over = asyncio.Event()

    async def hold() -> None:
        async with node.broker.long_places.place(0):
            await over.wait()

    held = [asyncio.run_coroutine_threadsafe(hold(), node.loop) for _ in range(LONG_PLACES)]
    yield
    node.call(over.set)
    for one in held:
        one.result(ANSWER_SECONDS)


def test_a_client_that_goes_while_its_long_fetch_waits_for_a_place_is_no_error(
    wide: LiveNode, client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    partitions = wide.broker.fetch_partitions
    leaving = wide.connect()
    with no_places(wide):
        leaving.send(ApiKey.FETCH, VERSION, fields("wide", wait_ms=30_000))
        assert wide.until(lambda: partitions.looking)
        leaving.close()
    assert wide.until(lambda: not partitions.looking)
    assert "unhandled" not in caplog.text
    assert client.ask(ApiKey.FETCH, VERSION, fields("wide")).responses


def test_what_the_partitions_of_a_fetch_take_is_counted_until_it_is_answered(
    wide: LiveNode, client: RawClient
) -> None:
    def kept_bytes() -> int:
        listener = wide.node._listener
        assert listener is not None
        return sum(connection.kept_bytes for connection in listener.connections)

    client.send(ApiKey.FETCH, VERSION, fields("wide", wait_ms=25_000))
    assert wide.until(lambda: wide.broker.fetch_partitions.parked == PARTITIONS)
    assert wide.until(lambda: kept_bytes() == PARTITIONS * PARTITION_BYTES)
    other = wide.connect()
    produce(other, 5)
    other.close()
    client.receive(ApiKey.FETCH, VERSION)
    assert wide.until(lambda: not kept_bytes())
    assert wide.until(lambda: not wide.broker.fetch_partitions.looking)
