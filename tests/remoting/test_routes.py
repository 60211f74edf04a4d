"""Queues and routes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.remoting.queues import Queue, TopicQueues, broker_name, set_of
from penstock.remoting.routes import SetMember, cluster_info, topic_route

SETS = st.lists(st.integers(0, 5).map(ReplicaSetId), min_size=1, max_size=40)
SEVEN, NINE = ReplicaSetId(7), ReplicaSetId(9)


def member(broker_id: int, *, is_master: bool = False) -> SetMember:
    """A member at an address of its own."""
    return SetMember(BrokerId(broker_id), f"host{broker_id}:10911", is_master)


@given(SETS)
def test_queues_and_partitions_are_the_same_things(set_ids: list[ReplicaSetId]) -> None:
    queues = TopicQueues(set_ids)
    for partition, set_id in enumerate(set_ids):
        queue = queues.queue(partition)
        assert queue.set_id == set_id
        assert queues.partition(queue) == partition
    named = {Queue(set_id, n) for set_id, count in queues.counts().items() for n in range(count)}
    assert named == set(map(queues.queue, range(len(set_ids)))), "counted from 0 for each set"


@given(SETS, SETS)
def test_a_queue_keeps_its_number_when_partitions_are_added(
    before: list[ReplicaSetId], added: list[ReplicaSetId]
) -> None:
    old, new = TopicQueues(before), TopicQueues(before + added)
    assert [old.queue(one) for one in range(len(before))] == [
        new.queue(one) for one in range(len(before))
    ]


@pytest.mark.parametrize("queue", [Queue(SEVEN, 2), Queue(SEVEN, -1), Queue(NINE, 0)])
def test_there_are_no_other_queues(queue: Queue) -> None:
    assert TopicQueues([SEVEN, SEVEN]).partition(queue) is None


@given(st.integers(0, (1 << 31) - 1).map(ReplicaSetId))
def test_broker_names_come_back(set_id: ReplicaSetId) -> None:
    assert set_of(broker_name(set_id)) == set_id


@pytest.mark.parametrize(
    "name", ["", "set-", "set--1", "set-1a", "7", "broker-7", "set-²", "set-" + "9" * 5000]
)
def test_other_names_are_no_broker_s(name: str) -> None:
    assert set_of(name) is None


def test_a_route_has_a_broker_for_each_set_and_its_master_is_number_0() -> None:
    queues = TopicQueues([SEVEN, NINE, SEVEN])
    members = {SEVEN: [member(0, is_master=True), member(2)], NINE: [member(1, is_master=True)]}
    told = topic_route(queues, members, "c")
    assert told is not None
    route = json.loads(told)
    assert route["brokerDatas"] == [
        {
            "brokerAddrs": {"0": "host0:10911", "3": "host2:10911"},
            "brokerName": "set-7",
            "cluster": "c",
            "enableActingMaster": False,
        },
        {
            "brokerAddrs": {"0": "host1:10911"},
            "brokerName": "set-9",
            "cluster": "c",
            "enableActingMaster": False,
        },
    ]
    counts = [(one["brokerName"], one["readQueueNums"]) for one in route["queueDatas"]]
    assert counts == [("set-7", 2), ("set-9", 1)]


def test_a_set_without_a_live_member_is_left_out() -> None:
    """A client picks one of a broker's addresses, and throws if there is none."""
    queues = TopicQueues([SEVEN, NINE])
    told = topic_route(queues, {SEVEN: [member(0)], NINE: []}, "c")
    assert told is not None
    route = json.loads(told)
    assert [one["brokerName"] for one in route["brokerDatas"]] == ["set-7"]
    assert [one["brokerName"] for one in route["queueDatas"]] == ["set-7"]
    assert route["brokerDatas"][0]["brokerAddrs"] == {"1": "host0:10911"}, "no master, a member"
    assert topic_route(queues, {SEVEN: []}, "c") is None


def test_the_cluster_has_all_sets_with_live_members() -> None:
    told = cluster_info(
        {NINE: [member(1)], SEVEN: [member(0, is_master=True)], ReplicaSetId(8): []}, "c"
    )
    info = json.loads(told)
    assert info["clusterAddrTable"] == {"c": ["set-7", "set-9"]}
    assert info["brokerAddrTable"]["set-7"]["brokerAddrs"] == {"0": "host0:10911"}
    assert list(info["brokerAddrTable"]) == ["set-7", "set-9"]
