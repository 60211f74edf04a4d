"""Look-ups while the store takes as long as it likes: only those that need it wait for it."""

from typing import Any

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.kernel.object_store import Bucket
from tests.broker.cluster import Asked, Wire
from tests.broker.test_cold_watermarks import CONFIRMED, ask_latest, far_behind, latest
from tests.broker.test_tier_at_slaves import LOCAL_START, Tiered
from tests.broker.tier_reads import TierOfTest
from tests.extents.files import Part, batch
from tests.tier.objects import name, put

LOCAL = "local"
MAX_TIMESTAMP = -3
OF_ALL = 1
"""A timestamp that is not above that of any record of the disks."""


class Slow:
    """A broker whose store gives nothing until the test says so, and a topic without a tier."""

    def __init__(self) -> None:
        self.tiered = Tiered()
        self.node = self.tiered.cluster.nodes[0]
        self.tiered.cluster.create(LOCAL)
        self.node.produce(b"a", topic=LOCAL)
        self.tiered.cluster.replicate()

    def list_offset(self, topic: str, timestamp: int, host: str = "10.0.0.9") -> Asked:
        partition = {
            "partition_index": 0,
            "timestamp": timestamp,
            "current_leader_epoch": -1,
        }
        fields = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": topic, "partitions": [partition]}],
        }
        asked = self.node.send(ApiKey.LIST_OFFSETS, 7, fields, host=host)
        self.tiered.cluster.world.run()
        return asked


def told(asked: Asked) -> Any:
    """Return the answer for the one partition; None while it waits."""
    return asked.answer and asked.answer.topics[0].partitions[0]


@pytest.mark.parametrize("timestamp", [OF_ALL, MAX_TIMESTAMP])
@pytest.mark.parametrize("host", ["10.0.0.9", "10.0.0.8"])
def test_a_look_up_that_the_disk_answers_does_not_wait_for_one_that_needs_the_store(
    timestamp: int, host: str
) -> None:
    slow = Slow()
    assert slow.tiered.master.hosted is not None
    waiting = slow.list_offset("events", 0)
    assert told(waiting) is None
    answer = told(slow.list_offset(LOCAL, timestamp, host))
    assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 0)
    assert told(waiting) is None
    slow.tiered.master.read()
    assert (told(waiting).error_code, told(waiting).offset) == (ErrorCode.NONE, 0)


def test_those_that_need_the_store_take_turns_and_none_is_refused() -> None:
    slow = Slow()
    waiting = [slow.list_offset("events", at, f"10.0.0.{at}") for at in range(4)]
    assert [told(one) for one in waiting] == 4 * [None]
    for _ in waiting:
        assert slow.tiered.master.read() == 1, "one at a time"
        slow.tiered.wait(1_000)  # a place rests for as long as its look-up took
    assert [(told(one).error_code, told(one).offset) for one in waiting] == [
        (ErrorCode.NONE, at) for at in range(4)
    ]


def test_ends_and_ends_of_masterships_are_told_without_the_store() -> None:
    slow = Slow()
    node = slow.node
    waiting = slow.list_offset("events", 0)
    epoch = node.member.leader_epoch
    for timestamp, offset in ((-1, 10), (-2, 0), (-4, LOCAL_START), (-5, LOCAL_START - 1)):
        partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
        fields = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": "events", "partitions": [partition]}],
        }
        answer = node.ask(ApiKey.LIST_OFFSETS, 9, fields).topics[0].partitions[0]
        assert (answer.error_code, answer.offset) == (ErrorCode.NONE, offset)
    slow.tiered.cluster.lead(0)
    ended = node.epoch_end(epoch)
    assert (ended.error_code, ended.end_offset) == (ErrorCode.NONE, 10)
    assert node.epoch_end(0).error_code == ErrorCode.NONE
    assert told(waiting) is None
    slow.tiered.master.read()


def test_a_look_up_by_time_in_a_tiered_topic_whose_disk_has_all_waits_for_no_store() -> None:
    slow = Slow()
    waiting = slow.list_offset("events", 0)
    slow.tiered.cluster.create("whole")
    slow.node.produce(b"a", topic="whole")
    slow.tiered.cluster.replicate()
    hosted = slow.node.broker.partitions.find("whole", 0)
    assert hosted is not None
    assert slow.tiered.master.hosted is not None
    hosted.topic.local = slow.tiered.master.hosted.topic.local
    slow.tiered.master.manifests[hosted.log.topic_partition] = slow.tiered.manifest.copy()
    slow.tiered.master.manifests[hosted.log.topic_partition].start_offset = LOCAL_START
    assert told(slow.list_offset("whole", OF_ALL)).offset == 0
    assert told(waiting) is None
    slow.tiered.master.read()


def test_a_look_up_of_the_largest_timestamp_keeps_the_disk_waiting_no_more_than_others() -> None:
    slow, far = Slow(), 4_000_000_000_000
    own = slow.tiered.master.key
    newest = Part(own, [batch(4, times=[far]), batch(5, times=[far])])
    slow.tiered.master.has([*slow.tiered.runs[:2], *put(slow.tiered.bucket, name(9), [newest])])
    waiting = slow.list_offset("events", MAX_TIMESTAMP)
    assert told(waiting) is None
    assert told(slow.list_offset(LOCAL, OF_ALL)).offset == 0
    slow.tiered.master.read()
    assert (told(waiting).offset, told(waiting).timestamp) == (4, far)


def test_the_latest_offset_that_the_disk_is_to_tell_waits_for_no_store() -> None:
    cluster = far_behind()
    node = cluster.nodes[0]
    TierOfTest(node, Bucket())
    held: Any = Wire()
    node.broker.tier_look_ups.ask(held, lambda _: None, lambda: None)
    cluster.world.run()
    asked = ask_latest(node)
    cluster.world.run()
    assert latest(asked) == (ErrorCode.NONE, CONFIRMED)
