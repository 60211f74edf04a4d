"""What happens to a consumer group at once: failures, deadlines, and changes that cross."""

import uuid
from types import SimpleNamespace

import pytest

from penstock.assignors.topic_facts import TopicFacts
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.assigned.messages import JOIN_EPOCH
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.waiting import Asked, Waiting
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.messages import ConsumerHeartbeat
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.records import GroupRecord, encode_group_key, encode_group_value
from penstock.kafka.handlers.groups import consumer_group_heartbeat as handler
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import SESSION_MS, TIMEOUT_MS, Club, Consumer, settle
from tests.groups.world import GROUP, PARTITIONS, only

OK = ErrorCode.NONE
BUSY = ErrorCode.COORDINATOR_NOT_AVAILABLE
DAY_MS = 24 * 3_600_000


def new_club(partitions: int = 4, **settings: int) -> Club:
    settings = {"expiry_check_interval_ms": 10**9} | settings
    club = Club(has_turns=False, **settings)
    club.cluster.create("t", partitions)
    return club


def new_club_with_turns(partitions: int = 4) -> Club:
    club = Club(has_turns=True, expiry_check_interval_ms=10**9)
    club.all_turns()
    club.cluster.create("t", partitions)
    return club


def loaded_from(club: Club, log: list, partition: int) -> GroupCoordinator:
    """A coordinator that found this log in the place of that of a partition."""
    coordinator = GroupCoordinator(
        club.clock, club.journal, config=club.config, new_suffix=str, cluster=club.cluster
    )
    for number in range(PARTITIONS):
        coordinator.runtime.begin_loading(number)
        for record in log if number == partition else club.journal.logs[number]:
            coordinator.runtime.load(number, record)
        coordinator.runtime.finish_loading(number)
    return coordinator


@pytest.mark.parametrize("kind", ["consumer", "classic"])
def test_a_rewrite_while_a_group_changes_its_kind_loses_no_position(kind: str) -> None:
    club = new_club(200)
    if kind == "classic":
        club.entered("m", "t")
        club.beat_as("m", -1)
    for number in range(200):
        club.commit({("t", number): number + 1})
    partition = club.coordinator.partition_of(GROUP)
    log = club.journal.logs[partition]
    start = len(log)
    live = club.coordinator.runtime.snapshot(partition)
    log += next(live)
    if kind == "consumer":
        club.entered("m", "t")
    else:
        club.join()
        club.pass_ms(5_000)
    for records in live:
        log += records
    again = loaded_from(club, log[start:], partition)
    assert len(again.reading.fetch_offsets(GROUP, None).offsets) == 200


def test_each_revocation_has_its_own_timeout() -> None:
    club = new_club(6)
    slow, other = Consumer(club, "a", "t").beat(), Consumer(club, "b", "t").beat()
    slow.beat()
    club.pass_ms(30_000)
    other.beat()
    club.beat_as("a", 1)
    club.pass_ms(28_000)
    club.beat_as("a", 1)
    Consumer(club, "c", "t").beat()
    other.beat()
    slow.beat()  # it has given up in time, and is told to give up more
    assert club.group().currents["a"].revoking
    club.pass_ms(3_000)
    assert "a" in club.group().facts


def test_a_lost_answer_is_not_given_again_to_who_reads_what_it_says_to_give_up() -> None:
    """It comes with the epoch before, and says that it reads what is not assigned to it."""
    club = new_club(6)
    member = Consumer(club, "a", "t").beat()
    Consumer(club, "b", "t").beat()
    member.beat()
    Consumer(club, "c", "t").beat()
    epoch, reads = member.epoch, member.owned
    assert only(club.beat_as("a", epoch, owned=reads)).member_epoch == epoch + 1  # it is lost
    current = club.group().currents["a"]
    assert current.previous_epoch == epoch
    assert {*club.names(current.assigned), *club.names(current.revoking)} == member.reads
    assert current.revoking
    again = only(club.beat_as("a", epoch, owned=reads))
    assert again.error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_slow_member_is_removed_though_a_batch_of_its_own_was_under_way() -> None:
    club = new_club()
    slow = Consumer(club, "a", "t").beat()
    Consumer(club, "b", "t").beat()
    slow.beat()
    club.cluster.keys[GROUP] = {"consumer.session.timeout.ms": "10000000"}
    club.beat_as("a", 1)
    club.beat_as("b", 2, owned={})
    club.pass_ms(TIMEOUT_MS - 100)
    club.journal.is_prompt = False
    club.beat_as("a", 1, rack_id="r2")  # some news, and it gives nothing up
    club.pass_ms(200)
    club.journal.confirm()
    club.journal.is_prompt = True
    club.journal.confirm()
    club.pass_ms(5_000)
    assert "a" not in club.group().facts


def test_a_silent_member_is_removed_soon_after_its_removal_was_late_and_failed() -> None:
    club = new_club()
    club.entered("a", "t")
    club.journal.is_prompt = False
    club.pass_ms(SESSION_MS + 1)
    club.journal.late()
    club.pass_ms(1_500)
    club.journal.fail(Unwritten.TOO_FEW_IN_STEP)
    club.journal.is_prompt = True
    club.pass_ms(2_000)
    assert club.described().members == ()


def test_a_member_that_speaks_just_in_time_is_not_removed() -> None:
    club = new_club()
    member = Consumer(club, "a", "t").beat()
    club.journal.is_prompt = False
    club.enter("b", "t")  # a write is under way while the session of the other ends
    club.pass_ms(SESSION_MS)
    member.beat()
    club.journal.confirm()
    club.journal.is_prompt = True
    club.journal.confirm()
    assert "a" in club.group().facts


def test_an_old_heartbeat_does_not_bring_back_a_static_member_that_left() -> None:
    club = new_club()
    member = Consumer(club, "a", "t", instance_id="i").beat()
    club.beat_as("a", -2, instance_id="i")
    old = only(club.beat_as("a", 1, instance_id="i", owned=member.owned))
    assert old.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert club.entered("b", "t", instance_id="i").error is OK


def test_a_member_that_becomes_another_instance_leaves_nothing_behind() -> None:
    club = new_club()
    member = Consumer(club, "a", "t", instance_id="i1")
    other = Consumer(club, "b", "t", instance_id="i2")
    settle(member, other)
    other.leave(-2)
    member.said["instance_id"], member.epoch = "i2", 0
    settle(member)
    assert len(club.group().facts) == 1
    assert len(member.reads) == 4


def test_a_static_member_that_is_back_leaves_no_record_of_its_former_id() -> None:
    club = new_club()
    member = Consumer(club, "a1", "t", instance_id="a").beat()
    before = club.group().metadata.values.keys()
    former = {key for key in before if b"a1" in key}
    assert len(former) == len({Kind.MEMBER, Kind.TARGET, Kind.CURRENT})
    member.leave(-2)
    Consumer(club, "a2", "t", instance_id="a").beat()
    assert not former & club.group().metadata.values.keys()
    assert club.group().targets.keys() == {"a2"}


def test_a_static_member_comes_back_to_a_full_group() -> None:
    club = new_club(group_size_max=2)
    static, other = Consumer(club, "a", "t", instance_id="i"), Consumer(club, "b", "t")
    settle(static, other)
    static.leave(-2)
    assert club.entered("c", "t", instance_id="i").error is OK
    assert club.entered("d", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_lost_answer_of_a_member_that_says_nothing_is_not_given_again() -> None:
    club = new_club()
    Consumer(club, "a", "t").beat()
    club.cluster.create("t", 6)
    club.pass_ms(1_000)
    only(club.beat_as("a", 1, owned={}))
    assert only(club.beat_as("a", 1)).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_change_of_topics_whose_write_failed_is_seen_again() -> None:
    club = new_club()
    member = Consumer(club, "a", "t").beat()
    club.cluster.create("t", 6)
    club.pass_ms(1_000)
    club.journal.refuses = Unwritten.FAILED
    assert member.beat().last_error is BUSY
    club.journal.refuses = None
    settle(member)
    assert len(member.reads) == 6


def test_a_topic_that_was_made_again_is_given_anew() -> None:
    club = new_club(2)
    consumers = [Consumer(club, "a", "t"), Consumer(club, "b", "t")]
    settle(*consumers)
    club.cluster.delete("t")
    club.cluster.topics["t"] = TopicFacts(b"2" * 16, 2)
    club.cluster.version += 1
    club.pass_ms(1_001)
    settle(*consumers)
    assert consumers[0].reads | consumers[1].reads == {("t", 0), ("t", 1)}
    assert all(topic_id == b"2" * 16 for one in consumers for topic_id in one.owned)


def test_topics_deleted_while_a_group_changes_its_kind_leave_no_position() -> None:
    club = new_club_with_turns(1)
    for number in range(3_000):
        club.commit({("x", 0): 1}, group=f"g{number}")
        club.all_turns()
    club.commit({("t", 0): 1})
    club.all_turns()
    club.coordinator.on_topics_deleted({"t": b"?" * 16})
    assert club.turns
    club.enter("m", "x")
    club.all_turns()
    assert club.all_committed() == {}


def test_a_refused_join_leaves_an_empty_group_as_it_is() -> None:
    club = new_club()
    (member,) = club.stable()
    club.commit({("t", 0): 1}, member.member_id, member.generation)
    club.leave((member.member_id, None))
    assert club.entered("m", regex="(").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert club.classic().offsets.values
    assert club.entered("m", regex="(", group_id="none").error is not OK
    assert club.coordinator.group_count == 1


def test_positions_are_kept_for_the_retention_time_after_the_last_member_left() -> None:
    club = new_club(expiry_check_interval_ms=600_000, offsets_retention_ms=7 * DAY_MS)
    club.cluster.keys[GROUP] = {"consumer.session.timeout.ms": str(9 * DAY_MS)}
    club.entered("m", "t")
    club.commit({("t", 0): 42}, "m", 1, is_by_epoch=True)
    club.pass_ms(8 * DAY_MS)  # a quiet topic: the member is there, and has nothing to commit
    only(club.beat_as("m", -1))
    club.pass_ms(700_000)
    assert club.committed() == 42
    club.restart()
    club.pass_ms(700_000)
    assert club.committed() == 42
    club.pass_ms(7 * DAY_MS + 600_000)
    assert club.committed() is None


def test_a_late_deletion_and_a_join_leave_what_a_restart_finds() -> None:
    club = new_club()
    Consumer(club, "a", "t").beat().leave()
    club.journal.is_prompt = False
    club.coordinator.delete_groups([GROUP], lambda _: None)
    club.journal.late()
    join = club.enter("b", "t")
    club.journal.confirm()
    club.journal.is_prompt = True
    club.journal.confirm()
    assert only(join).error in (OK, BUSY)
    found = club.coordinator._table.groups.get(GROUP)
    before = found.currents if isinstance(found, ConsumerGroup) else {}
    club.restart()
    found = club.coordinator._table.groups.get(GROUP)
    assert (found.currents if isinstance(found, ConsumerGroup) else {}) == before


def test_a_join_while_a_group_is_being_deleted_is_told_to_come_again() -> None:
    club = new_club()
    Consumer(club, "a", "t").beat().leave()
    club.journal.is_prompt = False
    club.coordinator.delete_groups([GROUP], lambda _: None)
    assert club.entered("b", "t").error is BUSY
    assert only(club.join()).error is BUSY


def test_a_write_confirmed_after_the_partition_moved_does_not_stop_its_unloading() -> None:
    club = new_club_with_turns()
    for number in range(4_090):
        club.enter(f"m{number}", "t")
        if number % 200 == 199:
            club.all_turns()
    club.all_turns()
    club.journal.is_prompt = False
    club.enter("late", "t")
    club.all_turns()
    assert club.journal.waiting
    partition = club.coordinator.partition_of(GROUP)
    club.coordinator.runtime.unload(partition)
    assert club.turns
    club.journal.confirm()
    club.all_turns()
    club.journal.is_prompt = True
    club.load(partition)
    club.all_turns()
    assert GROUP in club.coordinator._table.groups


def test_a_mistake_in_a_decision_does_not_stop_the_group(monkeypatch) -> None:
    club = new_club()
    Consumer(club, "a", "t").beat()

    def broken(name: str) -> None:
        raise KeyError(name)

    with monkeypatch.context() as patched:
        patched.setattr(club.cluster, "find", broken)
        with pytest.raises(KeyError):
            club.enter("b", "t")
    assert club.entered("b", "t").error is OK


def test_a_second_heartbeat_of_a_member_takes_the_place_of_the_first() -> None:
    club = new_club()
    member = Consumer(club, "m", "t").beat()
    club.journal.is_prompt = False
    club.enter("x", "t")
    size = club.coordinator.pinned_bytes
    waiting = [
        club.beat_as("m", 1, rack_id=f"r{number}", owned=member.owned) for number in range(1_000)
    ]
    assert len(club.group().queue) == 1
    assert club.coordinator.pinned_bytes - size < 10_000
    club.journal.confirm()
    club.journal.is_prompt = True
    club.journal.confirm()
    assert [only(each).error for each in waiting] == [BUSY] * 999 + [OK]


def test_only_what_a_member_was_given_is_kept_of_what_it_says_to_own() -> None:
    club = new_club()
    Consumer(club, "m", "t").beat()
    club.journal.is_prompt = False
    club.enter("x", "t")
    size = club.coordinator.pinned_bytes
    for number in range(400):
        foreign = {b"?" * 16: frozenset(range(number, number + 10_000))}
        club.beat_as("m", 1, rack_id="r", owned=foreign)
    assert club.coordinator.pinned_bytes - size < 10_000


def test_what_waits_is_told_of_a_late_write_in_portions() -> None:
    club = new_club_with_turns()
    club.enter("m", "t")
    club.all_turns()
    club.journal.is_prompt = False
    waiting = [club.enter(f"m{number}", "t") for number in range(1_000)]
    club.all_turns()
    club.journal.late()
    assert sum(map(len, waiting)) < 600
    club.all_turns()
    assert all(only(answers).error is BUSY for answers in waiting)


def test_owned_partitions_of_a_topic_in_two_entries_all_count() -> None:
    topic_id = uuid.UUID(int=1)
    entries = [
        SimpleNamespace(topic_id=topic_id, partitions=partitions) for partitions in ((0, 1), (2,))
    ]
    assert handler._owned(entries) == {topic_id.bytes: frozenset({0, 1, 2})}


def test_a_session_that_ends_while_the_last_heartbeat_is_written_is_over() -> None:
    club = Club()
    club.cluster.create("t", 2)
    epoch = club.entered("m", "t").member_epoch
    club.journal.is_prompt = False
    club.beat_as("m", epoch, topics=("t", "u"))
    club.pass_ms(SESSION_MS + 1)
    club.journal.confirm()
    club.journal.confirm()
    assert club.members() == []


def test_a_session_that_ends_while_a_heartbeat_is_written_is_over_also_where_work_takes_turns() -> (
    None
):
    club = Club(has_turns=True)
    club.cluster.create("t", 2)
    answers = club.enter("m", "t")
    club.all_turns()
    (joined,) = answers
    club.journal.is_prompt = False
    club.beat_as("m", joined.member_epoch, topics=("t", "u"))
    club.all_turns()
    club.pass_ms(SESSION_MS + 1)
    club.all_turns()
    for _ in range(2):
        club.journal.confirm()
        club.all_turns()
    assert club.members() == []


def test_a_request_waits_behind_one_of_its_instance_that_waits_itself() -> None:
    queue: Waiting[ConsumerHeartbeat] = Waiting(lambda _: None)
    due = DeadlineKey(DeadlineKind.SESSION, GROUP, "m")
    beats = {
        member: ConsumerHeartbeat(
            group_id=GROUP,
            member_id=member,
            member_epoch=JOIN_EPOCH,
            client_id="c",
            client_host="h",
            instance_id="i",
        )
        for member in ("m", "n")
    }
    queue.put(Asked("m", None, lambda _: None, due=due))
    for member, beat in beats.items():
        queue.put(Asked(member, beat, lambda _: None))
    taken = [[one.member_id for one in queue.take_batch()] for _ in range(3)]
    assert taken == [["m"], ["m"], ["n"]]


def test_a_tombstone_of_what_the_group_was_before_leaves_what_it_is_now() -> None:
    club = Club(partition_count=1)
    club.cluster.create("t", 2)
    club.entered("m", "t")
    club.journal.logs[0].append((encode_group_key(GROUP), None))
    club.restart()
    assert club.members() == ["m"]


def test_a_group_that_has_records_of_two_kinds_takes_the_memory_of_one() -> None:
    """The tombstone of what it was before was not written."""
    club = Club(partition_count=1)
    club.cluster.create("t", 2)
    club.entered("m", "t")
    club.restart()
    alone = club.coordinator._table.pinned.total
    value = encode_group_value(GroupRecord("consumer", 1, None, None, 0, ()))
    club.journal.logs[0].insert(0, (encode_group_key(GROUP), value))
    club.restart()
    assert club.members() == ["m"]
    assert club.coordinator._table.pinned.total == alone


def test_what_is_given_up_and_taken_in_one_batch_has_its_new_owner() -> None:
    """The record of who takes it comes first: a static member that is back was renamed before."""
    club = new_club()
    giver = Consumer(club, "a", "t").beat()
    taker = Consumer(club, "s1", "t", instance_id="s").beat()
    giver.beat()
    taker.leave(-2)
    back = Consumer(club, "s2", "t", instance_id="s")
    club.journal.is_prompt = False
    club.beat_as("a", giver.epoch, rack_id="r")  # a write is under way, behind which both wait
    giver.beat()
    back.beat()
    club.journal.confirm()
    club.journal.is_prompt = True
    club.journal.confirm()
    given = club.group().currents["s2"].assigned
    assert club.names(given) == back.hear().reads
    assert len(back.reads) == 2
    for topic_id, numbers in given.items():
        owners = club.group().owners[topic_id]
        assert {owners.get(number) for number in numbers} == {"s2"}
