"""Restarts, ownership of partitions, and rewrites."""

import pytest

from penstock.base.invariant import InvariantViolation
from penstock.coordinator import portions
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.config import GroupConfig
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.messages import OfferedProtocol
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import (
    GROUP,
    PARTITIONS,
    SESSION_MS,
    World,
    only,
)


def test_members_go_on_after_a_restart_without_a_rebalance() -> None:
    world = World()
    first, second = world.stable(2)
    world.commit({("t", 0): 5}, first.member_id, 1)
    world.restart()
    assert world.state() == "Stable"
    for member in (first.member_id, second.member_id):
        assert world.beat(member, 1) is ErrorCode.NONE
        assert only(world.sync(member, 1)).assignment == member.encode()
    assert only(world.commit({("t", 0): 6}, first.member_id, 1)) == {("t", 0): ErrorCode.NONE}
    assert world.committed() == 6


def test_members_that_did_not_survive_the_restart_expire() -> None:
    world = World()
    first, second = world.stable(2)
    world.restart()
    world.pass_ms(SESSION_MS - 1)
    world.beat(first.member_id, 1)
    world.pass_ms(1)
    assert world.beat(second.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert only(world.join(first.member_id)).generation == 2


def test_a_restart_amid_a_rebalance_goes_back_to_the_last_generation() -> None:
    world = World()
    member = world.stable()[0].member_id
    world.join(client="new")
    world.join(member)
    assert world.state() == "CompletingRebalance"
    world.restart()
    assert world.beat(member, 1) is ErrorCode.NONE
    assert world.beat(member, 2) is ErrorCode.ILLEGAL_GENERATION


def test_a_loading_partition_asks_for_patience() -> None:
    world = World()
    coordinator = GroupCoordinator(
        world.clock,
        world.journal,
        config=world.config,
        new_suffix=lambda: "x",
        cluster=world.cluster,
    )
    world.coordinator = coordinator
    assert only(world.join()).error is ErrorCode.NOT_COORDINATOR
    for partition in range(PARTITIONS):
        coordinator.runtime.begin_loading(partition)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert only(world.join()).error is loading
    assert only(world.commit({("t", 0): 1})) == {("t", 0): loading}
    assert coordinator.reading.fetch_offsets("orders", None).error is loading
    assert coordinator.reading.describe("orders").error is loading
    assert coordinator.reading.list_groups().error is loading
    assert world.leave(("m", None)).error is loading
    # Older clients do not expect that code in these two answers.
    assert only(world.sync("m", 1)).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.beat("m", 1) is ErrorCode.NONE
    for partition in range(PARTITIONS):
        coordinator.runtime.finish_loading(partition)
    assert coordinator.reading.list_groups().error is ErrorCode.NONE
    assert world.join() == []


def test_giving_a_partition_up_answers_everybody_and_forgets_the_groups() -> None:
    world = World()
    first, second = world.joined(2)
    syncing = world.sync(second.member_id, 1)
    other = world.join(group="elsewhere")
    partition = world.coordinator.partition_of("orders")
    assert partition != world.coordinator.partition_of("elsewhere")
    world.coordinator.runtime.unload(partition)
    assert only(syncing).error is ErrorCode.NOT_COORDINATOR
    assert world.beat(first.member_id, 1) is ErrorCode.NOT_COORDINATOR
    assert other == []
    world.pass_ms(10_000)
    assert only(other).error is ErrorCode.NONE


def test_groups_that_are_half_made_cost_nothing_once_their_partition_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(portions, "PORTION", 1)
    world = World(has_turns=True, partition_count=1)
    for number in range(50):
        world.commit({("t", 0): 1}, group=f"g{number}")
        world.all_turns()
    world.coordinator.runtime.unload(0)
    world.all_turns()
    assert world.coordinator.pinned_bytes == 0
    world.load(0)
    while not world.coordinator.pinned_bytes:
        world.turn()
    assert world.coordinator.is_loading, "some are made, and nobody sees them"
    world.coordinator.runtime.unload(0)
    world.all_turns()
    assert world.coordinator.pinned_bytes == 0


def test_a_commit_confirmed_after_its_partition_was_given_up_is_answered() -> None:
    world = World()
    world.journal.is_prompt = False
    answers = world.commit({("t", 0): 1})
    world.coordinator.runtime.unload(world.coordinator.partition_of("orders"))
    world.journal.confirm()
    assert only(answers) == {("t", 0): ErrorCode.NONE}


def test_a_group_loaded_over_its_size_limit_rebalances() -> None:
    world = World()
    first, _second = world.stable(2)
    world.config = GroupConfig(
        partition_count=PARTITIONS, initial_rebalance_delay_ms=0, group_size_max=1
    )
    world.restart()
    assert world.beat(first.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def rewrite(world: World, group: str = "orders") -> None:
    """What the owner does: append everything live, then cut what is older."""
    partition = world.coordinator.partition_of(group)
    log = world.journal.logs[partition]
    start = len(log)
    for records in world.coordinator.runtime.snapshot(partition):
        log.extend(records)
    del log[:start]
    world.coordinator.runtime.rewritten(partition, 1)


def test_a_rewrite_keeps_everything_that_lives_and_nothing_else() -> None:
    world = World()
    members = world.stable(2)
    for offset in range(50):
        world.commit({("t", 0): offset, ("gone", 0): 1}, members[0].member_id, 1)
    world.coordinator.on_topics_deleted({"gone": bytes(16)})
    rewrite(world)
    assert len(world.journal.logs[world.coordinator.partition_of("orders")]) == 2
    world.restart()
    assert world.all_committed() == {("t", 0): 49}
    assert world.beat(members[1].member_id, 1) is ErrorCode.NONE


def test_a_rewrite_does_not_undo_a_commit_that_is_under_way() -> None:
    world = World()
    world.commit({("t", 0): 1})
    world.journal.is_prompt = False
    answers = world.commit({("t", 0): 2})
    rewrite(world)
    world.journal.confirm()
    assert only(answers) == {("t", 0): ErrorCode.NONE}
    world.restart()
    assert world.committed() == 2


def test_a_commit_between_two_groups_of_a_rewrite_is_kept() -> None:
    world = World(partition_count=1)
    world.journal.partition_count = 1
    for group in ("a", "b"):
        world.commit({("t", 0): 1}, group=group)
    log = world.journal.logs[0]
    start = len(log)
    for records in world.coordinator.runtime.snapshot(0):
        log.extend(records)
        for group in ("a", "b"):
            world.commit({("t", 0): 2}, group=group)
    del log[:start]
    world.restart()
    assert [world.committed(group=group) for group in ("a", "b")] == [2, 2]


def test_a_rewrite_is_due_when_the_log_grew_enough() -> None:
    world = World(rewrite_after_bytes=2_000)
    partition = world.coordinator.partition_of("orders")
    while not world.coordinator.runtime.base.rewrites.due():
        world.commit({("t", 0): 1})
    assert world.coordinator.runtime.base.rewrites.due() == (partition,)
    size = sum(
        len(key or b"") + len(value or b"") for key, value, *_ in world.journal.logs[partition]
    )
    assert 1_000 < size < 2_000
    world.coordinator.runtime.rewritten(partition, 100)
    assert world.coordinator.runtime.base.rewrites.due() == ()


def test_a_partition_that_is_not_loaded_is_never_rewritten() -> None:
    world = World(rewrite_after_bytes=1)
    world.commit({("t", 0): 1})
    partition = world.coordinator.partition_of("orders")
    world.coordinator.runtime.unload(partition)
    world.coordinator.runtime.begin_loading(partition)
    for record in world.journal.logs[partition]:
        world.coordinator.runtime.load(partition, record)
    assert world.coordinator.runtime.base.rewrites.due() == ()
    with pytest.raises(InvariantViolation):
        world.coordinator.runtime.snapshot(partition)
    world.coordinator.runtime.finish_loading(partition)
    assert world.coordinator.runtime.base.rewrites.due() == (partition,)
    assert len([*world.coordinator.runtime.snapshot(partition)]) == 1


def test_a_rewrite_waits_until_as_much_was_appended_as_is_live() -> None:
    world = World(rewrite_after_bytes=10)
    world.coordinator.runtime.rewritten(world.coordinator.partition_of("orders"), 100_000)
    world.commit({("t", 0): 1})
    assert world.coordinator.runtime.base.rewrites.due() == ()


def test_only_the_elected_protocol_survives_a_restart_as_in_kafka() -> None:
    world = World()
    world.stable(protocols=(("range", b"r"), ("sticky", b"s")))
    world.restart()
    group = world.classic()
    (member,) = group.members.values()
    assert member.protocols == (OfferedProtocol("range", b"r"),)


def test_the_internal_topics_own_number_of_partitions_counts() -> None:
    world = World()
    coordinator = GroupCoordinator(
        world.clock,
        world.journal,
        config=world.config,
        new_suffix=lambda: "x",
        cluster=world.cluster,
    )
    coordinator.runtime.base.partitions.use_count(PARTITIONS + 3)
    coordinator.runtime.begin_loading(PARTITIONS + 2)
    assert {coordinator.partition_of(f"g{n}") for n in range(200)} == {*range(PARTITIONS + 3)}
    coordinator.runtime.base.partitions.use_count(PARTITIONS + 3)
    with pytest.raises(InvariantViolation):
        coordinator.runtime.base.partitions.use_count(PARTITIONS)


def test_a_rewrite_knows_nothing_of_a_group_whose_record_was_refused() -> None:
    world = World()
    member = world.stable()[0].member_id
    world.journal.refuses = Unwritten.OVERTAKEN
    world.leave((member, None))
    partition = world.coordinator.partition_of(GROUP)
    kept = [record for batch in world.coordinator.runtime.snapshot(partition) for record in batch]
    world.journal.refuses = None
    world.journal.logs[partition][:] = kept
    world.restart()
    assert world.beat(member, 1) is ErrorCode.NONE
