"""Classic members in a consumer group: each request, each refusal, each deadline."""

from typing import Any

from penstock.groups.assigned.currents import MemberState
from penstock.groups.config import MigrationPolicy
from penstock.groups.migration.consumer_protocol import read_assignment
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import Club, Consumer
from tests.groups.migration.crew import ALL, OK, Worker, kind, named, said, settle
from tests.groups.world import REBALANCE_MS, SESSION_MS, only

BUSY = ErrorCode.REBALANCE_IN_PROGRESS
RANGE = (("range", said("t")),)
HEARTBEAT_MS = 5_000


def mixed(*, is_eager: bool = True, **settings: Any) -> tuple[Club, Consumer, Worker]:
    """A group with a member of each protocol, each with half of the partitions."""
    club = Club(**settings)
    club.cluster.create("t", 6)
    consumer, worker = Consumer(club, "c", "t"), Worker(club, "w", "t", is_eager=is_eager)
    settle(consumer, worker)
    return club, consumer, worker


def test_a_join_is_answered_by_a_generation_without_a_leader() -> None:
    club, _, _ = mixed()
    asked = only(club.join(id_required=True, protocols=RANGE))
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    before = club.group().epoch
    reply = only(club.join(asked.member_id, protocols=RANGE))
    assert (reply.error, reply.member_id) == (OK, asked.member_id)
    assert (reply.generation, reply.leader_id, tuple(reply.members)) == (before + 1, "", ())
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")


def test_a_sync_is_answered_in_the_version_of_the_members_subscription() -> None:
    for version in (0, 1, 2, 3, 9):
        club = Club()
        club.cluster.create("t", 2)
        club.entered("c", "t")
        metadata = said("t", version=min(version, 3))
        metadata = version.to_bytes(2, "big") + metadata[2:]
        reply = only(club.join(protocols=(("range", metadata),)))
        only(club.beat_as("c", 1, owned={}))
        reply = only(club.join(reply.member_id, protocols=(("range", metadata),)))
        synced = only(club.sync(reply.member_id, reply.generation))
        assert synced.error is OK
        assert int.from_bytes(synced.assignment[:2], "big") == min(version, 3)
        assert len(named(synced.assignment)) == 1
        assert not read_assignment(synced.assignment).has_user_data


def test_who_is_refused() -> None:
    club, _, worker = mixed()
    member_id, generation = worker.member_id, worker.generation
    unknown, illegal = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert club.beat("nobody", generation) is unknown
    assert club.beat("c", generation) is unknown
    assert club.beat(member_id, generation - 1) is illegal
    assert club.beat(member_id, generation, instance="i") is unknown
    assert only(club.sync("c", generation)).error is unknown
    assert only(club.sync(member_id, generation + 1)).error is illegal
    wrongs: tuple[dict[str, Any], ...] = ({"protocol_name": "other"}, {"protocol_type": "connect"})
    for wrong in wrongs:
        assert only(club.sync(member_id, generation, **wrong)).error is inconsistent
    right: dict[str, Any] = {"protocol_name": "range", "protocol_type": "consumer"}
    assert only(club.sync(member_id, generation, **right)).error is OK
    assert only(club.join(protocols=RANGE, protocol_type="connect")).error is inconsistent
    assert only(club.join(protocols=())).error is inconsistent
    assert only(club.join(protocols=(("other", said("t")),))).error is inconsistent
    assert only(club.join(protocols=(("range", b"meta"),))).error is inconsistent
    errors = [left.error for left in club.leave(("nobody", None), ("c", None), ("", "i")).members]
    assert errors == [unknown] * 3


def test_a_full_group_takes_no_classic_member_more() -> None:
    club, _, worker = mixed(group_size_max=2)
    full = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert only(club.join(protocols=RANGE)).error is full
    assert only(club.join(worker.member_id, protocols=RANGE)).error is OK


def test_with_conversions_disabled_a_group_takes_members_of_its_own_protocol_only() -> None:
    club = Club(migration_policy=MigrationPolicy.DISABLED)
    club.entered("c", "t")
    assert only(club.join(protocols=RANGE)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_is_told_to_join_again_when_the_epoch_has_grown() -> None:
    club, _, worker = mixed()
    club.entered("d", "t")
    assert club.beat(worker.member_id, worker.generation) is BUSY
    assert only(club.sync(worker.member_id, worker.generation)).error is BUSY


def test_an_incremental_member_gives_up_before_it_takes_the_epoch() -> None:
    club, consumer, worker = mixed(is_eager=False)
    other = Consumer(club, "d", "t").beat()
    assert club.beat(worker.member_id, worker.generation) is BUSY
    before = worker.generation
    worker.is_in = False
    worker.join()
    reply = only(worker.joining or [])
    assert reply.generation == before
    current = club.group().currents[worker.member_id]
    assert (current.state, len(club.names(current.revoking))) == (MemberState.UNREVOKED, 1)
    assert club.beat(worker.member_id, before) is BUSY
    other.beat()
    assert not other.reads & worker.reads
    settle(worker, consumer, other)
    assert [len(one.reads) for one in (worker, consumer, other)] == [2, 2, 2]


def test_what_a_member_is_about_to_give_up_is_its_own_in_the_classic_group() -> None:
    club, consumer, worker = mixed(is_eager=False)
    other = Consumer(club, "d", "t").beat()
    club.beat(worker.member_id, worker.generation)
    worker.is_in = False
    worker.join()
    assert club.group().currents[worker.member_id].revoking
    consumer.leave()
    other.leave()
    member = club.classic().members[worker.member_id]
    assert named(member.assignment) == worker.reads


def test_an_incremental_member_that_gives_nothing_up_is_removed() -> None:
    club, _, worker = mixed(is_eager=False)
    club.entered("d", "t")
    worker.join()
    for _ in range(10):
        club.pass_ms(REBALANCE_MS // 8)
        club.beat(worker.member_id, worker.generation)
        club.beat_as("d", club.group().currents["d"].epoch)
    assert worker.member_id not in club.members()
    assert club.coordinator.counters.members_expired >= 1


def test_a_member_that_is_told_to_join_and_does_not_is_removed() -> None:
    club, _, worker = mixed()
    club.entered("d", "t")
    for _ in range(10):
        assert worker.member_id in club.members()
        assert club.beat(worker.member_id, worker.generation) is BUSY
        club.beat_as("d", club.group().currents["d"].epoch)
        club.pass_ms(REBALANCE_MS // 10)
    assert worker.member_id not in club.members()


def test_a_member_that_joins_and_does_not_ask_for_what_it_got_is_removed() -> None:
    club, _, _ = mixed()
    reply = only(club.join(protocols=RANGE, rebalance_ms=SESSION_MS * 2))
    for _ in range(4):
        assert reply.member_id in club.members()
        club.beat(reply.member_id, reply.generation)
        club.pass_ms(SESSION_MS // 2)
    assert reply.member_id not in club.members()


def test_a_member_that_asks_for_what_it_got_is_not_removed_for_that() -> None:
    club = Club()
    club.cluster.create("t", 6)
    club.entered("c", "other")
    reply = only(club.join(protocols=RANGE, rebalance_ms=SESSION_MS * 2))
    assert only(club.sync(reply.member_id, reply.generation)).error is OK
    for _ in range(6):
        club.beat(reply.member_id, reply.generation)
        club.pass_ms(SESSION_MS // 2)
    assert reply.member_id in club.members()


def test_the_session_of_a_member_is_what_it_has_asked_for() -> None:
    club, _, worker = mixed()
    club.beat(worker.member_id, worker.generation)
    club.pass_ms(SESSION_MS - 1)
    assert worker.member_id in club.members()
    club.beat(worker.member_id, worker.generation)
    club.pass_ms(SESSION_MS - 1)
    assert worker.member_id in club.members()
    club.pass_ms(1)
    assert worker.member_id not in club.members()
    assert "c" in club.members()


def test_a_session_goes_on_after_a_restart() -> None:
    club, _, worker = mixed()
    club.restart()
    club.pass_ms(SESSION_MS - 1)
    assert worker.member_id in club.members()
    club.pass_ms(1)
    assert worker.member_id not in club.members()


def test_a_member_that_leaves_is_gone_and_others_get_its_part() -> None:
    club, consumer, worker = mixed()
    other = Worker(club, "o", "t")
    settle(consumer, worker, other)
    left = club.leave((other.member_id, None))
    assert [each.error for each in left.members] == [OK]
    assert other.member_id not in club.members()
    settle(consumer, worker)
    assert consumer.reads | worker.reads == ALL
    assert kind(club) == "consumer"


def test_members_commit_with_their_generation_by_any_version() -> None:
    club, consumer, worker = mixed()
    key = ("t", 0)
    for is_by_epoch in (False, True):
        answer = only(
            club.commit({key: 5}, worker.member_id, worker.generation, is_by_epoch=is_by_epoch)
        )
        assert answer == {key: OK}
        answer = only(
            club.commit({key: 5}, worker.member_id, worker.generation - 1, is_by_epoch=is_by_epoch)
        )
        assert answer == {key: ErrorCode.ILLEGAL_GENERATION}
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert only(club.commit({key: 5}, "c", consumer.epoch - 1, is_by_epoch=True)) == {key: stale}
    old = ErrorCode.UNSUPPORTED_VERSION
    assert only(club.commit({key: 5}, "c", consumer.epoch)) == {key: old}


def test_members_see_that_a_topic_grows() -> None:
    club = Club(migration_policy=MigrationPolicy.UPGRADE)
    club.cluster.create("t", 6)
    consumer, worker = Consumer(club, "c", "t"), Worker(club, "w", "t")
    settle(consumer, worker)
    consumer.leave()
    settle(worker)
    assert kind(club) == "consumer"
    club.cluster.create("t", 8)
    club.pass_ms(1_001)
    worker.step()
    settle(worker)
    assert len(worker.reads) == 8


def test_a_static_member_comes_back_with_what_it_had() -> None:
    club, consumer, _ = mixed()
    reply = only(club.join(instance="i", protocols=RANGE))
    settle(consumer)
    first = reply.member_id
    again = only(club.join(first, instance="i", protocols=RANGE))
    had = club.group().currents[first]
    assert had.assigned
    epoch = club.group().epoch
    back = only(club.join(instance="i", protocols=RANGE))
    assert back.member_id != first
    assert club.group().currents[back.member_id] == had
    assert club.group().epoch == epoch
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert club.beat(first, again.generation, instance="i") is fenced
    assert only(club.sync(first, again.generation, instance="i")).error is fenced
    assert only(club.join(first, instance="i", protocols=RANGE)).error is fenced
    assert [one.error for one in club.leave((first, "i")).members] == [fenced]
    assert only(club.join("me", instance="j", protocols=RANGE)).error is (
        ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_an_operator_removes_a_static_member_by_its_instance() -> None:
    club, _, _ = mixed()
    member = only(club.join(instance="i", protocols=RANGE))
    assert [one.error for one in club.leave(("", "i")).members] == [OK]
    assert member.member_id not in club.members()


def test_a_static_member_changes_its_protocol_with_what_it_has() -> None:
    club = Club()
    club.cluster.create("t", 6)
    keeper = Consumer(club, "k", "t")
    static = Consumer(club, "s", "t", instance_id="i")
    settle(keeper, static)
    epoch, had = club.group().epoch, static.reads
    worker = Worker(club, "w", "t", instance="i").step().step()
    assert worker.reads == had
    assert club.group().epoch == epoch
    assert only(club.beat_as("s", static.epoch, instance_id="i", owned=static.owned)).error is (
        ErrorCode.FENCED_INSTANCE_ID
    )
    back = Consumer(club, "s2", "t", instance_id="i").beat()
    assert back.reads == had
    assert club.group().facts["s2"].classic is None
    assert club.beat(worker.member_id, worker.generation, instance="i") is (
        ErrorCode.FENCED_INSTANCE_ID
    )


def test_a_join_that_is_late_is_answered_with_an_error_and_takes_effect() -> None:
    club, _, _ = mixed()
    club.journal.is_prompt = False
    joining = club.join("w2", protocols=RANGE)
    club.journal.late()
    assert only(joining).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert club.leave(("w2", None)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    club.journal.confirm()
    assert "w2" in club.members()


def test_a_group_is_loaded_as_it_was() -> None:
    club, _, _ = mixed()
    only(club.join(instance="i", protocols=(("range", said("t")), ("other", b"bytes"))))
    before, facts = club.described(), dict(club.group().facts)
    club.restart()
    assert club.described() == before
    assert club.group().facts == facts
    assert club.group().tables.classic_count == 2


def test_a_member_that_goes_over_to_kip_848_has_nothing_to_ask_for_by_the_classic_protocol() -> (
    None
):
    """It joined by the old protocol, restarted under its id, and joined by the new one."""
    club, consumer, _ = mixed()
    reply = only(club.join("x", protocols=RANGE))
    assert reply.error is OK
    moved = Consumer(club, "x", "t").beat()
    assert moved.epoch > 0
    for _ in range(REBALANCE_MS // HEARTBEAT_MS + 2):
        club.pass_ms(HEARTBEAT_MS)
        assert "x" in club.members()
        consumer.beat(), moved.beat()
