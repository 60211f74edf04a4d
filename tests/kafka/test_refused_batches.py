"""A batch behind a refused one of the same producer hears what that one was told."""

from typing import Any

import pytest

from harness.ids import as_brokers
from harness.log_world import World
from penstock.base.ids import ProducerId
from penstock.broker.errors import VerificationRefused
from penstock.kafka.produce.refused_batches import KEPT_MAX, KEPT_MS, RefusedBatches
from penstock.protocol.error_codes import ErrorCode
from penstock.replication.confirm import Membership
from penstock.replication.errors import NotMaster
from penstock.storage.errors import OutOfOrderSequence
from penstock.storage.index.producers import ProducerStates, ProducerTable
from tests.broker.cluster import Cluster, Node, batch, produced

ALONE = Membership(replicas=as_brokers(0, 1, 2), committed=as_brokers(0))
ALL = Membership(replicas=as_brokers(0, 1, 2), committed=as_brokers(0, 1, 2))
PRODUCER = 9


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("events")
    cluster.create("strict", min_insync_replicas="2")
    return cluster


def send(node: Node, sequence: int, *, topic: str = "events", count: int = 1) -> Any:
    """Send the producer's next batch; returns its error code once it has an answer."""
    values = [b"%d" % number for number in range(sequence, sequence + count)]
    asked = node.produce(
        *values, topic=topic, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence
    )
    node.cluster.world.run()
    node.cluster.replicate()
    answer = produced(asked)
    return None if answer is None else answer.error_code


def test_what_comes_when_the_broker_has_become_master_is_not_called_out_of_order(
    cluster: Cluster,
) -> None:
    node = cluster.nodes[1]
    assert send(cluster.nodes[0], 0) == ErrorCode.NONE
    assert send(node, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.lead(1)
    for sequence in (2, 3, 4, 5):  # were under way behind it
        assert send(node, sequence) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for sequence in (1, 2, 3, 4, 5):
        assert send(node, sequence) == ErrorCode.NONE
    assert cluster.nodes[1].broker.stats.refused_batches == {"NOT_LEADER_OR_FOLLOWER": 5}


def test_the_first_batches_of_a_producer_do_not_overtake_one_that_was_refused(
    cluster: Cluster,
) -> None:
    node = cluster.nodes[1]
    assert send(node, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.lead(1)
    for sequence in (1, 2, 3, 4):  # were under way behind it
        assert send(node, sequence) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for sequence in (0, 1, 2, 3, 4):
        assert send(node, sequence) == ErrorCode.NONE


def test_the_first_batches_for_a_new_topic_do_not_overtake_one_that_came_too_early(
    cluster: Cluster,
) -> None:
    node = cluster.nodes[0]
    assert send(node, 0, topic="new", count=3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.create("new")
    assert send(node, 3, topic="new") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert send(node, 0, topic="new", count=3) == ErrorCode.NONE
    assert send(node, 3, topic="new") == ErrorCode.NONE


def test_a_producer_whose_state_is_gone_goes_on_where_it_was(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    assert send(node, 0) == ErrorCode.NONE
    node.member.change_members(ALONE)
    assert send(node, 1, topic="strict") == ErrorCode.NOT_ENOUGH_REPLICAS
    node.member.change_members(ALL)
    cluster.create("again")
    assert send(node, 1, topic="again") == ErrorCode.NONE, "as in a topic that was made anew"
    cluster.world.now_ms += KEPT_MS + 1
    assert send(node, 2, topic="strict") == ErrorCode.NONE, "no client waits for the first"


def test_names_that_no_topic_can_have_are_not_kept(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    for length in (249, 250, 30_000):
        assert send(node, 0, topic="n" * length) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [len(key[0]) for key in node.front.refused_batches.kept] == [249]


def test_what_comes_when_enough_members_are_in_step_again_is_told_that_they_were_not(
    cluster: Cluster,
) -> None:
    node = cluster.nodes[0]
    assert send(node, 0, topic="strict") == ErrorCode.NONE
    node.member.change_members(ALONE)
    assert send(node, 1, topic="strict", count=3) == ErrorCode.NOT_ENOUGH_REPLICAS
    node.member.change_members(ALL)
    assert send(node, 4, topic="strict") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert send(node, 1, topic="strict", count=3) == ErrorCode.NONE
    assert send(node, 4, topic="strict") == ErrorCode.NONE


def test_a_gap_that_nothing_explains_is_out_of_order(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    assert send(node, 0) == ErrorCode.NONE
    assert send(node, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    node.member.change_members(ALONE)
    assert send(node, 1, topic="strict") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert send(node, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "that was another partition"


def test_a_batch_that_was_refused_for_good_explains_no_gap(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    cluster.create("small", max_message_bytes="100")
    assert send(node, 0, topic="small") == ErrorCode.NONE
    assert send(node, 1, topic="small", count=9) == ErrorCode.MESSAGE_TOO_LARGE
    assert send(node, 10, topic="small") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class TestRules:
    """The rules, without a broker around them."""

    def setup_method(self) -> None:
        self.world = World()
        self.refused = RefusedBatches(self.world)

    def pass_by(self, sequence: int, *, producer_id: int = PRODUCER, epoch: int = 0) -> ErrorCode:
        error = NotMaster("somebody else is")
        return self._refuse(sequence, error, producer_id, epoch)

    def gap(
        self, sequence: int, expected: int, *, producer_id: int = PRODUCER, epoch: int = 0
    ) -> ErrorCode:
        error = OutOfOrderSequence(ProducerId(producer_id), sequence, expected)
        return self._refuse(sequence, error, producer_id, epoch)

    def _refuse(self, sequence: int, error: Any, producer_id: int, epoch: int) -> ErrorCode:
        fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        records = memoryview(batch(b"x", **fields))
        return self.refused.refuse(b"events", 0, records, error).code

    def test_only_a_refusal_within_the_gap_explains_it(self) -> None:
        self.pass_by(7)
        assert self.gap(9, expected=8) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert self.gap(9, expected=7) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_batch_behind_one_that_the_last_transaction_kept_out_does_not_pass(self) -> None:
        ending = VerificationRefused(ErrorCode.CONCURRENT_TRANSACTIONS, "the last one is ending")
        self._refuse(0, ending, PRODUCER, 1)
        fields = {"producer_id": PRODUCER, "producer_epoch": 1, "base_sequence": 5}
        records = memoryview(batch(b"x", **fields))
        unknown = ProducerTable(ProducerStates(10, 0), serial=1)
        with pytest.raises(OutOfOrderSequence):
            self.refused.check_first(b"events", 0, records, unknown)
        assert self.gap(5, expected=0, epoch=1) == ErrorCode.CONCURRENT_TRANSACTIONS

    def test_a_batch_that_lies_behind_is_out_of_order(self) -> None:
        self.pass_by(120)
        assert self.gap(50, expected=100) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_sequences_begin_again_at_zero_after_the_largest(self) -> None:
        self.pass_by((1 << 31) - 1)
        code = self.gap(0, expected=(1 << 31) - 1)
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_another_epoch_or_producer_has_no_part_in_it(self) -> None:
        self.pass_by(7)
        assert self.gap(8, expected=7, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert self.gap(8, expected=7, producer_id=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_it_ends_with_the_time_that_a_client_waits_however_often_it_was_answered(self) -> None:
        self.pass_by(7)
        for sequence in (8, 9):
            self.world.now_ms += KEPT_MS // 2
            assert self.gap(sequence, expected=7) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.world.now_ms += 1
        assert self.gap(10, expected=7) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_the_oldest_make_room(self) -> None:
        for producer_id in range(KEPT_MAX + 1):
            self.pass_by(7, producer_id=producer_id)
        assert self.gap(8, 7, producer_id=0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert self.gap(8, 7, producer_id=1) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_bytes_that_are_no_batch_are_refused_like_any(self) -> None:
        for size in (0, 42, 56, 57):
            answer = self.refused.refuse(b"events", 0, memoryview(bytes(size)), NotMaster("no"))
            assert answer == (ErrorCode.NOT_LEADER_OR_FOLLOWER, "no")
