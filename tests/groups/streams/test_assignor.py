"""The assignor of streams groups: even, sticky, and no process has a task twice."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.assignors.partitions import NOTHING
from penstock.groups.streams.assignor import MemberState, assign
from penstock.groups.streams.configured import ConfiguredSubtopology
from penstock.groups.streams.tasks import Role, Tasks, key_of, of_role
from tests.groups.streams.troupe import internal

Given = dict[str, Tasks]


def parts(counts: list[int], *, is_stateful: bool = True) -> list[ConfiguredSubtopology]:
    logs = (internal("log", 1),) if is_stateful else ()
    return [
        ConfiguredSubtopology(str(n), count, ("t",), (), logs, ()) for n, count in enumerate(counts)
    ]


def made(members: dict[str, MemberState], counts: list[int], standbys: int) -> Given:
    steps = assign(members, parts(counts), standby_count=standbys)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def tasks_of(given: Tasks, role: Role) -> set[tuple[str, int]]:
    return {(one, n) for one, numbers in of_role(given, role).items() for n in numbers}


def fresh(processes: list[int]) -> dict[str, MemberState]:
    return {f"m{n:02}": MemberState(f"p{p}", NOTHING) for n, p in enumerate(processes)}


groups = st.lists(st.integers(0, 4), min_size=1, max_size=8)
sizes = st.lists(st.integers(1, 9), min_size=1, max_size=3)


@given(processes=groups, counts=sizes, standbys=st.integers(0, 2))
def test_every_task_is_given_evenly_and_once_to_a_process(
    processes: list[int], counts: list[int], standbys: int
) -> None:
    members = fresh(processes)
    given = made(members, counts, standbys)
    active = Counter(task for one in given.values() for task in tasks_of(one, Role.ACTIVE))
    assert active == {(str(part), n): 1 for part, count in enumerate(counts) for n in range(count)}
    loads = [len(tasks_of(one, Role.ACTIVE)) for one in given.values()]
    assert max(loads) - min(loads) <= 1
    copies = Counter(task for one in given.values() for task in tasks_of(one, Role.STANDBY))
    wanted = min(standbys, len(set(processes)) - 1)
    assert all(copies[task] == wanted for task in active)
    placed = Counter(
        (members[member_id].process_id, task)
        for member_id, one in given.items()
        for role in Role
        for task in tasks_of(one, role)
    )
    assert max(placed.values()) == 1


@given(processes=groups, counts=sizes, standbys=st.integers(0, 2))
def test_nothing_moves_without_a_reason(
    processes: list[int], counts: list[int], standbys: int
) -> None:
    members = fresh(processes)
    before = made(members, counts, standbys)
    again = {one: members[one]._replace(had=before[one]) for one in members}
    assert made(again, counts, standbys) == before


@given(processes=groups, counts=sizes)
def test_a_newcomer_takes_no_more_than_its_share(processes: list[int], counts: list[int]) -> None:
    members = fresh(processes)
    before = made(members, counts, 0)
    more = {one: members[one]._replace(had=before[one]) for one in members}
    after = made({**more, "new": MemberState("new", NOTHING)}, counts, 0)
    moved = sum(
        len(tasks_of(before[one], Role.ACTIVE) - tasks_of(after[one], Role.ACTIVE))
        for one in members
    )
    assert moved == len(tasks_of(after["new"], Role.ACTIVE))


def test_a_process_of_more_members_has_more_tasks() -> None:
    given = made(fresh([0, 0, 0, 1]), [8], 0)
    of_first = [tasks_of(given[f"m{n:02}"], Role.ACTIVE) for n in range(3)]
    assert sum(map(len, of_first)) == 6


def test_a_task_goes_to_where_its_copy_is() -> None:
    had = {key_of(Role.STANDBY, "0"): frozenset((0,))}
    members = {"b": MemberState("p1", NOTHING), "c": MemberState("p2", had)}
    given = made(members, [2], 1)
    assert tasks_of(given["c"], Role.ACTIVE) == {("0", 0)}
    assert tasks_of(given["b"], Role.ACTIVE) == {("0", 1)}
