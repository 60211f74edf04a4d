"""Shares of a node with several replica sets: each is in the set of its data, always."""

from contextlib import closing
from functools import partial
from pathlib import Path

from penstock.shares.state import ShareKey
from tests.kafka.sharing import ACCEPT, Member, Range, ms, part_of, ranges, set_group, subscribe
from tests.kafka.test_produce_fetch import batch, create, produce
from tests.live_node import LiveNode, running_node

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
