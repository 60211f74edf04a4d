"""What a share fetch waits for, and what of transactions and of the past a share has."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from penstock.broker.shares.waiting import ready
from penstock.coordinator.calls.shares import SharePlace, ShareSummaryRequest
from penstock.kafka import front
from penstock.kafka.handlers.shares import share_fetch
from penstock.kafka.shares import fetching
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.messages import Unavailable
from penstock.storage.index.partition_log import PartitionLog
from tests.kafka.sharing import (
    ACCEPT,
    FETCH,
    RELEASE,
    Member,
    Range,
    ask,
    ms,
    part_of,
    ranges,
    set_group,
    subscribe,
    values,
)
from tests.kafka.test_produce_fetch import batch, create, produce
from tests.kafka.transacting import add, batch_of, begin
from tests.kafka.transacting import produce as produce_in
from tests.live_node import LiveNode, RawClient, running_node

LONG = ms(60_000)


@pytest.fixture
def topic(node: LiveNode) -> bytes:
    set_group(node, "share.auto.offset.reset", "earliest")
    topic_id = create(node, "t")
    subscribe(node, "t")
    return topic_id


def parked(node: LiveNode) -> Callable[[], bool]:
    return lambda: node.front.share_sessions.waiting > 0


def wait_for(node: LiveNode, member: Member, action: Callable[[], object], **fields: Any) -> Any:
    """Return the answer to a fetch that waits until something happens."""
    asked = member.fetch_fields((0,), **{"max_wait": LONG, **fields})
    member.client.send(FETCH, member.version, asked)
    assert node.until(parked(node))
    action()
    member.epoch += 1
    return member.client.receive(FETCH, member.version)


def test_a_fetch_waits_for_records(node: LiveNode, client: RawClient, topic: bytes) -> None:
    with closing(node.connect()) as producer:
        answer = wait_for(
            node, Member(client, topic), lambda: produce(producer, "t", batch(b"late"))
        )
    assert values(answer) == [b"late"]


def test_a_fetch_waits_for_records_that_another_member_gives_back(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    with closing(node.connect()) as other_client:
        other = Member(other_client, topic, name="other")
        other.open(0)
        answer = wait_for(node, Member(client, topic), lambda: other.say(0, 0, RELEASE))
    assert ranges(answer) == [Range(0, 0, 2)]


def test_a_fetch_waits_for_room_where_members_hold_as_much_as_they_may(tmp_path: Path) -> None:
    with running_node(tmp_path, "shares.record_locks_max=100") as node:
        set_group(node, "share.auto.offset.reset", "earliest")
        topic = create(node, "t")
        subscribe(node, "t")
        with closing(node.connect()) as client, closing(node.connect()) as other_client:
            produce(client, "t", batch(*[b"v"] * 150))
            other = Member(other_client, topic, name="other")
            assert ranges(other.open(0)) == [Range(0, 99, 1)]
            answer = wait_for(node, Member(client, topic), lambda: other.say(0, 9, ACCEPT))
            assert ranges(answer) == [Range(100, 109, 1)]


def test_a_fetch_that_found_its_share_not_loaded_yet_waits_without_looking_once_it_is(
    node: LiveNode, client: RawClient, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = iter([Unavailable.LOADING, Unavailable.FULL])

    async def at_first_early(broker: Any, key: Any, deadline: float) -> Unavailable | None:
        return next(early, None) or await ready(broker, key, deadline)

    monkeypatch.setattr(fetching, "ready", at_first_early)
    before = node.call(lambda: node.broker.stats.fetches_parked)
    assert ranges(Member(client, topic).open(0, max_wait=ms(1_000))) == []
    assert next(early, None) is None
    # Twice while it was early, and for the rest; every 50 ms it would be twenty times.
    assert 1 <= node.call(lambda: node.broker.stats.fetches_parked) - before <= 8


def test_a_fetch_waits_for_its_minimum_of_bytes(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    size = 2 * len(batch(b"a"))
    with closing(node.connect()) as producer:
        answer = wait_for(
            node,
            Member(client, topic),
            lambda: produce(producer, "t", batch(b"b")),
            min_bytes=size,
        )
    assert values(answer) == [b"a", b"b"]


def test_at_the_end_of_its_wait_a_fetch_gets_what_there_is(client: RawClient, topic: bytes) -> None:
    member = Member(client, topic)
    assert ranges(member.open(0, max_wait=ms(5))) == []
    produce(client, "t", batch(b"a"))
    assert ranges(member.fetch(max_wait=ms(5), min_bytes=1 << 20)) == [Range(0, 0, 1)]


def test_a_fetch_whose_topic_is_deleted_says_so(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    with closing(node.connect()) as other:
        fields = {"topic_names": ["t"], "timeout_ms": 5_000}
        answer = wait_for(node, Member(client, topic), lambda: other.ask(20, 5, fields))
    assert part_of(answer).error_code != ErrorCode.NONE


def test_partitions_that_a_fetch_waits_for_count_as_memory_and_as_long_work(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 100
    member = Member(client, create(node, "many", count))
    subscribe(node, "many")
    monkeypatch.setattr(front, "FEW", count)
    before = node.call(lambda: node.front.pinned_bytes)
    assert not node.call(lambda: node.front.has_long_work)
    client.send(FETCH, member.version, member.fetch_fields(range(count), max_wait=LONG))
    assert node.until(parked(node))
    assert node.call(lambda: node.front.pinned_bytes) >= before + 640 * count
    assert node.call(lambda: node.front.has_long_work)
    client.close()
    assert node.until(lambda: node.front.pinned_bytes == before)


def test_of_fetches_of_a_session_that_come_together_few_look_at_its_partitions(
    node: LiveNode, client: RawClient, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Member(client, topic)
    member.open(0)
    looked: list[int] = []
    parts = share_fetch._parts

    async def counted(context: Any, session: Any) -> Any:
        looked.append(1)
        return await parts(context, session)

    monkeypatch.setattr(share_fetch, "_parts", counted)
    frames = bytearray()
    client_sends = client.send_bytes
    monkeypatch.setattr(client, "send_bytes", frames.extend)
    count = 30
    for _ in range(count):
        client.send(FETCH, member.version, member.fetch_fields(max_wait=LONG))
        member.epoch += 1
    client_sends(bytes(frames))
    for _ in range(count - 1):
        assert client.receive(FETCH, member.version).error_code == ErrorCode.NONE
    assert node.until(parked(node))
    assert len(looked) < count // 2
    with closing(node.connect()) as producer:
        produce(producer, "t", batch(b"late"))
    assert values(client.receive(FETCH, member.version)) == [b"late"]


def test_a_newer_fetch_of_a_session_ends_the_wait_of_an_older_one(
    node: LiveNode, client: RawClient, topic: bytes
) -> None:
    with closing(node.connect()) as newer:
        member = Member(client, topic)

        def ask_again() -> None:
            second = Member(newer, topic)
            second.epoch = 1
            assert second.fetch().error_code == ErrorCode.NONE

        assert ranges(wait_for(node, member, ask_again)) == []


def has_end(log: PartitionLog, end: int) -> bool:
    return log.log_end_offset == end


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_markers_and_for_some_groups_aborted_records_are_never_handed_out(
    node: LiveNode, client: RawClient, topic: bytes, isolation: str
) -> None:
    set_group(node, "share.isolation.level", isolation)
    for is_committed, value in ((False, b"no"), (True, b"yes")):
        name = value.decode()
        producer = begin(node, client, name)
        add(client, producer, {"t": [0]}, name)
        produce_in(client, "t", [(0, batch_of(producer, value))], name)
        fields = {
            "transactional_id": name,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "committed": is_committed,
        }
        assert client.ask(ApiKey.END_TXN, 1, fields).error_code == ErrorCode.NONE
        hosted = node.broker.partitions.find("t", 0)
        assert hosted is not None
        log, end = hosted.log, 2 + 2 * is_committed
        assert wait_until(partial(has_end, log, end), 60)
    produce(client, "t", batch(b"plain"))
    member = Member(client, topic)
    answer = member.open(0, max_wait=LONG, min_bytes=4 * len(batch(b"v")))
    if isolation == "read_committed":
        assert values(answer) == [b"yes", b"plain"]
    else:
        assert values(answer) == [b"no", b"yes", b"plain"]
    for found in ranges(answer):
        assert member.say(found.first, found.last, ACCEPT) == ErrorCode.NONE
    place = SharePlace(topic, 0)
    question = ShareSummaryRequest(group="g", places=(place,))
    summary = ask(node, question).found[0]
    assert (summary.start_offset, summary.lag) == (5, 0)


def test_shares_are_as_they_were_after_a_restart(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        set_group(node, "share.auto.offset.reset", "earliest")
        topic = create(node, "t")
        subscribe(node, "t")
        produce(client, "t", batch(b"a", b"b", b"c"))
        member = Member(client, topic)
        member.open(0)
        assert member.say(0, 0, ACCEPT) == ErrorCode.NONE
        assert member.say(1, 1, RELEASE) == ErrorCode.NONE
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        member = Member(client, topic)
        assert ranges(member.open(0, max_wait=LONG)) == [Range(1, 1, 2)]
        assert member.say(2, 2, ACCEPT) == ErrorCode.NONE  # held since before
