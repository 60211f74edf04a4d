"""Members of share groups: who comes, goes and is lost, and what each is told."""

import pytest

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.assigned.batches import RETRY_MS
from penstock.groups.assigned.topics import COMPARE_MS
from penstock.groups.context import PROMPT_INTERVAL_MS
from penstock.protocol.error_codes import ErrorCode
from tests.groups.share.circle import SESSION_MS, Circle, Sharer, settle
from tests.groups.world import GROUP, only

OK = ErrorCode.NONE


def circle(**settings: int) -> Circle:
    made = Circle(has_turns=False, **{"expiry_check_interval_ms": 60_000, **settings})
    made.cluster.create("t", 2)
    made.cluster.create("u", 1)
    return made


def test_a_member_gets_all_partitions_of_its_topics() -> None:
    one = circle()
    answer = one.entered("m", "t", "u")
    assert (answer.error, answer.member_id, answer.member_epoch) == (OK, "m", 1)
    assert one.names(answer.assignment) == {("t", 0), ("t", 1), ("u", 0)}
    assert answer.heartbeat_interval_ms == PROMPT_INTERVAL_MS


def test_what_has_not_changed_is_not_told_again() -> None:
    one = circle()
    one.entered("m", "t")
    written = len(one.journal.logs[one.coordinator.partition_of(GROUP)])
    answer = one.beaten("m", 1)
    assert (answer.member_epoch, answer.assignment) == (1, None)
    assert one.beaten("m", 1, topics=("t",)).assignment is None
    assert len(one.journal.logs[one.coordinator.partition_of(GROUP)]) == written


def test_members_share_partitions_and_nobody_waits_for_another() -> None:
    one = circle()
    one.entered("a", "t")
    for name in "bc":
        answer = one.entered(name, "t")
        assert len(one.names(answer.assignment)) >= 1
    settled = {name: one.beaten(name, epoch) for name, epoch in (("a", 1), ("b", 2), ("c", 3))}
    assert {each.member_epoch for each in settled.values()} == {3}
    assert one.described().state == "Stable"
    shared = [each for m in one.described().members for each in one.names(m.assigned)]
    assert sorted(shared) == [("t", 0), ("t", 0), ("t", 1), ("t", 1)]


def test_a_member_that_joins_again_is_told_everything() -> None:
    one = circle()
    one.entered("m", "t")
    answer = one.entered("m", "t")
    assert answer.member_epoch == 1
    assert one.names(answer.assignment) == {("t", 0), ("t", 1)}
    assert one.members() == ["m"]


def test_an_answer_that_was_lost_is_given_again() -> None:
    one = circle()
    one.entered("a", "t")
    one.entered("b", "t")
    lost = one.beaten("a", 1)
    assert (lost.member_epoch, len(one.names(lost.assignment))) == (2, 1)
    again = one.beaten("a", 1)
    assert (again.error, again.member_epoch) == (OK, 2)
    assert again.assignment == lost.assignment


@pytest.mark.parametrize("epoch", [1, 4])
def test_a_member_of_another_epoch_is_fenced(epoch: int) -> None:
    one = circle()
    one.entered("a", "t")
    one.entered("b", "t")
    one.entered("c", "t")
    assert one.beaten("a", 1).member_epoch == 3
    one.entered("d", "t")
    assert one.beaten("a", 3).member_epoch == 4
    fenced = one.beaten("a", epoch + (epoch == 4))
    assert fenced.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert "must join again" in (fenced.message or "")


def test_strangers_are_unknown() -> None:
    one = circle()
    assert one.beaten("m", 1).error is ErrorCode.GROUP_ID_NOT_FOUND
    one.entered("a", "t")
    for epoch in (1, -1):
        assert one.beaten("m", epoch).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert not one.cluster.share_masters.left


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"member_id": " "}, "MemberId"),
        ({"epoch": -2}, "MemberEpoch"),
        ({"topics": None}, "SubscribedTopicNames"),
        ({"topics": ()}, "SubscribedTopicNames"),
        ({"rack_id": ""}, "RackId"),
        ({"member_id": "m" * 250}, "member_id"),
        ({"rack_id": "r" * 250}, "rack_id"),
        ({"topics": ("t" * 70_000,)}, "topics of 70000 bytes"),
    ],
)
def test_what_says_too_little_or_too_much_is_refused(said: dict[str, object], text: str) -> None:
    one = circle()
    fields: dict[str, object] = {"member_id": "m", "epoch": 0, "topics": ("t",), **said}
    member_id, epoch = fields.pop("member_id"), fields.pop("epoch")
    answer = only(one.beat_as(member_id, epoch, **fields))  # type: ignore[arg-type]
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert text in (answer.message or "")


def test_other_topics_give_other_partitions() -> None:
    one = circle()
    one.entered("m", "t")
    answer = one.beaten("m", 1, topics=("u",))
    assert answer.member_epoch == 2
    assert one.names(answer.assignment) == {("u", 0)}
    assert one.beaten("m", 2, topics=()).assignment == {}


def test_a_new_rack_or_client_is_kept_and_changes_no_epoch() -> None:
    one = circle()
    one.entered("m", "t")
    assert one.beaten("m", 1, rack_id="r").member_epoch == 1
    (member,) = one.described().members
    assert (member.rack_id, member.client_id, member.topics) == ("r", "client-m", ("t",))


def test_topics_that_appear_and_grow_are_assigned_soon() -> None:
    one = circle()
    one.entered("m", "t", "new")
    one.cluster.create("new", 1)
    one.cluster.create("t", 3)
    one.pass_ms(COMPARE_MS)
    answer = one.beaten("m", 1)
    assert one.names(answer.assignment) == {("t", 0), ("t", 1), ("t", 2), ("new", 0)}
    assert one.shared() == one.names(answer.assignment)


def test_a_topic_that_grows_while_it_is_looked_at_is_looked_at_again() -> None:
    one = circle()
    one.cluster.when_found = lambda: one.cluster.create("t", 4)
    first = one.entered("m", "t")
    assert len(one.names(first.assignment)) == 2
    one.pass_ms(COMPARE_MS)
    later = one.beaten("m", first.member_epoch)
    assert one.names(later.assignment) == {("t", number) for number in range(4)}


def test_a_deleted_topic_is_given_up_and_has_no_share_any_more() -> None:
    one = circle()
    one.entered("m", "t", "u")
    one.cluster.delete("u")
    one.pass_ms(COMPARE_MS)
    assert one.names(one.beaten("m", 1).assignment) == {("t", 0), ("t", 1)}
    assert one.shared() == {("t", 0), ("t", 1)}


def test_a_topic_made_anew_is_another_one() -> None:
    one = circle()
    one.entered("m", "u")
    facts = one.cluster.topics["u"]._replace(topic_id=b"another-topic-u-")
    one.cluster.topics["u"] = facts
    one.cluster.version += 1
    one.pass_ms(COMPARE_MS)
    answer = one.beaten("m", 1)
    assert answer.assignment == {facts.topic_id: frozenset({0})}
    assert one.group().shared.partitions == answer.assignment


def test_racks_of_replicas_move_nothing() -> None:
    one = circle()
    one.entered("m", "t")
    one.cluster.create("t", 2, [frozenset("a"), frozenset("b")])
    one.pass_ms(COMPARE_MS)
    assert one.beaten("m", 1).member_epoch == 1


def test_what_was_assigned_may_have_a_share_until_it_is_deleted() -> None:
    one = circle()
    one.entered("m", "t")
    one.beaten("m", 1, topics=("u",))
    one.beaten("m", -1)
    for _ in range(2):
        assert one.shared() == {("t", 0), ("t", 1), ("u", 0)}
        one.restart()


def test_what_a_member_that_leaves_held_is_released() -> None:
    one = circle()
    one.entered("a", "t")
    one.entered("b", "t")
    answer = one.beaten("a", -1)
    assert (answer.error, answer.member_epoch) == (OK, -1)
    ((group_id, member_id, partitions),) = one.cluster.share_masters.left
    assert (group_id, member_id, one.names(partitions)) == (GROUP, "a", {("t", 0), ("t", 1)})
    assert one.members() == ["b"]
    assert one.names(one.beaten("b", 2).assignment) == {("t", 0), ("t", 1)}


def test_what_a_member_held_is_released_once() -> None:
    """Also where the next batch has nothing to write."""
    one = circle()
    one.entered("m", "t")
    one.journal.is_prompt = False
    one.beat_as("m", -1)
    stranger = one.beat_as("stranger", 5)
    one.journal.confirm()
    assert only(stranger).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(one.cluster.share_masters.left) == 1


def test_nothing_is_released_before_the_leave_is_durable() -> None:
    one = circle()
    one.entered("m", "t")
    one.journal.is_prompt = False
    leaving = one.beat_as("m", -1)
    assert (leaving, one.cluster.share_masters.left) == ([], [])
    one.journal.confirm()
    assert only(leaving).error is OK
    assert len(one.cluster.share_masters.left) == 1


def test_nothing_is_released_of_a_member_whose_leave_was_not_written() -> None:
    one = circle()
    one.entered("m", "t")
    one.journal.refuses = Unwritten.FAILED
    assert one.beaten("m", -1).error is not OK
    assert not one.cluster.share_masters.left
    assert one.members() == ["m"]


def test_a_silent_member_is_removed_and_what_it_held_released() -> None:
    one = circle()
    one.entered("a", "t")
    one.pass_ms(SESSION_MS // 2)
    one.entered("b", "t")
    one.pass_ms(SESSION_MS // 2 + 1)
    assert one.members() == ["b"]
    assert [each[1] for each in one.cluster.share_masters.left] == ["a"]
    assert one.coordinator.counters.members_expired == 1


def test_a_heartbeat_keeps_a_member_alive() -> None:
    one = circle()
    one.entered("m", "t")
    for _ in range(3):
        one.pass_ms(SESSION_MS - 1)
        assert one.beaten("m", 1).error is OK
    assert one.members() == ["m"]


def test_sessions_begin_anew_after_a_restart() -> None:
    one = circle()
    one.entered("m", "t")
    one.pass_ms(SESSION_MS - 1)
    one.restart()
    one.pass_ms(SESSION_MS - 1)
    assert one.members() == ["m"]
    one.pass_ms(2)
    assert one.members() == []


def test_a_removal_that_was_not_written_is_tried_again() -> None:
    one = circle()
    one.entered("m", "t")
    one.journal.refuses = Unwritten.FAILED
    one.pass_ms(SESSION_MS + 1)
    one.journal.refuses = None
    one.pass_ms(RETRY_MS + 1)
    assert one.members() == []


def test_the_times_are_those_of_the_group_then_those_of_the_broker() -> None:
    one = circle(share_session_timeout_ms=20_000, share_heartbeat_interval_ms=700)
    one.cluster.keys["own"] = {
        "share.session.timeout.ms": "50000",
        "share.heartbeat.interval.ms": "6000",
    }
    assert one.entered("m", "t").heartbeat_interval_ms == 700
    assert one.entered("m", "t", group_id="own").heartbeat_interval_ms == 6_000
    one.pass_ms(20_001)
    assert one.described().state == "Empty"
    one.pass_ms(29_998)
    assert one.described("own").state == "Stable"
    one.pass_ms(2)
    assert one.described("own").state == "Empty"


def test_keys_of_consumer_groups_mean_nothing_to_share_groups() -> None:
    one = circle()
    one.cluster.keys[GROUP] = {"consumer.heartbeat.interval.ms": "9000"}
    assert one.entered("m", "t").heartbeat_interval_ms == PROMPT_INTERVAL_MS


def test_a_group_has_a_largest_size() -> None:
    one = circle(share_group_size_max=2)
    one.entered("a", "t")
    one.entered("b", "t")
    refused = one.entered("c", "t")
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "2 members" in (refused.message or "")
    assert one.entered("a", "t").error is OK
    one.beaten("b", -1)
    assert one.entered("c", "t").error is OK


def test_new_members_wait_for_memory_and_old_ones_stay() -> None:
    one = circle(members_bytes_max=8_000)
    assert one.entered("a", "t").error is OK
    refused = one.entered("b", "t" * 3_000)
    assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert one.beaten("a", 1).error is OK
    assert one.coordinator.counters.joins_put_off == 1


def test_names_of_topics_count_as_the_objects_that_they_are() -> None:
    one = circle()
    names = [f"t{number}" for number in range(1_000)]
    one.entered("a", "t")
    before = one.coordinator.pinned_bytes
    one.entered("b", *names)
    after = one.coordinator.pinned_bytes
    assert after - before >= 50 * len(names)
    assert one.beaten("b", -1).error is OK
    assert one.coordinator.pinned_bytes <= before + 100


def test_there_are_at_most_so_many_groups() -> None:
    one = circle(groups_max=1)
    one.entered("m", "t")
    assert one.entered("m", "t", group_id="other").error is ErrorCode.POLICY_VIOLATION


def test_a_second_heartbeat_takes_the_place_of_the_first() -> None:
    one = circle()
    one.journal.is_prompt = False
    one.enter("a", "t")
    first = one.enter("b", "t")
    second = one.enter("b", "t")
    assert only(first).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    one.journal.is_prompt = True
    one.journal.confirm()
    assert only(second).error is OK


def test_a_join_that_was_not_written_leaves_no_group() -> None:
    one = circle()
    one.journal.refuses = Unwritten.FAILED
    assert one.entered("m", "t").error is not OK
    assert one.described().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert one.coordinator.pinned_bytes == 0


def test_members_that_join_at_once_are_decided_together() -> None:
    one = circle()
    one.journal.is_prompt = False
    joins = [one.enter(f"m{n}", "t") for n in range(50)]
    one.journal.is_prompt = True
    one.journal.confirm()
    assert {only(each).error for each in joins} == {OK}
    assert one.described().epoch == 2
    assert one.coordinator.counters.share_rebalances == 2


def test_clients_come_to_rest() -> None:
    one = circle()
    sharers = [Sharer(one, "a", "t"), Sharer(one, "b", "t", "u"), Sharer(one, "c", "u")]
    settle(*sharers)
    assert set().union(*(each.reads for each in sharers)) == {("t", 0), ("t", 1), ("u", 0)}
    assert all(each.reads for each in sharers)
