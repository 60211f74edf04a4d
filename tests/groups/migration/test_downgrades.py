"""A consumer group becomes a classic group again when its last member of KIP-848 has gone."""

from typing import Any

import pytest

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.config import MigrationPolicy
from penstock.groups.records import encode_group_key
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import SESSION_MS as NEW_SESSION_MS
from tests.groups.consumer.club import Club, Consumer
from tests.groups.migration.crew import ALL, GROUP, OK, Worker, kind, named, said, settle
from tests.groups.world import DELAY_MS, only

BUSY = ErrorCode.REBALANCE_IN_PROGRESS
RANGE = (("range", said("t")),)


def mixed(workers: int = 2, **settings: Any) -> tuple[Club, Consumer, list[Worker]]:
    """A group with one member of KIP-848 and some classic ones."""
    club = Club(**settings)
    club.cluster.create("t", 6)
    consumer = Consumer(club, "c", "t")
    crew = [Worker(club, f"w{number}", "t") for number in range(workers)]
    settle(consumer, *crew)
    return club, consumer, crew


def test_the_last_member_leaves_and_the_others_are_told_to_join_again() -> None:
    club, consumer, workers = mixed()
    had = {one.member_id: one.reads for one in workers}
    epoch = consumer.epoch
    assert only(consumer.leave()).error is OK
    assert kind(club) == "classic"
    group = club.classic()
    assert (group.generation, group.protocol_type, group.protocol_name) == (
        epoch,
        "consumer",
        "range",
    )
    assert {one: named(member.assignment) for one, member in group.members.items()} == had
    assert [club.beat(one.member_id, one.generation) for one in workers] == [BUSY, BUSY]
    settle(*workers)
    assert workers[0].reads | workers[1].reads == ALL
    assert workers[0].generation == epoch + 1


def test_the_conversion_is_one_write_that_leaves_one_record() -> None:
    club, consumer, _ = mixed()
    club.journal.is_prompt = False
    leaving = consumer.leave()
    assert len(club.journal.waiting) == 1
    assert kind(club) == "consumer"
    assert leaving == []
    club.journal.confirm()
    assert only(leaving).error is OK
    log = club.journal.logs[club.coordinator.partition_of(GROUP)]
    kept = {record[0] for record in dict(record[:2] for record in log).items() if record[1]}
    assert kept == {encode_group_key(GROUP)}


def test_a_coordinator_that_loads_the_converted_group_begins_the_rebalance() -> None:
    club, consumer, workers = mixed()
    consumer.leave()
    club.restart()
    assert club.state() == "PreparingRebalance"
    settle(*workers)
    assert workers[0].reads | workers[1].reads == ALL
    club.restart()
    assert club.state() == "Stable"


def test_a_silent_member_is_removed_and_the_group_is_classic() -> None:
    club, _, workers = mixed()
    for _ in range(10):
        club.pass_ms(NEW_SESSION_MS // 10 + 1)
        for one in workers:
            club.beat(one.member_id, one.generation)
    assert kind(club) == "classic"
    settle(*workers)
    assert workers[0].reads | workers[1].reads == ALL


def test_a_member_that_is_away_for_a_while_keeps_the_kind_of_the_group() -> None:
    club = Club()
    club.cluster.create("t", 6)
    static, worker = Consumer(club, "s", "t", instance_id="i"), Worker(club, "w", "t")
    settle(static, worker)
    static.leave(-2)
    assert kind(club) == "consumer"
    assert club.beat(worker.member_id, worker.generation) is OK


def test_a_static_member_that_comes_back_as_a_classic_one_is_the_last() -> None:
    club = Club()
    club.cluster.create("t", 6)
    static, worker = Consumer(club, "s", "t", instance_id="i"), Worker(club, "w", "t")
    settle(static, worker)
    back = Worker(club, "b", "t", instance="i")
    back.step()
    assert kind(club) == "classic"
    settle(worker, back)
    assert len(club.classic().members) == 2
    assert worker.reads | back.reads == ALL


def test_a_group_whose_only_member_comes_back_as_a_classic_one_begins_anew() -> None:
    club = Club()
    club.cluster.create("t", 6)
    static = Consumer(club, "s", "t", instance_id="i")
    settle(static)
    epoch = static.epoch
    only(club.commit({("t", 0): 7}, "s", epoch, is_by_epoch=True))
    back = Worker(club, "b", "t", instance="i")
    settle(back)
    assert kind(club) == "classic"
    assert back.reads == ALL
    assert back.generation == epoch + 1
    assert club.committed("t", 0) == 7


@pytest.mark.parametrize(
    ("policy", "may"),
    [
        (MigrationPolicy.BIDIRECTIONAL, True),
        (MigrationPolicy.DOWNGRADE, True),
        (MigrationPolicy.UPGRADE, False),
    ],
)
def test_the_policy_decides_whether_it_becomes_classic(
    *, policy: MigrationPolicy, may: bool
) -> None:
    club, consumer, workers = mixed(migration_policy=policy)
    consumer.leave()
    settle(*workers)
    assert kind(club) == ("classic" if may else "consumer")
    assert workers[0].reads | workers[1].reads == ALL
    if not may:
        settle(*workers, Consumer(club, "d", "t"))


def test_members_live_on_after_the_policy_was_changed() -> None:
    club, consumer, workers = mixed()
    club.config = type(club.config)(partition_count=4, migration_policy=MigrationPolicy.DISABLED)
    club.coordinator.use_config(club.config)
    consumer.leave()
    settle(*workers)
    assert kind(club) == "consumer"
    workers[0].leave()
    settle(workers[1])
    assert workers[1].reads == ALL


def test_a_group_that_nobody_stays_in_is_empty() -> None:
    club, consumer, workers = mixed(1)
    workers[0].leave()
    settle(consumer)
    consumer.leave()
    assert kind(club) == "consumer"
    assert club.described().state == "Empty"


def test_a_group_too_large_for_one_record_stays() -> None:
    club, consumer, workers = mixed(record_bytes_max=100)
    consumer.leave()
    settle(*workers)
    assert kind(club) == "consumer"
    assert workers[0].reads | workers[1].reads == ALL


def test_what_waits_behind_the_conversion_is_asked_of_the_classic_group() -> None:
    club, consumer, _ = mixed(1)
    club.journal.is_prompt = False
    consumer.leave()
    joining = club.join("w2", protocols=RANGE)
    unknown = club.join(instance="j", protocols=RANGE)
    entering = club.enter("d", "t")
    club.journal.confirm(1)
    assert only(joining).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert not unknown
    assert not entering
    club.journal.is_prompt = True
    club.journal.confirm()
    assert only(unknown).error is BUSY
    assert only(entering).error is OK
    assert kind(club) == "consumer"


def test_a_join_that_waits_is_parked_by_the_classic_group() -> None:
    club, consumer, (worker,) = mixed(1)
    club.journal.is_prompt = False
    consumer.leave()
    joining = club.join(worker.member_id, protocols=RANGE)
    club.journal.confirm(1)
    assert kind(club) == "classic"
    reply = only(joining)
    assert (reply.error, reply.leader_id) == (OK, worker.member_id)


def test_a_member_that_leaves_behind_the_conversion_is_not_waited_for() -> None:
    club, consumer, (first, second) = mixed()
    club.journal.is_prompt = False
    consumer.leave()
    left = club.leave((first.member_id, None))
    assert [one.error for one in left.members] == [OK]
    club.journal.confirm(1)
    club.journal.is_prompt = True
    club.journal.confirm()
    assert kind(club) == "classic"
    assert club.classic().members.keys() == {second.member_id}
    settle(second)
    assert second.reads == ALL


def test_a_join_in_the_same_batch_adds_one_member() -> None:
    club, consumer, (worker,) = mixed(1)
    club.journal.is_prompt = False
    club.enter("d", "t")  # a batch under way, behind which the others wait together
    consumer.leave()
    club.beat_as("d", -1)
    joining = club.join(client="late", protocols=RANGE)
    club.journal.confirm(1)
    club.journal.is_prompt = True
    club.journal.confirm()
    assert kind(club) == "classic"
    assert len(club.classic().members) == 2
    worker.is_in = False
    worker.step()
    club.pass_ms(DELAY_MS)
    assert only(joining).error is OK


def test_a_write_that_fails_leaves_the_group_as_it_was() -> None:
    club, consumer, workers = mixed()
    club.journal.refuses = Unwritten.FAILED
    assert only(consumer.leave()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    club.journal.refuses = None
    assert kind(club) == "consumer"
    assert [club.beat(one.member_id, one.generation) for one in workers] == [OK, OK]
    only(club.beat_as("c", -1))
    assert kind(club) == "classic"


def test_a_late_write_takes_effect_when_it_is_confirmed() -> None:
    club, consumer, workers = mixed()
    club.journal.is_prompt = False
    leaving = consumer.leave()
    club.journal.late()
    assert only(leaving).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert only(club.join(workers[0].member_id, protocols=RANGE)).error is again
    club.journal.confirm()
    club.journal.is_prompt = True
    assert kind(club) == "classic"
    settle(*workers)


def test_a_rewrite_finds_the_record_of_a_conversion_under_way() -> None:
    club, consumer, workers = mixed()
    club.journal.is_prompt = False
    consumer.leave()
    partition = club.coordinator.partition_of(GROUP)
    live = [record for some in club.coordinator.runtime.snapshot(partition) for record in some]
    club.journal.logs[partition] = live
    club.restart()
    club.journal.is_prompt = True
    assert kind(club) == "classic"
    settle(*workers)


def test_deadlines_of_the_consumer_group_end_with_it() -> None:
    club, consumer, workers = mixed()
    joins = [club.join(one.member_id, protocols=RANGE) for one in workers]
    assert all(only(each).error is OK for each in joins)  # each has to ask for its part now
    consumer.leave()
    settle(*workers)
    generation = workers[0].generation
    for _ in range(20):
        club.pass_ms(5_000)
        for one in workers:
            one.step()
    assert [one.generation for one in workers] == [generation, generation]
