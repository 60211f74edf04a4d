"""Producers, consumers and groups through arbitrary elections, held against what they were told.

A producer with a sequence sends again whatever it got no good answer for. A consumer reads from
the master of the moment; a group commits what it has read. Whatever order things happen in:

    what was acknowledged is read, in order, once;  what was read never vanishes or changes
    a committed position that was acknowledged, or seen, is never older at the next coordinator
"""

from collections import deque
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from harness.ids import as_brokers
from penstock.protocol.error_codes import ErrorCode
from penstock.replication.confirm import Membership
from tests.broker.cluster import Asked, Cluster, fetched, produced
from tests.broker.test_group_ownership import commit, commit_error, committed, coordinator
from tests.broker.test_role_changes import values

pytestmark = pytest.mark.timeout(600)  # a long search; the limit is for hangs only

BROKERS = 3
WINDOW = 5
brokers = st.integers(0, BROKERS - 1)


class Failovers(RuleBasedStateMachine):
    """One partition, one group, three brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(BROKERS)
        self.cluster.create("events")
        assert coordinator(self.cluster.nodes[0]) == (0, 0)
        self.cluster.replicate()
        self.leader = 0
        self.in_step: tuple[int, ...] = tuple(range(BROKERS))
        self.sent = 0
        self.waiting: deque[tuple[int, Asked]] = deque()
        self.acknowledged = 0
        self.seen: list[bytes | None] = []
        self.position = -1
        self.commits: list[tuple[int, Asked]] = []

    def _send(self, sequence: int) -> None:
        fields: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence}
        asked = self.cluster.nodes[self.leader].produce(b"%d" % sequence, **fields)
        self.waiting.append((sequence, asked))

    def _settle(self) -> None:
        """Take the answers that have come."""
        while self.waiting and (answer := produced(self.waiting[0][1])) is not None:
            sequence, _ = self.waiting.popleft()
            assert answer.error_code == 0
            assert answer.base_offset == sequence
            self.acknowledged = sequence + 1
        for offset, asked in [*self.commits]:
            error = commit_error(asked)
            if error is not None:
                self.commits.remove((offset, asked))
                if error == 0:
                    self.position = max(self.position, offset)

    @precondition(lambda self: len(self.waiting) < WINDOW)
    @rule()
    def send(self) -> None:
        self._send(self.sent)
        self.sent += 1
        self.cluster.world.run()
        self._settle()

    @rule(broker_id=brokers)
    def replicate(self, broker_id: int) -> None:
        self.cluster.replicate(broker_id)
        self._settle()

    @rule(broker_id=brokers)
    def expand(self, broker_id: int) -> None:
        """A member that holds everything is let in again."""
        self.cluster.replicate(broker_id)
        self.in_step = tuple(sorted({*self.in_step, broker_id}))
        everybody = tuple(range(BROKERS))
        membership = Membership(
            replicas=as_brokers(*everybody), committed=as_brokers(*self.in_step)
        )
        self.cluster.nodes[self.leader].member.change_members(membership)
        self._settle()

    @rule(at=brokers, stays=st.sets(brokers))
    def elect(self, at: int, stays: set[int]) -> None:
        """Any member in step may become master; `stays` of the others have answered in time."""
        before, self.leader = self.leader, self.in_step[at % len(self.in_step)]
        others = [one for one in self.in_step if one in stays]
        self.in_step = tuple(sorted({*others, self.leader}))
        self.cluster.lead(self.leader, members=self.in_step)
        self.cluster.align()
        if self.leader != before:
            self._send_again()
        self._settle()

    def _send_again(self) -> None:
        refused, self.waiting = self.waiting, deque()
        for sequence, asked in refused:
            assert produced(asked).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._send(sequence)
        self.cluster.world.run()

    @rule()
    def read(self) -> None:
        node = self.cluster.nodes[self.leader]
        for offset in (0, len(self.seen)):
            asked = node.fetch(offset)
            self.cluster.world.run()
            answer = fetched(asked)
            assert answer.error_code == 0
            found = values(answer)
            assert found[: len(self.seen) - offset] == self.seen[offset : offset + len(found)]
            self.seen += found[len(self.seen) - offset :]

    @rule()
    def commit(self) -> None:
        asked = commit(self.cluster.nodes[self.leader], len(self.seen))
        self.cluster.world.run()
        self.commits.append((len(self.seen), asked))
        self._settle()

    @rule()
    def look_at_the_position(self) -> None:
        found = committed(self.cluster.nodes[self.leader])
        if found != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert found >= self.position
            self.position = found

    @invariant()
    def what_was_read_is_what_was_sent(self) -> None:
        assert self.seen == [b"%d" % number for number in range(len(self.seen))]

    def teardown(self) -> None:
        self.in_step = tuple(range(BROKERS))
        self.elect(self.leader, set(range(BROKERS)))
        self.cluster.replicate()
        self._settle()
        self.read()
        assert len(self.seen) >= self.acknowledged
        assert len(self.seen) == self.sent
        self.look_at_the_position()
        ends: set[Any] = {node.member.log.end_position for node in self.cluster.nodes}
        assert len(ends) == 1


TestFailovers = Failovers.TestCase
TestFailovers.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
