"""How a transaction ends: each cell of the table, in both versions (KIP-890)."""

from collections.abc import Callable

import pytest

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.coordinator.unwritten import Unwritten
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.messages import Producer
from penstock.transactions.state import EPOCH_MAX, TransactionState
from tests.transactions.world import ONE, World

Prepare = Callable[[World, Producer, int], Producer]


def empty(_: World, producer: Producer, __: int) -> Producer:
    return producer


def ongoing(world: World, producer: Producer, version: int) -> Producer:
    assert world.add(producer, version=version) is Code.NONE
    return producer


def prepared(commits: bool) -> Prepare:
    def prepare(world: World, producer: Producer, version: int) -> Producer:
        ongoing(world, producer, version)
        reply = world.end(producer, commits=commits, version=version)
        assert reply.error is Code.NONE
        return reply.producer

    return prepare


def completed(commits: bool) -> Prepare:
    def complete(world: World, producer: Producer, version: int) -> Producer:
        after = prepared(commits)(world, producer, version)
        assert len(world.mark()) == 1
        return after

    return complete


STATES: dict[str, Prepare] = {
    "empty": empty,
    "ongoing": ongoing,
    "preparing commit": prepared(True),
    "preparing abort": prepared(False),
    "committed": completed(True),
    "aborted": completed(False),
}
NONE, INVALID, BUSY, FENCED = (
    Code.NONE,
    Code.INVALID_TXN_STATE,
    Code.CONCURRENT_TRANSACTIONS,
    Code.PRODUCER_FENCED,
)
OLD = [
    ("empty", True, INVALID),
    ("empty", False, INVALID),
    ("ongoing", True, NONE),
    ("ongoing", False, NONE),
    ("preparing commit", True, BUSY),
    ("preparing commit", False, BUSY),
    ("preparing abort", True, BUSY),
    ("preparing abort", False, BUSY),
    ("committed", True, NONE),
    ("committed", False, INVALID),
    ("aborted", True, INVALID),
    ("aborted", False, NONE),
]
NEW = [
    # (state, commits, code with the present epoch, code with the one before)
    ("empty", True, INVALID, FENCED),
    ("empty", False, NONE, FENCED),
    ("ongoing", True, NONE, FENCED),
    ("ongoing", False, NONE, FENCED),
    ("preparing commit", True, BUSY, BUSY),
    ("preparing commit", False, BUSY, BUSY),
    ("preparing abort", True, BUSY, BUSY),
    ("preparing abort", False, BUSY, BUSY),
    ("committed", True, INVALID, NONE),
    ("committed", False, NONE, INVALID),
    ("aborted", True, INVALID, INVALID),
    ("aborted", False, NONE, NONE),
]


def world_in(state: str, version: int) -> tuple[World, Producer]:
    world = World().load()
    producer = STATES[state](world, world.begun(), version)
    return world, producer if producer.producer_id >= 0 else world.begun()


@pytest.mark.parametrize(("state", "commits", "code"), OLD)
def test_version_1_ends_it_by_what_it_is(state: str, commits: bool, code: Code) -> None:
    world = World().load()
    producer = world.begun()
    STATES[state](world, producer, 1)
    before = world.state()
    assert world.end(producer, commits=commits).error is code
    if state == "ongoing":
        assert world.state().state.name == ("PREPARE_COMMIT" if commits else "PREPARE_ABORT")
        assert world.state().producer_epoch == producer.epoch
    else:
        assert world.state() == before


@pytest.mark.parametrize("offset", [-1, 1])
@pytest.mark.parametrize("state", STATES)
def test_version_1_takes_no_other_epoch(state: str, offset: int) -> None:
    world = World().load()
    producer = world.begun()
    STATES[state](world, producer, 1)
    other = producer._replace(epoch=ProducerEpoch(producer.epoch + offset))
    assert world.end(other, commits=True).error is FENCED


@pytest.mark.parametrize(("state", "commits", "now", "before"), NEW)
def test_version_2_ends_it_once_for_each_epoch(
    state: str, commits: bool, now: Code, before: Code
) -> None:
    world, producer = world_in(state, 2)
    old = producer._replace(epoch=ProducerEpoch(producer.epoch - 1))
    reply = world.end(old, commits=commits, version=2)
    if old.epoch >= 0:
        assert reply.error is before
        if before is NONE:
            assert reply.producer == producer
    reply = world.end(producer, commits=commits, version=2)
    assert reply.error is now
    if now is NONE:
        assert reply.producer == producer._replace(epoch=ProducerEpoch(producer.epoch + 1))


def test_an_end_is_told_to_every_partition_and_then_the_id_is_free() -> None:
    world = World().load()
    producer = world.begun()
    assert world.add(producer, ("a", 0), ("b", 3)) is NONE
    assert world.end(producer, commits=True).error is NONE
    (duty,) = world.markers.duties
    assert (duty.is_commit, duty.producer_epoch, duty.coordinator_epoch) == (True, 0, 7)
    assert world.add(producer, ("a", 1)) is BUSY
    world.coordinator.markers_written(duty, [("a", 0)])
    world.settle()
    assert world.state().state is TransactionState.PREPARE_COMMIT
    world.coordinator.markers_written(duty, [("a", 0)])
    world.coordinator.markers_written(duty, [("b", 3)])
    world.settle()
    assert world.state().state is TransactionState.COMPLETE_COMMIT
    assert world.state().partitions == frozenset()
    assert world.add(producer, ("a", 1)) is NONE


def test_markers_of_version_2_have_the_new_epoch() -> None:
    world = World().load()
    producer = world.begun()
    world.add(producer, version=2)
    world.end(producer, commits=False, version=2)
    (duty,) = world.markers.duties
    assert (duty.producer_epoch, duty.version, duty.is_commit) == (producer.epoch + 1, 2, False)


def test_the_last_epoch_of_a_producer_id_is_followed_by_a_new_one() -> None:
    world = World().load()
    producer = last_epoch_of(world)
    world.add(producer, version=2)
    reply = world.end(producer, commits=True, version=2)
    new = Producer(ProducerId(1001), ProducerEpoch(0))
    assert (reply.error, reply.producer) == (NONE, new)
    assert world.end(producer, commits=True, version=2).error is BUSY
    (duty,) = world.mark()
    assert (duty.producer_id, duty.producer_epoch) == (producer.producer_id, EPOCH_MAX + 1)
    assert world.end(producer, commits=True, version=2) == (NONE, new), "a retry"
    assert world.add(new, version=2) is NONE
    assert world.end(producer, commits=True, version=2).error is FENCED


def last_epoch_of(world: World) -> Producer:
    """Return the producer of an id whose epochs are used up."""
    producer = world.begun()
    states = world.coordinator._shard.by_partition[0]
    used = states.values["x"]._replace(producer_epoch=ProducerEpoch(EPOCH_MAX))
    states.restore({"x": used})
    return producer._replace(epoch=ProducerEpoch(EPOCH_MAX))


def test_an_unknown_id_and_another_producer_are_told_so() -> None:
    world = World().load()
    producer = world.begun()
    mapping = Code.INVALID_PRODUCER_ID_MAPPING
    for version in (1, 2):
        assert world.end(producer, commits=True, version=version, name="y").error is mapping
        other = producer._replace(producer_id=ProducerId(5))
        assert world.end(other, commits=True, version=version).error is mapping


def test_a_decision_that_is_not_confirmed_is_none() -> None:
    world = World().load()
    producer = world.begun()
    world.add(producer)
    world.is_prompt = False
    told: list[Code] = []
    world.coordinator.end("x", producer, 1, lambda one: told.append(one.error), is_commit=True)
    assert (told, world.markers.duties) == ([], [])
    world.coordinator.end("x", producer, 1, lambda one: told.append(one.error), is_commit=False)
    assert told == [BUSY]
    world.journal.lose(0)
    new = world.elsewhere(8)
    assert new.state().state is TransactionState.ONGOING
    assert new.end(producer, commits=False).error is NONE


@pytest.mark.parametrize("commits", [True, False])
def test_a_decision_survives_the_coordinator_and_is_told_again(commits: bool) -> None:
    world = World().load()
    producer = world.begun()
    world.add(producer, ONE)
    assert world.end(producer, commits=commits).error is NONE
    new = world.elsewhere(8)
    (duty,) = new.markers.duties
    assert (duty.is_commit, duty.coordinator_epoch, duty.partitions) == (
        commits,
        8,
        frozenset({ONE}),
    )
    assert new.end(producer, commits=not commits).error is BUSY
    new.mark()
    assert new.end(producer, commits=not commits).error is INVALID
    assert new.end(producer, commits=commits).error is NONE


def test_who_may_have_been_replaced_does_not_take_an_end_for_the_one_before() -> None:
    world = World().load()
    producer = world.begun()
    world.add(producer)
    world.end(producer, commits=True)
    world.mark()
    new = world.elsewhere(8)
    assert new.add(producer) is NONE
    world.has_lease = False
    assert world.end(producer, commits=True).error is Code.NOT_COORDINATOR
    assert world.add(producer) is Code.NOT_COORDINATOR
    assert world.init().error is Code.NOT_COORDINATOR
    assert world.coordinator.describe("x").error is Code.NOT_COORDINATOR
    assert world.coordinator.verify("x", producer, [ONE]) == {ONE: Code.NOT_COORDINATOR}


def test_what_is_decided_is_completed_while_the_lease_is_not_certain() -> None:
    world = World().load()
    producer = world.begun()
    world.add(producer)
    world.end(producer, commits=True)
    world.has_lease = False
    world.mark()
    world.has_lease = True
    assert world.state().state is TransactionState.COMPLETE_COMMIT


def test_the_end_of_the_end_is_written_again_until_it_is_there() -> None:
    world = World().load()
    producer = world.begun()
    world.add(producer)
    world.end(producer, commits=True)
    world.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    world.mark()
    assert world.state().is_prepared
    world.journal.refuses = None
    world.later(999)
    assert world.state().is_prepared
    world.later(1)
    assert world.state().state is TransactionState.COMPLETE_COMMIT
