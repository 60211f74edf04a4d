"""Members come, stay, go and are lost; what each of them is told."""

import pytest

from penstock.base.ids import MemberEpoch
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.assigned.reconciling import WAITING_INTERVAL_MS
from penstock.groups.assigned.topics import COMPARE_MS
from penstock.groups.assigned.waiting import BATCH_MAX
from penstock.groups.consumer.checks import REGEXES_MAX
from penstock.groups.context import PROMPT_INTERVAL_MS
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.records import TopicKey
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import SESSION_MS, TIMEOUT_MS, Club, Consumer, settle
from tests.groups.world import GROUP, only

OK = ErrorCode.NONE


@pytest.fixture
def club() -> Club:
    club = Club(expiry_check_interval_ms=10**9)
    club.cluster.create("t", 4)
    return club


def test_the_first_member_gets_everything_at_once(club: Club) -> None:
    answer = club.entered("m", "t")
    assert (answer.error, answer.member_id, answer.member_epoch) == (OK, "m", 1)
    assert answer.heartbeat_interval_ms == PROMPT_INTERVAL_MS
    assert club.names(answer.assignment or {}) == {("t", n) for n in range(4)}
    assert club.described().state == "Stable"


def test_a_heartbeat_without_news_writes_nothing_and_repeats_nothing(club: Club) -> None:
    club.entered("m", "t")
    written = [len(log) for log in club.journal.logs.values()]
    answer = only(club.beat_as("m", 1))
    assert (answer.error, answer.member_epoch, answer.assignment) == (OK, 1, None)
    assert written == [len(log) for log in club.journal.logs.values()]


def test_a_full_heartbeat_is_told_everything(club: Club) -> None:
    first = club.entered("m", "t")
    again = only(
        club.beat_as("m", 1, topics=("t",), owned=first.assignment, rebalance_timeout_ms=TIMEOUT_MS)
    )
    assert again.assignment == first.assignment


def test_a_partition_is_given_only_when_its_former_owner_says_that_it_stopped(club: Club) -> None:
    first, second = Consumer(club, "a", "t"), Consumer(club, "b", "t")
    first.beat()
    second.beat()
    assert (len(first.reads), len(second.reads)) == (4, 0)
    assert club.described().state == "Reconciling"
    first.beat()  # is told to give two up, and stops to read them
    assert (len(first.reads), first.epoch) == (2, 1)
    second.beat()
    assert second.reads == set(), "the first one has not said yet that it stopped"
    first.beat()
    assert first.epoch == 2
    second.beat()
    assert first.reads | second.reads == {("t", n) for n in range(4)}
    assert len(second.reads) == 2
    assert club.described().state == "Stable"


def test_what_is_to_be_given_up_is_not_given_in_the_same_batch(club: Club) -> None:
    first = Consumer(club, "a", "t")
    first.beat()
    club.journal.is_prompt = False
    club.enter("b", "t")
    first.waits = club.beat_as("a", 1, owned=first.owned, rack_id="r")  # waits with the next one
    last = Consumer(club, "c", "t").beat()
    club.journal.confirm()
    club.journal.confirm()
    first.hear()
    last.hear()
    assert (len(first.reads), last.reads) == (2, set())


def test_who_waits_for_partitions_of_others_is_to_ask_soon(club: Club) -> None:
    club.entered("a", "t")
    answer = club.entered("b", "t")
    assert answer.heartbeat_interval_ms == WAITING_INTERVAL_MS < PROMPT_INTERVAL_MS


def test_a_member_that_leaves_sets_its_partitions_free(club: Club) -> None:
    first, second = Consumer(club, "a", "t"), Consumer(club, "b", "t")
    settle(first, second)
    assert only(first.leave()).member_epoch == -1
    settle(second)
    assert len(second.reads) == 4


def test_a_silent_member_is_removed_after_its_session(club: Club) -> None:
    first, second = Consumer(club, "a", "t"), Consumer(club, "b", "t")
    settle(first, second)
    club.pass_ms(SESSION_MS // 2)
    second.beat()
    club.pass_ms(SESSION_MS // 2)
    assert [each.member_id for each in club.described().members] == ["b"]
    first.beat()
    assert first.last_error is ErrorCode.UNKNOWN_MEMBER_ID
    second.beat()
    assert len(second.reads) == 4


def test_a_member_that_gives_nothing_up_is_removed_after_its_rebalance_timeout(club: Club) -> None:
    slow = Consumer(club, "a", "t", rebalance_timeout_ms=20_000)
    slow.beat()
    other = Consumer(club, "b", "t")
    other.beat()
    slow.beat()
    owned = slow.club.group().currents["a"]
    for _ in range(5):
        club.pass_ms(5_000)
        other.beat()
        only(club.beat_as("a", slow.epoch))  # it is alive, and does not say that it stopped
    assert owned.revoking
    assert [each.member_id for each in club.described().members] == ["b"]
    other.beat()
    assert len(other.reads) == 4


def test_a_lost_answer_is_given_again(club: Club) -> None:
    first = Consumer(club, "a", "t")
    first.beat()
    club.cluster.create("t", 6)
    club.pass_ms(1_000)
    assert only(club.beat_as("a", 1, owned=first.owned)).member_epoch == 2  # it does not arrive
    again = only(club.beat_as("a", 1, owned=first.owned))
    assert (again.error, again.member_epoch) == (OK, 2)
    assert len(club.names(again.assignment or {})) == 6


def test_an_older_epoch_is_fenced(club: Club) -> None:
    first = Consumer(club, "a", "t")
    first.beat()
    for count in (6, 8):
        club.cluster.create("t", count)
        club.pass_ms(1_000)
        first.beat()
    assert first.epoch == 3
    assert only(club.beat_as("a", 1, owned={})).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert only(club.beat_as("a", 4, owned={})).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_previous_epoch_with_foreign_partitions_is_fenced(club: Club) -> None:
    topic_id = club.cluster.topics["t"].topic_id
    first = Consumer(club, "a", "t")
    first.beat()
    club.cluster.create("t", 6)
    club.pass_ms(1_000)
    first.beat()
    answer = only(club.beat_as("a", 1, owned={topic_id: frozenset({99})}))
    assert answer.error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_known_member_may_join_again_at_any_time(club: Club) -> None:
    first = Consumer(club, "a", "t")
    first.beat()
    club.cluster.create("t", 6)
    club.pass_ms(1_000)
    first.beat()
    answer = club.entered("a", "t")
    assert (answer.error, answer.member_epoch) == (OK, 2)
    assert len(club.names(answer.assignment or {})) == 6


def test_static_members_come_back_unnoticed(club: Club) -> None:
    static, other = Consumer(club, "s1", "t", instance_id="i"), Consumer(club, "b", "t")
    settle(static, other)
    had, epoch = static.reads, other.epoch
    assert only(static.leave(-2)).member_epoch == -2
    other.beat()
    back = Consumer(club, "s2", "t", instance_id="i")
    back.beat()
    assert back.reads == had
    assert back.epoch == epoch == other.beat().epoch
    assert {each.member_id for each in club.described().members} == {"s2", "b"}


def test_an_instance_that_did_not_leave_is_not_replaced(club: Club) -> None:
    club.entered("s1", "t", instance_id="i")
    assert club.entered("s2", "t", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    fenced = only(club.beat_as("s2", 1, instance_id="i"))
    assert fenced.error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_removed_after_its_session(club: Club) -> None:
    static, other = Consumer(club, "s1", "t", instance_id="i"), Consumer(club, "b", "t")
    settle(static, other)
    static.leave(-2)
    club.pass_ms(SESSION_MS - 1)
    other.beat()
    assert len(club.members()) == 2
    club.pass_ms(1)
    settle(other)
    assert len(other.reads) == 4


def test_who_has_news_while_it_still_reads_what_it_gives_up_is_not_taken_for_done(
    club: Club,
) -> None:
    """News wait for a batch; what the member says it reads waits with them."""
    first, second = Consumer(club, "a", "t").beat(), Consumer(club, "b", "t").beat()
    reads = first.owned
    first.beat()
    assert len(first.reads) == 2
    answer = only(club.beat_as("a", first.epoch, owned=reads, rack_id="r"))
    assert (answer.error, answer.member_epoch) == (OK, first.epoch)
    second.beat()
    assert second.reads == set()


def test_a_topic_that_grows_while_it_is_looked_at_is_looked_at_again(club: Club) -> None:
    club.cluster.when_found = lambda: club.cluster.create("t", 6)
    one = Consumer(club, "m", "t").beat()
    assert len(one.reads) == 4
    club.pass_ms(COMPARE_MS)
    settle(one)
    assert one.reads == {("t", number) for number in range(6)}


def test_a_regular_expression_follows_topics(club: Club) -> None:
    member = Consumer(club, "a", regex="x-.")
    member.beat()
    assert member.reads == set()
    club.cluster.create("x-1", 1)
    club.cluster.create("ax-1", 1)
    club.cluster.create("x-12", 1)
    club.pass_ms(10_000)
    member.beat()
    assert member.reads == {("x-1", 0)}, "whole names match"
    club.cluster.delete("x-1")
    club.pass_ms(10_000)
    settle(member)
    assert member.reads == set()
    member.leave()
    assert not club.group().resolved


def test_a_regular_expression_matches_what_the_member_may_see(club: Club) -> None:
    for name in ("x-1", "x-2"):
        club.cluster.create(name, 1)
    seen = {"x-1"}
    member = Consumer(club, "a", regex="x-.", may_see=lambda name: name in seen)
    settle(member)
    assert member.reads == {("x-1", 0)}
    seen.add("x-2")
    seen.remove("x-1")
    club.cluster.version += 1  # a rule has changed
    club.pass_ms(10_000)
    settle(member)
    assert member.reads == {("x-2", 0)}


def test_topics_are_shown_to_nobody_who_was_not_heard_of_since_a_failover(club: Club) -> None:
    club.cluster.create("x-1", 1)
    shy = Consumer(club, "a", regex="x-.", may_see=lambda name: name != "x-3")
    other = Consumer(club, "b", "t")
    settle(shy, other)
    club.group().sights.clear()  # it is in memory alone
    for name in ("x-2", "x-3"):
        club.cluster.create(name, 1)
    club.pass_ms(10_000)
    other.beat()
    assert club.group().resolved["x-."].topics == ("x-1",)
    shy.beat()
    club.pass_ms(10_000)
    settle(shy, other)
    assert shy.reads == {("x-1", 0), ("x-2", 0)}


def test_internal_topics_match_too(club: Club) -> None:
    """As in Kafka 4; franz-go's Test848RegexBrokerResolves goes by it."""
    club.cluster.create("__consumer_offsets", 1)
    club.cluster.create("lines", 1)
    member = Consumer(club, "a", regex=".*s")
    settle(member)
    assert member.reads == {("__consumer_offsets", 0), ("lines", 0)}


def test_names_are_matched_in_linear_time(club: Club) -> None:
    club.cluster.create("a" * 200, 1)
    assert club.entered("m", regex="(a*)*b").error is OK
    answer = club.entered("m", regex="(a")
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "(a" in (answer.message or "")
    large = club.entered("m", regex="(a{0,900}b){0,900}")
    assert "RE2" in (large.message or "")
    long = club.entered("m", regex="a" * 300)
    assert "at most 256" in (long.message or "")


def test_a_group_has_few_regular_expressions(club: Club) -> None:
    for number in range(REGEXES_MAX):
        assert club.entered(f"m{number}", regex=f"t{number}").error is OK
    answer = club.entered("m", regex="one more")
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert f"has {REGEXES_MAX} regular expressions" in (answer.message or "")
    assert club.entered("m", regex="t5").error is OK


def test_expressions_are_compiled_one_in_a_turn() -> None:
    club = Club(has_turns=True, expiry_check_interval_ms=10**9)
    club.all_turns()
    waiting = [club.enter(f"m{number}", regex=f"t{number}") for number in range(20)]
    assert club.all_turns() >= 19
    assert all(only(answers).error is OK for answers in waiting)


def test_members_with_other_subscriptions_get_their_topics_only(club: Club) -> None:
    club.cluster.create("u", 2)
    one, both = Consumer(club, "a", "t"), Consumer(club, "b", "t", "u")
    settle(one, both)
    assert {topic for topic, _ in one.reads} == {"t"}
    assert {("u", 0), ("u", 1)} <= both.reads
    assert len(one.reads) == len(both.reads) == 3


def test_the_assignor_that_most_ask_for_is_used(club: Club) -> None:
    consumers = [Consumer(club, f"m{n}", "t", assignor="range") for n in range(2)]
    settle(*consumers)
    assert club.described().assignor == "range"
    assert consumers[0].reads == {("t", 0), ("t", 1)}
    refused = club.entered("x", "t", assignor="other")
    assert refused.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "range, uniform" in (refused.message or "")


@pytest.mark.parametrize(
    "said",
    [
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"owned": {b"t" * 16: frozenset({0})}},
        {"topics": None},
        {"instance_id": ""},
        {"rack_id": ""},
        {"instance_id": "i" * 250},
        {"topics": tuple(f"{n:0200}" for n in range(400))},
    ],
    ids=lambda said: str(said)[:40],
)
def test_a_join_must_say_what_is_needed(club: Club, said: dict[str, object]) -> None:
    answer = club.entered("m", **({"topics": ("t",)} | said))
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert answer.message
    assert club.coordinator.group_count == 0


@pytest.mark.parametrize(("member", "epoch"), [("", 0), ("m", -3), ("m", -2)])
def test_other_heartbeats_must_make_sense(club: Club, member: str, epoch: int) -> None:
    said = {"topics": ("t",), "owned": {}, "rebalance_timeout_ms": TIMEOUT_MS}
    answer = only(club.beat_as(member, epoch, **said))
    assert answer.error is ErrorCode.INVALID_REQUEST


def test_a_group_or_member_that_is_not_there_is_said_so(club: Club) -> None:
    assert only(club.beat_as("m", 3)).error is ErrorCode.GROUP_ID_NOT_FOUND
    club.entered("m", "t")
    assert only(club.beat_as("x", 3)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert only(club.beat_as("x", -1)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_has_a_largest_size() -> None:
    club = Club(group_size_max=2)
    club.entered("a")
    club.entered("b")
    answer = club.entered("c")
    assert answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "2 members" in (answer.message or "")


def test_groups_without_memory_take_no_new_members() -> None:
    club = Club(members_bytes_max=8_000)
    answers = [club.entered(f"m{n}", "t" * 100) for n in range(20)]
    assert answers[0].error is OK
    assert answers[-1].error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert club.coordinator.pinned_bytes < 16_000


def test_a_thousand_members_that_join_together_cost_some_assignments(club: Club) -> None:
    club.journal.is_prompt = False
    waiting = [club.enter(f"m{n}", "t") for n in range(1_000)]
    while club.journal.waiting:
        club.journal.confirm()
    assert all(only(answers).error is OK for answers in waiting)
    assert club.coordinator.counters.consumer_rebalances <= 1 + 1_000 // BATCH_MAX


def test_what_waits_behind_a_write_that_takes_long_is_told_to_come_again(club: Club) -> None:
    club.journal.is_prompt = False
    first, second = club.enter("a", "t"), club.enter("b", "t")
    club.journal.late()
    third = club.enter("c", "t")
    busy = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [only(each).error for each in (first, second, third)] == [busy] * 3
    club.journal.is_prompt = True
    club.journal.confirm()
    assert [each.member_id for each in club.described().members] == ["a"]
    club.pass_ms(SESSION_MS)
    assert club.described().members == (), "its session began when its write was confirmed"


def test_a_write_that_fails_leaves_the_group_as_it_was(club: Club) -> None:
    first = Consumer(club, "a", "t")
    first.beat()
    club.journal.refuses = Unwritten.FAILED
    assert club.entered("b", "t").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(club.members()) == 1
    club.journal.refuses = None
    second = Consumer(club, "b", "t")
    settle(first, second)
    assert len(first.reads) == len(second.reads) == 2


def test_a_member_whose_removal_is_not_written_is_removed_later(club: Club) -> None:
    club.entered("a", "t")
    club.journal.refuses = Unwritten.FAILED
    club.pass_ms(SESSION_MS + 10_000)
    assert len(club.members()) == 1
    club.journal.refuses = None
    club.pass_ms(1_000)
    assert club.described().state == "Empty"


def test_many_members_are_to_speak_less_often_and_a_few_at_once_hear_of_changes(
    club: Club,
) -> None:
    """A coordinator of 3,000 members hears each every 3 s, and of more than 5,000 every 5 s."""
    deadlines = club.coordinator._context.deadlines
    at_ms = club.clock.now_ms + SESSION_MS
    epoch = club.entered("a", "t").member_epoch
    for members, interval_ms in ((900, 1_000), (3_000, 3_000), (9_000, 5_000)):
        for number in range(members):
            deadlines.set(DeadlineKey(DeadlineKind.SESSION, "another", str(number)), at_ms)
        answer = only(club.beat_as("a", epoch))
        assert answer.heartbeat_interval_ms == pytest.approx(interval_ms, abs=10)


def test_the_groups_own_times_count(club: Club) -> None:
    club.cluster.keys[GROUP] = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "7000",
    }
    assert club.entered("a", "t").heartbeat_interval_ms == 7_000
    club.pass_ms(49_999)
    assert len(club.members()) == 1
    club.pass_ms(1)
    assert club.described().members == ()


def test_a_failover_changes_nothing(club: Club) -> None:
    consumers = [Consumer(club, f"m{n}", "t", rack_id="r", regex="t.*") for n in range(3)]
    settle(*consumers)
    before = club.described()
    club.restart()
    assert club.described() == before
    settle(*consumers)
    assert club.described() == before
    club.pass_ms(SESSION_MS)
    assert club.described().members == ()


def test_positions_are_committed_with_the_members_epoch(club: Club) -> None:
    club.entered("m", "t")
    key = TopicKey("t", 0)
    stale, unknown = ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID
    assert only(club.commit({("t", 0): 5}, "m", 1, is_by_epoch=True)) == {key: OK}
    assert only(club.commit({("t", 0): 6}, "m", 0, is_by_epoch=True)) == {key: stale}
    assert only(club.commit({("t", 0): 6}, "x", 1, is_by_epoch=True)) == {key: unknown}
    assert only(club.commit({("t", 0): 6})) == {key: unknown}
    old = only(club.commit({("t", 0): 6}, "m", 1))
    assert old == {key: ErrorCode.UNSUPPORTED_VERSION}
    assert club.committed("t", 0) == 5
    fenced = only(club.commit({("t", 0): 6}, "m", 1, instance="i", is_by_epoch=True))
    assert fenced == {key: ErrorCode.FENCED_INSTANCE_ID}
    reading = club.coordinator.reading
    assert (
        reading.fetch_offsets(GROUP, [key], member_id="m", member_epoch=MemberEpoch(1)).error is OK
    )
    assert (
        reading.fetch_offsets(GROUP, [key], member_id="m", member_epoch=MemberEpoch(0)).error
        is stale
    )
    assert (
        reading.fetch_offsets(GROUP, [key], member_id="x", member_epoch=MemberEpoch(1)).error
        is unknown
    )
    only(club.beat_as("m", -1))
    assert only(club.commit({("t", 0): 7})) == {key: OK}
    gone = only(club.commit({("t", 0): 7}, "m", 1, group="none", is_by_epoch=True))
    assert gone == {key: ErrorCode.GROUP_ID_NOT_FOUND}
