"""Consumers of committed records through arbitrary histories, against a list of what was written.

Three transactional producers and a plain one write to one partition of three brokers. A consumer
reads from whichever broker serves it, and leaves out what is aborted as Kafka's Java client does:

    it gets the committed records below its position, in order, once;  nothing unstable is served
    no broker's last stable offset falls, nor does the latest offset, whoever is master
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from harness.ids import as_brokers
from penstock.base.ids import BrokerId
from penstock.broker.config import SlaveReads
from penstock.replication.confirm import Membership
from penstock.storage.errors import SegmentNotReady
from tests.broker.cluster import Asked, Node
from tests.broker.transactional import (
    Read,
    ask_fetch,
    ask_latest,
    committed,
    end,
    events,
    fetch,
    fetched,
    forget_indexes,
    hosted,
    told_aborted,
    write,
)

pytestmark = pytest.mark.timeout(600)  # a long search; the limit is for hangs only

BROKERS = 3
PLAIN = -1
brokers = st.integers(0, BROKERS - 1)
sizes = st.sampled_from([300, 3000, 1 << 20])


class Written(NamedTuple):
    """One batch of one record. `ends` is None for data, else whether the marker commits."""

    offset: int
    value: bytes
    producer_id: int
    ends: bool | None = None


class Committed(RuleBasedStateMachine):
    """One partition, one consumer at a time, three brokers."""

    @initialize(seed=st.integers(0, 1 << 32))
    def begin(self, seed: int) -> None:
        self.cluster = events(BROKERS, slave_reads=SlaveReads.RACK)
        self.cluster.world._random = Random(seed)
        self.leader = 0
        self.in_step: tuple[int, ...] = tuple(range(BROKERS))
        self.written: list[Written] = []
        self.count = 0
        self.seen: list[Read] = []
        self.position = 0
        self.stable = [0] * BROKERS
        self.latest = 0
        self.under_way: list[tuple[int, int, Asked]] = []

    # What is written

    @rule(
        producer_id=st.sampled_from([PLAIN, 1, 2, 3]),
        count=st.integers(1, 12),
        size=st.sampled_from([100, 900, 5000]),
    )
    def write(self, producer_id: int, count: int, size: int) -> None:
        for _ in range(count):
            value = b"%d " % self.count + b"x" * size
            offset = self.append(partial(write, producer_id=producer_id, value=value))
            self.written.append(Written(offset, value, producer_id))
            self.count += 1

    @rule(producer_id=st.integers(1, 3), is_commit=st.booleans())
    def end(self, producer_id: int, is_commit: bool) -> None:
        offset = self.append(lambda node: end(node, producer_id, is_commit))
        self.written.append(Written(offset, b"", producer_id, is_commit))

    def append(self, append: Callable[[Node], int]) -> int:
        """Append now; if the log has no next segment yet, once it has one."""
        node = self.cluster.nodes[self.leader]
        try:
            return append(node)
        except SegmentNotReady:
            self.cluster.world.run()
            return append(node)

    # What becomes of it

    @rule(slaves=st.sets(brokers, min_size=1))
    def replicate(self, slaves: set[int]) -> None:
        others = slaves - {self.leader}
        if others:
            self.cluster.replicate(*others)

    @rule(slave=brokers)
    def copy(self, slave: int) -> None:
        """The slave has it, and has not said so yet."""
        if slave != self.leader:
            nodes = self.cluster.nodes
            self.cluster.world.run()
            self.cluster._copy(nodes[self.leader].member.log, nodes[slave].member.log)

    @rule()
    def confirm(self) -> None:
        """All slaves say what they have, and hear what is confirmed; nothing else happens."""
        master = self.cluster.nodes[self.leader].member
        others = [node.member for node in self.cluster.nodes if node.broker_id != self.leader]
        for slave in others:
            master.acknowledge(BrokerId(slave.own_id), slave.log.durable_position)
        for slave in others:
            slave.note_master_confirmed(master.confirm_position)

    @rule(at=brokers, stays=st.sets(brokers))
    def elect(self, at: int, stays: set[int]) -> None:
        """Any member in step may become master; `stays` of the others have answered in time."""
        self.leader = self.in_step[at % len(self.in_step)]
        others = [one for one in self.in_step if one in stays]
        self.in_step = tuple(sorted({*others, self.leader}))
        self.cluster.lead(self.leader, members=self.in_step)
        self.cluster.align()
        end_offset = hosted(self.cluster.nodes[self.leader]).log.log_end_offset
        self.written = [one for one in self.written if one.offset < end_offset]

    @rule(broker_id=brokers)
    def expand(self, broker_id: int) -> None:
        """A member that holds everything is let in again."""
        if broker_id != self.leader:
            self.cluster.replicate(broker_id)
        self.in_step = tuple(sorted({*self.in_step, broker_id}))
        everybody = tuple(range(BROKERS))
        membership = Membership(
            replicas=as_brokers(*everybody), committed=as_brokers(*self.in_step)
        )
        self.cluster.nodes[self.leader].member.change_members(membership)
        self.cluster.world.run()

    @rule(broker_id=brokers)
    def forget(self, broker_id: int) -> None:
        self.cluster.world.run()
        forget_indexes(self.cluster.nodes[broker_id])

    @rule()
    def settle(self) -> None:
        self.cluster.world.run()
        self.take_answers()

    # What is read

    @rule(broker_id=brokers, size=sizes)
    def read(self, broker_id: int, size: int) -> None:
        node = self.cluster.nodes[broker_id]
        answer = ask_fetch(node, self.position, rack=f"rack-{broker_id}", partition_max=size)
        self.take(broker_id, self.position, answer)

    @precondition(lambda self: len(self.under_way) < 3)
    @rule(broker_id=brokers, size=sizes, wait_ms=st.sampled_from([0, 1000]))
    def ask(self, broker_id: int, size: int, wait_ms: int) -> None:
        """Send a fetch that is answered when the disk is asked, or when there is more."""
        how: dict[str, Any] = {
            "rack": f"rack-{broker_id}",
            "partition_max": size,
            "wait_ms": wait_ms,
        }
        asked = fetch(self.cluster.nodes[broker_id], self.position, **how)
        self.cluster.world.turn()
        self.under_way.append((broker_id, self.position, asked))

    @rule(start=st.floats(0, 1), broker_id=brokers)
    def read_again(self, start: float, broker_id: int) -> None:
        """Another consumer begins somewhere below."""
        at = int(start * self.position)
        node = self.cluster.nodes[broker_id]
        answer = ask_fetch(node, at, rack=f"rack-{broker_id}")
        if not answer.error_code:
            found, reached = committed(answer, at)
            self.check(broker_id, answer)
            assert found == self.expected(at, reached)

    @rule()
    def look_at_the_latest(self) -> None:
        asked = ask_latest(self.cluster.nodes[self.leader])
        self.cluster.world.run()
        (partition,) = asked.answer.topics[0].partitions
        if not partition.error_code:
            assert partition.offset >= self.latest
            self.latest = partition.offset

    def take_answers(self) -> None:
        under_way, self.under_way = self.under_way, []
        for broker_id, position, asked in under_way:
            answer = fetched(asked)
            if answer is None:
                self.under_way.append((broker_id, position, asked))
            elif position == self.position:
                self.take(broker_id, position, answer, is_old=True)

    def take(self, broker_id: int, position: int, answer: Any, *, is_old: bool = False) -> None:
        if answer.error_code:
            assert not answer.records
            return
        self.check(broker_id, answer, is_old=is_old)
        found, self.position = committed(answer, position)
        self.seen += found
        assert self.seen == self.expected(0, self.position)

    def check(self, broker_id: int, answer: Any, *, is_old: bool = False) -> None:
        stable, told = answer.last_stable_offset, told_aborted(answer)
        assert stable <= answer.high_watermark
        assert committed(answer, 0)[1] <= stable
        assert told == sorted(told or (), key=lambda one: one[1])
        if not is_old:
            assert stable <= self.first_undecided(answer.high_watermark)
            assert stable >= self.stable[broker_id]
            self.stable[broker_id] = stable

    def first_undecided(self, high_watermark: int) -> int:
        """Where the first transaction begins whose marker, if there is one, is not confirmed."""
        begun: dict[int, int] = {}
        for one in self.written:
            if one.ends is None and one.producer_id != PLAIN:
                begun.setdefault(one.producer_id, one.offset)
            elif one.ends is not None and one.offset < high_watermark:
                begun.pop(one.producer_id, None)
        return min(begun.values(), default=high_watermark)

    def expected(self, start: int, stop: int) -> list[Read]:
        """What is committed of [start, stop), all of which must be decided."""
        found: list[Read] = []
        outcomes: dict[int, bool] = {}
        for one in reversed(self.written):
            if one.ends is not None:
                outcomes[one.producer_id] = one.ends
            elif start <= one.offset < stop:
                assert one.producer_id == PLAIN or one.producer_id in outcomes, "it is open"
                if outcomes.get(one.producer_id, True):
                    found.append((one.offset, one.value))
        return found[::-1]

    def teardown(self) -> None:
        """In the end a consumer gets everything."""
        if not hasattr(self, "cluster"):
            return
        self.settle()
        for producer_id in (1, 2, 3):
            self.end(producer_id, is_commit=producer_id == 1)
        self.cluster.replicate()
        for _ in range(len(self.written) + 1):
            self.read(self.leader, 1 << 20)
        assert self.position == len(self.written)


TestCommitted = Committed.TestCase
TestCommitted.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
