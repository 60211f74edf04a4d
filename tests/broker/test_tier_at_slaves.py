"""Slaves that read for consumers what only the tier has, by what their master tells them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.ids import BrokerId, LeaderEpoch, Offset
from penstock.broker.access import Operation, Requester, Resource
from penstock.broker.config import SlaveReads
from penstock.broker.fetch import sent_away
from penstock.broker.fetch.slave_reads import ReplicaSelector
from penstock.broker.tier import run_answers
from penstock.broker.tier.run_answers import RunAnswers
from penstock.coordinator.calls.asking import BrokerNotReached, CallNotServed
from penstock.coordinator.calls.tier import TierRunsRequest, TierRunsResponse
from penstock.protocol.error_codes import ErrorCode
from penstock.runtime.tier import told
from penstock.runtime.tier.told import FRESH_MS, WINDOWS_MAX
from penstock.tier.metadata.manifest import Run
from penstock.tier.metadata.run_bytes import encode_run
from simulator.kernel.object_store import Bucket
from tests.broker.cluster import Asked, Cluster, fetched
from tests.broker.test_role_changes import LONG_MS, events, values
from tests.broker.tier_reads import LEASE_MS, TierOfTest
from tests.extents.files import Part, batch, key
from tests.tier.objects import name, put

LOCAL_START = 6
TOLD = [b"v" * 9]
"""A record of the store; those of the disks are numbers."""
NOBODY = -1
READS_MAX = 9
"""More than a fetch here needs."""


class Caller:
    """Asks the master of the test by its handler."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.asked: list[TierRunsRequest] = []
        self.error: Exception | None = None
        self.change: Callable[[TierRunsResponse], TierRunsResponse] = lambda answer: answer

    async def ask(self, broker_id: BrokerId, question: Any, *, timeout_ms: int) -> Any:
        """As in Caller."""
        del timeout_ms
        self.asked.append(question)
        if self.error is not None:
            raise self.error
        return self.change(await RunAnswers(self.cluster.nodes[broker_id].broker).give(question))


class Tiered:
    """`events` in three runs below 6 and ten records in all; broker 0 leads it, 1 is its slave."""

    def __init__(self, slave_reads: SlaveReads = SlaveReads.RACK) -> None:
        self.cluster = events(2, slave_reads=slave_reads)
        for number in range(10):
            self.cluster.nodes[0].produce(b"%d" % number)
        self.cluster.replicate()
        self.bucket = Bucket()
        self.caller: Any = Caller(self.cluster)
        self.master, self.slave = (
            TierOfTest(node, self.bucket, self.caller) for node in self.cluster.nodes
        )
        for tier in (self.master, self.slave):
            assert tier.hosted is not None
            tier.hosted.log.raise_log_start(Offset(LOCAL_START))
        self.runs: list[Run] = []
        for at in (0, 2, 4):
            parts = [Part(self.master.key, [batch(at), batch(at + 1)])]
            self.runs += put(self.bucket, name(at + 1), parts)
        self.manifest = self.master.has(self.runs)

    def fetch(self, offset: int, at: int = 1, rack: str = "rack-1") -> Any:
        """Return the answer of a broker to a fetch that waits for the tier."""
        tier = (self.master, self.slave)[at]
        asked: Asked = self.cluster.nodes[at].fetch(offset, wait_ms=LONG_MS, rack=rack)
        for _ in range(READS_MAX):
            if fetched(asked) is not None or not tier.read():
                break
        return fetched(asked)

    def code(self, offset: int) -> int:
        return int(self.fetch(offset).error_code)

    def wait(self, milliseconds: int) -> None:
        self.cluster.world.advance(milliseconds)


def test_a_slave_reads_the_store_and_asks_its_master_now_and_then() -> None:
    tiered = Tiered()
    for offset in range(LOCAL_START):
        answer = tiered.fetch(offset)
        assert (answer.error_code, values(answer)[:1]) == (0, TOLD)
    assert len(tiered.caller.asked) == 1
    assert tiered.fetch(0).log_start_offset == 0
    assert values(tiered.fetch(LOCAL_START))[0] == b"6"
    tiered.wait(FRESH_MS)
    tiered.fetch(0)
    assert len(tiered.caller.asked) == 2


def test_runs_that_one_answer_has_not_are_asked_for_as_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_answers, "RUNS_MAX", 1)
    tiered = Tiered()
    for offset in (0, 2, 4, 1, 3, 5):
        assert values(tiered.fetch(offset))[:1] == TOLD
    assert [one.offset for one in tiered.caller.asked] == [0, 2, 4]


def test_a_gap_at_the_end_of_what_was_told_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_answers, "RUNS_MAX", 1)
    tiered = Tiered()
    (first,) = put(tiered.bucket, name(9), [Part(tiered.master.key, [batch(0), batch(8)])])
    tiered.master.has([first._replace(end_offset=2), *tiered.runs[1:]])
    assert values(tiered.fetch(1)) == 2 * TOLD


def test_what_the_master_has_deleted_is_out_of_range_at_the_slave_too() -> None:
    tiered = Tiered()
    assert tiered.code(1) == 0
    tiered.manifest.start_offset = 3
    tiered.wait(FRESH_MS)
    assert tiered.code(1) == ErrorCode.OFFSET_OUT_OF_RANGE, "also where it had read it before"
    assert tiered.fetch(3).log_start_offset == 3
    asked = len(tiered.caller.asked)
    tiered.wait(FRESH_MS)
    assert tiered.code(0) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(tiered.caller.asked) == asked, "a start never falls: nobody is asked"


def test_what_counts_no_more_for_the_master_is_out_of_range_where_the_slave_never_asked() -> None:
    tiered = Tiered()
    assert tiered.master.hosted is not None
    tiered.master.hosted.log.raise_log_start(Offset(7))  # within no run: deleted by a client
    assert tiered.code(3) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_slave_whose_master_is_silent_goes_on_until_the_lease_ends() -> None:
    tiered = Tiered()
    tiered.fetch(0)
    tiered.caller.error = BrokerNotReached("it has died")
    tiered.wait(FRESH_MS)
    for offset in (0, 3):
        assert tiered.code(offset) == 0
    assert len(tiered.caller.asked) == 2, "and is asked as seldom as one that answers"
    tiered.wait(LEASE_MS - FRESH_MS - 1)
    assert tiered.code(1) == 0
    tiered.wait(1)
    assert tiered.code(2) == ErrorCode.KAFKA_STORAGE_ERROR
    tiered.caller.error = None
    assert tiered.code(2) == 0


def test_what_an_earlier_master_told_counts_no_more_and_the_new_one_is_asked() -> None:
    tiered = Tiered()
    tiered.fetch(0)
    tiered.cluster.lead(0)
    tiered.manifest.start_offset = 2
    assert tiered.code(0) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert tiered.code(2) == 0
    epochs = [one.leader_epoch for one in tiered.caller.asked]
    assert epochs == [epochs[0], epochs[0] + 1]


def test_a_read_that_was_begun_under_an_earlier_master_asks_nobody() -> None:
    tiered = Tiered()
    tiered.cluster.nodes[1].fetch(0, wait_ms=LONG_MS, rack="rack-1")
    epoch = tiered.cluster.lead(0)
    tiered.slave.read()
    assert {one.leader_epoch for one in tiered.caller.asked} <= {epoch}
    assert tiered.slave.reads.counters.reads == len(tiered.caller.asked)


def test_what_took_longer_to_read_than_it_counts_as_new_is_given_all_the_same() -> None:
    tiered = Tiered()

    def slow(answer: TierRunsResponse) -> TierRunsResponse:
        tiered.wait(FRESH_MS)
        return answer

    tiered.caller.change = slow
    assert tiered.code(0) == 0
    assert len(tiered.caller.asked) == 1


def test_an_object_that_has_gone_is_asked_for_anew() -> None:
    tiered = Tiered()
    tiered.fetch(0)
    parts = [Part(tiered.master.key, [batch(4), batch(5)], generation=1)]
    again = put(tiered.bucket, name(9), parts)
    tiered.master.has([*tiered.runs[:2], *again])
    del tiered.bucket.objects[str(name(5))]
    assert values(tiered.fetch(4)) == 2 * TOLD
    assert len(tiered.caller.asked) == 2


@pytest.mark.parametrize("what", ["garbage", "order", "partition", "start", "unknown"])
def test_a_master_that_tells_what_can_not_be_so_is_not_believed(what: str) -> None:
    tiered = Tiered()
    other = put(tiered.bucket, name(9), [Part(key(7, 0), [batch(0), batch(1)])])
    whole = [encode_run(run) for run in tiered.runs]
    told: dict[str, dict[str, Any]] = {
        "garbage": {"runs": (whole[0][:-1],)},
        "order": {"runs": (whole[0], whole[2])},
        "partition": {"runs": tuple(map(encode_run, other))},
        "start": {"start_offset": -1},
        "unknown": {"is_known": False, "runs": ()},
    }
    tiered.caller.change = lambda answer: replace(answer, **told[what])
    assert tiered.code(0) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_master_of_an_earlier_release_has_its_slaves_send_consumers_back() -> None:
    tiered = Tiered()
    tiered.caller.error = CallNotServed("not known there")
    assert tiered.code(0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(tiered.caller.asked) == 1


def test_a_slave_that_is_not_told_what_was_aborted_sends_consumers_back() -> None:
    tiered = Tiered()
    parts = [Part(tiered.master.key, [batch(4), batch(5)], decided_end=4)]
    tiered.master.has([*tiered.runs[:2], *put(tiered.bucket, name(9), parts)])
    assert tiered.code(4) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert tiered.code(2) == 0


def test_only_the_master_of_the_mastership_that_is_asked_tells() -> None:
    tiered = Tiered()
    tiered.fetch(0)
    (question,) = tiered.caller.asked
    epoch = question.leader_epoch

    def tells(at: int, **other: Any) -> bool:
        handler = RunAnswers(tiered.cluster.nodes[at].broker)
        work = handler.give(replace(question, **other))
        with pytest.raises(StopIteration) as ended:
            work.send(None)
        return bool(ended.value.value.is_known)

    assert tells(0)
    assert not tells(1)
    assert not tells(0, leader_epoch=LeaderEpoch(epoch - 1))
    assert not tells(0, partition=1)
    assert not tells(0, replica_set_id=1)
    assert not tells(0, topic_id=bytes(16))
    tiered.cluster.nodes[0].broker.tier = None
    assert not tells(0)


def test_answers_are_bounded_by_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    tiered = Tiered()
    monkeypatch.setattr(run_answers, "RUNS_BYTES_MAX", 2 * len(encode_run(tiered.runs[0])))
    seen: list[int] = []

    def note(answer: TierRunsResponse) -> TierRunsResponse:
        seen.append(len(answer.runs))
        return answer

    tiered.caller.change = note
    assert tiered.code(0) == 0
    assert seen == [2]


def test_a_consumer_is_sent_for_history_to_the_slave_in_its_rack() -> None:
    tiered = Tiered()
    sent = tiered.fetch(0, at=0)
    assert (sent.error_code, sent.preferred_read_replica, values(sent)) == (0, 1, [])
    for rack in ("", "rack-0", "elsewhere"):
        answer = tiered.fetch(0, at=0, rack=rack)
        assert (answer.preferred_read_replica, values(answer)[:1]) == (NOBODY, TOLD)


def test_where_lag_decides_all_history_is_read_at_slaves() -> None:
    tiered = Tiered(SlaveReads.LAG)
    assert tiered.fetch(0, at=0, rack="").preferred_read_replica == 1
    assert tiered.fetch(LOCAL_START, at=0, rack="").preferred_read_replica == NOBODY


def test_nobody_is_sent_anywhere_while_the_master_does_not_know_what_the_store_has() -> None:
    tiered = Tiered()
    tiered.master.manifests.clear()
    answer = tiered.fetch(0, at=0)
    assert answer.preferred_read_replica == NOBODY
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_who_comes_back_from_a_slave_unserved_is_served_by_the_master_for_a_while() -> None:
    world = events(1).world
    known, one, other = sent_away.SentAway(world), object(), object()
    place = key(1, 0)
    assert known.may_send(one, place, 5)
    assert known.may_send(other, place, 5), "another consumer's return is not this one's"
    assert known.may_send(one, place, 9), "it got on"
    assert not known.may_send(one, place, 9)
    assert not known.may_send(one, place, 12)
    world.advance(sent_away.KEPT_MS - 1)
    assert not known.may_send(one, place, 15)
    world.advance(1)
    assert known.may_send(one, place, 18)
    assert not known.may_send(one, place, 18)


def test_of_consumers_that_were_sent_away_a_bounded_number_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sent_away, "CONSUMERS_MAX", 2)
    known, place = sent_away.SentAway(events(1).world), key(1, 0)
    consumers = [object() for _ in range(3)]
    assert all(known.may_send(one, place, 5) for one in consumers)
    assert known.may_send(consumers[0], place, 5), "it is forgotten"
    assert not known.may_send(consumers[2], place, 5)


def test_a_request_that_is_looked_at_twice_is_sent_away_once() -> None:
    tiered, client = Tiered(), object()
    broker, hosted = tiered.cluster.nodes[0].broker, tiered.master.hosted
    assert hosted is not None
    request = ReplicaSelector(broker, "rack-1", client)
    assert [request.preferred(hosted, 0) for _ in range(2)] == [1, 1]
    assert ReplicaSelector(broker, "rack-1", client).preferred(hosted, 0) == NOBODY


def test_windows_and_partitions_that_are_kept_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_answers, "RUNS_MAX", 1)
    tiered = Tiered()
    own, more = tiered.master.key, []
    for at in range(6, 6 + 2 * WINDOWS_MAX, 2):
        more += put(tiered.bucket, name(at + 1), [Part(own, [batch(at), batch(at + 1)])])
    tiered.master.has([*tiered.runs, *more])
    assert tiered.slave.hosted is not None
    known, hosted = tiered.slave.told, tiered.slave.hosted
    epoch = hosted.member.leader_epoch
    offsets = range(0, 2 * WINDOWS_MAX + 2, 2)
    for offset in (*offsets, *offsets[1:], 0):
        asyncio.run(known.of(hosted, epoch, Offset(offset)))
    asked = [one.offset for one in tiered.caller.asked]
    assert asked == [*offsets, 0], "the one that was used longest ago had gone"


def test_of_partitions_that_were_told_of_a_bounded_number_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(told, "PARTITIONS_MAX", 2)
    tiered = Tiered()
    asked: list[Any] = []
    for topic in (1, 2, 3):
        part = Part(key(topic, 0), [batch(0)])
        (run,) = put(tiered.bucket, name(20 + topic), [part])
        answer = TierRunsResponse(
            is_known=True, start_offset=0, lease_ms=LEASE_MS, runs=(encode_run(run),)
        )
        tiered.caller.change = lambda _, answer=answer: answer
        log = SimpleNamespace(topic_partition=part.key)
        asked.append(SimpleNamespace(log=log, member=tiered.cluster.nodes[1].member))
        asyncio.run(tiered.slave.told.of(asked[-1], asked[-1].member.leader_epoch, Offset(0)))
    assert [tiered.slave.told.start_of(one) for one in asked] == [None, 0, 0]


class RefusesReads:
    """An authoriser that lets nobody read."""

    permits_all = False
    generation = 0

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        """As in Authoriser."""
        del who, resource, name
        return operation is not Operation.READ

    def permits_some(self, who: Requester, operation: Operation, resource: Resource) -> bool:
        """As in Authoriser."""
        del who, resource
        return operation is not Operation.READ


def test_a_slave_gives_history_to_those_alone_who_may_read() -> None:
    tiered = Tiered()
    tiered.fetch(0)
    tiered.cluster.nodes[1].broker.authoriser = RefusesReads()
    answer = tiered.fetch(0)
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not answer.records
