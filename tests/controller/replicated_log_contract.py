"""What every ReplicatedLog does: inherit, and give `make` for the implementation under test.

It is about one log that leads (a LogHarness); replicated_group_contract.py is about several members
of one group.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import pytest

from penstock.base.ports import Buffer
from penstock.controller.errors import (
    MetadataError,
    MetadataUnavailable,
)
from penstock.controller.replicated_log import Leadership, MachineIndex, ReplicatedLog


class Machine:
    """A state machine whose state is the list of payloads."""

    def __init__(self) -> None:
        self.index = 0
        self.state: list[bytes] = []
        self.events: list[str] = []

    def restore(self, index: int, snapshot: Buffer) -> None:
        self.events.append(f"snapshot {index}")
        self.index = index
        self.state = bytes(snapshot).split(b",")

    def install_snapshot(self, index: int, snapshot: Buffer, done: Callable[[], None]) -> None:
        done()
        self.restore(index, snapshot)

    def abandon_install(self) -> None:
        raise AssertionError("nothing is being installed")

    def apply(self, index: int, payload: Buffer) -> None:
        assert index == self.index + 1
        self.events.append(f"apply {index}")
        self.index = index
        self.state.append(bytes(payload))

    def snapshot(self) -> bytes:
        return b",".join(self.state)


class LogHarness(ABC):
    """One log and the means to run its loop and to kill it."""

    @abstractmethod
    def open(self) -> ReplicatedLog:
        """Open the log over what survived."""

    def start(self, log: ReplicatedLog, machine: "Machine") -> None:
        """Start it and wait until it leads and has applied all that is agreed."""
        log.start(machine)
        self.run()
        assert log.leadership.is_leader

    @abstractmethod
    def run(self) -> None:
        """Run all callbacks and disk work until nothing is left to do."""

    @abstractmethod
    def crash(self) -> None:
        """Lose everything that is not durable; the log object is not used again."""


class ReplicatedLogContract(ABC):
    """Each test is one rule of controller/replicated_log.py."""

    @abstractmethod
    def make(self) -> LogHarness: ...

    @pytest.fixture
    def harness(self) -> LogHarness:
        return self.make()

    def test_entries_are_applied_in_order_of_proposal(self, harness: LogHarness) -> None:
        log, machine = harness.open(), Machine()
        harness.start(log, machine)
        for number in range(20):
            log.propose(b"%d" % number, lambda _: None)
        harness.run()
        assert machine.state == [b"%d" % number for number in range(20)]
        assert log.applied_index == 20

    def test_done_follows_apply_and_never_comes_during_propose(self, harness: LogHarness) -> None:
        log, machine = harness.open(), Machine()
        harness.start(log, machine)
        log.propose(b"a", lambda outcome: machine.events.append(f"done {outcome}"))
        log.propose(b"b", lambda outcome: machine.events.append(f"done {outcome}"))
        assert machine.events == []
        harness.run()
        assert machine.events == ["apply 1", "done 1", "apply 2", "done 2"]

    def test_what_was_answered_is_there_after_a_crash(self, harness: LogHarness) -> None:
        log = harness.open()
        harness.start(log, Machine())
        answered: list[int | MetadataError] = []
        for number in range(5):
            log.propose(b"%d" % number, answered.append)
            harness.run()
        assert answered == [1, 2, 3, 4, 5]
        harness.crash()
        machine = Machine()
        again = harness.open()
        harness.start(again, machine)
        assert machine.state == [b"0", b"1", b"2", b"3", b"4"]
        assert again.applied_index == 5

    def test_indexes_go_on_after_a_restart(self, harness: LogHarness) -> None:
        log = harness.open()
        harness.start(log, Machine())
        log.propose(b"a", lambda _: None)
        harness.run()
        harness.crash()
        again, machine = harness.open(), Machine()
        harness.start(again, machine)
        outcomes: list[int | MetadataError] = []
        again.propose(b"b", outcomes.append)
        harness.run()
        assert outcomes == [2]
        assert machine.events == ["apply 1", "apply 2"]

    def test_snapshot_stands_for_the_entries_before_it(self, harness: LogHarness) -> None:
        log, machine = harness.open(), Machine()
        harness.start(log, machine)
        for payload in (b"a", b"b"):
            log.propose(payload, lambda _: None)
        harness.run()
        log.trim(MachineIndex(2), machine.snapshot())
        log.propose(b"c", lambda _: None)
        harness.run()
        harness.crash()
        again = Machine()
        harness.start(harness.open(), again)
        assert again.state == [b"a", b"b", b"c"]
        assert again.events == ["snapshot 2", "apply 3"]

    def test_trim_from_apply_keeps_the_entries_behind_it(self, harness: LogHarness) -> None:
        class Trimming(Machine):
            def apply(self, index: int, payload: Buffer) -> None:
                super().apply(index, payload)
                if index == 2:
                    log.trim(MachineIndex(2), self.snapshot())

        log = harness.open()
        harness.start(log, Trimming())
        for payload in (b"a", b"b", b"c", b"d"):
            log.propose(payload, lambda _: None)
        harness.run()
        log.propose(b"e", lambda _: None)
        harness.run()
        harness.crash()
        again = Machine()
        harness.start(harness.open(), again)
        assert again.state == [b"a", b"b", b"c", b"d", b"e"]

    def test_proposals_may_come_from_callbacks(self, harness: LogHarness) -> None:
        log, machine = harness.open(), Machine()
        harness.start(log, machine)
        log.propose(b"a", lambda _: log.propose(b"b", lambda _: None))
        harness.run()
        assert machine.state == [b"a", b"b"]

    def test_closed_log_fails_what_waits_and_what_comes(self, harness: LogHarness) -> None:
        log, machine = harness.open(), Machine()
        harness.start(log, machine)
        outcomes: list[int | MetadataError] = []
        log.propose(b"a", outcomes.append)
        log.close()
        log.propose(b"b", outcomes.append)
        harness.run()
        assert len(outcomes) == 2
        assert all(isinstance(outcome, MetadataUnavailable) for outcome in outcomes)
        assert machine.state == []

    def test_empty_and_large_payloads_survive(self, harness: LogHarness) -> None:
        log = harness.open()
        harness.start(log, Machine())
        payloads = [b"", b"x" * 100_000, b"\0" * 50]
        for payload in payloads:
            log.propose(payload, lambda _: None)
        harness.run()
        harness.crash()
        machine = Machine()
        harness.start(harness.open(), machine)
        assert machine.state == payloads

    def test_log_that_leads_says_so_once_it_is_started(self, harness: LogHarness) -> None:
        log = harness.open()
        told: list[Leadership] = []
        log.on_leadership = told.append
        assert not log.leadership.is_leader
        harness.start(log, Machine())
        assert log.leadership.is_leader
        assert [one for one in told if one.is_leader] in ([], [log.leadership])

    def test_log_that_leads_confirms_it_and_never_during_the_call(
        self, harness: LogHarness
    ) -> None:
        log = harness.open()
        harness.start(log, Machine())
        log.propose(b"a", lambda _: None)
        harness.run()
        answered: list[int | MetadataError] = []
        log.confirm(answered.append)
        assert answered == []
        harness.run()
        assert answered == [1]

    def test_closed_log_confirms_nothing(self, harness: LogHarness) -> None:
        log = harness.open()
        harness.start(log, Machine())
        log.close()
        answered: list[int | MetadataError] = []
        log.confirm(answered.append)
        harness.run()
        assert len(answered) == 1
        assert isinstance(answered[0], MetadataError)
