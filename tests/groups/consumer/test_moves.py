"""A consumer group whose partition moves, whose coordinator fails, or whose topics change."""

import pytest

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.consumer.retarget import chosen_assignor
from penstock.groups.records import TopicKey
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import SESSION_MS, TIMEOUT_MS, Club, Consumer, settle
from tests.groups.world import GROUP, only

OK = ErrorCode.NONE
CHECK_MS = 10**9


def new_club(*, has_turns: bool = False) -> Club:
    club = Club(has_turns=has_turns, expiry_check_interval_ms=CHECK_MS)
    club.all_turns()
    club.cluster.create("t", 4)
    return club


def with_a_slow_member(club: Club, **said: object) -> tuple[Consumer, Consumer]:
    """A group whose first member was told to give partitions up, and has not said that it did."""
    slow, other = Consumer(club, "a", "t", **said).beat(), Consumer(club, "b", "t").beat()
    slow.beat()
    assert club.group().currents["a"].revoking
    return slow, other


def test_a_decision_under_way_when_the_partition_moves_writes_nothing() -> None:
    club = new_club(has_turns=True)
    club.journal.is_prompt = False
    club.enter("m", "t")
    waiting = [club.enter(f"m{number}", "t") for number in range(200)]
    club.all_turns()
    club.journal.confirm()
    partition = club.coordinator.partition_of(GROUP)
    log = [*club.journal.logs[partition]]
    assert club.turns, "the batch is decided in portions"
    club.coordinator.runtime.unload(partition)
    club.all_turns()
    assert club.journal.logs[partition] == log
    assert {only(answers).error for answers in waiting} == {ErrorCode.NOT_COORDINATOR}


def test_a_slow_member_is_removed_after_a_failover_too() -> None:
    club = new_club()
    slow, other = with_a_slow_member(club)
    club.restart()
    for _ in range(TIMEOUT_MS // 5_000):
        assert "a" in club.group().facts
        other.beat()  # the first one compares the topics, which the other need not wait for
        only(club.beat_as("a", slow.epoch))  # it is alive, and does not say that it stopped
        club.pass_ms(5_000)
    assert club.members() == ["b"]
    settle(other)
    assert len(other.reads) == 4


def test_a_group_that_moves_away_leaves_no_deadline() -> None:
    club = new_club()
    began_ms = club.clock.now_ms
    with_a_slow_member(club)
    club.coordinator.runtime.unload(club.coordinator.partition_of(GROUP))
    assert club.coordinator.runtime.next_deadline_ms() == began_ms + CHECK_MS


def test_a_static_member_that_leaves_for_a_while_has_given_up_what_it_was_to_give_up() -> None:
    club = new_club()
    slow, other = with_a_slow_member(club, instance_id="i")
    slow.leave(-2)
    settle(other)
    assert len(other.reads) == 2


def test_each_expression_waits_for_a_member_that_has_it_after_a_failover() -> None:
    """A group is looked at again until all are heard of, whatever the first one brought."""
    club = new_club()
    first, second = (Consumer(club, name, regex=f"{name}-.") for name in "xy")
    settle(first, second)
    club.restart()
    club.cluster.create("x-1", 1)
    club.cluster.create("y-1", 1)
    club.pass_ms(10_000)
    first.beat()
    assert first.reads == {("x-1", 0)}
    assert club.group().resolved["y-."].topics == ()
    second.beat()
    club.pass_ms(10_000)
    settle(first, second)
    assert second.reads == {("y-1", 0)}


def test_a_group_is_stable_while_a_static_member_is_away() -> None:
    club = new_club()
    static, other = Consumer(club, "a", "t", instance_id="i"), Consumer(club, "b", "t")
    settle(static, other)
    static.leave(-2)
    assert club.described().state == "Stable"
    club.pass_ms(SESSION_MS // 2)
    other.beat()
    club.pass_ms(SESSION_MS // 2 + 1)  # it does not come back
    assert club.described().state == "Reconciling"
    settle(other)
    assert club.described().state == "Stable"


def test_a_member_may_ask_for_another_assignor_later() -> None:
    club = new_club()
    member = Consumer(club, "a", "t", assignor="uniform").beat()
    assert chosen_assignor(club.group()) == "uniform"
    assert only(club.beat_as("a", member.epoch, assignor="range")).error is OK
    assert chosen_assignor(club.group()) == "range"


@pytest.mark.parametrize("order", [("uniform", "range"), ("range", "uniform")])
def test_of_assignors_that_equally_many_ask_for_the_first_by_name_is_used(
    order: tuple[str, str],
) -> None:
    club = new_club()
    for number, assignor in enumerate(order):
        club.entered(f"m{number}", "t", assignor=assignor)
    assert chosen_assignor(club.group()) == "range"


def test_a_group_whose_first_member_is_not_written_is_not_kept() -> None:
    club = new_club()
    club.journal.refuses = Unwritten.FAILED
    assert club.entered("a", "t").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert club.coordinator.group_count == club.coordinator.pinned_bytes == 0


def test_topics_of_an_expression_stay_subscribed_when_another_member_joins() -> None:
    club = new_club()
    member = Consumer(club, "a", regex="t")
    settle(member, Consumer(club, "b", "u"))
    assert len(member.reads) == 4
    key = TopicKey("t", 0)
    only(club.commit({("t", 0): 7}, "a", member.epoch, is_by_epoch=True))
    answers: list[object] = []
    club.coordinator.delete_offsets(GROUP, (key,), answers.append)
    (answer,) = answers
    assert answer.partitions == {key: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}  # type: ignore[attr-defined]


def test_what_waits_behind_a_mistake_in_a_decision_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    club = new_club()
    club.entered("a", "t")
    club.journal.is_prompt = False
    club.beat_as("a", 1, rack_id="r")
    # One of an instance is decided at a time, so the second one is in the batch after.
    first = club.enter("b", "t", instance_id="i")
    second = club.enter("c", "t", instance_id="i")
    find, calls = club.cluster.find, iter([True])

    def broken_once(name: str) -> object:
        if next(calls, False):
            raise KeyError(name)
        return find(name)

    monkeypatch.setattr(club.cluster, "find", broken_once)
    with pytest.raises(KeyError):
        club.journal.confirm(1)
    club.journal.is_prompt = True
    club.journal.confirm()
    assert only(first).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert only(second).error is OK
