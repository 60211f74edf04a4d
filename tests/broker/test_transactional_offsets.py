"""Positions of groups in transactions, at the group's coordinator and through its failovers."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from penstock.base.ids import CoordinatorEpoch, ProducerEpoch, ProducerId
from penstock.broker.append.markers import append_marker
from penstock.broker.append.verification import Verification, WantedPartition
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.partitioning import partition_of
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.transactions import verified
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.storage.index.transactions import TransactionEnd
from tests.broker.cluster import Asked, Node
from tests.broker.test_group_ownership import GROUP, commit, commit_error, started
from tests.broker.test_transactional_appends import HandVerifier

P, Q = 7, 8
"""Producer ids."""
TURNS = 10
LOADING_UNKNOWN, MEMBERS_SINCE, ABORTABLE_SINCE, ADDS_SINCE = 1, 3, 4, 5
"""Versions of TxnOffsetCommit."""


class World:
    """Three brokers; the first one has the group, and asks a coordinator that the test plays."""

    def __init__(self) -> None:
        self.cluster = started()
        self.verifier = HandVerifier()
        self.loop = asyncio.new_event_loop()
        self.work: list[asyncio.Task[None]] = []
        for node in self.cluster.nodes:
            node.broker.verifier = self.verifier
            node.front.spawn = node._dispatcher._spawn = node._dispatcher._begin = self._spawn
        self.node = self.cluster.nodes[0]

    def _spawn(self, _: str, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(self.loop.create_task(work))

    def run(self) -> None:
        """Let everything happen that does not wait for the transaction's coordinator."""
        for _ in range(TURNS):
            self.loop.run_until_complete(asyncio.sleep(0))
            self.cluster.world.run()
            self.cluster.replicate(*self.others)

    def close(self) -> None:
        for work in self.work:
            work.cancel()
        self.run()
        self.loop.close()

    @property
    def others(self) -> list[int]:
        return [each for each in range(len(self.cluster.nodes)) if each != self.at]

    @property
    def at(self) -> int:
        return self.cluster.nodes.index(self.node)

    @property
    def hosted(self) -> HostedPartition:
        return hosted(self.node)

    def send(
        self,
        offset: int,
        *,
        producer: int = P,
        epoch: int = 0,
        version: int = MEMBERS_SINCE,
        **fields: Any,
    ) -> Asked:
        asked = self.node.send(
            ApiKey.TXN_OFFSET_COMMIT, version, request(offset, producer, epoch, version) | fields
        )
        self.run()
        return asked

    def answer(self, said: Code) -> None:
        """Let the transaction's coordinator answer the newest question."""
        self.verifier.held[-1].code = said
        self.run()

    def end(self, *, commits: bool, producer: int = P, epoch: int = 0) -> None:
        append_marker(
            self.hosted,
            TransactionEnd(
                ProducerId(producer), ProducerEpoch(epoch), CoordinatorEpoch(3), commits
            ),
            1,
        )
        self.run()

    def lead(self, at: int) -> None:
        """Let another broker lead, which has all that is confirmed."""
        self.cluster.lead(at)
        self.node = self.cluster.nodes[at]
        self.run()

    def committed(self, *, is_stable: bool = False) -> tuple[int, Code]:
        topics = [{"name": "events", "partition_indexes": [0]}]
        fields = {"group_id": GROUP, "topics": topics, "require_stable": is_stable}
        answer = self.node.ask(ApiKey.OFFSET_FETCH, 7, fields)
        if answer.error_code:
            return -1, Code(answer.error_code)
        (one,) = answer.topics[0].partitions
        return one.committed_offset, Code(one.error_code)


def request(offset: int, producer: int, epoch: int, version: int) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    if version >= 2:
        partition["committed_leader_epoch"] = -1
    fields: dict[str, Any] = {"transactional_id": "x", "group_id": GROUP}
    fields |= {"producer_id": producer, "producer_epoch": epoch}
    if version >= MEMBERS_SINCE:
        fields |= {"generation_id": -1, "member_id": "", "group_instance_id": None}
    return fields | {"topics": [{"name": "events", "partitions": [partition]}]}


def hosted(node: Node) -> HostedPartition:
    found = node.broker.partitions.find(INTERNAL_TOPIC, partition_of(GROUP, 2))
    assert found is not None
    return found


def code(asked: Asked) -> Code | None:
    if asked.answer is None:
        return None
    return Code(asked.answer.topics[0].partitions[0].error_code)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def test_positions_count_once_the_marker_is_confirmed(world: World) -> None:
    assert code(world.send(5)) is Code.NONE
    assert world.committed() == (-1, Code.NONE)
    assert world.committed(is_stable=True) == (-1, Code.UNSTABLE_OFFSET_COMMIT)
    append_marker(
        world.hosted, TransactionEnd(ProducerId(P), ProducerEpoch(0), CoordinatorEpoch(3), True), 1
    )
    assert world.committed(is_stable=True) == (-1, Code.UNSTABLE_OFFSET_COMMIT)
    world.run()
    assert world.committed(is_stable=True) == (5, Code.NONE)


def test_positions_of_an_aborted_transaction_never_show(world: World) -> None:
    asked = commit(world.node, 3)
    world.run()
    assert commit_error(asked) == 0
    world.send(5)
    world.end(commits=False)
    assert world.committed(is_stable=True) == (3, Code.NONE)


def test_the_coordinator_of_the_transaction_is_asked_before_the_first_batch(world: World) -> None:
    assert code(world.send(5)) is Code.NONE
    assert code(world.send(6)) is Code.NONE
    partition = partition_of(GROUP, 2)
    (one,) = world.verifier.held
    topic_id = world.hosted.topic.topic_id
    place = WantedPartition(INTERNAL_TOPIC, partition, topic_id)
    assert one.asked == Verification("x", ProducerId(P), ProducerEpoch(0), False, (place,))
    world.end(commits=True)
    world.send(7, version=ADDS_SINCE, epoch=1)
    assert world.verifier.held[-1].asked.adds


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (Code.INVALID_TXN_STATE, MEMBERS_SINCE, Code.INVALID_TXN_STATE),
        (Code.INVALID_TXN_STATE, ABORTABLE_SINCE, Code.TRANSACTION_ABORTABLE),
        (Code.INVALID_PRODUCER_ID_MAPPING, ADDS_SINCE, Code.INVALID_PRODUCER_ID_MAPPING),
        (Code.PRODUCER_FENCED, ADDS_SINCE, Code.INVALID_PRODUCER_EPOCH),
        (Code.INVALID_PRODUCER_EPOCH, MEMBERS_SINCE, Code.INVALID_PRODUCER_EPOCH),
        (Code.NETWORK_EXCEPTION, MEMBERS_SINCE, Code.COORDINATOR_LOAD_IN_PROGRESS),
        (Code.NOT_COORDINATOR, ADDS_SINCE, Code.COORDINATOR_LOAD_IN_PROGRESS),
        (Code.NETWORK_EXCEPTION, LOADING_UNKNOWN, Code.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_the_coordinator_of_the_transaction_refuses_is_not_written(
    world: World, said: Code, version: int, told: Code
) -> None:
    world.verifier.code = said
    end = world.hosted.log.log_end_offset
    assert code(world.send(5, version=version)) is told
    assert world.hosted.log.log_end_offset == end
    assert not world.hosted.guards


def test_a_marker_that_comes_during_the_question_keeps_the_late_batch_out(world: World) -> None:
    world.verifier.code = None
    asked = world.send(5)
    world.end(commits=True)
    world.verifier.held[0].code = Code.NONE
    world.run()
    assert code(asked) is Code.INVALID_TXN_STATE
    assert world.committed(is_stable=True) == (-1, Code.NONE)


def test_the_next_transaction_waits_for_the_marker_of_the_last_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its coordinator does not wait for that: it is asked again."""
    monkeypatch.setattr(verified, "WAIT_MS", 3_600_000)
    monkeypatch.setattr(verified, "ASKED_AGAIN_MS", 0)
    world.send(5, version=ADDS_SINCE)
    world.verifier.code = None
    asked = world.send(6, epoch=1, version=ADDS_SINCE)
    world.answer(Code.CONCURRENT_TRANSACTIONS)
    world.end(commits=True)
    world.answer(Code.CONCURRENT_TRANSACTIONS)
    assert code(asked) is None
    world.answer(Code.NONE)
    assert code(asked) is Code.NONE
    assert world.committed() == (5, Code.NONE)
    world.end(commits=True, epoch=1)
    assert world.committed(is_stable=True) == (6, Code.NONE)


@pytest.mark.parametrize("is_ending", [False, True])
def test_what_was_late_in_a_transaction_does_not_move_positions_back_in_the_next(
    world: World, *, is_ending: bool
) -> None:
    """Its client has asked again, and has gone on: in version 1 with the same epoch."""
    world.verifier.code = None
    late = world.send(5)
    world.verifier.code = Code.NONE
    assert code(world.send(5)) is Code.NONE
    world.end(commits=True)
    assert code(world.send(7)) is Code.NONE
    world.verifier.held[0].code = Code.CONCURRENT_TRANSACTIONS if is_ending else Code.NONE
    world.run()
    told = Code.COORDINATOR_LOAD_IN_PROGRESS if is_ending else Code.INVALID_TXN_STATE
    assert code(late) is told
    world.end(commits=True)
    assert world.committed(is_stable=True) == (7, Code.NONE)


@pytest.mark.parametrize("ends_before", [False, True])
def test_what_a_later_transaction_has_moved_stays_there_through_a_failover(
    world: World, *, ends_before: bool
) -> None:
    """The marker of the one that wrote first comes last: before the failover, or after it."""
    assert code(world.send(5, producer=P)) is Code.NONE
    assert code(world.send(6, producer=Q)) is Code.NONE
    world.end(commits=True, producer=Q)
    if ends_before:
        world.end(commits=True, producer=P)
    world.lead(1)
    if not ends_before:
        world.end(commits=True, producer=P)
    assert world.committed(is_stable=True) == (6, Code.NONE)


def test_an_older_epoch_is_fenced(world: World) -> None:
    world.send(5, epoch=1)
    assert code(world.send(6, epoch=0)) is Code.INVALID_PRODUCER_EPOCH
    world.end(commits=True, epoch=1)
    assert code(world.send(7, epoch=0)) is Code.INVALID_PRODUCER_EPOCH
    assert world.committed(is_stable=True) == (5, Code.NONE)


def test_who_is_not_the_coordinator_says_so_and_asks_nobody(world: World) -> None:
    world.node = world.cluster.nodes[1]
    assert code(world.send(5)) is Code.NOT_COORDINATOR
    assert not world.verifier.held


def test_an_unknown_partition_is_refused_alone(world: World) -> None:
    fields = request(5, P, 0, MEMBERS_SINCE)
    fields["topics"].append({**fields["topics"][0], "name": "unknown"})
    asked = world.send(5, topics=fields["topics"])
    known, unknown = (each.partitions[0].error_code for each in asked.answer.topics)
    assert (known, unknown) == (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("commits", [True, False])
def test_what_is_pending_outlives_a_failover(world: World, *, commits: bool) -> None:
    world.send(5)
    world.lead(1)
    assert world.committed(is_stable=True) == (-1, Code.UNSTABLE_OFFSET_COMMIT)
    world.end(commits=commits)
    assert world.committed(is_stable=True) == (5 if commits else -1, Code.NONE)
    world.lead(2)
    assert world.committed(is_stable=True) == (5 if commits else -1, Code.NONE)


def test_a_marker_is_heard_that_comes_before_the_groups_are_shown(world: World) -> None:
    world.send(5)
    world.cluster.lead(1)
    world.node = world.cluster.nodes[1]
    world.cluster.world.run()
    assert world.committed()[1] is Code.COORDINATOR_LOAD_IN_PROGRESS
    append_marker(
        world.hosted, TransactionEnd(ProducerId(P), ProducerEpoch(0), CoordinatorEpoch(3), True), 1
    )
    world.run()
    assert world.committed(is_stable=True) == (5, Code.NONE)


def test_a_rewrite_keeps_open_transactions_and_what_they_began_with(world: World) -> None:
    commit(world.node, 3)
    world.run()
    world.send(5)
    first = world.hosted.log.log_end_offset - 1
    for number in range(3):
        world.send(10 + number, producer=Q, epoch=number)
        world.end(commits=True, producer=Q, epoch=number)
    assert world.committed(is_stable=True)[0] == 12
    _rewrite(world)
    assert world.hosted.log.log_start_offset == first
    world.send(20)
    _rewrite(world)
    assert world.hosted.log.log_start_offset == first
    world.lead(1)
    assert world.committed(is_stable=True) == (-1, Code.UNSTABLE_OFFSET_COMMIT)
    world.end(commits=True)
    assert world.committed(is_stable=True) == (20, Code.NONE)
    _rewrite(world)
    assert world.hosted.log.log_start_offset > first + 8
    world.lead(2)
    assert world.committed(is_stable=True) == (20, Code.NONE)


def _rewrite(world: World) -> None:
    done: list[bool] = []
    coordinator = world.node.broker.coordinators[INTERNAL_TOPIC]
    assert coordinator.rewrite(world.hosted, done.append)
    world.run()
    assert len(done) == 1
