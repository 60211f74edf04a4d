"""Shares of a node with several replica sets: each is in the set of its data, always."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from penstock.base.ids import ReplicaSetId
from penstock.broker.coordinators import share_places
from penstock.broker.coordinators.share_places import SharePlaces
from penstock.kafka.shares import fetching
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.state import ShareKey
from tests.kafka.sharing import (
    ACCEPT,
    FETCH,
    Member,
    Range,
    ms,
    part_of,
    ranges,
    set_group,
    subscribe,
)
from tests.kafka.test_produce_fetch import batch, create, produce
from tests.live_node import LiveNode, RawClient, running_node

PARTITIONS = 4


def sets_of(node: LiveNode, topic: str) -> tuple[int, ...]:
    return tuple(node.broker.metadata.topics_by_name[topic].partitions.set_ids)


def two_sets(directory: Path) -> tuple[str, ...]:
    places = ",".join(str(directory / name) for name in ("one", "two"))
    for name in ("one", "two"):
        (directory / name).mkdir(exist_ok=True)
    return (f"node.data_directories={places}",)


def test_each_set_gets_a_partition_for_its_shares_as_they_are_wanted(tmp_path: Path) -> None:
    with (
        running_node(tmp_path, *two_sets(tmp_path)) as node,
        closing(node.connect()) as client,
    ):
        set_group(node, "share.auto.offset.reset", "earliest")
        topic = create(node, "t", partitions=PARTITIONS)
        subscribe(node, "t")
        sets = sets_of(node, "t")
        assert len(set(sets)) == 2
        member = Member(client, topic)
        member.open(0, max_wait=ms(0))
        assert sets_of(node, "__share_state") == (sets[0],)
        member.fetch(range(1, PARTITIONS))
        assert sorted(sets_of(node, "__share_state")) == sorted(set(sets))
        places = node.broker.share_places
        for partition in range(PARTITIONS):
            key = ShareKey("g", topic, partition)
            number = node.call(partial(places.internal_partition_of, key))
            assert number is not None
            assert sets_of(node, "__share_state")[number] == sets[partition]
        for partition in range(PARTITIONS):
            produce(client, "t", batch(b"a", b"b"), partition=partition)
        answer = member.fetch()
        assert all(ranges(answer, one) == [Range(0, 1, 1)] for one in range(PARTITIONS))
        answer = member.acknowledge({one: [(0, 0, [ACCEPT])] for one in range(PARTITIONS)})
        assert not any(part_of(answer, one).error_code for one in range(PARTITIONS))
        member.close()
    with (
        running_node(tmp_path, *two_sets(tmp_path)) as node,
        closing(node.connect()) as client,
    ):
        member = Member(client, topic)
        found = {
            one: ranges(member.open(one, max_wait=ms(60_000)), one) for one in range(PARTITIONS)
        }
        assert found == {one: [Range(1, 1, 2)] for one in range(PARTITIONS)}


class SlowController:
    """Places are made once it answers; counts who has waited for one."""

    def __init__(self, node: LiveNode, patches: pytest.MonkeyPatch) -> None:
        self._node, self._answers, self.waits = node, node.call(asyncio.Event), 0
        make, wait = SharePlaces._make, SharePlaces._wait

        async def late(places: SharePlaces, set_id: ReplicaSetId, made: asyncio.Event) -> None:
            await self._answers.wait()
            await make(places, set_id, made)

        async def counted(places: SharePlaces, made: asyncio.Event, deadline: float) -> None:
            self.waits += 1
            await wait(places, made, deadline)

        patches.setattr(SharePlaces, "_make", late)
        patches.setattr(SharePlaces, "_wait", counted)

    def answer(self) -> None:
        self._node.call(self._answers.set)


@pytest.fixture
def slow(node: LiveNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowController]:
    set_group(node, "share.auto.offset.reset", "earliest")
    found = SlowController(node, monkeypatch)
    yield found
    found.answer()


def test_a_place_that_is_not_made_yet_is_waited_for_and_is_no_other_leader(
    node: LiveNode,
    client: RawClient,
    slow: SlowController,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(share_places, "WAIT_MS", 1)
    topic = create(node, "t")
    subscribe(node, "t")
    produce(client, "t", batch(b"v"))
    member = Member(client, topic)
    client.send(FETCH, member.version, member.fetch_fields((0,), max_wait=ms(60_000)))
    assert node.until(lambda: slow.waits >= 3)
    slow.answer()
    answer = client.receive(FETCH, member.version)
    assert part_of(answer).error_code == ErrorCode.NONE
    assert ranges(answer) == [Range(0, 0, 1)]


def test_a_fetch_of_many_partitions_waits_for_their_places_once(
    node: LiveNode,
    client: RawClient,
    slow: SlowController,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "READY_S", 0.01)
    count = 1_000  # 1,000 s, were each waited for
    topic = create(node, "many", partitions=count)
    subscribe(node, "many")
    member = Member(client, topic)
    answer = member.open(*range(count))
    while not slow.waits:
        answer = member.fetch()
    assert not answer.error_code
    assert not answer.responses
    slow.answer()
    produce(client, "many", batch(b"v"), partition=count - 1)
    assert ranges(member.fetch(max_wait=ms(60_000)), count - 1) == [Range(0, 0, 1)]
