"""Batches of transactions, and the markers that end them, at the master of a partition."""

from collections.abc import Coroutine, Generator
from typing import Any

import pytest

from penstock.base.errors import PlatformError
from penstock.base.ids import CoordinatorEpoch, LeaderEpoch, ProducerEpoch, ProducerId
from penstock.broker.append.markers import ANY_EPOCH, append_marker
from penstock.broker.append.transactional import guard_of, let_go, note_opened
from penstock.broker.append.verification import Verification, Verified, WantedPartition
from penstock.broker.errors import CoordinatorFenced
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.record.batch import TRANSACTIONAL, read_header
from penstock.replication.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotMaster,
    UnknownLeaderEpoch,
)
from penstock.storage.errors import ProducerFenced
from penstock.storage.index.transactions import TransactionEnd
from penstock.transactions.state import NO_NUMBER
from tests.broker.cluster import Asked, Cluster, batch, produce_fields, produced

P, Q = 7, 8
"""Producer ids."""


class Held:
    """An answer of the coordinator that comes when the test says."""

    def __init__(self, asked: Verification) -> None:
        self.asked = asked
        self.code: Code | None = None
        self.number = NO_NUMBER

    def __await__(self) -> Generator[None, None, Verified]:
        while self.code is None:
            yield
        return Verified(dict.fromkeys(self.asked.partitions, self.code), self.number)


class HandVerifier:
    """Answers at once with `code`, or holds every question."""

    def __init__(self) -> None:
        self.code: Code | None = Code.NONE
        self.number = NO_NUMBER
        """Of the transaction that is open at the coordinator."""
        self.held: list[Held] = []

    async def verify(self, asked: Verification) -> Verified:
        one = Held(asked)
        one.code, one.number = self.code, self.number
        self.held.append(one)
        return await one

    def verify_here(self, asked: Verification) -> Verified | None:
        """The coordinator is another broker."""
        del asked
        return None


class World:
    """One broker of three, which leads the partition."""

    def __init__(self) -> None:
        self.cluster = Cluster(3)
        self.cluster.create("events")
        self.node = self.cluster.nodes[0]
        self.verifier = self.node.broker.verifier = HandVerifier()
        self.work: list[Coroutine[Any, Any, None]] = []
        self.node.front.spawn = self.node._dispatcher._spawn = lambda _, work: self.work.append(
            work
        )

    @property
    def hosted(self) -> Any:
        return self.node.broker.partitions.find("events", 0)

    def run(self) -> None:
        """Let everything happen that does not wait for the coordinator."""
        for work in [*self.work]:
            try:
                work.send(None)
            except StopIteration:
                self.work.remove(work)
        self.cluster.world.run()
        self.cluster.replicate()

    def send(
        self,
        sequence: int,
        *,
        epoch: int = 0,
        producer: int = P,
        version: int = 11,
        **batch_fields: int,
    ) -> Asked:
        fields = {
            "producer_id": producer,
            "producer_epoch": epoch,
            "base_sequence": sequence,
            "attributes": TRANSACTIONAL,
            **batch_fields,
        }
        wanted = produce_fields("events", (b"v",), -1, fields) | {"transactional_id": "x"}
        asked = self.node.send(ApiKey.PRODUCE, version, wanted)
        self.run()
        return asked

    def mark(
        self,
        *,
        epoch: int = 0,
        coordinator: int = 3,
        version: int = 1,
        commits: bool = True,
        number: int = NO_NUMBER,
        leader_epoch: LeaderEpoch = ANY_EPOCH,
    ) -> int:
        """End the producer's transaction; returns how many offsets that took."""
        before = self.hosted.log.log_end_offset
        append_marker(
            self.hosted,
            TransactionEnd(
                ProducerId(P), ProducerEpoch(epoch), CoordinatorEpoch(coordinator), commits
            ),
            version,
            number=number,
            leader_epoch=leader_epoch,
        )
        self.run()
        return int(self.hosted.log.log_end_offset - before)

    @property
    def end(self) -> int:
        return int(self.hosted.log.log_end_offset)


@pytest.fixture
def world() -> World:
    return World()


def code(asked: Asked) -> Code | None:
    found = produced(asked)
    return None if found is None else Code(found.error_code)


def test_the_first_batch_is_verified_and_those_after_it_are_not(world: World) -> None:
    assert [code(world.send(number)) for number in range(3)] == [Code.NONE] * 3
    (one,) = world.verifier.held
    asked = WantedPartition("events", 0, world.hosted.topic.topic_id)
    assert one.asked == Verification("x", ProducerId(P), ProducerEpoch(0), False, (asked,))
    assert world.mark() == 1
    assert code(world.send(3)) is Code.NONE
    assert len(world.verifier.held) == 2
    assert world.hosted.guards == {}


def test_from_version_12_on_the_question_adds_the_partition(world: World) -> None:
    assert code(world.send(0, version=12)) is Code.NONE
    assert world.verifier.held[0].asked.adds


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (Code.INVALID_TXN_STATE, 10, Code.INVALID_TXN_STATE),
        (Code.INVALID_TXN_STATE, 11, Code.TRANSACTION_ABORTABLE),
        (Code.PRODUCER_FENCED, 11, Code.INVALID_PRODUCER_EPOCH),
        (Code.INVALID_PRODUCER_ID_MAPPING, 11, Code.INVALID_PRODUCER_ID_MAPPING),
        (Code.NOT_COORDINATOR, 11, Code.NOT_ENOUGH_REPLICAS),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, 11, Code.NOT_ENOUGH_REPLICAS),
        (Code.COORDINATOR_NOT_AVAILABLE, 11, Code.NOT_ENOUGH_REPLICAS),
        (Code.NETWORK_EXCEPTION, 11, Code.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_the_coordinator_refuses_is_not_appended(
    world: World, said: Code, version: int, told: Code
) -> None:
    world.verifier.code = said
    assert code(world.send(0, version=version)) is told
    assert (world.end, world.hosted.guards) == (0, {})
    world.verifier.code = Code.NONE
    assert code(world.send(0, version=version)) is Code.NONE


def test_a_batch_that_a_marker_has_overtaken_opens_nothing(world: World) -> None:
    world.verifier.code = None
    late = world.send(0)
    assert code(late) is None
    assert world.mark(commits=False) == 1
    world.verifier.held[0].code = Code.NONE
    world.run()
    assert code(late) is Code.INVALID_TXN_STATE
    assert (world.end, world.hosted.guards) == (1, {})


def test_a_batch_that_an_election_has_overtaken_opens_nothing(world: World) -> None:
    world.verifier.code = None
    late = world.send(0)
    world.cluster.lead(1)
    world.cluster.lead(0)
    world.verifier.held[0].code = Code.NONE
    world.run()
    assert code(late) is Code.INVALID_TXN_STATE
    assert world.end == 0


def test_batches_that_wait_together_keep_their_order(world: World) -> None:
    world.verifier.code = None
    second, first = world.send(1), world.send(0)
    for one in world.verifier.held:
        one.code = Code.NONE
    world.run()
    assert code(second) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(first) is Code.NONE


def test_a_connection_that_is_gone_leaves_no_guard(world: World) -> None:
    world.verifier.code = None
    asked = world.send(0)
    assert P in world.hosted.guards
    asked.wire.is_closed = True
    for work in world.work:
        work.close()
    assert world.hosted.guards == {}


def test_what_is_not_of_the_open_transaction_is_refused(world: World) -> None:
    assert code(world.send(0)) is Code.NONE
    plain = world.send(1, attributes=0)
    assert code(plain) is Code.INVALID_TXN_STATE
    assert code(world.send(0, epoch=1)) is Code.INVALID_TXN_STATE
    assert code(world.send(1)) is Code.NONE
    assert code(world.send(0, producer=Q)) is Code.NONE


def test_half_of_the_producers_may_have_a_transaction(world: World) -> None:
    world.hosted.log.producers.states.capacity = 4
    assert [code(world.send(0, producer=number)) for number in range(3)] == [
        Code.NONE,
        Code.NONE,
        Code.NOT_ENOUGH_REPLICAS,
    ]


def test_markers_of_a_replaced_coordinator_are_refused(world: World) -> None:
    world.send(0)
    assert world.mark(coordinator=3) == 1
    world.send(1)
    with pytest.raises(CoordinatorFenced):
        world.mark(coordinator=2)
    assert world.mark(coordinator=4) == 1


@pytest.mark.parametrize("version", [1, 2])
def test_markers_of_a_replaced_producer_are_refused(world: World, version: int) -> None:
    world.send(0, epoch=5)
    with pytest.raises(ProducerFenced):
        world.mark(epoch=4, version=version)
    assert world.mark(epoch=6, version=version) == 1


def test_a_marker_of_version_2_that_comes_again_does_not_end_the_next_transaction(
    world: World,
) -> None:
    world.send(0)
    assert world.mark(epoch=1, version=2) == 1
    assert world.mark(epoch=1, version=2) == 0, "it is there"
    assert code(world.send(0, epoch=1)) is Code.NONE
    with pytest.raises(ProducerFenced):
        world.mark(epoch=1, version=2)
    assert P in world.hosted.log.producers.states.transactions.of(world.hosted.log.serial).open


def test_an_instance_that_was_replaced_does_not_keep_the_newer_one_out(world: World) -> None:
    world.verifier.code = None
    newer, older = world.send(0, epoch=1), world.send(0, epoch=0)
    for held, said in zip(world.verifier.held, (Code.NONE, Code.PRODUCER_FENCED), strict=True):
        held.code = said
    world.run()
    assert code(newer) is Code.NONE
    assert code(older) is Code.INVALID_PRODUCER_EPOCH
    assert (world.end, world.hosted.guards) == (1, {})


def test_a_marker_of_version_2_keeps_out_what_is_late_of_its_transaction(world: World) -> None:
    world.verifier.code = None
    late = world.send(0, version=12)
    assert world.mark(epoch=1, version=2) == 1
    world.verifier.code = world.verifier.held[0].code = Code.PRODUCER_FENCED
    world.run()
    assert code(late) is Code.INVALID_PRODUCER_EPOCH
    assert (world.end, world.hosted.guards) == (1, {})


def test_a_marker_of_version_1_that_comes_again_does_no_harm(world: World) -> None:
    world.send(0)
    assert (world.mark(), world.mark()) == (1, 1)
    assert code(world.send(1)) is Code.NONE


def test_a_partition_that_is_led_elsewhere_takes_no_marker(world: World) -> None:
    world.send(0)
    world.cluster.lead(1)
    with pytest.raises(NotMaster):
        append_marker(
            world.hosted,
            TransactionEnd(ProducerId(P), ProducerEpoch(0), CoordinatorEpoch(3), True),
            1,
        )


def test_too_few_in_step_take_no_marker() -> None:
    world = World()
    world.send(0)
    world.cluster.lead(0, members=(0,))
    rules = world.hosted.topic.rules
    world.hosted.topic.rules = rules._replace(min_insync_replicas=2)
    with pytest.raises(NotEnoughReplicas):
        world.mark()


def test_a_late_marker_of_version_1_neither_ends_the_next_transaction_nor_removes_its_guard(
    world: World,
) -> None:
    world.verifier.number = 4
    assert code(world.send(0)) is Code.NONE
    assert world.mark(number=4) == 1
    world.verifier.number = 5
    header = read_header(memoryview(batch(b"v", producer_id=P, attributes=TRANSACTIONAL)))
    guard = guard_of(world.hosted, header)
    guard.is_verified, guard.number = True, 5
    assert world.mark(number=4) == 0
    assert world.hosted.guards == {P: guard}
    let_go(world.hosted, ProducerId(P), guard)
    assert code(world.send(1)) is Code.NONE
    assert (world.mark(number=4), world.mark(number=5)) == (0, 1)
    assert (world.hosted.guards, world.hosted.open_numbers) == ({}, {})


def test_a_guard_of_an_earlier_mastership_keeps_no_marker_away(world: World) -> None:
    assert code(world.send(0)) is Code.NONE
    header = read_header(memoryview(batch(b"v", producer_id=P, attributes=TRANSACTIONAL)))
    guard_of(world.hosted, header).confirm(5)
    world.cluster.lead(0)
    assert world.mark(number=4) == 1


def test_numbers_of_an_earlier_mastership_go_with_the_first_one_of_the_next(world: World) -> None:
    world.verifier.number = 4
    assert code(world.send(0)) is Code.NONE
    assert [*world.hosted.open_numbers] == [P]
    world.cluster.lead(0)
    other = read_header(memoryview(batch(b"v", producer_id=P + 1, attributes=TRANSACTIONAL)))
    guard_of(world.hosted, other).confirm(7)
    note_opened(world.hosted, other)
    assert world.hosted.open_numbers == {P + 1: (world.hosted.member.leader_epoch, 7)}


def test_a_plain_batch_of_a_producer_that_waits_notes_no_transaction(world: World) -> None:
    world.verifier.number = 4
    header = read_header(memoryview(batch(b"v", producer_id=P, attributes=TRANSACTIONAL)))
    guard = guard_of(world.hosted, header)
    guard.is_verified, guard.number = True, 4
    assert code(world.send(0, attributes=0)) is Code.NONE
    assert world.hosted.open_numbers == {}
    let_go(world.hosted, ProducerId(P), guard)


@pytest.mark.parametrize(("by", "error"), [(-1, FencedLeaderEpoch), (1, UnknownLeaderEpoch)])
def test_a_marker_that_another_mastership_was_asked_for_is_refused(
    world: World, by: int, error: type[PlatformError]
) -> None:
    world.cluster.lead(0)
    world.send(0)
    with pytest.raises(error):
        world.mark(leader_epoch=LeaderEpoch(world.hosted.member.leader_epoch + by))
    assert world.mark(leader_epoch=world.hosted.member.leader_epoch) == 1


def test_a_marker_that_names_no_number_is_written(world: World) -> None:
    world.verifier.number = 4
    world.send(0)
    assert world.mark() == 1
