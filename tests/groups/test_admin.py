"""DescribeGroups, ListGroups, DeleteGroups and expiry."""

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.messages import DeleteOffsetsReply
from penstock.groups.records import TopicKey
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import GROUP, World, only

DAY_MS = 24 * 3_600_000


def delete(world: World, *groups: str) -> list[dict[str, ErrorCode]]:
    replies: list[dict[str, ErrorCode]] = []
    world.coordinator.delete_groups(groups, lambda reply: replies.append(dict(reply)))
    return replies


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    world = World()
    member = world.stable()[0].member_id
    found = world.coordinator.reading.describe("orders")
    assert (found.state, found.protocol_type, found.protocol_name) == (
        "Stable",
        "consumer",
        "range",
    )
    (described,) = found.members
    assert (described.member_id, described.client_id) == (member, "c0")
    assert (described.metadata, described.assignment) == (b"meta", member.encode())


def test_a_rebalancing_group_is_described_without_metadata() -> None:
    world = World()
    world.joined()
    found = world.coordinator.reading.describe("orders")
    assert (found.state, found.protocol_name) == ("CompletingRebalance", "")
    assert found.members[0].metadata == found.members[0].assignment == b""


def test_an_unknown_group_is_dead_and_not_found() -> None:
    found = World().coordinator.reading.describe("nothing")
    assert (found.error, found.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


def test_listing_filters_by_state_and_type() -> None:
    world = World()
    world.stable()
    world.commit({("t", 0): 1}, group="simple")
    listed = world.coordinator.reading.list_groups
    assert [g.group_id for g in listed().groups] == ["orders", "simple"]
    assert [g.group_id for g in listed(states=["stable"]).groups] == ["orders"]
    assert [g.group_id for g in listed(states=["Empty", "Dead"]).groups] == ["simple"]
    assert [g.group_type for g in listed(types=["Classic"]).groups] == ["classic"] * 2
    assert listed(types=["share"]).groups == ()


def test_only_empty_groups_are_deleted_and_for_good() -> None:
    world = World()
    world.stable()
    world.commit({("t", 0): 1}, group="simple")
    assert only(delete(world, "orders", "simple", "nothing")) == {
        "orders": ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "nothing": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    world.restart()
    assert world.state("simple") == "Dead"
    assert world.all_committed("simple") == {}


def test_a_deletion_is_answered_when_it_is_durable_and_blocks_the_name_until_then() -> None:
    world = World()
    world.commit({("t", 0): 1})
    world.journal.is_prompt = False
    replies = delete(world, "orders")
    assert replies == []
    assert only(world.join()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert only(delete(world, "orders")) == {"orders": ErrorCode.GROUP_ID_NOT_FOUND}
    world.journal.confirm()
    assert only(replies) == {"orders": ErrorCode.NONE}
    assert only(world.join(id_required=True)).error is ErrorCode.MEMBER_ID_REQUIRED


def test_a_deletion_the_journal_refuses_leaves_the_group() -> None:
    world = World()
    world.commit({("t", 0): 1})
    world.journal.refuses = Unwritten.FAILED
    assert only(delete(world, "orders")) == {"orders": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert (world.state(), world.committed()) == ("Empty", 1)


def test_deleting_covers_commits_still_under_way() -> None:
    world = World()
    world.journal.is_prompt = False
    world.commit({("t", 0): 1})
    delete(world, "orders")
    world.journal.confirm()
    assert world.state() == "Dead"
    world.restart()
    assert world.all_committed() == {}


def test_a_group_expires_as_a_whole_after_retention_without_commits() -> None:
    world = World()
    world.commit({("t", 0): 1})
    world.pass_ms(6 * DAY_MS)
    world.commit({("t", 1): 2})
    world.pass_ms(6 * DAY_MS)
    assert world.all_committed() == {("t", 0): 1, ("t", 1): 2}
    world.pass_ms(2 * DAY_MS)
    assert world.all_committed() == {}
    world.restart()
    assert world.state() == "Dead"


def test_positions_are_kept_for_the_whole_of_the_retention_time() -> None:
    world = World(offsets_retention_ms=DAY_MS, expiry_check_interval_ms=DAY_MS)
    world.commit({("t", 0): 1})
    world.pass_ms(DAY_MS)
    assert world.committed() == 1
    world.pass_ms(DAY_MS)
    assert world.committed() is None


def test_a_wall_clock_that_retention_does_not_believe_expires_nothing() -> None:
    world = World(offsets_retention_ms=DAY_MS, expiry_check_interval_ms=DAY_MS)
    world.commit({("t", 0): 1})
    world.cluster.distrusted_ms = 30 * DAY_MS
    world.pass_ms(20 * DAY_MS)
    assert world.committed() == 1
    world.cluster.distrusted_ms = 0
    world.pass_ms(DAY_MS)
    assert world.committed() is None


def test_offsets_never_expire_while_the_group_has_members() -> None:
    world = World()
    member = world.stable(session_ms=1_800_000)[0].member_id
    world.commit({("t", 0): 1}, member, 1)
    for _ in range(20 * 48):
        world.pass_ms(DAY_MS // 48 - 1)
        assert world.beat(member, 1) is ErrorCode.NONE
    assert world.committed() == 1


def test_retention_counts_from_when_the_group_became_empty() -> None:
    world = World()
    member = world.stable(session_ms=1_800_000)[0].member_id
    world.commit({("t", 0): 1}, member, 1)
    for _ in range(8 * 48):
        world.pass_ms(DAY_MS // 48 - 1)
        world.beat(member, 1)
    world.leave((member, None))
    world.pass_ms(DAY_MS)
    world.restart()
    world.pass_ms(5 * DAY_MS)
    assert world.committed() == 1
    world.pass_ms(2 * DAY_MS)
    assert world.committed() is None


def test_retention_can_be_for_ever() -> None:
    world = World(offsets_retention_ms=-1, expiry_check_interval_ms=DAY_MS)
    world.commit({("t", 0): 1})
    world.pass_ms(1_000 * DAY_MS)
    assert world.committed() == 1


def test_an_empty_group_without_offsets_is_forgotten() -> None:
    world = World()
    member = world.stable()[0].member_id
    world.leave((member, None))
    world.pass_ms(700_000)
    assert world.state() == "Dead"
    world.restart()
    assert world.coordinator.group_count == 0


# What is still being deleted


def test_a_group_is_gone_only_when_the_end_of_its_positions_is_confirmed() -> None:
    """The positions may be on their way out already: if that is lost, the group is there again."""
    world = World()
    world.commit({("t", 0): 5})
    world.journal.is_prompt = False
    positions: list[DeleteOffsetsReply] = []
    world.coordinator.delete_offsets(GROUP, (TopicKey("t", 0),), positions.append)
    groups: list[object] = []
    world.coordinator.delete_groups([GROUP], groups.append)
    assert (positions, groups) == ([], [])
    assert world.committed() == 5
    world.journal.confirm()
    assert groups == [{GROUP: ErrorCode.NONE}]
    assert world.coordinator.group_count == 0


def test_a_position_is_deleted_for_the_second_who_asks_when_it_is_for_the_first() -> None:
    world = World()
    world.commit({("t", 0): 5})
    world.journal.is_prompt = False
    answers: list[DeleteOffsetsReply] = []
    for _ in range(2):
        world.coordinator.delete_offsets(GROUP, (TopicKey("t", 0),), answers.append)
    assert answers == []
    world.journal.confirm()
    assert len(answers) == 2
