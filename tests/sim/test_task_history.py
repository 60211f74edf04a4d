"""The judge of streams groups: what it finds, and what it lets pass."""

import pytest

from simulator.history import Rules
from simulator.history.tasks import Beat, Task, TaskNotes, judge_tasks

TASK: frozenset[Task] = frozenset({("0", 0)})
NOTHING: frozenset[Task] = frozenset()
SESSION_NS = 100


def beat(
    member: str,
    asked_ns: int,
    *,
    says: frozenset[Task] = NOTHING,
    given: frozenset[Task] | None = None,
    is_told: bool = True,
    told_by: str = "n1",
) -> Beat:
    return Beat(member, asked_ns, says, asked_ns + 1 if is_told else None, given, told_by)


def judged(*beats: Beat, rules: Rules | None = None) -> list[str]:
    notes = TaskNotes(session_ns=SESSION_NS)
    for one in beats:
        notes.told(one, ())
    return judge_tasks(notes, rules or Rules())


GIVEN = beat("a", 0, given=TASK)


@pytest.mark.parametrize(
    ("others", "is_wrong"),
    [
        ([beat("b", 50, given=TASK)], True),
        ([beat("b", 150, given=TASK)], False),  # its session may be over
        ([beat("a", 100, says=TASK), beat("b", 150, given=TASK)], True),
        ([beat("a", 100, says=TASK, is_told=False), beat("b", 150, given=TASK)], False),
        ([beat("a", 40), beat("b", 50, given=TASK)], False),  # it says that it has it no more
        ([beat("a", 40, is_told=False), beat("b", 50, given=TASK)], False),
        ([beat("a", 40, says=TASK, given=NOTHING), beat("b", 50, given=TASK)], True),
        ([beat("b", 50, given=frozenset({("0", 1)}))], False),
        ([beat("a", 50, says=TASK, given=TASK)], False),
    ],
)
def test_a_task_has_one_member_that_works_on_it(others: list[Beat], is_wrong: bool) -> None:
    found = judged(GIVEN, *others)
    assert bool(found) is is_wrong
    assert all("is told to b while a works on it" in text for text in found)


def test_who_stood_still_may_tell_what_was_so_before() -> None:
    rules = Rules(woken=[("n2", 45, 60)])
    assert judged(GIVEN, beat("b", 50, given=TASK, told_by="n2"), rules=rules) == []
    assert judged(GIVEN, beat("b", 50, given=TASK), rules=rules) != []


def test_who_has_died_works_on_nothing() -> None:
    notes = TaskNotes(session_ns=SESSION_NS)
    notes.told(GIVEN, ())
    notes.gone("a", 20)
    notes.told(beat("b", 50, given=TASK), ())
    assert judge_tasks(notes, Rules()) == []


def test_no_member_keeps_a_copy_of_what_it_works_on() -> None:
    notes = TaskNotes(session_ns=SESSION_NS)
    notes.told(GIVEN, TASK)
    assert judge_tasks(notes, Rules()) == ["a is told [('0', 0)] as active and as standby"]
