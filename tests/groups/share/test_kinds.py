"""Share groups beside groups of other kinds, their deletion, and their place in the log."""

import pytest

from penstock.coordinator.records import UnreadRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.assigned.names import Kind, RecordName, encode_name
from penstock.groups.records import TopicKey
from penstock.groups.shard import RECORDS_TOGETHER
from penstock.groups.share.administration import HeldGroup
from penstock.groups.share.records import Shared, SharedTopic
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import Club
from tests.groups.share.circle import Circle, Sharer, settle
from tests.groups.world import GROUP, only

OK = ErrorCode.NONE


def circle() -> Circle:
    made = Circle(expiry_check_interval_ms=60_000)
    made.cluster.create("t", 2)
    return made


def club_of(one: Circle) -> Club:
    """Return the same coordinator for members of consumer groups."""
    club = Club.__new__(Club)
    club.__dict__ = one.__dict__
    return club


def types(one: Circle, **only_: list[str]) -> dict[str, tuple[str, str, str]]:
    listed = one.coordinator.reading.list_groups(**only_).groups
    return {each.group_id: (each.group_type, each.protocol_type, each.state) for each in listed}


def held(one: Circle) -> HeldGroup:
    found = one.coordinator.shares.hold(GROUP)
    assert isinstance(found, HeldGroup)
    return found


def log_of(one: Circle) -> dict[object, object]:
    log = one.journal.logs[one.coordinator.partition_of(GROUP)]
    return {record[0]: record[1] for record in log}


def test_lists_tell_share_groups_apart() -> None:
    one = circle()
    one.entered("m", "t", group_id="shares")
    one.stable()
    assert types(one)["shares"] == ("share", "share", "Stable")
    assert set(types(one, types=["Share"])) == {"shares"}
    assert set(types(one, states=["stable"])) == {"shares", GROUP}
    one.beaten("m", -1, group_id="shares")
    assert types(one, states=["Empty"]) == {"shares": ("share", "share", "Empty")}


def test_who_asks_for_another_kind_does_not_find_a_share_group() -> None:
    one = circle()
    one.entered("m", "t")
    club = club_of(one)
    not_found = ErrorCode.GROUP_ID_NOT_FOUND
    assert one.coordinator.reading.describe(GROUP).error is not_found
    assert club.described().error is not_found
    assert one.described("none").message == "Group none not found."
    assert one.described().error is OK


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_share_group_stays_one_also_when_it_is_empty(is_empty: bool) -> None:
    one = circle()
    one.entered("m", "t")
    if is_empty:
        one.beaten("m", -1)
    club = club_of(one)
    refused = club.entered("c", "t")
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a consumer group" in (refused.message or "")
    assert only(one.join()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert only(one.sync("m", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert one.beat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert one.leave(("m", None)).members[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert one.described().state == ("Empty" if is_empty else "Stable")


@pytest.mark.parametrize("is_empty", [False, True])
def test_groups_of_other_kinds_never_become_share_groups(is_empty: bool) -> None:
    one = circle()
    (member,) = one.stable()
    if is_empty:
        one.leave((member.member_id, None))
    refused = one.entered("m", "t")
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a share group" in (refused.message or "")
    one = circle()
    club = club_of(one)
    club.entered("c", "t")
    if is_empty:
        only(club.beat_as("c", -1))
    assert one.entered("m", "t").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a share group" in (one.described().message or "")


def test_a_share_group_has_no_positions() -> None:
    one = circle()
    one.entered("m", "t")
    key = TopicKey("t", 0)
    refused = ErrorCode.GROUP_ID_NOT_FOUND
    assert only(one.commit({("t", 0): 7}, "m", 1)) == {key: refused}
    assert only(one.commit({("t", 0): 7})) == {key: refused}
    found = one.coordinator.reading.fetch_offsets(GROUP, [key])
    assert (found.error, found.offsets[key].committed) == (OK, None)
    answers: list[object] = []
    one.coordinator.delete_offsets(GROUP, (key,), answers.append)
    assert answers[0].error is refused  # type: ignore[attr-defined]


def test_an_empty_share_group_does_not_expire() -> None:
    one = circle()
    one.entered("m", "t")
    one.beaten("m", -1)
    one.pass_ms(30 * 24 * 3_600_000)
    assert types(one) == {GROUP: ("share", "share", "Empty")}


# Deletion


def test_shares_are_deleted_first_and_then_the_group() -> None:
    one = circle()
    one.entered("m", "t")
    assert one.deleted() == [ErrorCode.NON_EMPTY_GROUP]
    one.beaten("m", -1)
    masters = one.cluster.share_masters
    masters.waiting = []
    outcomes = one.deleted()
    assert one.names(masters.shares[GROUP]) == {("t", 0), ("t", 1)}
    assert outcomes == []
    assert one.described().state == "Dead"
    assert one.entered("m", "t").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.deleted() == [ErrorCode.GROUP_ID_NOT_FOUND]
    (done,) = masters.waiting
    done(None)
    assert outcomes == [OK]
    assert set(log_of(one).values()) == {None}
    one.restart()
    assert types(one) == {}


def test_a_group_stays_whose_shares_could_not_be_deleted() -> None:
    one = circle()
    one.entered("m", "t")
    one.beaten("m", -1)
    masters = one.cluster.share_masters
    masters.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.deleted() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert one.entered("m", "t").error is OK
    one.beaten("m", -1)
    masters.refuses = None
    assert one.deleted() == [OK]


def test_a_group_that_moved_away_while_its_shares_were_deleted_is_kept() -> None:
    one = circle()
    one.entered("m", "t")
    one.beaten("m", -1)
    masters = one.cluster.share_masters
    masters.waiting = []
    for reason in (None, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        outcomes = one.deleted()
        partition = one.coordinator.partition_of(GROUP)
        one.coordinator.runtime.unload(partition)
        one.load(partition)
        masters.waiting.pop()(reason)
        assert outcomes == [reason or ErrorCode.NOT_COORDINATOR]
        assert one.described().state == "Empty"


def test_a_group_without_shares_asks_nobody() -> None:
    one = circle()
    one.entered("m", "unknown")
    one.beaten("m", -1)
    assert one.deleted() == [OK]
    assert not one.cluster.share_masters.shares


# Administrators


def test_a_group_with_members_or_of_another_kind_can_not_be_held() -> None:
    one = circle()
    hold = one.coordinator.shares.hold
    assert hold(GROUP) is ErrorCode.GROUP_ID_NOT_FOUND
    one.entered("m", "t")
    assert hold(GROUP) is ErrorCode.NON_EMPTY_GROUP
    one.join(group="classic")
    assert hold("classic") is ErrorCode.GROUP_ID_NOT_FOUND
    one.coordinator.runtime.unload(one.coordinator.partition_of(GROUP))
    assert hold(GROUP) is ErrorCode.NOT_COORDINATOR
    assert one.coordinator.shares.shared(GROUP) is ErrorCode.NOT_COORDINATOR


def test_a_group_that_is_made_for_a_change_stays_once_that_is_written() -> None:
    one = circle()
    change = one.coordinator.shares.hold(GROUP, creates=True)
    assert isinstance(change, HeldGroup)
    told: list[ErrorCode | None] = []
    change.add({one.cluster.topics["t"].topic_id: SharedTopic("t", frozenset({0}))}, told.append)
    change.end()
    assert told == [None]
    one.restart()
    assert one.described().state == "Empty"


def test_a_group_that_is_made_for_a_change_goes_if_nothing_is_written() -> None:
    one = circle()
    change = one.coordinator.shares.hold(GROUP, creates=True)
    assert isinstance(change, HeldGroup)
    assert one.described().state == "Empty"
    change.end()
    assert one.described().error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_is_made_for_a_change_goes_if_that_is_refused_later() -> None:
    one = circle()
    one.journal.is_prompt = False
    change = one.coordinator.shares.hold(GROUP, creates=True)
    assert isinstance(change, HeldGroup)
    told: list[ErrorCode | None] = []
    change.add({one.cluster.topics["t"].topic_id: SharedTopic("t", frozenset({0}))}, told.append)
    change.end()
    assert one.described().state == "Empty"
    one.journal.fail(Unwritten.FAILED)
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert one.described().error is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("is_written", [True, False])
def test_who_joins_while_a_change_is_late_is_answered_when_that_has_ended(
    is_written: bool,
) -> None:
    one = circle()
    one.journal.is_prompt = False
    change = one.coordinator.shares.hold(GROUP, creates=True)
    assert isinstance(change, HeldGroup)
    told: list[ErrorCode | None] = []
    change.add({one.cluster.topics["t"].topic_id: SharedTopic("t", frozenset({0}))}, told.append)
    one.journal.late()
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    change.end()
    answers = one.enter("m", "t")
    assert answers == []
    one.journal.is_prompt = True
    if is_written:
        one.journal.confirm()
    else:
        one.journal.fail(Unwritten.FAILED)
    assert only(answers).error is OK
    assert one.members() == ["m"]


def test_no_group_is_made_for_a_change_beyond_the_bound() -> None:
    one = Circle(groups_max=1)
    one.entered("m", "t", group_id="other")
    assert one.coordinator.shares.hold(GROUP, creates=True) is ErrorCode.POLICY_VIOLATION


def test_nobody_joins_a_group_that_is_held_and_no_other_change_begins() -> None:
    one = circle()
    one.entered("m", "t")
    one.beaten("m", -1)
    change = held(one)
    assert one.coordinator.shares.hold(GROUP) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.entered("m", "t").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.deleted() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    change.end()
    assert one.entered("m", "t").error is OK


def test_what_gets_a_share_is_noted_and_what_has_none_is_forgotten() -> None:
    one = circle()
    one.entered("m", "t")
    one.beaten("m", -1)
    one.cluster.create("u", 3)
    topic_id = one.cluster.topics["u"].topic_id
    change = held(one)
    outcomes: list[ErrorCode | None] = []
    change.add({topic_id: SharedTopic("u", frozenset({1}))}, outcomes.append)
    change.add({topic_id: SharedTopic("u", frozenset({2}))}, outcomes.append)
    change.end()
    for _ in range(2):
        assert one.shared() == {("t", 0), ("t", 1), ("u", 1), ("u", 2)}
        one.restart()
    change = held(one)
    change.drop([one.cluster.topics["t"].topic_id], outcomes.append)
    change.drop([b"unknown"], outcomes.append)
    change.end()
    for _ in range(2):
        assert one.shared() == {("u", 1), ("u", 2)}
        one.restart()
    assert outcomes == [None] * 4


def test_a_change_of_a_group_that_moved_away_is_refused() -> None:
    one = circle()
    one.entered("m", "t")
    one.beaten("m", -1)
    change = held(one)
    partition = one.coordinator.partition_of(GROUP)
    one.coordinator.runtime.unload(partition)
    one.load(partition)
    outcomes: list[ErrorCode | None] = []
    change.drop([one.cluster.topics["t"].topic_id], outcomes.append)
    change.end()
    assert outcomes == [ErrorCode.NOT_COORDINATOR]
    assert one.shared() == {("t", 0), ("t", 1)}
    assert one.entered("m", "t").error is OK


def test_a_change_that_was_not_written_says_so() -> None:
    one = circle()
    one.entered("m", "t")
    one.beaten("m", -1)
    change = held(one)
    one.journal.refuses = Unwritten.FAILED
    outcomes: list[ErrorCode | None] = []
    change.drop([one.cluster.topics["t"].topic_id], outcomes.append)
    assert outcomes[0] is not None
    assert one.shared() == {("t", 0), ("t", 1)}


# Loading


@pytest.mark.parametrize("count", [3, 2 * RECORDS_TOGETHER // 3])
def test_a_rewrite_keeps_the_group(count: int) -> None:
    one = circle()
    sharers = [Sharer(one, f"m{n}", "t") for n in range(count)]
    settle(*sharers)
    before, shared = one.described(), one.shared()
    partition = one.coordinator.partition_of(GROUP)
    live = [record for some in one.coordinator.runtime.snapshot(partition) for record in some]
    one.journal.logs[partition] = live
    one.restart()
    assert (one.described(), one.shared()) == (before, shared)
    assert len(one.members()) == count


def test_what_a_later_version_said_is_kept_whole_and_used_as_far_as_it_is_known() -> None:
    one = circle()
    one.entered("m", "t")
    partition = one.coordinator.partition_of(GROUP)
    key = encode_name(RecordName(Kind.SHARE_GROUP, GROUP))
    later = bytes.fromhex("0000 00000001 0000000000000000 01 07 01 ff")
    broken = UnreadRecord(encode_name(RecordName(Kind.SHARE_MEMBER, GROUP, "x")), b"\x00\x09?")
    one.journal.logs[partition] += [(key, later), broken]
    one.restart()
    assert one.described().epoch == 1
    assert one.members() == ["m"]
    live = [record for some in one.coordinator.runtime.snapshot(partition) for record in some]
    assert UnreadRecord(key, later) in live
    assert broken in live


def test_the_newer_kind_counts_if_records_of_another_one_are_left() -> None:
    one = circle()
    one.entered("m", "t")
    partition = one.coordinator.partition_of(GROUP)
    one.journal.logs[partition].append(
        (encode_name(RecordName(Kind.GROUP, GROUP)), bytes.fromhex("0000 00000005 00"))
    )
    one.restart()
    assert types(one)[GROUP][0] == "consumer"
    one.journal.logs[partition].append(
        (
            encode_name(RecordName(Kind.SHARE_GROUP, GROUP)),
            bytes.fromhex("0000 00000007 0000000000000000 00"),
        )
    )
    one.restart()
    assert types(one)[GROUP] == ("share", "share", "Empty")
    assert one.described().epoch == 7


def test_a_tombstone_without_its_record_and_a_member_before_its_group_load() -> None:
    """A log that a compaction went through has any part of what a group has written."""
    one = circle()
    one.entered("m", "t")
    partition = one.coordinator.partition_of(GROUP)
    log = one.journal.logs[partition]
    gone = (encode_name(RecordName(Kind.SHARE_CURRENT, GROUP, "gone")), None)
    one.journal.logs[partition] = [gone, *reversed(log)]
    before = one.described()
    one.restart()
    assert one.described() == before
    of_the_group = encode_name(RecordName(Kind.SHARE_GROUP, GROUP))
    one.journal.logs[partition] = [record for record in log if record[0] != of_the_group]
    one.restart()
    assert one.described().epoch == before.epoch  # the target's epoch says as much
    assert one.beaten("m", 1).error is OK


def test_a_partition_that_moves_away_answers_what_waits() -> None:
    one = circle()
    one.journal.is_prompt = False
    first, second = one.enter("a", "t"), one.enter("b", "t")
    one.coordinator.runtime.unload(one.coordinator.partition_of(GROUP))
    one.journal.fail(Unwritten.OVERTAKEN)
    not_here = ErrorCode.NOT_COORDINATOR
    assert [only(each).error for each in (first, second)] == [not_here, not_here]
    assert one.coordinator.pinned_bytes == 0


# Where shares may begin


def test_shares_may_begin_where_what_was_assigned_is_confirmed() -> None:
    one = circle()
    beginning = one.coordinator.shares.beginning
    assert beginning(GROUP) is ErrorCode.GROUP_ID_NOT_FOUND
    one.journal.is_prompt = False
    one.enter("m", "t")
    assert beginning(GROUP) == Shared({})
    one.journal.confirm()
    topic_id = one.cluster.topics["t"].topic_id
    assert beginning(GROUP) == Shared({topic_id: SharedTopic("t", frozenset({0, 1}))})


def test_no_share_may_begin_while_shares_are_deleted_or_moved() -> None:
    one = circle()
    beginning, masters = one.coordinator.shares.beginning, one.cluster.share_masters
    one.entered("m", "t")
    one.beaten("m", -1)
    assert isinstance(beginning(GROUP), Shared)
    change = held(one)
    assert beginning(GROUP) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    change.end()
    assert isinstance(beginning(GROUP), Shared)
    masters.waiting = []
    outcomes = one.deleted()
    assert beginning(GROUP) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    masters.waiting.pop()(None)
    assert outcomes == [OK]
    assert beginning(GROUP) is ErrorCode.GROUP_ID_NOT_FOUND
