"""Who is to have which tasks: sticky, and balanced over members and processes.

    active    counts differ by one at most among members; a task stays where it was, else goes to
              the process that keeps a copy of its state, else to the process with the least load
    standby   each stateful task as often as the group wants, in processes that do not have it yet;
              where it was, else where the task was active, else where there is least load

The load of a process is its tasks per member, since each member is a thread or several of it. Pure:
from members, subtopologies and the target before it makes the next target. Warm-up tasks are not
made: Kafka 4.2 makes none.

Source: KIP-1071; Kafka 4.2, StickyTaskAssignor.java, whose only assignor this is.
"""

import heapq
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.coordinator.portions import Steps
from penstock.groups.streams.configured import ConfiguredSubtopology
from penstock.groups.streams.tasks import Role, Tasks, key_of, of_role

TOGETHER = 25
"""Tasks assigned per step, about 4 us each."""
COST = 10
"""The cost of so many tasks (portions.py)."""

TaskId = tuple[str, int]
Wanted = Callable[[TaskId], Iterable[str | None]]
"""Returns members that had a task, or are near to it, the best first."""


class MemberState(NamedTuple):
    """A member as the assignor sees it; `had` is its part of the target before."""

    process_id: str
    had: Tasks


Members = Mapping[str, MemberState]
Made = Generator[int, None, dict[str, Tasks]]


def assign(
    members: Members, subtopologies: Sequence[ConfiguredSubtopology], *, standby_count: int
) -> Made:
    """Return the tasks of every member."""
    shares = _Shares(members)
    before = yield from _before(members)
    active = [(one.subtopology_id, n) for one in subtopologies for n in range(one.task_count)]
    stateful = {one.subtopology_id for one in subtopologies if one.is_stateful}
    yield from _give_active(shares, before, active)
    copies = [task for task in active if task[0] in stateful]
    yield from _give_standby(shares, before, copies, standby_count)
    return (yield from shares.made())


class _Before(NamedTuple):
    """Who had what before."""

    active: dict[TaskId, str]
    standby: dict[TaskId, list[str]]


def _before(members: Members) -> Generator[int, None, _Before]:
    before = _Before({}, {})
    spent = 0
    for member_id, member in members.items():
        for role in Role:
            for subtopology_id, numbers in of_role(member.had, role).items():
                for number in sorted(numbers):
                    if role is Role.ACTIVE:
                        before.active[subtopology_id, number] = member_id
                    else:
                        before.standby.setdefault((subtopology_id, number), []).append(member_id)
                spent += len(numbers)
        if spent >= TOGETHER:
            yield COST * spent // (4 * TOGETHER) + 1
            spent = 0
    return before


class _Shares:
    """What has been given to whom so far."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.given: dict[str, dict[bytes, set[int]]] = {one: {} for one in members}
        self.counts = dict.fromkeys(members, 0)
        self.of_process: dict[str, list[str]] = {}
        for member_id, member in sorted(members.items()):
            self.of_process.setdefault(member.process_id, []).append(member_id)
        self.loads = dict.fromkeys(self.of_process, 0)
        """Tasks of each process."""
        self.places: dict[TaskId, list[str]] = {}
        """The processes that have a task, in any role."""

    def load(self, process_id: str) -> float:
        """Return the tasks of a process per member."""
        return self.loads[process_id] / len(self.of_process[process_id])

    def give(self, member_id: str, role: Role, task: TaskId) -> None:
        """Give a task to a member."""
        process_id = self.members[member_id].process_id
        assert process_id not in self.places.get(task, ()), "a process has a task once"
        self.given[member_id].setdefault(key_of(role, task[0]), set()).add(task[1])
        self.counts[member_id] += 1
        self.loads[process_id] += 1
        self.places.setdefault(task, []).append(process_id)

    def may_copy(self, member_id: str, task: TaskId, room: int) -> bool:
        """Whether a member has room for a task that its process does not have yet."""
        process_id = self.members[member_id].process_id
        return self.counts[member_id] < room and process_id not in self.places[task]

    def least_of(self, process_id: str) -> str:
        """Return the member of a process that has least."""
        return min(self.of_process[process_id], key=lambda one: (self.counts[one], one))

    def made(self) -> Made:
        """Return all of it."""
        made: dict[str, Tasks] = {}
        for number, (member_id, given) in enumerate(self.given.items()):
            made[member_id] = {key: frozenset(numbers) for key, numbers in given.items()}
            if number % COST == 0:
                yield 1 + self.counts[member_id] // TOGETHER
        return made


def _give_active(shares: _Shares, before: _Before, tasks: list[TaskId]) -> Steps:
    if not shares.members:
        return
    least, more = divmod(len(tasks), len(shares.members))
    quota = _Quota(shares, least, more)
    left = yield from _keep(quota, tasks, lambda task: [before.active.get(task)])
    left = yield from _keep(quota, left, lambda task: _near(shares, before.standby.get(task, ())))
    open_ = _Least(shares)
    for number, task in enumerate(left):
        member_id = open_.take(quota)
        quota.give(member_id, task)
        if number % TOGETHER == 0:
            yield COST


def _near(shares: _Shares, member_ids: Iterable[str]) -> list[str | None]:
    """Return the members of the processes that keep a copy, those with least first."""
    processes = dict.fromkeys(shares.members[one].process_id for one in member_ids)
    return [shares.least_of(one) for one in processes]


class _Quota:
    """How many active tasks each member may have: `least`, and `more` members one above."""

    def __init__(self, shares: _Shares, least: int, more: int) -> None:
        self._shares, self._least, self._more = shares, least, more

    def has_room(self, member_id: str) -> bool:
        """Whether a member may have one more."""
        return self._shares.counts[member_id] < self._least + (self._more > 0)

    def give(self, member_id: str, task: TaskId) -> None:
        """Give it to a member that has room."""
        assert self.has_room(member_id), member_id
        self._shares.give(member_id, Role.ACTIVE, task)
        self._more -= self._shares.counts[member_id] > self._least


def _keep(quota: _Quota, tasks: list[TaskId], wanted: Wanted) -> Generator[int, None, list[TaskId]]:
    """Give tasks to the first of their wanted members that has room; return the others."""
    left: list[TaskId] = []
    for number, task in enumerate(tasks):
        member_id = next((one for one in wanted(task) if one and quota.has_room(one)), None)
        if member_id is None:
            left.append(task)
        else:
            quota.give(member_id, task)
        if number % TOGETHER == 0:
            yield COST
    return left


class _Least:
    """Finds the member with room whose process has the least load. Loads only grow."""

    def __init__(self, shares: _Shares) -> None:
        self._shares = shares
        self._heap = [self._entry(one) for one in shares.members]
        heapq.heapify(self._heap)

    def _entry(self, member_id: str) -> tuple[float, int, str]:
        shares = self._shares
        load = shares.load(shares.members[member_id].process_id)
        return load, shares.counts[member_id], member_id

    def take(self, quota: _Quota) -> str:
        """Return it; it is there, since there are as many places as tasks."""
        while True:
            entry = self._heap[0]
            now = self._entry(entry[2])
            if not quota.has_room(entry[2]):
                heapq.heappop(self._heap)
            elif entry == now:
                return entry[2]
            else:
                heapq.heapreplace(self._heap, now)


def _give_standby(
    shares: _Shares, before: _Before, tasks: list[TaskId], standby_count: int
) -> Steps:
    copies = min(standby_count, len(shares.of_process) - 1)
    if copies <= 0:
        return
    total = sum(shares.counts.values()) + copies * len(tasks)
    room = -(-total // len(shares.members))
    wanted = dict.fromkeys(tasks, copies)
    for number, task in enumerate(tasks):
        had = (*before.standby.get(task, ()), before.active.get(task))
        for member_id in had:
            if wanted[task] and member_id and shares.may_copy(member_id, task, room):
                shares.give(member_id, Role.STANDBY, task)
                wanted[task] -= 1
        if number % TOGETHER == 0:
            yield COST
    open_ = _LeastProcess(shares)
    spent = 0
    for task, count in wanted.items():
        for _ in range(count):
            spent += 1 + open_.give(task)
            if spent >= TOGETHER:
                yield COST
                spent = 0


class _LeastProcess:
    """Finds the process with the least load that does not have a task yet."""

    def __init__(self, shares: _Shares) -> None:
        self._shares = shares
        self._heap = [(shares.load(one), one) for one in shares.of_process]
        heapq.heapify(self._heap)

    def give(self, task: TaskId) -> int:
        """Give a copy to it; return how many were looked at besides."""
        shares, aside = self._shares, []
        while True:
            load, process_id = heapq.heappop(self._heap)
            now = shares.load(process_id)
            if load != now:
                heapq.heappush(self._heap, (now, process_id))
            elif process_id in shares.places[task]:
                aside.append((load, process_id))
            else:
                break
        shares.give(shares.least_of(process_id), Role.STANDBY, task)
        for entry in (*aside, (shares.load(process_id), process_id)):
            heapq.heappush(self._heap, entry)
        return len(aside)
