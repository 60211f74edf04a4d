"""A replicated log in memory whose members, leader and commits a test decides about.

It keeps the rules of controller/replicated_log.py (test_session_shared_log.py runs their suite over
it): what is committed is applied by every member in order, one member leads.
"""

from collections import deque

from penstock.base.ids import ControllerEpoch, PeerId
from penstock.base.ports import Buffer, Scheduler
from penstock.controller.errors import MetadataError, NotActiveController
from penstock.controller.replicated_log import (
    NO_ENTRY,
    NO_LEADER,
    Leadership,
    MachineIndex,
    OnLeadership,
    ProposalDone,
    StateMachine,
)


class LogGroup:
    """What all members share. With `is_open` False proposals wait."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.entries: list[bytes] = []
        self.trimmed_index = NO_ENTRY
        self.forgotten_index = NO_ENTRY
        self.snapshot = b""
        self.leader_id = NO_LEADER
        self.term = 0
        self.is_open = True
        self.members: dict[int, SharedLog] = {}
        self.waiting: deque[tuple[bytes, ProposalDone]] = deque()

    @property
    def last_index(self) -> MachineIndex:
        return MachineIndex(self.trimmed_index + len(self.entries))

    def join(self, member_id: int) -> "SharedLog":
        self.members[member_id] = SharedLog(self, member_id)
        return self.members[member_id]

    def lead(self, leader_id: int, *, commit_waiting: bool = False) -> None:
        """Replace the leader; what waits is lost, or the next leader commits it after all."""
        waiting, self.waiting = self.waiting, deque()
        self.leader_id, self.term = PeerId(leader_id), self.term + 1
        if commit_waiting:
            self.entries += [payload for payload, _ in waiting]
        for member in self.members.values():
            member.catch_up()
            member.tell_leadership()
        for _, done in waiting:
            self.later(done, NotActiveController(PeerId(leader_id)))

    def open(self) -> None:
        self.is_open = True
        self.commit()

    def commit(self) -> None:
        while self.waiting and self.is_open:
            payload, done = self.waiting.popleft()
            self.entries.append(payload)
            index = self.last_index
            leader = self.members[self.leader_id]
            for member in self.members.values():
                member.catch_up()
            assert leader.applied_index >= index
            done(index)

    def later(self, done: ProposalDone, outcome: MachineIndex | MetadataError) -> None:
        self.scheduler.call_soon(lambda: done(outcome))


class SharedLog:
    """One member. With `is_cut_off` it hears nothing of the others."""

    def __init__(self, group: LogGroup, own_id: int) -> None:
        self.on_leadership: OnLeadership | None = None
        self.is_cut_off = False
        self.applied_index = NO_ENTRY
        self.wants_snapshot = False
        self._group = group
        self._own_id = own_id
        self._machine: StateMachine | None = None
        self._is_closed = False
        self._is_installing = False
        self._unheard: list[ProposalDone] = []
        self._leadership = Leadership(NO_LEADER, ControllerEpoch(0), False)

    def start(self, machine: StateMachine) -> None:
        self._machine = machine
        self.catch_up()
        self.tell_leadership()

    @property
    def leadership(self) -> Leadership:
        return self._leadership

    def propose(self, payload: bytes, done: ProposalDone) -> None:
        group = self._group
        if self._is_closed or not self._leadership.is_leader:
            group.later(done, NotActiveController(self._leadership.leader_id))
            return
        if self.is_cut_off:
            self._unheard.append(done)  # it leads nobody, and does not know that yet
            return
        group.waiting.append((payload, done))
        group.scheduler.call_soon(group.commit)

    def confirm(self, done: ProposalDone) -> None:
        if self._is_closed or not self._leadership.is_leader:
            self._group.later(done, NotActiveController(self._leadership.leader_id))
        elif self.is_cut_off:
            self._unheard.append(done)
        else:
            self._group.later(done, self.applied_index)

    def trim(self, index: MachineIndex, snapshot: bytes) -> None:
        group = self._group
        del group.entries[: index - group.trimmed_index]
        group.trimmed_index, group.snapshot = index, snapshot

    def forget(self, index: MachineIndex, snapshot: bytes) -> None:
        self._group.forgotten_index = index
        self.trim(index, snapshot)

    def close(self) -> None:
        self._is_closed = True
        if self._is_installing and self._machine is not None:
            self._machine.abandon_install()
        if self._leadership.is_leader:
            waiting, self._group.waiting = self._group.waiting, deque()
            for _, done in waiting:
                self._group.later(done, NotActiveController(NO_LEADER))

    def heal(self) -> None:
        self.is_cut_off = False
        self.catch_up()
        self.tell_leadership()
        unheard, self._unheard = self._unheard, []
        for done in unheard:
            self._group.later(done, NotActiveController(self._group.leader_id))

    def catch_up(self) -> None:
        group, machine = self._group, self._machine
        if machine is None or self.is_cut_off or self._is_closed or self._is_installing:
            return
        if self.applied_index < group.trimmed_index:
            self._install(machine, group.trimmed_index)
            return
        while self.applied_index < group.last_index:
            payload: Buffer = group.entries[self.applied_index - group.trimmed_index]
            self.applied_index = MachineIndex(self.applied_index + 1)
            machine.apply(self.applied_index, payload)

    def _install(self, machine: StateMachine, index: MachineIndex) -> None:
        def done() -> None:
            self._is_installing = False
            self.applied_index = index
            self._group.scheduler.call_soon(self.catch_up)

        self._is_installing = True
        machine.install_snapshot(index, self._group.snapshot, done)

    def tell_leadership(self) -> None:
        group = self._group
        if self.is_cut_off or self._is_closed or self._machine is None:
            return
        is_leader = group.leader_id == self._own_id
        self._leadership = Leadership(group.leader_id, ControllerEpoch(group.term), is_leader)
        if self.on_leadership is not None:
            self.on_leadership(self._leadership)
