"""The consumer groups of a run: members, observers, and the checks of them.

A group's committed positions never fall; no partition belongs to two members in one generation, and
no member of an older generation commits; at the end the members together have read everything.
"""

from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

from simulator.clients.assigned_member import AssignedMember
from simulator.clients.group_member import GroupNotes, Member
from simulator.clients.group_visitor import Visitor, Watcher
from simulator.clients.group_wire import CONSUMER, NEWER, OLDER, Seat, Times
from simulator.clients.world import ClientWorld
from simulator.history import Commit, Outcome, Owned, Partition
from simulator.kernel.simulation import Simulation
from simulator.run.plan import Shape

SESSIONS_MS = (1_200, 3_000)
REBALANCE_MS = 2_000
STATIC_SHARE = 0.3
OLDER_SHARE = 0.3
COOPERATIVE_SHARE = 0.4
ASSIGNED_SHARE = 0.4
"""Of groups, whose coordinator assigns (KIP-848)."""
REGEX_SHARE = 0.3
OFTEN_SHARE = 0.2
"""Of rounds, in which the member of a mixed group that is assigned to follows a whim: with it the
group goes from one protocol to the other and back."""

Start = Callable[[str, list[Coroutine[Any, Any, None]]], object]
"""Start a client process of that name."""


class Groups:
    """See the module."""

    def __init__(self, simulation: Simulation, shape: Shape, world: ClientWorld) -> None:
        self._simulation = simulation
        self._world = world
        self._visitor: Visitor | None = None
        draw = simulation.random("groups")
        self._is_mixed = shape.has_mixed_groups
        self.notes = [
            GroupNotes(name=f"group-{number}", is_cooperative=draw.random() < COOPERATIVE_SHARE)
            for number in range(shape.groups)
        ]
        assigned = simulation.random("groups-assigned")
        self.members = [
            member
            for notes in self.notes
            for member in self._members(draw, assigned, notes, shape.group_members)
        ]

    def _members(
        self, draw: Random, assigned: Random, notes: GroupNotes, count: int
    ) -> list[Member]:
        members = [self._member(draw, notes, number) for number in range(count)]
        if self._is_mixed:
            notes.is_mixed = True
            first = self._assigned_member(assigned, notes, 0)
            first.whim_share = OFTEN_SHARE
            return [first, *members[1:]]
        if assigned.random() >= ASSIGNED_SHARE:
            return members
        return [self._assigned_member(assigned, notes, number) for number in range(count)]

    def _assigned_member(self, draw: Random, notes: GroupNotes, number: int) -> Member:
        """Return a member of a group whose coordinator assigns."""
        name = f"{notes.name}-{number}"
        is_static = draw.random() < STATIC_SHARE
        return AssignedMember(
            world=self._world,
            name=name,
            random=self._simulation.random(name),
            notes=notes,
            versions=CONSUMER,
            times=Times(0, REBALANCE_MS),
            seat=Seat(instance_id=name if is_static else None, member_id=name),
            has_regex=draw.random() < REGEX_SHARE,
            assignor=draw.choice((None, "uniform", "range")),
        )

    def _member(self, draw: Random, notes: GroupNotes, number: int) -> Member:
        name = f"{notes.name}-{number}"
        is_older = draw.random() < OLDER_SHARE
        is_static = not is_older and draw.random() < STATIC_SHARE
        return Member(
            world=self._world,
            name=name,
            random=self._simulation.random(name),
            notes=notes,
            versions=OLDER if is_older else NEWER,
            times=Times(draw.randint(*SESSIONS_MS), REBALANCE_MS),
            seat=Seat(instance_id=name if is_static else None),
        )

    def start(self, start: Start, other_topic: Callable[[], str]) -> None:
        """Start all members, a watcher of each broker, and one visitor."""
        if not self.notes:
            return
        for member in self.members:
            start(member.name, [member.run()])
        watchers = [
            Watcher(
                world=self._world,
                random=self._simulation.random(f"watcher-{host}"),
                host=host,
                groups=self.notes,
            )
            for host in self._world.brokers.values()
        ]
        start("watchers", [watcher.run() for watcher in watchers])
        self._visitor = Visitor(
            world=self._world,
            random=self._simulation.random("visitor"),
            groups=self.notes,
            instances=[
                (one.notes.name, one.seat.instance_id)
                for one in self.members
                if one.seat.instance_id is not None and one.versions is not CONSUMER
            ],
            other_topic=other_topic,
        )
        start("visitor", [self._visitor.run()])

    def behind(self, ends: dict[Partition, int]) -> Iterator[str]:
        """Name what no member has committed beyond these ends yet."""
        for notes in (note for note in self.notes if self._members_of(note)):
            committed: dict[Partition, int] = {}
            for commit in notes.commits:
                if commit.outcome is Outcome.ACKED:
                    committed[commit.partition] = max(
                        commit.offset, committed.get(commit.partition, -1)
                    )
            for partition, end in ends.items():
                at = committed.get(partition, -1)
                if at <= end:
                    yield (
                        f"{notes.name} has committed {at} of {partition},"
                        f" and {end} is acknowledged ({self._told(notes)})"
                    )

    def _told(self, notes: GroupNotes) -> str:
        mine = self._members_of(notes)
        return ", ".join(f"{one.name} owns {one.owned}: {one.last_error}" for one in mine)

    def _members_of(self, notes: GroupNotes) -> list[Member]:
        return [member for member in self.members if member.notes is notes]

    def commits(self) -> list[Commit]:
        """Return all commits and all positions that clients were answered."""
        visited = self._visitor.visited if self._visitor else []
        notes = [*self.notes, *[one.notes for one in visited]]
        return [commit for note in notes for commit in note.commits]

    def owned(self) -> list[Owned]:
        """Return all assignments."""
        return [one for notes in self.notes for one in notes.owned]

    def readers(self) -> list[tuple[str, list[str]]]:
        """Return the names of the members of each group that has any."""
        found = [
            (notes.name, [member.name for member in self._members_of(notes)])
            for notes in self.notes
        ]
        return [one for one in found if one[1]]
