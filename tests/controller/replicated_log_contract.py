"""What every ReplicatedLog does: inherit, and give `make` for the implementation under test.

ReplicatedLogContract is about one log that leads (a LogHarness); ReplicatedGroupContract is about
several members of one group (a GroupHarness), for implementations that have such.
"""

from abc import ABC, abstractmethod

import pytest

from penstock.base.ports import Buffer
from penstock.controller.errors import (
    MetadataError,
    MetadataUnavailable,
    NotActiveController,
)
from penstock.controller.replicated_log import Leadership, ReplicatedLog


class Machine:
    """A state machine whose state is the list of payloads."""

    def __init__(self) -> None:
        self.index = 0
        self.state: list[bytes] = []
        self.events: list[str] = []

    def install_snapshot(self, index: int, snapshot: Buffer) -> None:
        self.events.append(f"snapshot {index}")
        self.index = index
        self.state = bytes(snapshot).split(b",")

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
        log.trim(2, machine.snapshot())
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
                    log.trim(2, self.snapshot())

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
        assert all(isinstance(one, MetadataUnavailable) for one in outcomes)
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


class GroupHarness(ABC):
    """Members of one group: 1, 2 and 3 may lead, any other only follows."""

    @abstractmethod
    def open(self, member_id: int) -> ReplicatedLog:
        """Open a member's log over what survived there."""

    @abstractmethod
    def run(self) -> None:
        """Let enough time pass for elections, failures and everything that waits."""

    @abstractmethod
    def crash(self, member_id: int) -> None:
        """Kill a member; it loses everything that is not durable."""

    @abstractmethod
    def cut_off(self, member_id: int) -> None:
        """Let nothing through between this member and the others."""

    @abstractmethod
    def heal(self) -> None:
        """Let everything through again."""


class Group:
    """Members that run, each with its machine; checks rule 5 on the way."""

    def __init__(self, harness: GroupHarness) -> None:
        self.harness = harness
        self.logs: dict[int, ReplicatedLog] = {}
        self.machines: dict[int, Machine] = {}
        self.leader_of_term: dict[int, int] = {}

    def start(self, *member_ids: int) -> None:
        for member_id in member_ids:
            log, machine = self.harness.open(member_id), Machine()
            self.logs[member_id], self.machines[member_id] = log, machine
            log.on_leadership = lambda told, one=member_id: self._on_leadership(one, told)
            log.start(machine)
        self.harness.run()

    def crash(self, member_id: int) -> None:
        self.harness.crash(member_id)
        del self.logs[member_id], self.machines[member_id]

    def leader(self, *, but: int = -1) -> int:
        leaders = [one for one, log in self.logs.items() if log.leadership.is_leader]
        (leader,) = [one for one in leaders if one != but]
        return leader

    def add(self, member_id: int, *payloads: bytes) -> list[int | MetadataError]:
        outcomes: list[int | MetadataError] = []
        for payload in payloads:
            self.logs[member_id].propose(payload, outcomes.append)
        self.harness.run()
        return outcomes

    def states(self) -> list[list[bytes]]:
        return [machine.state for machine in self.machines.values()]

    def _on_leadership(self, member_id: int, told: Leadership) -> None:
        if told.is_leader:
            assert told.leader_id == member_id
            assert self.leader_of_term.setdefault(told.term, member_id) == member_id


class ReplicatedGroupContract(ABC):
    """Each test is one rule of controller/replicated_log.py, seen on three members."""

    @abstractmethod
    def make(self) -> GroupHarness: ...

    @pytest.fixture
    def group(self) -> Group:
        return Group(self.make())

    def test_one_leads_and_all_know_it(self, group: Group) -> None:
        group.start(1, 2, 3)
        leader = group.leader()
        assert {log.leadership.leader_id for log in group.logs.values()} == {leader}
        assert len({log.leadership.term for log in group.logs.values()}) == 1

    def test_entries_are_applied_everywhere_in_the_same_order(self, group: Group) -> None:
        group.start(1, 2, 3)
        payloads = [b"%d" % number for number in range(50)]
        assert group.add(group.leader(), *payloads) == list(range(1, 51))
        assert group.states() == [payloads] * 3
        assert {log.applied_index for log in group.logs.values()} == {50}

    def test_only_the_leader_takes_proposals(self, group: Group) -> None:
        group.start(1, 2, 3)
        leader = group.leader()
        for other in {1, 2, 3} - {leader}:
            (outcome,) = group.add(other, b"x")
            assert isinstance(outcome, NotActiveController)
            assert outcome.controller_id == leader
        assert group.states() == [[], [], []]

    def test_what_was_answered_survives_the_leader(self, group: Group) -> None:
        group.start(1, 2, 3)
        old = group.leader()
        assert group.add(old, b"a", b"b") == [1, 2]
        group.crash(old)
        group.harness.run()
        new = group.leader()
        assert new != old
        assert group.add(new, b"c") == [3]
        assert group.states() == [[b"a", b"b", b"c"]] * 2
        group.start(old)
        assert group.machines[old].state == [b"a", b"b", b"c"]

    def test_terms_grow_with_leaders(self, group: Group) -> None:
        group.start(1, 2, 3)
        old = group.leader()
        term = group.logs[old].leadership.term
        group.crash(old)
        group.harness.run()
        assert group.logs[group.leader()].leadership.term > term

    def test_everything_answered_survives_a_crash_of_all(self, group: Group) -> None:
        group.start(1, 2, 3)
        assert group.add(group.leader(), b"a", b"b", b"c") == [1, 2, 3]
        for member_id in (1, 2, 3):
            group.crash(member_id)
        group.start(1, 2, 3)
        assert group.add(group.leader(), b"d") == [4]
        assert group.states() == [[b"a", b"b", b"c", b"d"]] * 3

    def test_replaced_leader_hears_of_it_before_its_proposals_fail(self, group: Group) -> None:
        group.start(1, 2, 3)
        old = group.leader()
        heard: list[str] = []
        log = group.logs[old]
        log.on_leadership = lambda told: heard.append(f"leads {told.is_leader}")
        group.harness.cut_off(old)
        log.propose(b"lost", lambda outcome: heard.append(type(outcome).__name__))
        group.harness.run()
        group.harness.run()
        new = group.leader(but=old)
        assert new != old
        assert group.add(new, b"kept") == [1]
        group.harness.heal()
        group.harness.run()
        assert heard[0] == "leads False"
        assert "NotActiveController" in heard or "LeadershipLost" in heard
        assert group.machines[old].state == [b"kept"]
        assert group.logs[old].leadership.leader_id == new

    def test_only_the_leader_confirms_that_it_leads(self, group: Group) -> None:
        group.start(1, 2, 3)
        leader = group.leader()
        outcomes: dict[int, list[int | MetadataError]] = {one: [] for one in group.logs}
        for member_id, log in group.logs.items():
            log.confirm(outcomes[member_id].append)
        group.harness.run()
        assert outcomes.pop(leader) == [0]
        assert all(isinstance(one, NotActiveController) for (one,) in outcomes.values())

    def test_leader_that_was_replaced_unheard_does_not_confirm(self, group: Group) -> None:
        group.start(1, 2, 3)
        old = group.leader()
        group.harness.cut_off(old)
        group.harness.run()
        group.harness.run()
        assert group.add(group.leader(but=old), b"unheard") == [1]
        outcomes: list[int | MetadataError] = []
        group.logs[old].confirm(outcomes.append)
        group.harness.run()
        group.harness.heal()
        group.harness.run()
        assert len(outcomes) == 1
        assert isinstance(outcomes[0], MetadataError)

    def test_learner_gets_everything_and_never_leads(self, group: Group) -> None:
        group.start(1, 2, 3)
        assert group.add(group.leader(), b"a") == [1]
        group.start(7)
        assert group.add(group.leader(), b"b") == [2]
        assert group.machines[7].state == [b"a", b"b"]
        assert group.logs[7].leadership.leader_id == group.leader()
        (outcome,) = group.add(7, b"x")
        assert isinstance(outcome, NotActiveController)
        group.crash(group.leader())
        group.harness.run()
        assert group.add(group.leader(), b"c") == [3]
        assert group.machines[7].state == [b"a", b"b", b"c"]

    def test_learner_that_starts_alone_has_what_it_had(self, group: Group) -> None:
        group.start(1, 2, 3)
        group.start(7)
        group.add(group.leader(), b"a", b"b")
        group.add(group.leader(), b"c")
        for member_id in (1, 2, 3, 7):
            group.crash(member_id)
        group.start(7)
        assert group.machines[7].state[:2] == [b"a", b"b"]

    def test_member_that_is_far_behind_gets_a_snapshot(self, group: Group) -> None:
        group.start(1, 2, 3)
        late = next(one for one in (1, 2, 3) if one != group.leader())
        group.crash(late)
        group.harness.run()
        leader = group.leader()
        for number in range(6):
            group.add(leader, b"%d" % number)
        for one, log in group.logs.items():
            log.trim(log.applied_index, group.machines[one].snapshot())
        assert group.add(leader, b"after") == [7]
        group.start(late)
        group.start(8)
        expected = [b"%d" % number for number in range(6)] + [b"after"]
        assert group.states() == [expected] * 4

    def test_what_is_forgotten_nobody_gets_any_more(self, group: Group) -> None:
        group.start(1, 2, 3)
        late = next(one for one in (1, 2, 3) if one != group.leader())
        group.crash(late)
        group.harness.run()
        group.add(group.leader(), b"a", b"b")
        for one, log in group.logs.items():
            log.forget(log.applied_index, group.machines[one].snapshot())
        assert group.add(group.leader(), b"c") == [3]
        group.start(late)
        group.start(8)
        assert group.states() == [[b"a", b"b", b"c"]] * 4
        for one in (late, 8):
            assert not {"apply 1", "apply 2"} & set(group.machines[one].events)

    def test_snapshots_survive_a_crash_of_all(self, group: Group) -> None:
        group.start(1, 2, 3)
        group.add(group.leader(), b"a", b"b")
        for one, log in group.logs.items():
            log.trim(2, group.machines[one].snapshot())
        group.add(group.leader(), b"c")
        for member_id in (1, 2, 3):
            group.crash(member_id)
        group.start(1, 2, 3)
        assert group.states() == [[b"a", b"b", b"c"]] * 3
        assert group.machines[1].events == ["snapshot 2", "apply 3"]
