"""What several members of one ReplicatedLog do: inherit, and give `make` for what is under test.

Source: the rules in controller/replicated_log.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import pytest

from penstock.base.ports import Buffer
from penstock.controller.errors import MetadataError, NotActiveController
from penstock.controller.replicated_log import Leadership, MachineIndex, ReplicatedLog
from tests.controller.replicated_log_contract import Machine


class SlowMachine(Machine):
    """A state machine that installs a snapshot when the test tells it to."""

    def __init__(self) -> None:
        super().__init__()
        self.finish: Callable[[], None] | None = None
        """Installs the snapshot that is there to be installed."""

    def install_snapshot(self, index: int, snapshot: Buffer, done: Callable[[], None]) -> None:
        assert self.finish is None, "one at a time"

        def finish() -> None:
            self.finish = None
            done()
            self.restore(index, snapshot)

        self.finish = finish

    def abandon_install(self) -> None:
        assert self.finish is not None
        self.finish = None
        self.events.append("abandoned")


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
            self._begin(member_id, Machine())
        self.harness.run()

    def start_slow(self, member_id: int) -> SlowMachine:
        machine = SlowMachine()
        self._begin(member_id, machine)
        self.harness.run()
        return machine

    def _begin(self, member_id: int, machine: Machine) -> None:
        log = self.harness.open(member_id)
        self.logs[member_id], self.machines[member_id] = log, machine
        log.on_leadership = lambda told: self._on_leadership(member_id, told)
        log.start(machine)

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

    def _far_behind(self, group: Group) -> int:
        """Let a member miss four entries that the others have only in a snapshot; return its id."""
        group.start(1, 2, 3)
        late = next(one for one in (1, 2, 3) if one != group.leader())
        assert group.add(group.leader(), b"early") == [1]
        group.crash(late)
        group.harness.run()
        assert group.add(group.leader(), b"a", b"b", b"c") == [2, 3, 4]
        for one, log in group.logs.items():
            log.forget(log.applied_index, group.machines[one].snapshot())
        group.harness.run()
        return late

    def test_nothing_is_applied_while_a_snapshot_is_installed(self, group: Group) -> None:
        late = self._far_behind(group)
        machine = group.start_slow(late)
        assert group.add(group.leader(), b"d") == [5]
        assert group.add(group.leader(), b"e") == [6]
        assert group.logs[late].applied_index == machine.index <= 1
        assert machine.finish is not None
        machine.finish()
        group.harness.run()
        assert machine.state == [b"early", b"a", b"b", b"c", b"d", b"e"]
        assert machine.events[-3:] == ["snapshot 4", "apply 5", "apply 6"]
        assert group.logs[late].applied_index == 6

    def test_what_needs_the_member_whose_snapshot_is_installed_is_agreed_on_afterwards(
        self, group: Group
    ) -> None:
        late = self._far_behind(group)
        machine = group.start_slow(late)
        leader = group.leader()
        group.crash(next(log for log in group.logs if log not in (leader, late)))
        outcomes = group.add(leader, b"d")
        assert machine.finish is not None
        machine.finish()
        group.harness.run()
        assert outcomes == [5]
        assert machine.state == [b"early", b"a", b"b", b"c", b"d"]

    def test_what_was_being_installed_at_a_crash_is_there_after_it(self, group: Group) -> None:
        late = self._far_behind(group)
        group.start_slow(late)
        group.crash(late)
        group.start(late)
        assert group.machines[late].state == [b"early", b"a", b"b", b"c"]

    def test_log_that_is_closed_abandons_the_snapshot_that_is_being_installed(
        self, group: Group
    ) -> None:
        late = self._far_behind(group)
        machine = group.start_slow(late)
        assert machine.finish is not None
        group.logs[late].close()
        group.harness.run()
        assert machine.events[-1] == "abandoned"
        assert "snapshot 4" not in machine.events

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
            log.trim(MachineIndex(2), group.machines[one].snapshot())
        group.add(group.leader(), b"c")
        for member_id in (1, 2, 3):
            group.crash(member_id)
        group.start(1, 2, 3)
        assert group.states() == [[b"a", b"b", b"c"]] * 3
        assert group.machines[1].events == ["snapshot 2", "apply 3"]
