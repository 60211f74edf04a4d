"""A classic group becomes a consumer group: when it may, what it keeps, what clients see."""

import pytest

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.assigned.currents import MemberState
from penstock.groups.config import MigrationPolicy
from penstock.groups.migration.consumer_protocol import encode_assignment
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import Club, Consumer
from tests.groups.migration.crew import ALL, GROUP, OK, crew, given, kind, said, settle
from tests.groups.world import DELAY_MS, REBALANCE_MS, SESSION_MS, only

REFUSED = ErrorCode.GROUP_ID_NOT_FOUND
BUSY = ErrorCode.REBALANCE_IN_PROGRESS


def test_members_keep_their_ids_and_what_they_read_and_their_generation_is_their_epoch() -> None:
    club, workers = crew(3)
    before = {one.member_id: one.reads for one in workers}
    generation = workers[0].generation
    club.entered("c", "t")
    group = club.group()
    assert group.epoch == group.target_epoch == generation + 1
    for member_id, reads in before.items():
        current, facts = group.currents[member_id], group.facts[member_id]
        assert (current.epoch, current.state) == (generation, MemberState.STABLE)
        assert club.names(current.assigned) == reads
        assert facts.topics == ("t",)
        assert facts.classic is not None
        assert facts.classic.session_timeout_ms == SESSION_MS
        assert [name for name, _ in facts.classic.protocols] == ["range"]
    assert [one.is_classic for one in club.described().members] == [True, True, True, False]


def test_the_conversion_is_one_write_and_a_loaded_group_is_the_same() -> None:
    club, workers = crew(2)
    club.journal.is_prompt = False
    joining = club.enter("c", "t")
    assert joining == []
    assert len(club.journal.waiting) == 1
    partition = club.coordinator.partition_of(GROUP)
    written = [*club.journal.logs[partition]]
    club.journal.confirm(1)
    assert kind(club) == "consumer"
    before = club.described()
    assert [one.member_id for one in before.members] == [one.member_id for one in workers]
    club.journal.logs[partition] = written
    club.restart()
    assert club.described() == before


def test_positions_stay() -> None:
    club, (worker,) = crew(1)
    only(club.commit({("t", 0): 7}, worker.member_id, worker.generation))
    club.entered("c", "t")
    assert club.committed("t", 0) == 7
    assert only(club.commit({("t", 0): 8}, worker.member_id, worker.generation)) == {("t", 0): OK}
    club.restart()
    assert club.committed("t", 0) == 8


def test_open_joins_are_told_to_join_again_and_new_members_are_not_counted_before() -> None:
    club, (worker,) = crew(1)
    late = club.join(instance="i", protocols=(("range", said("t")),))
    assert club.state() == "PreparingRebalance"
    club.entered("c", "t")
    assert only(late).error is BUSY
    assert club.members() == [worker.member_id, "c"]
    assert club.beat(worker.member_id, worker.generation) is BUSY


def test_open_syncs_are_told_to_join_again() -> None:
    club = Club()
    club.cluster.create("t", 6)
    (reply,) = club.joined(1, protocols=(("range", said("t")),))
    (other,) = [club.join(client="o", instance="o", protocols=(("range", said("t")),))]
    club.join(reply.member_id, protocols=(("range", said("t")),))
    second = only(other)
    follower = second.member_id if second.leader_id != second.member_id else reply.member_id
    waiting = club.sync(follower, second.generation)
    assert waiting == []
    club.entered("c", "t")
    assert only(waiting).error is BUSY
    assert kind(club) == "consumer"


def test_what_a_member_said_it_reads_is_not_given_away_while_its_assignment_is_open() -> None:
    club, (worker,) = crew(1, is_eager=False)
    assert only(worker.join()).error is OK
    # The next generation begins before the assignment of this one is made: nobody has one.
    club.join(instance="i", protocols=(("cooperative-sticky", said("t")),))
    assert not club.classic().members[worker.member_id].assignment
    assert worker.reads == ALL
    consumer = Consumer(club, "c", "t")
    consumer.beat()
    assert consumer.reads == set()
    assert club.names(club.group().currents[worker.member_id].assigned) == ALL


def test_of_two_members_with_one_partition_the_first_has_it() -> None:
    club = Club()
    club.cluster.create("t", 6)
    replies = club.joined(2, protocols=(("range", said("t")),))
    leader = replies[0].leader_id
    for reply in reversed(replies):
        led = {one.member_id: given(ALL) for one in replies} if reply.member_id == leader else None
        club.sync(reply.member_id, reply.generation, led)
    club.entered("c", "t")
    had = [len(club.names(club.group().currents[one.member_id].assigned)) for one in replies]
    assert sorted(had) == [0, 6]


def test_of_two_members_that_say_they_read_one_partition_the_later_generation_has_it() -> None:
    club = Club()
    club.cluster.create("t", 6)
    for name, generation in (("old", 3), ("new", 7)):
        metadata = said("t", owned={("t", 0)}, generation=generation)
        club.join(client=name, protocols=(("cooperative-sticky", metadata),))
    club.pass_ms(3 * DELAY_MS)
    club.entered("c", "t")
    group = club.group()
    had = {group.facts[one].client_id: now.assigned for one, now in group.currents.items()}
    assert (club.names(had["old"]), club.names(had["new"])) == (set(), {("t", 0)})


@pytest.mark.parametrize(
    ("policy", "may"),
    [
        (MigrationPolicy.BIDIRECTIONAL, True),
        (MigrationPolicy.UPGRADE, True),
        (MigrationPolicy.DOWNGRADE, False),
        (MigrationPolicy.DISABLED, False),
    ],
)
def test_the_policy_decides_whether_a_group_with_members_is_converted(
    *, policy: MigrationPolicy, may: bool
) -> None:
    club, _ = crew(1, club=Club(migration_policy=policy))
    answer = club.entered("c", "t")
    assert answer.error is (OK if may else REFUSED)
    assert kind(club) == ("consumer" if may else "classic")
    if not may:
        assert "online upgrade is disabled" in (answer.message or "")


def test_an_empty_group_is_converted_whatever_the_policy() -> None:
    club, (worker,) = crew(1, club=Club(migration_policy=MigrationPolicy.DISABLED))
    worker.leave()
    assert club.entered("c", "t").error is OK
    club.beat_as("c", -1)
    settle(worker)
    assert kind(club) == "classic"


def test_a_group_of_another_protocol_type_stays() -> None:
    club = Club()
    club.stable(protocol_type="connect")
    answer = club.entered("c", "t")
    assert answer.error is REFUSED
    assert "does not use the consumer embedded protocol" in (answer.message or "")


def test_a_full_group_stays() -> None:
    club, _ = crew(2, club=Club(group_size_max=2))
    answer = club.entered("c", "t")
    assert answer.error is REFUSED
    assert "exceeds the consumer group maximum size" in (answer.message or "")


@pytest.mark.parametrize(
    "metadata", [b"", b"meta", said("t")[:-3], b"\xff\xff" + said("t")[2:], said("t")[:9]]
)
def test_malformed_metadata_keep_a_group_as_it_is(metadata: bytes) -> None:
    club = Club()
    club.cluster.create("t", 6)
    (member,) = club.joined(1, protocols=(("range", metadata),))
    club.sync(member.member_id, member.generation, {member.member_id: given(ALL)})
    answer = club.entered("c", "t")
    assert answer.error is REFUSED
    assert "embedded consumer protocol is malformed" in (answer.message or "")
    assert club.beat(member.member_id, member.generation) is OK
    assert club.state() == "Stable"


@pytest.mark.parametrize("assignment", [given(ALL)[:-4] + b"\x00\x00\x00\x01x", b"\x00\x00\x00"])
def test_an_assignment_that_only_its_assignor_understands_keeps_a_group(assignment: bytes) -> None:
    club = Club()
    club.cluster.create("t", 6)
    (member,) = club.joined(1, protocols=(("mine", said("t")),))
    club.sync(member.member_id, member.generation, {member.member_id: assignment})
    answer = club.entered("c", "t")
    assert answer.error is REFUSED
    is_custom = len(assignment) > 3
    expected = "unsupported custom assignor" if is_custom else "protocol is malformed"
    assert expected in (answer.message or "")
    assert club.beat(member.member_id, member.generation) is OK


def test_a_heartbeat_that_does_not_join_converts_nothing() -> None:
    club, (worker,) = crew(1)
    assert only(club.beat_as("c", 5)).error is REFUSED
    assert club.beat(worker.member_id, worker.generation) is OK


def test_while_it_is_written_requests_are_told_to_retry() -> None:
    club, (worker,) = crew(1)
    club.journal.is_prompt = False
    club.enter("c", "t")
    again = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert club.beat(worker.member_id, worker.generation) is again
    assert only(club.enter("d", "t")).error is again
    assert only(club.commit({("t", 0): 1}, worker.member_id, worker.generation)) == {
        ("t", 0): again
    }
    assert club.leave((worker.member_id, None)).error is again


def test_a_write_that_fails_leaves_the_group_as_it_was() -> None:
    club, workers = crew(2)
    club.journal.refuses = Unwritten.FAILED
    assert only(club.enter("c", "t")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    club.journal.refuses = None
    assert kind(club) == "classic"
    assert [club.beat(one.member_id, one.generation) for one in workers] == [OK, OK]
    settle(*workers, Consumer(club, "c", "t"))
    assert kind(club) == "consumer"


def test_what_a_conversion_was_to_make_is_forgotten_when_it_is_not_written() -> None:
    club, _ = crew(1)
    club.journal.is_prompt = False
    club.enter("c", "t")
    assert GROUP in club.coordinator._table.successors
    club.journal.fail(Unwritten.FAILED)
    assert not club.coordinator._table.successors


def test_who_was_lost_while_the_group_was_frozen_is_not_waited_for_if_the_write_fails() -> None:
    club, workers = crew(2)
    lost, other = workers
    club.journal.is_prompt = False
    joining = club.enter("c", "t")
    club.pass_ms(SESSION_MS + 1)
    club.journal.fail(Unwritten.FAILED)
    club.journal.is_prompt = True
    assert only(joining).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert club.state() != "Stable"
    assert lost.member_id not in club.classic().members
    settle(other)
    assert other.reads == ALL


def test_a_batch_that_is_too_large_is_a_reason() -> None:
    club, _ = crew(1)
    club.journal.refuses = Unwritten.TOO_LARGE
    answer = only(club.enter("c", "t"))
    assert answer.error is REFUSED
    assert "too large for one batch" in (answer.message or "")


def test_a_rebalance_under_way_goes_on_if_the_write_fails() -> None:
    club, (worker,) = crew(1)
    late = club.join(instance="i", protocols=(("range", said("t")),))
    club.journal.is_prompt = False
    joining = club.enter("c", "t")
    club.pass_ms(REBALANCE_MS // 10)
    club.journal.fail(Unwritten.FAILED)
    assert only(joining).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    club.journal.is_prompt = True
    worker.is_in = False
    worker.step()
    assert only(late).error is OK


def test_a_late_write_takes_effect_when_it_is_confirmed() -> None:
    club, (worker,) = crew(1)
    club.journal.is_prompt = False
    joining = club.enter("c", "t")
    club.journal.late()
    assert only(joining).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert club.beat(worker.member_id, worker.generation) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    club.journal.confirm()
    club.journal.is_prompt = True
    assert kind(club) == "consumer"
    assert club.members() == [worker.member_id]
    settle(worker, Consumer(club, "c", "t"))


def test_a_coordinator_killed_before_the_write_has_a_classic_group_and_after_it_another() -> None:
    club, (worker,) = crew(1)
    club.journal.is_prompt = False
    club.enter("c", "t")
    partition = club.coordinator.partition_of(GROUP)
    log = club.journal.logs[partition]
    whole = [*log]
    club.restart()
    assert kind(club) == "consumer"
    conversion = next(at for at, record in enumerate(whole) if record[1] is None)
    club.journal.logs[partition] = whole[:conversion]
    club.restart()
    club.journal.is_prompt = True
    assert kind(club) == "classic"
    assert club.beat(worker.member_id, worker.generation) is OK


def test_a_rewrite_finds_the_records_of_a_conversion_under_way() -> None:
    club, (worker,) = crew(1)
    club.journal.is_prompt = False
    club.enter("c", "t")
    partition = club.coordinator.partition_of(GROUP)
    live = [record for some in club.coordinator.runtime.snapshot(partition) for record in some]
    club.journal.logs[partition] = live
    club.restart()
    assert kind(club) == "consumer"
    assert club.members() == [worker.member_id]


def test_topics_that_do_not_exist_are_had_by_nobody() -> None:
    club = Club()
    club.cluster.create("t", 6)
    (member,) = club.joined(1, protocols=(("range", said("t", "gone")),))
    assigned = encode_assignment(0, {"gone": frozenset({0}), "t": frozenset({1, 2})})
    club.sync(member.member_id, member.generation, {member.member_id: assigned})
    club.entered("c", "t")
    assert club.names(club.group().currents[member.member_id].assigned) == {("t", 1), ("t", 2)}
    assert club.group().facts[member.member_id].topics == ("gone", "t")


def test_a_group_whose_conversion_brought_nobody_is_classic_again() -> None:
    club, (worker,) = crew(1)
    club.journal.is_prompt = False
    club.enter("c", "t")
    club.restart()
    club.journal.is_prompt = True
    assert kind(club) == "consumer"
    settle(worker)
    assert kind(club) == "classic"
    assert worker.reads == ALL


def test_a_member_that_falls_silent_as_its_group_is_converted_is_removed_in_time() -> None:
    club, (worker,) = crew(1)
    club.beat(worker.member_id, worker.generation)
    consumer = Consumer(club, "c", "t").beat()
    club.pass_ms(SESSION_MS - 1)
    assert worker.member_id in club.members()
    club.pass_ms(1)
    assert club.members() == ["c"]
    settle(consumer)
    assert consumer.reads == ALL


def test_a_session_that_ends_while_the_group_is_frozen_is_begun_anew() -> None:
    club, (worker,) = crew(1)
    club.journal.is_prompt = False
    club.enter("c", "t")
    club.pass_ms(SESSION_MS + 1)
    club.journal.confirm()
    club.journal.confirm()
    club.journal.is_prompt = True
    assert worker.member_id in club.members()
    club.pass_ms(SESSION_MS + 1)
    assert worker.member_id not in club.members()
