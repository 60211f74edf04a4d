"""Very many groups, and positions, go away in many short turns, save what came meanwhile."""

import pytest

from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.portions import PORTION, POSITIONS, TO_TELL, TO_WRITE
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.expiry import TOGETHER
from penstock.groups.messages import CommitOffsets
from penstock.groups.records import CommittedOffset, TopicKey, encode_group_key
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import GROUP, PARTITIONS, World, only

OK = ErrorCode.NONE
RETENTION_MS = 10_000
CHECK_MS = 60_000
NEVER_MS = 10**9
OLD_ID, NEW_ID = b"o" * 16, b"n" * 16


def world_of(*, check_ms: int = CHECK_MS, **settings: int) -> World:
    return World(
        has_turns=True,
        offsets_retention_ms=RETENTION_MS,
        expiry_check_interval_ms=check_ms,
        **settings,
    )


def names(count: int) -> list[str]:
    return [f"group-{number:04}" for number in range(count)]


def left(world: World) -> list[str]:
    """Groups that are there, and not going."""
    listed = world.coordinator.reading.list_groups(ids=world.coordinator.reading.group_ids()).groups
    return [one.group_id for one in listed if one.state != "Dead"]


def commit_all(world: World, groups: list[str]) -> None:
    for group in groups:
        world.commit({("t", 0): 1}, group=group)
        world.all_turns()


def commit_many(world: World, count: int) -> None:
    world.commit({("t", partition): 1 for partition in range(count)})
    world.all_turns()


def commit_with_id(world: World, group: str, topic_id: bytes, *, partitions: int = 1) -> None:
    offset = CommittedOffset(7, commit_timestamp_ms=world.clock.wall_ms(), topic_id=topic_id)
    offsets = {TopicKey("t", partition): offset for partition in range(partitions)}
    request = CommitOffsets(group_id=group, offsets=offsets)
    world.coordinator.commit(request, lambda _: None)
    world.all_turns()


def tick(world: World, ms: int) -> None:
    world.clock.now_ms += ms
    world.coordinator.runtime.tick(world.clock.now_ms)


def test_groups_that_are_expired_go_in_several_turns_the_oldest_first() -> None:
    world = world_of()
    ids = names(4 * PORTION // TO_WRITE)
    commit_all(world, ids)
    tick(world, CHECK_MS)
    most = len(ids) - len(left(world))
    while world.turns:
        before = left(world)
        world.turn()
        assert left(world) == before[len(before) - len(left(world)) :]
        most = max(most, len(before) - len(left(world)))
    assert 0 < most <= PORTION // TO_WRITE + 1
    assert left(world) == []
    assert world.coordinator.counters.groups_expired == len(ids)


def test_groups_that_stay_are_looked_at_in_several_turns() -> None:
    world = world_of()
    ids = names(3 * PORTION * POSITIONS)
    for group in ids:
        world.coordinator._table.create(group)[0].pending["kept"] = None  # type: ignore[union-attr]
    world.commit({("t", 0): 1}, group="last")
    tick(world, CHECK_MS)
    assert len(world.turns) == 1, "the rest is for another turn"
    assert world.all_turns() >= 2
    assert left(world) == ids


def test_the_next_look_at_all_groups_begins_after_the_last_has_ended() -> None:
    world = world_of()
    for group in names(2 * PORTION // TO_WRITE):
        world.commit({("t", 0): 1}, group=group)
    tick(world, CHECK_MS)
    assert world.coordinator.runtime.next_deadline_ms() is None
    world.all_turns()
    assert world.coordinator.runtime.next_deadline_ms() == world.clock.now_ms + CHECK_MS


def test_a_group_that_is_committed_to_while_its_positions_are_looked_at_stays() -> None:
    world = world_of()
    count = 2 * PORTION * POSITIONS
    commit_many(world, count)
    tick(world, CHECK_MS)
    assert len(left(world)) == 1
    world.commit({("t", 0): 2})
    world.all_turns()
    assert world.committed() == 2
    assert len(world.all_committed()) == count


def test_a_group_with_very_many_positions_is_deleted_in_several_batches() -> None:
    world = world_of(check_ms=NEVER_MS)
    count = 3 * TOGETHER + 1
    commit_many(world, count)
    log = world.journal.logs[partition_of(GROUP, PARTITIONS)]
    before = len(log)
    world.journal.is_prompt = False
    answers: list[dict[str, ErrorCode]] = []
    world.coordinator.delete_groups([GROUP], lambda reply: answers.append(dict(reply)))
    world.all_turns()
    assert len(world.journal.waiting) == 4
    world.journal.confirm(3)
    world.all_turns()
    assert not answers
    assert world.state() == "Dead"
    world.journal.confirm(1)
    world.all_turns()
    assert only(answers) == {GROUP: OK}
    assert [value for _, value, *_ in log[before:]] == [None] * count
    world.restart()
    assert left(world) == []


def test_a_deletion_that_is_refused_half_way_ends_and_can_be_asked_for_again() -> None:
    world = world_of(check_ms=NEVER_MS)
    commit_many(world, 8 * TOGETHER)
    answers: list[dict[str, ErrorCode]] = []
    world.coordinator.delete_groups([GROUP], lambda reply: answers.append(dict(reply)))
    world.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    world.all_turns()
    assert only(answers) == {GROUP: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert world.state() == "Empty"
    world.journal.refuses = None
    world.coordinator.delete_groups([GROUP], lambda reply: answers.append(dict(reply)))
    world.all_turns()
    assert answers[1:] == [{GROUP: OK}]
    assert left(world) == []


def test_a_deletion_that_was_refused_deletes_nothing_that_is_committed_after_it() -> None:
    world = world_of(check_ms=NEVER_MS)
    count = 8 * TOGETHER
    commit_many(world, count)
    answers: list[dict[str, ErrorCode]] = []
    world.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    world.coordinator.delete_groups([GROUP], lambda reply: answers.append(dict(reply)))
    while not answers:
        world.turn()
    world.journal.refuses = None
    commit_many(world, count)
    assert len(world.all_committed()) == count


def test_what_is_loaded_again_is_not_deleted_by_a_deletion_from_before() -> None:
    # The partition moved away and came back between two batches: its positions count once more.
    world = world_of(check_ms=NEVER_MS)
    commit_many(world, 8 * TOGETHER)
    answers: list[dict[str, ErrorCode]] = []
    world.coordinator.delete_groups([GROUP], lambda reply: answers.append(dict(reply)))
    partition = world.coordinator.partition_of(GROUP)
    world.coordinator.runtime.unload(partition)
    world.load(partition)
    while world.coordinator.is_loading:
        world.turn()
    there = world.all_committed()
    assert there
    world.all_turns()
    assert world.all_committed() == there
    assert only(answers) == {GROUP: ErrorCode.NOT_COORDINATOR}


def test_many_groups_are_deleted_in_several_turns_and_answered_together() -> None:
    world = world_of(check_ms=NEVER_MS)
    ids = names(3 * PORTION // TO_WRITE)
    commit_all(world, ids)
    answers: list[dict[str, ErrorCode]] = []
    world.coordinator.delete_groups([*ids, "none"], lambda reply: answers.append(dict(reply)))
    assert len(ids) - PORTION // TO_WRITE - 1 <= len(left(world)) < len(ids)
    assert not answers
    world.all_turns()
    expected = {**dict.fromkeys(ids, OK), "none": ErrorCode.GROUP_ID_NOT_FOUND}
    assert only(answers) == expected


@pytest.mark.parametrize("count", [1, 2 * PORTION // TO_WRITE])
def test_positions_of_a_topic_that_was_made_anew_meanwhile_stay(count: int) -> None:
    world = world_of(check_ms=NEVER_MS)
    ids = names(count)
    for group in ids:
        commit_with_id(world, group, OLD_ID)
    world.coordinator._context.portions._left = 0  # this turn has done enough
    world.coordinator.on_topics_deleted({"t": OLD_ID})
    commit_with_id(world, ids[-1], NEW_ID)
    world.all_turns()
    assert [group for group in ids if world.committed(group=group)] == [ids[-1]]


def test_topics_that_are_deleted_while_groups_are_gone_through_share_the_next_walk() -> None:
    world = world_of(check_ms=NEVER_MS)
    ids = names(2 * PORTION // TO_WRITE)
    for group in ids:
        commit_with_id(world, group, OLD_ID)
    world.coordinator.on_topics_deleted({"t": OLD_ID})
    works = len(world.coordinator._context.portions)
    for number in range(100):
        world.coordinator.on_topics_deleted({f"other-{number}": NEW_ID, "t": OLD_ID})
    assert len(world.coordinator._context.portions) == works > 0
    world.all_turns()
    assert not any(world.committed(group=group) for group in ids)
    commit_with_id(world, ids[0], OLD_ID)
    world.coordinator.on_topics_deleted({"t": OLD_ID})
    world.all_turns()
    assert world.committed(group=ids[0]) is None, "the next one begins"


def test_every_topic_of_a_name_that_is_deleted_amid_a_walk_goes_with_the_next_one() -> None:
    world = world_of(check_ms=NEVER_MS)
    ids = names(2 * PORTION // TO_WRITE)
    for number, group in enumerate(ids):
        world.commit({("first", 0): 1}, group=group)
        commit_with_id(world, group, OLD_ID if number % 2 else NEW_ID)
    world.coordinator.on_topics_deleted({"first": OLD_ID})
    assert len(world.coordinator._context.portions) > 0, "the walk goes on"
    world.coordinator.on_topics_deleted({"t": OLD_ID})
    world.coordinator.on_topics_deleted({"t": NEW_ID})
    world.all_turns()
    assert not any(world.all_committed(group) for group in ids)


def test_a_deletion_that_is_confirmed_late_takes_no_group_that_has_come_since() -> None:
    """The partition went and came back meanwhile, and the group was made anew."""
    world = World()
    partition = world.coordinator.partition_of(GROUP)
    world.commit({("t", 0): 1})
    world.journal.is_prompt = False
    world.coordinator.delete_groups([GROUP], lambda _: None)
    world.coordinator.runtime.unload(partition)
    world.load(partition)
    assert world.all_committed() == {}
    world.journal.is_prompt = True
    world.commit({("t", 0): 2})
    world.journal.confirm()
    assert world.committed("t", 0) == 2


def test_positions_of_one_group_are_dropped_in_several_batches() -> None:
    world = world_of(check_ms=NEVER_MS)
    commit_with_id(world, GROUP, OLD_ID, partitions=5 * TOGETHER)
    world.journal.is_prompt = False
    world.coordinator.on_topics_deleted({"t": OLD_ID})
    assert len(world.journal.waiting) < 5
    world.all_turns()
    assert len(world.journal.waiting) == 5
    world.journal.confirm()
    world.all_turns()
    assert world.all_committed() == {}


def test_the_batch_with_the_group_itself_is_the_last() -> None:
    world = world_of(check_ms=NEVER_MS)
    world.stable(1)
    member_id = world.coordinator.reading.describe(GROUP).members[0].member_id
    world.commit({("t", partition): 1 for partition in range(TOGETHER)}, member_id, 1)
    world.leave((member_id, None))
    assert encode_group_key(GROUP) in world.coordinator._table.groups[GROUP].metadata.values
    log = world.journal.logs[partition_of(GROUP, PARTITIONS)]
    world.coordinator.delete_groups([GROUP], lambda _: None)
    world.all_turns()
    key, value, *_ = log[-1]
    assert key is not None
    assert (key[:2], value) == (b"\x00\x02", None)


def test_thousands_of_writes_that_are_confirmed_in_one_moment_end_in_several_turns() -> None:
    # The disk stood still, and then one sync confirms what came meanwhile.
    world = world_of(check_ms=NEVER_MS)
    world.journal.is_prompt = False
    commits = [
        world.commit({("t", 0): number}, group=f"g{number % 7}") for number in range(PORTION)
    ]
    assert not any(commits)
    world.journal.confirm()
    assert 0 < sum(map(len, commits)) <= PORTION // TO_TELL + 1
    done = [bool(answers) for answers in commits]
    assert done == sorted(done, reverse=True), "in the order of their confirmation"
    last = PORTION - 1
    assert world.committed(group=f"g{last % 7}") != last
    world.all_turns()
    assert all(only(answers) == {("t", 0): OK} for answers in commits)
    assert world.committed(group=f"g{last % 7}") == last
