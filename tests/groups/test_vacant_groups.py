"""A group without members and positions has nothing to come back for: it goes after seconds."""

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.expiry import VACANT_MS
from penstock.groups.records import encode_group_key
from tests.groups.consumer.club import SESSION_MS as CONSUMER_SESSION_MS
from tests.groups.consumer.club import Club
from tests.groups.world import GROUP, SESSION_MS, World

NEVER_MS = 10**9


def world_of() -> World:
    return World(expiry_check_interval_ms=NEVER_MS, offsets_retention_ms=NEVER_MS)


def test_thousands_of_groups_whose_members_went_are_gone_after_seconds() -> None:
    world = world_of()
    groups = [f"group-{number}" for number in range(2_000)]
    for group in groups:
        world.join(group=group)
    world.pass_ms(2 * SESSION_MS + VACANT_MS)
    assert not [*world.coordinator.reading.group_ids()]
    assert world.coordinator.counters.groups_expired == len(groups)
    assert world.coordinator._table.pinned_bytes == 0
    assert len(world.coordinator._context.deadlines) == 1, "the check for expired groups"


def test_its_tombstone_is_in_the_journal() -> None:
    world = world_of()
    (member,) = world.stable()
    world.leave((member.member_id, None))
    world.pass_ms(VACANT_MS)
    records = [record for log in world.journal.logs.values() for record in log]
    assert records[-1] == (encode_group_key(GROUP), None)
    world.restart()
    assert world.state() == "Dead"


def test_a_group_stays_for_a_consumer_that_restarts() -> None:
    world = world_of()
    (member,) = world.stable()
    world.leave((member.member_id, None))
    world.pass_ms(VACANT_MS - 1)
    assert world.state() == "Empty"
    (again,) = world.joined()
    assert again.generation > member.generation
    world.pass_ms(SESSION_MS // 2)
    assert world.state() != "Dead"


def test_the_seconds_begin_anew_when_it_is_left_again() -> None:
    world = world_of()
    for wait_ms in (VACANT_MS // 2, VACANT_MS - 1):
        (member,) = world.stable()
        world.leave((member.member_id, None))
        world.pass_ms(wait_ms)
        assert world.state() == "Empty"
    world.pass_ms(1)
    assert world.state() == "Dead"


def test_a_group_with_positions_stays() -> None:
    world = world_of()
    (member,) = world.stable()
    world.commit({("t", 0): 7}, member.member_id, member.generation)
    world.leave((member.member_id, None))
    world.pass_ms(10 * VACANT_MS)
    assert world.state() == "Empty"
    assert world.committed() == 7


def test_a_group_whose_last_position_is_deleted_goes_too() -> None:
    world = world_of()
    world.commit({("t", 0): 7})
    world.coordinator.on_topics_deleted({"t": b""})
    world.pass_ms(VACANT_MS)
    assert world.state() == "Dead"


def test_what_could_not_be_written_is_tried_again() -> None:
    world = world_of()
    (member,) = world.stable()
    world.leave((member.member_id, None))
    world.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    world.pass_ms(VACANT_MS)
    assert world.state() == "Empty"
    world.journal.refuses = None
    world.pass_ms(VACANT_MS)
    assert world.state() == "Dead"


def test_a_group_of_the_newer_protocol_goes_likewise() -> None:
    club = Club(expiry_check_interval_ms=NEVER_MS, offsets_retention_ms=NEVER_MS)
    club.cluster.create("t", 4)
    club.entered("m", "t")
    club.pass_ms(CONSUMER_SESSION_MS)
    assert not club.group().facts
    club.pass_ms(VACANT_MS)
    assert club.state() == "Dead"
