"""The judge of streams groups: each active task has one member that works on it.

    told a task ─► works on it ─► sends a heartbeat that does not name it, leaves, joins anew, dies

While a member works on a task nobody else may be told it, unless the member's session may be over:
it lasts from the last heartbeat that was answered, which the coordinator got after it was sent. A
member has as long to give a task up. No member is told one task as active and as standby.

Source: KIP-1071, "Reconciliation of the group".
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.history.events import Rules

FINDINGS_MAX = 3
NEVER_NS = 1 << 62
Task = tuple[str, int]
"""Subtopology, partition."""


class Beat(NamedTuple):
    """A heartbeat of a member. Times are those of the request and of its answer."""

    member: str
    asked_ns: int
    says: frozenset[Task]
    """The active tasks that it names as its own."""
    told_ns: int | None = None
    """None: there was no answer, or a refusal."""
    given: frozenset[Task] | None = None
    """Its active tasks from now on; None: as before."""
    told_by: str = ""


class Held(NamedTuple):
    """How long a member works on a task: from an answer on until it says that it does not."""

    task: Task
    told: Beat
    until_ns: int


@dataclass(slots=True)
class TaskNotes:
    """What the members of one group have said and heard, in the order of their requests."""

    session_ns: int
    """How long a member may be silent by any coordinator's clock, and has to give tasks up."""
    beats: dict[str, list[Beat]] = field(default_factory=lambda: defaultdict(list))
    doubled: list[str] = field(default_factory=list)
    """Tasks that a member was told twice."""

    def told(self, beat: Beat, standby: Collection[Task]) -> None:
        """Note a heartbeat, and what was told of copies."""
        self.beats[beat.member].append(beat)
        if both := sorted(set(beat.given or ()) & set(standby)):
            self.doubled.append(f"{beat.member} is told {both} as active and as standby")

    def gone(self, member: str, at_ns: int) -> None:
        """Note that a member works on nothing any more."""
        self.beats[member].append(Beat(member, at_ns, frozenset()))


def judge_tasks(notes: TaskNotes, rules: Rules) -> list[str]:
    """Return what members were told and must not be."""
    return [*notes.doubled[:FINDINGS_MAX], *[*_worked_twice(notes, rules)][:FINDINGS_MAX]]


def _worked_twice(notes: TaskNotes, rules: Rules) -> Iterator[str]:
    by_task: dict[Task, list[Held]] = defaultdict(list)
    for beats in notes.beats.values():
        for one in _held(beats):
            by_task[one.task].append(one)
    for task, held in sorted(by_task.items()):
        for new in held:
            if _may_be_old(new.told, rules):
                continue
            for other in held:
                if _is_beside(new.told, other) and _is_alive(notes, other, new.told, rules):
                    yield (
                        f"task {task} is told to {new.told.member}"
                        f" while {other.told.member} works on it"
                    )


def _held(beats: list[Beat]) -> Iterator[Held]:
    working: dict[Task, Beat] = {}
    for beat in beats:
        for task in sorted(working.keys() - beat.says):
            yield Held(task, working.pop(task), beat.asked_ns)
        if beat.told_ns is not None:
            working |= dict.fromkeys((beat.given or frozenset()) - working.keys(), beat)
    yield from (Held(task, told, NEVER_NS) for task, told in sorted(working.items()))


def _is_beside(told: Beat, other: Held) -> bool:
    """Whether another member works on the task from before the request until after its answer."""
    began_ns, ended_ns = other.told.told_ns, told.told_ns
    assert began_ns is not None
    assert ended_ns is not None
    is_other = other.told.member != told.member
    return is_other and began_ns < told.asked_ns and other.until_ns > ended_ns


def _is_alive(notes: TaskNotes, other: Held, told: Beat, rules: Rules) -> bool:
    """Whether the session of who works on a task can not be over yet."""
    assert told.told_ns is not None
    return any(
        one.told_ns is not None
        and one.told_ns <= told.told_ns < one.asked_ns + notes.session_ns
        and not _may_be_old(one, rules)
        for one in notes.beats[other.told.member]
    )


def _may_be_old(beat: Beat, rules: Rules) -> bool:
    return beat.told_ns is not None and rules.may_be_old(beat.told_by, beat.asked_ns, beat.told_ns)
