"""Committed offsets."""

from dataclasses import replace

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.messages import DeleteOffsetsReply
from penstock.groups.records import TopicKey
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import SESSION_MS, World, only, subscription

T0 = {("t", 0): 42}


def error_of(answers: list[dict[TopicKey, ErrorCode]]) -> ErrorCode:
    (error,) = only(answers).values()
    return error


def test_a_member_commits_and_everybody_reads_it() -> None:
    world = World()
    member = world.stable()[0].member_id
    assert error_of(world.commit(T0, member, 1)) is ErrorCode.NONE
    assert world.committed() == 42
    assert world.committed(partition=1) is None
    assert world.all_committed() == {("t", 0): 42}


def test_a_commit_is_answered_and_seen_only_when_it_is_durable() -> None:
    world = World()
    world.journal.is_prompt = False
    answers = world.commit(T0)
    assert (answers, world.committed()) == ([], None)
    world.journal.confirm()
    assert (error_of(answers), world.committed()) == (ErrorCode.NONE, 42)


def test_stale_and_unknown_members_can_not_commit() -> None:
    world = World()
    member = world.stable()[0].member_id
    assert error_of(world.commit(T0, member, 0)) is ErrorCode.ILLEGAL_GENERATION
    assert error_of(world.commit(T0, member, 2)) is ErrorCode.ILLEGAL_GENERATION
    assert error_of(world.commit(T0, "ghost", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(world.commit(T0)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.all_committed() == {}


def test_a_generation_without_its_group_is_illegal() -> None:
    assert error_of(World().commit(T0, "m", 3)) is ErrorCode.ILLEGAL_GENERATION


def test_commits_are_taken_while_a_rebalance_is_prepared_but_not_while_it_completes() -> None:
    world = World()
    member = world.stable()[0].member_id
    world.join(client="new")
    assert error_of(world.commit(T0, member, 1)) is ErrorCode.NONE
    world.join(member)
    assert world.state() == "CompletingRebalance"
    assert error_of(world.commit(T0, member, 2)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert error_of(world.commit(T0, member, 1)) is ErrorCode.ILLEGAL_GENERATION


def test_a_commit_keeps_its_member_alive() -> None:
    world = World()
    member = world.stable()[0].member_id
    for _ in range(3):
        world.pass_ms(SESSION_MS - 1)
        assert error_of(world.commit(T0, member, 1)) is ErrorCode.NONE


def test_a_commit_without_group_protocol_makes_a_simple_group() -> None:
    world = World()
    assert error_of(world.commit(T0, group="tool")) is ErrorCode.NONE
    assert world.state("tool") == "Empty"
    assert error_of(world.commit(T0, group="")) is ErrorCode.NONE
    assert world.committed(group="") == 42


def test_limits_that_change_while_the_coordinator_runs_count_from_then_on() -> None:
    world = World(offset_metadata_bytes_max=4)
    assert error_of(world.commit(T0, metadata="12345")) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    now = world.coordinator.config
    world.coordinator.use_config(replace(now, offset_metadata_bytes_max=5, groups_max=1))
    assert error_of(world.commit(T0, metadata="12345")) is ErrorCode.NONE
    assert error_of(world.commit(T0, group="second")) is not ErrorCode.NONE


def test_offset_metadata_over_the_limit_is_refused_for_its_partition() -> None:
    world = World(offset_metadata_bytes_max=4)
    assert error_of(world.commit(T0, metadata="12345")) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert error_of(world.commit(T0, metadata="\u00e9\u00e9\u00e9")) is (
        ErrorCode.OFFSET_METADATA_TOO_LARGE
    )
    assert world.committed() is None
    assert error_of(world.commit(T0, metadata="1234")) is ErrorCode.NONE


def test_journal_errors_reach_the_client_in_words_it_knows() -> None:
    world = World()
    for theirs, ours in (
        (Unwritten.OVERTAKEN, ErrorCode.NOT_COORDINATOR),
        (Unwritten.LATE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (Unwritten.FAILED, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (Unwritten.TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ):
        world.journal.refuses = theirs
        assert error_of(world.commit(T0)) is ours
    assert world.committed() is None
    assert world.coordinator.counters.journal_errors == 4


def test_writes_under_way_are_bounded() -> None:
    world = World(writes_in_flight_max=2)
    world.journal.is_prompt = False
    assert world.commit(T0) == world.commit(T0) == []
    assert error_of(world.commit(T0)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.journal.confirm()
    assert world.commit(T0) == []


def test_require_stable_names_partitions_with_a_commit_under_way() -> None:
    world = World()
    world.commit(T0)
    world.journal.is_prompt = False
    world.commit({("t", 0): 50})
    key = TopicKey("t", 0)
    fetch = world.coordinator.reading.fetch_offsets
    assert fetch("orders", [key], require_stable=True).offsets[key].error is (
        ErrorCode.UNSTABLE_OFFSET_COMMIT
    )
    assert world.committed() == 42
    world.journal.confirm()
    assert fetch("orders", [key], require_stable=True).offsets[key].error is ErrorCode.NONE


def test_fetching_from_an_unknown_group_finds_nothing() -> None:
    world = World()
    assert world.committed(group="nothing") is None
    assert world.all_committed("nothing") == {}


def test_positions_can_be_rewound() -> None:
    world = World()
    world.commit(T0)
    world.commit({("t", 0): 7})
    assert world.committed() == 7


def test_deleted_topics_take_their_offsets_along_durably() -> None:
    world = World()
    world.commit({("t", 0): 1, ("t", 1): 2, ("u", 0): 3})
    world.coordinator.on_topics_deleted({"t": bytes(16)})
    assert world.all_committed() == {("u", 0): 3}
    world.restart()
    assert world.all_committed() == {("u", 0): 3}


def test_a_commit_under_way_goes_with_its_deleted_topic() -> None:
    world = World()
    world.journal.is_prompt = False
    world.commit(T0)
    world.coordinator.on_topics_deleted({"t": bytes(16)})
    world.journal.confirm()
    assert world.all_committed() == {}
    world.restart()
    assert world.all_committed() == {}


def test_a_commit_after_a_topic_was_recreated_survives_the_old_ones_tombstone() -> None:
    world = World()
    world.commit(T0)
    world.journal.is_prompt = False
    world.coordinator.on_topics_deleted({"t": bytes(16)})
    world.commit({("t", 0): 1})
    world.journal.confirm()
    assert world.committed() == 1
    world.restart()
    assert world.committed() == 1


def delete_offsets(world: World, *keys: tuple[str, int]) -> tuple[ErrorCode, list[ErrorCode]]:
    replies: list[DeleteOffsetsReply] = []
    world.coordinator.delete_offsets("orders", tuple(TopicKey(*k) for k in keys), replies.append)
    reply = only(replies)
    return reply.error, [*reply.partitions.values()]


def test_offsets_of_an_empty_group_can_be_deleted() -> None:
    world = World()
    world.commit({("t", 0): 1, ("t", 1): 2})
    assert delete_offsets(world, ("t", 0), ("x", 9)) == (ErrorCode.NONE, [ErrorCode.NONE] * 2)
    world.restart()
    assert world.all_committed() == {("t", 1): 2}


def test_a_commit_under_way_is_deleted_with_what_was_asked_for_after_it() -> None:
    world = World()
    world.commit({("u", 0): 1})
    world.journal.is_prompt = False
    world.commit(T0)
    replies: list[DeleteOffsetsReply] = []
    world.coordinator.delete_offsets("orders", (TopicKey("t", 0),), replies.append)
    world.journal.confirm()
    assert only(replies).error is ErrorCode.NONE
    world.restart()
    assert world.all_committed() == {("u", 0): 1}


def test_offsets_of_subscribed_topics_are_kept() -> None:
    world = World()
    member = world.stable(protocols=(("range", subscription("t")),))[0].member_id
    world.commit({("t", 0): 1, ("u", 0): 2}, member, 1)
    assert delete_offsets(world, ("t", 0), ("u", 0)) == (
        ErrorCode.NONE,
        [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE],
    )
    assert world.all_committed() == {("t", 0): 1}


def test_a_subscription_that_can_not_be_read_protects_every_topic() -> None:
    world = World()
    member = world.stable(protocols=(("range", b"\x00"),))[0].member_id
    world.commit(T0, member, 1)
    assert delete_offsets(world, ("t", 0))[1] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_offsets_of_unknown_groups_and_of_other_protocols_are_not_deleted() -> None:
    world = World()
    assert delete_offsets(world, ("t", 0))[0] is ErrorCode.GROUP_ID_NOT_FOUND
    world.stable(protocol_type="connect")
    assert delete_offsets(world, ("t", 0))[0] is ErrorCode.NON_EMPTY_GROUP


def test_a_commit_whose_time_is_up_counts_once_the_journal_has_it_after_all() -> None:
    world = World()
    world.journal.is_prompt = False
    answers = world.commit(T0)
    world.journal.waiting[0](Unwritten.LATE)
    assert error_of(answers) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.committed() is None
    world.journal.confirm()
    assert len(answers) == 1
    assert world.committed() == 42


def test_a_commit_whose_time_is_up_and_that_is_lost_is_forgotten() -> None:
    world = World()
    world.journal.is_prompt = False
    answers = world.commit(T0)
    world.journal.waiting[0](Unwritten.LATE)
    world.journal.fail(Unwritten.OVERTAKEN)
    assert len(answers) == 1
    assert world.committed() is None
