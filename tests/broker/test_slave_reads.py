"""Consumers that read from slaves: who is sent there, and what a slave answers (KIP-392)."""

from typing import Any

import pytest

from penstock.base.ids import BrokerId, Offset, Position
from penstock.broker.config import SlaveReads
from penstock.controller.topic_config.local import LocalLimits
from penstock.protocol.error_codes import ErrorCode
from tests.broker.cluster import Cluster, Node, Wire, fetched
from tests.broker.test_role_changes import LONG_MS, events, values

NOBODY = -1


def by_rack(count: int = 3) -> Cluster:
    """Broker n stands in rack-n."""
    return filled(events(count, slave_reads=SlaveReads.RACK))


def by_lag() -> Cluster:
    cluster = events(3, slave_reads=SlaveReads.LAG)
    for node in cluster.nodes:
        node.broker.memory_bytes = 2_000  # 40 % of it: some eight batches
    for number in range(40):
        cluster.nodes[0].produce(b"%d" % number)
    cluster.replicate()
    return cluster


def filled(cluster: Cluster) -> Cluster:
    cluster.nodes[0].produce(b"a")
    cluster.replicate()
    return cluster


def preferred(node: Node, offset: int = 0, **how: Any) -> int:
    asked = node.fetch(offset, **how)
    node.cluster.world.run()
    return int(fetched(asked).preferred_read_replica)


def test_a_consumer_is_sent_to_the_member_in_its_rack_with_no_records() -> None:
    cluster = by_rack()
    answer = fetched(cluster.nodes[0].fetch(0, rack="rack-2"))
    assert (answer.error_code, answer.preferred_read_replica, values(answer)) == (0, 2, [])
    assert values(fetched(cluster.nodes[2].fetch(0, rack="rack-2"))) == [b"a"]


def test_a_consumer_that_would_wait_is_sent_at_once() -> None:
    cluster = by_rack()
    answer = fetched(cluster.nodes[0].fetch(1, rack="rack-1", wait_ms=LONG_MS))
    assert answer.preferred_read_replica == 1


@pytest.mark.parametrize("rack", ["", "rack-0", "elsewhere"])
def test_everybody_else_reads_from_the_master(rack: str) -> None:
    answer = fetched(by_rack().nodes[0].fetch(0, rack=rack))
    assert answer.preferred_read_replica == NOBODY
    assert values(answer) == [b"a"]


def test_a_member_that_is_not_in_step_or_not_alive_is_not_named() -> None:
    cluster = by_rack()
    image = cluster.metadata.image
    del image.brokers[BrokerId(2)]
    assert preferred(cluster.nodes[0], rack="rack-2") == NOBODY


def test_a_client_that_can_not_be_sent_is_served_by_the_master_alone() -> None:
    cluster = by_rack()
    assert values(fetched(cluster.nodes[0].fetch(0, version=10))) == [b"a"]
    answer = fetched(cluster.nodes[1].fetch(0, version=10))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_switched_off_nobody_is_sent_and_slaves_refuse() -> None:
    cluster = filled(events())
    assert preferred(cluster.nodes[0], rack="rack-1") == NOBODY
    answer = fetched(cluster.nodes[1].fetch(0, rack="rack-1"))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_slave_shows_only_what_it_knows_to_be_confirmed() -> None:
    cluster = by_rack()
    cluster.nodes[0].produce(b"b", acks=1)
    cluster.replicate(1)
    answer = fetched(cluster.nodes[1].fetch(0, rack="rack-1"))
    assert (answer.high_watermark, values(answer)) == (1, [b"a"])
    waiting = fetched(cluster.nodes[1].fetch(2, rack="rack-1"))  # there, and not confirmed yet
    assert (waiting.error_code, values(waiting)) == (0, [])


def test_a_fetch_parked_at_a_slave_is_answered_when_its_confirm_position_moves() -> None:
    cluster = by_rack()
    parked = cluster.nodes[1].fetch(1, rack="rack-1", wait_ms=LONG_MS)
    cluster.nodes[0].produce(b"b", acks=1)
    cluster.replicate(1)
    assert fetched(parked) is None
    cluster.replicate(2)
    cluster.replicate(1)
    assert values(fetched(parked)) == [b"b"]


def test_other_partitions_of_the_set_do_not_wake_a_fetch_at_a_slave_for_good() -> None:
    cluster = by_rack()
    cluster.create("others")
    parked = cluster.nodes[1].fetch(1, rack="rack-1", wait_ms=LONG_MS)
    for number in range(3):
        cluster.nodes[0].produce(b"%d" % number, topic="others")
        cluster.replicate()
    assert fetched(parked) is None
    cluster.nodes[0].produce(b"b")
    cluster.replicate()
    assert values(fetched(parked)) == [b"b"]


def test_a_slave_answers_offsets_that_it_does_not_have() -> None:
    cluster = by_rack()
    cluster.nodes[0].produce(b"b", b"c")
    cluster.replicate(1)
    lagging = cluster.nodes[2]
    error = fetched(lagging.fetch(3, rack="rack-2", wait_ms=LONG_MS)).error_code
    assert error == ErrorCode.OFFSET_NOT_AVAILABLE
    cluster.replicate()
    hosted = lagging.broker.partitions.find("events", 0)
    assert hosted is not None
    hosted.log.raise_log_start(Offset(2))
    error = fetched(lagging.fetch(1, rack="rack-2")).error_code
    assert error == ErrorCode.OFFSET_OUT_OF_RANGE
    hosted.topic.local = LocalLimits(-2, 0)  # the master may have it from the object store
    error = fetched(lagging.fetch(1, rack="rack-2")).error_code
    assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER, "and no client is to jump"


def test_a_fetch_parked_at_a_slave_is_fenced_by_an_election() -> None:
    cluster = by_rack()
    epoch = cluster.nodes[0].member.leader_epoch
    parked = cluster.nodes[1].fetch(1, rack="rack-1", wait_ms=LONG_MS, epoch=epoch)
    cluster.lead(2)
    assert fetched(parked).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_slave_that_becomes_master_goes_on_serving_who_waits_there() -> None:
    cluster = by_rack()
    parked = cluster.nodes[1].fetch(1, rack="rack-1", wait_ms=LONG_MS)
    cluster.lead(1, members=(1,))
    assert fetched(parked) is None
    cluster.nodes[1].produce(b"b")
    cluster.world.run()
    assert values(fetched(parked)) == [b"b"]


def test_a_slave_that_is_still_receiving_an_epoch_does_not_call_its_readers_diverged() -> None:
    cluster = by_rack()
    old = cluster.nodes[0].member.leader_epoch
    cluster.nodes[0].produce(b"b")
    cluster.replicate(1)
    cluster.lead(0)
    answer = fetched(cluster.nodes[2].fetch(2, rack="rack-2", last_epoch=old))
    assert answer.diverging_epoch.epoch == -1
    assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE


def test_what_a_slave_receives_while_a_fetch_waits_for_room_is_no_divergence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = by_rack()
    epoch = cluster.nodes[0].member.leader_epoch
    cluster.nodes[0].produce(b"b")
    cluster.replicate(1)
    rooms = []
    monkeypatch.setattr(Wire, "ask_room", lambda _, most, begin: rooms.append((most, begin)))
    asked = cluster.nodes[2].fetch(2, rack="rack-2", last_epoch=epoch)
    cluster.world.run()
    cluster.replicate()
    ((most, begin),) = rooms
    begin(most)
    answer = fetched(asked)
    assert (answer.error_code, answer.diverging_epoch.epoch) == (0, -1)


def test_who_reads_beyond_the_trusted_memory_is_sent_to_a_slave() -> None:
    cluster = by_lag()
    assert preferred(cluster.nodes[0], 40) == NOBODY
    assert preferred(cluster.nodes[0], 39) == NOBODY
    assert preferred(cluster.nodes[0], 0) in {1, 2}
    slave = cluster.nodes[preferred(cluster.nodes[0], 0)]
    assert values(fetched(slave.fetch(0)))[:2] == [b"0", b"1"]


def test_among_slaves_the_one_in_the_consumers_rack_is_named_first() -> None:
    cluster = by_lag()
    preferred(cluster.nodes[0], 40)
    for broker_id in (1, 2):
        assert preferred(cluster.nodes[0], 0, rack=f"rack-{broker_id}") == broker_id


def test_with_all_of_the_log_in_memory_nobody_is_sent_away() -> None:
    cluster = by_lag()
    cluster.nodes[0].broker.memory_bytes = 1 << 30
    assert preferred(cluster.nodes[0], 0) == NOBODY


def test_what_memory_held_of_a_log_that_was_cut_says_nothing_of_the_new_one() -> None:
    cluster = by_lag()
    node = cluster.nodes[0]
    preferred(node, 0)
    hosted = node.broker.partitions.find("events", 0)
    assert hosted is not None
    assert hosted.trusted_from_offset > 2
    node.member.resign()
    node.member.log.on_reopened = node.member.reopened
    node.member.log.truncate(Position(node.member.log.end_position // 2), lambda error: None)
    cluster.world.run()
    assert (hosted.trusted_from_offset, hosted.trusted_from_position) == (0, 0)
