"""Changes of a streams group that are being decided: see assigned/draft.py.

Source: Kafka, CurrentAssignmentBuilder.java of streams groups, for who may have a task.
"""

from collections.abc import Mapping

from penstock.base.invariant import invariant
from penstock.groups.assigned.currents import Current
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.reconciled import OwningDraft
from penstock.groups.streams.configured import Configured
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.streams.holders import Holders, held, move, unshare
from penstock.groups.streams.records import MemberFacts
from penstock.groups.streams.tables import said_bytes
from penstock.groups.streams.tasks import Role, in_role, role_of
from penstock.groups.streams.topology import Topology


class StreamsDraft(OwningDraft[StreamsGroup, MemberFacts]):
    """The group with some changes. Invariant: no active task has two holders."""

    __slots__ = ("_holders", "_own", "target_epoch", "topology")

    MEMBER, TARGET, CURRENT = Kind.STREAMS_MEMBER, Kind.STREAMS_TARGET, Kind.STREAMS_CURRENT
    _encode = staticmethod(said_bytes)

    def __init__(self, group: StreamsGroup) -> None:
        super().__init__(group)
        self._holders: Holders = {}
        """Those of keys that change; each is a copy of the group's."""
        self._own: set[bytes] = set()
        self.topology: Topology | None = group.tables.topology
        self.target_epoch = group.target_epoch
        """The epoch of the target assignment; below `epoch` while the first one waits."""

    @property
    def configured(self) -> Configured | None:
        """The topology with its topics, as in the group."""
        return self._group.configured

    def put_topology(self, topology: Topology) -> None:
        """Let the application be made of something else."""
        self.topology, self.is_bumped = topology, True
        self.put(Kind.STREAMS_TOPOLOGY, "", topology)

    def free_for(self, member_id: str, key: bytes, numbers: frozenset[int]) -> frozenset[int]:
        """As in OwningDraft.

        An active task is free when no other member has it as such. No process has a task twice, in
        whatever roles: its state is in one directory.
        """
        own = self._process_of(member_id)
        taken: set[int] = set()
        for role in Role:
            found = self._held(in_role(key, role))
            is_exclusive = role is Role.ACTIVE and role_of(key) is Role.ACTIVE
            for number in numbers & found.keys():
                for other in found[number]:
                    if other != member_id and (is_exclusive or self._process_of(other) == own):
                        taken.add(number)
        return numbers - taken

    def _process_of(self, member_id: str) -> str | None:
        facts = self.facts(member_id)
        return None if facts is None else facts.process_id

    def _held(self, key: bytes) -> Mapping[int, tuple[str, ...]]:
        there = self._holders if key in self._own else self._group.tables.holders
        return there.get(key, {})

    def put_current(self, member_id: str, current: Current | None) -> None:
        """Change what a member has. What it does not have any more is free at once."""
        before = self.current(member_id)
        unshare(self._own, self._holders, self._group.tables.holders, before=before, after=current)
        move(self._holders, member_id, before, current)
        for key, numbers in held(current):
            if role_of(key) is Role.ACTIVE:
                found = self._held(key)
                invariant(
                    all(len(found[number]) == 1 for number in numbers),
                    "an active task has one holder",
                    group=self._group.group_id,
                    member=member_id,
                )
        super().put_current(member_id, current)
