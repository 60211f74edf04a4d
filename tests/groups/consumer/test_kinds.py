"""Groups of two kinds beside each other, and one that changes its kind while it is empty."""

import pytest

from penstock.coordinator.records import UnreadRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.assigned.names import Kind, RecordName, encode_name
from penstock.groups.records import TopicKey, encode_group_key
from penstock.groups.shard import RECORDS_TOGETHER
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import Club, Consumer, settle
from tests.groups.world import GROUP, only

OK = ErrorCode.NONE


def club() -> Club:
    club = Club(expiry_check_interval_ms=60_000)
    club.cluster.create("t", 2)
    return club


def types(club: Club) -> dict[str, tuple[str, str]]:
    listed = club.coordinator.reading.list_groups().groups
    return {each.group_id: (each.group_type, each.state) for each in listed}


def test_lists_tell_the_kinds_apart() -> None:
    one = club()
    one.entered("m", "t", group_id="new")
    one.stable()
    reading = one.coordinator.reading
    assert types(one) == {"new": ("consumer", "Stable"), GROUP: ("classic", "Stable")}
    for kind, group_id in (("consumer", "new"), ("Classic", GROUP)):
        (listed,) = reading.list_groups(types=[kind]).groups
        assert listed.group_id == group_id
    assert reading.describe("new").error is ErrorCode.GROUP_ID_NOT_FOUND
    described = one.described(GROUP)
    assert described.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a consumer group" in (described.message or "")
    assert "not found" in (one.described("none").message or "")


def test_a_group_with_members_keeps_its_kind() -> None:
    one = club()
    one.stable()
    refused = one.entered("m", "t")
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "another protocol" in (refused.message or "")
    one = club()
    one.entered("m", "t")
    assert only(one.join()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert one.beat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert only(one.sync("m", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_classic_group_becomes_a_consumer_group_with_its_positions() -> None:
    one = club()
    (member,) = one.stable()
    one.commit({("t", 0): 7}, member.member_id, member.generation)
    one.leave((member.member_id, None))
    assert one.entered("m", "t").error is OK
    for _ in range(2):
        assert types(one) == {GROUP: ("consumer", "Stable")}
        key = TopicKey("t", 0)
        committed = one.coordinator.reading.fetch_offsets(GROUP, [key]).offsets[key].committed
        assert committed is not None
        assert committed.offset == 7
        one.restart()


def test_an_empty_consumer_group_becomes_a_classic_one_with_its_positions() -> None:
    one = club()
    one.entered("m", "t")
    one.commit({("t", 0): 7}, "m", 1, is_by_epoch=True)
    only(one.beat_as("m", -1))
    one.stable()
    for _ in range(2):
        assert types(one) == {GROUP: ("classic", "Stable")}
        assert one.committed("t", 0) == 7
        one.restart()
    log = one.journal.logs[one.coordinator.partition_of(GROUP)]
    kept = {record[0]: record[1] for record in log}
    assert kept[encode_name(RecordName(Kind.GROUP, GROUP))] is None


def test_the_newer_kind_counts_if_the_older_ones_records_could_not_be_deleted() -> None:
    one = club()
    (member,) = one.stable()
    one.leave((member.member_id, None))
    one.journal.refuses = Unwritten.FAILED
    one.enter("m", "t")
    one.journal.refuses = None
    assert one.entered("m", "t").error is OK
    one.restart()
    assert types(one) == {GROUP: ("consumer", "Stable")}


def test_the_newer_kind_counts_the_other_way_round_too() -> None:
    one = club()
    one.entered("m", "t")
    only(one.beat_as("m", -1))
    one.journal.refuses = Unwritten.FAILED
    joining = one.join()
    one.journal.refuses = None
    one.pass_ms(5_000)
    member = only(joining)
    one.sync(member.member_id, member.generation, {member.member_id: b"all"})
    for _ in range(2):
        assert types(one) == {GROUP: ("classic", "Stable")}
        one.restart()


def test_a_record_under_way_when_a_group_changes_its_kind_is_deleted_behind_it() -> None:
    one = club()
    one.journal.is_prompt = False
    (member,) = one.joined()
    one.sync(member.member_id, member.generation, {member.member_id: b"all"})
    one.leave((member.member_id, None))
    one.pass_ms(5_000)
    assert one.journal.waiting
    one.enter("m", "t")
    one.journal.is_prompt = True
    one.journal.confirm()
    assert types(one) == {GROUP: ("consumer", "Stable")}
    log = one.journal.logs[one.coordinator.partition_of(GROUP)]
    assert {record[0]: record[1] for record in log}[encode_group_key(GROUP)] is None


def test_a_group_that_a_member_is_joining_is_not_empty() -> None:
    one = club()
    one.journal.is_prompt = False
    joining = one.enter("m", "t")
    outcomes: list[object] = []
    one.coordinator.delete_groups([GROUP], outcomes.append)
    assert outcomes == [{GROUP: ErrorCode.NON_EMPTY_GROUP}]
    assert only(one.join()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    one.journal.confirm()
    assert only(joining).error is OK


def test_deleting_an_empty_group_leaves_no_record() -> None:
    one = club()
    one.entered("m", "t", regex="t")
    outcomes: list[object] = []
    one.coordinator.delete_groups([GROUP], outcomes.append)
    assert outcomes == [{GROUP: ErrorCode.NON_EMPTY_GROUP}]
    only(one.beat_as("m", -1))
    one.coordinator.delete_groups([GROUP], outcomes.append)
    assert outcomes[1:] == [{GROUP: OK}]
    log = one.journal.logs[one.coordinator.partition_of(GROUP)]
    kept = {record[0]: record[1] for record in log}
    assert set(kept.values()) == {None}
    one.restart()
    assert types(one) == {}


def test_an_empty_group_without_positions_expires() -> None:
    one = club()
    one.entered("m", "t")
    one.pass_ms(120_000)
    assert types(one) == {}


def test_positions_of_a_subscribed_topic_are_not_deleted() -> None:
    one = club()
    one.entered("m", "t")
    one.commit({("t", 0): 7, ("u", 0): 8}, "m", 1, is_by_epoch=True)
    answers: list[object] = []
    keys = (TopicKey("t", 0), TopicKey("u", 0))
    one.coordinator.delete_offsets(GROUP, keys, answers.append)
    (answer,) = answers
    assert answer.partitions == {  # type: ignore[attr-defined]
        keys[0]: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        keys[1]: OK,
    }


@pytest.mark.parametrize("count", [3, 2 * RECORDS_TOGETHER // 3])
def test_a_rewrite_keeps_the_group(count: int) -> None:
    one = club()
    members = [Consumer(one, f"m{n}", "t", regex="t") for n in range(count)]
    settle(*members)
    before = one.described()
    assert len(one.members()) == count
    partition = one.coordinator.partition_of(GROUP)
    live = [record for some in one.coordinator.runtime.snapshot(partition) for record in some]
    one.journal.logs[partition] = live
    one.restart()
    assert one.described() == before


def test_what_a_later_version_said_is_kept_whole_and_used_as_far_as_it_is_known() -> None:
    one = club()
    one.entered("m", "t")
    partition = one.coordinator.partition_of(GROUP)
    key = encode_name(RecordName(Kind.GROUP, GROUP))
    later = bytes.fromhex("0000000000010101020304")
    broken = UnreadRecord(encode_name(RecordName(Kind.MEMBER, GROUP, "x")), b"\x00\x09?")
    one.journal.logs[partition] += [(key, later), broken]
    one.restart()
    assert one.described().epoch == 1
    assert [each.member_id for each in one.described().members] == ["m"]
    live = [record for some in one.coordinator.runtime.snapshot(partition) for record in some]
    assert UnreadRecord(key, later) in live
    assert broken in live


def test_a_partition_that_moves_away_answers_what_waits() -> None:
    one = club()
    one.journal.is_prompt = False
    first, second = one.enter("a", "t"), one.enter("b", "t")
    one.coordinator.runtime.unload(one.coordinator.partition_of(GROUP))
    one.journal.fail(Unwritten.OVERTAKEN)
    not_here = ErrorCode.NOT_COORDINATOR
    assert [only(each).error for each in (first, second)] == [not_here, not_here]
    assert one.coordinator.pinned_bytes == 0


def test_no_classic_record_is_left_when_a_group_changes_its_kind() -> None:
    one = club()
    (member,) = one.stable()
    one.leave((member.member_id, None))
    one.entered("m", "t")
    log = one.journal.logs[one.coordinator.partition_of(GROUP)]
    assert {record[0]: record[1] for record in log}[encode_group_key(GROUP)] is None
