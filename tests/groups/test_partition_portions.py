"""A partition with thousands of groups, or members, is taken over and given up in short turns."""

from collections.abc import Iterable

import pytest

from penstock.coordinator.portions import PORTION, TO_TELL
from penstock.coordinator.records import UnreadRecord
from penstock.groups.classic.letting_go import MEMBERS_TOGETHER
from penstock.groups.classic.snapshot import MEMBERS_READ
from penstock.groups.expiry import TOGETHER
from penstock.groups.loading import GROUPS_TOGETHER
from penstock.groups.records import encode_group_key
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import GROUP, SESSION_MS, World, only

GROUPS = 3 * PORTION * GROUPS_TOGETHER
MEMBERS = 3 * PORTION * MEMBERS_TOGETHER
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def world_of(groups: int = 0, members: int = 0, **settings: int) -> World:
    """One partition, with groups of one position, and one of so many members."""
    world = World(has_turns=True, partition_count=1, **settings)
    for number in range(groups):
        world.commit({("t", 0): number}, group=f"g{number}")
    if members:
        parked = [world.join(client=f"c{number}") for number in range(members)]
        world.pass_ms(4 * 500)
        world.all_turns()
        leader = only(parked[0])
        world.sync(leader.member_id, 1, {leader.member_id: b"all"})
    world.all_turns()
    return world


def refused(world: World, groups: Iterable[str]) -> set[ErrorCode]:
    return {world.coordinator.reading.describe(group).error for group in groups}


def test_thousands_of_groups_are_made_in_several_turns_and_shown_at_once() -> None:
    world = world_of(GROUPS)
    names = world.coordinator.reading.group_ids()
    pinned = world.coordinator.pinned_bytes
    world.coordinator.runtime.unload(0)
    world.all_turns()
    assert world.coordinator.pinned_bytes == 0
    world.load(0)
    turns = 0
    while world.coordinator.is_loading:
        assert world.coordinator.reading.group_ids() == []
        assert refused(world, (names[0], names[-1], "none")) == {LOADING}
        assert only(world.commit({("t", 0): 9}, group=names[0])) == {("t", 0): LOADING}
        before = world.coordinator.pinned_bytes
        world.turn()
        assert world.coordinator.pinned_bytes - before <= pinned // 2
        turns += 1
    assert turns >= 2
    assert world.coordinator.reading.group_ids() == names
    assert world.coordinator.pinned_bytes == pinned


def test_thousands_of_groups_are_gone_at_once_and_let_go_in_several_turns() -> None:
    world = world_of(GROUPS)
    pinned = world.coordinator.pinned_bytes
    world.coordinator.runtime.unload(0)
    assert world.coordinator.group_count == 0
    assert refused(world, ("g0", "g1")) == {ErrorCode.NOT_COORDINATOR}
    assert world.coordinator.pinned_bytes > pinned // 2
    assert world.all_turns() >= 2
    assert world.coordinator.pinned_bytes == 0


def test_thousands_of_members_are_read_in_several_turns_and_their_sessions_begin() -> None:
    world = world_of(members=MEMBERS)
    ids = [*world.assignments()]
    world.coordinator.runtime.unload(0)
    world.all_turns()
    world.load(0)
    turns = 0
    while world.coordinator.is_loading:
        assert world.beat(ids[0], 1) is ErrorCode.NONE, "as while it is read"
        world.turn()
        turns += 1
    assert turns >= MEMBERS // MEMBERS_READ // PORTION
    assert world.assignments()[ids[0]] == b"all"
    assert world.all_turns() >= 2, "sessions begin in turns of their own"
    world.clock.now_ms += SESSION_MS - 1
    assert world.coordinator.runtime.next_deadline_ms() == world.clock.now_ms + 1
    while world.classic().members:
        world.clock.now_ms += SESSION_MS
        world.coordinator.runtime.tick(world.clock.now_ms)
        world.all_turns()
    assert world.state() == "Empty"


def test_thousands_who_are_parked_hear_in_several_turns_that_their_partition_has_moved() -> None:
    world = World(has_turns=True, partition_count=1)
    parked = [world.join(client=f"c{number}") for number in range(PORTION)]
    world.coordinator.runtime.unload(0)
    assert 0 < sum(map(len, parked)) <= PORTION // TO_TELL + 1
    while world.turns:
        before = sum(map(len, parked))
        world.turn()
        assert sum(map(len, parked)) - before <= PORTION // TO_TELL + 1
    assert {only(each).error for each in parked} == {ErrorCode.NOT_COORDINATOR}


def test_who_comes_back_at_once_keeps_the_sessions_of_what_is_loaded_anew() -> None:
    # The deadlines of the groups before go by the same names.
    world = world_of(members=MEMBERS)
    world.coordinator.runtime.unload(0)
    world.load(0)
    world.all_turns()
    assert len(world.assignments()) == MEMBERS
    while world.classic().members:
        world.clock.now_ms += SESSION_MS
        world.coordinator.runtime.tick(world.clock.now_ms)
        world.all_turns()
    assert world.coordinator.counters.members_expired == MEMBERS


def test_a_partition_that_is_given_up_while_its_groups_are_made_shows_none() -> None:
    world = world_of(GROUPS)
    world.coordinator.runtime.unload(0)
    world.all_turns()
    world.load(0)
    world.turn()
    assert world.coordinator.pinned_bytes > 0
    world.coordinator.runtime.unload(0)
    world.all_turns()
    assert world.coordinator.pinned_bytes == 0
    assert world.coordinator.group_count == 0
    assert refused(world, ("g0",)) == {ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("bound", [10, 1_000])
def test_a_group_of_whose_members_some_can_not_be_read_has_none_of_them(bound: int) -> None:
    world = world_of(members=3, unread_bytes_max=bound)
    log = world.journal.logs[0]
    key, value = encode_group_key(GROUP), log[-1][1]
    assert value is not None
    cut = UnreadRecord(key, value[:-3])
    log.append(cut)
    world.commit({("t", 0): 7}, group="other")
    world.restart()
    assert world.state() == "Empty"
    assert world.assignments() == {}
    assert world.committed(group="other") == 7
    assert world.coordinator.counters.records_unread == 1
    assert world.coordinator.runtime.base.rewrites.held == ((0,) if bound == 10 else ())


def test_topics_that_are_deleted_while_groups_are_gone_through_are_gone_through_next() -> None:
    world = world_of(GROUPS)
    first, last = (world.coordinator.reading.group_ids()[at] for at in (0, -1))
    for group in (first, last):
        world.commit({("u", 0): 5}, group=group)
    world.all_turns()
    world.coordinator.on_topics_deleted({"t": b"t" * 16})
    assert world.turns, "the pass takes several turns"
    world.coordinator.on_topics_deleted({"u": b"u" * 16})
    world.all_turns()
    assert [world.committed("u", 0, group=group) for group in (first, last)] == [None, None]


def test_a_group_of_many_positions_is_kept_by_the_newest_of_them_wherever_it_is() -> None:
    retention_ms, interval_ms = 600_000, 60_000
    world = World(
        partition_count=1, offsets_retention_ms=retention_ms, expiry_check_interval_ms=interval_ms
    )
    world.commit({("t", number): 1 for number in range(2 * TOGETHER)})
    world.pass_ms(retention_ms // 2)
    world.commit({("t", 0): 2})
    world.pass_ms(retention_ms - interval_ms)
    assert world.committed() == 2, "the others were committed longer ago than that"
    world.pass_ms(2 * interval_ms)
    assert world.committed() is None
