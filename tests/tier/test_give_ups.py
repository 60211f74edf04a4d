"""What a topic has given up goes from the tier, and nothing of it counts again."""

from collections.abc import Sequence

import pytest

from penstock.tier.copies import copier
from penstock.tier.metadata.commands import Commit, Reserve
from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest
from tests.extents.files import key
from tests.tier.objects import manifest_of
from tests.tier.test_copier import ONE, Log, Round
from tests.tier.test_manifest import runs


def copied(log: Log, *, count: int = 1) -> Round:
    """Return a copier behind so many rounds."""
    one = Round(log)
    one.open()
    for _ in range(count):
        copy(one)
    return one


def copy(one: Round) -> None:
    for upload in one.uploads():
        one.put(upload)
    one.answer(Commit)


def next_events(one: Round) -> Sequence[EventGroup]:
    """Let the copier commit what takes something away; return it."""
    command = one.ask()
    assert isinstance(command, Commit)
    assert not command.objects
    one.copier.answered(command, one.metadata.apply(command, one.now_ms))
    return [group for _, group in command.events]


def next_kinds(one: Round) -> list[Kind]:
    return [group.kind for group in next_events(one)]


def test_what_was_given_up_goes_before_the_log_is_copied_from_its_start() -> None:
    log = Log(15)
    one = copied(log)
    log.give_ups, log.start = 1, 7
    assert next_kinds(one) == [Kind.CUT]
    assert one.ranges() == []
    assert next_kinds(one) == [Kind.GIVE_UP]
    assert one.metadata.manifest(ONE).give_ups == 1
    copy(one)
    assert one.ranges() == [(7, 12), (12, 15)]
    manifest = one.metadata.manifest(ONE)
    assert (manifest.give_ups, manifest.start_offset) == (1, 7)
    assert one.copier.take(one.now_ms) == [], "it is given up once"


def test_many_runs_go_a_bounded_number_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copier, "EVENT_RUNS_MAX", 2)
    log = Log(25)
    one = copied(log)
    log.give_ups = 1
    left = []
    while next_kinds(one) == [Kind.CUT]:
        left.append(len(one.ranges()))
    assert left == [3, 1, 0]
    assert one.metadata.manifest(ONE).give_ups == 1


def test_many_partitions_are_given_up_a_bounded_number_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copier, "EVENT_RUNS_MAX", 2)
    log = Log(5)
    log.keys, log.give_ups = [key(1, number) for number in range(5)], 1
    one = Round(log)
    one.open()
    assert [len(next_events(one)) for _ in range(3)] == [2, 2, 1]
    assert isinstance(one.ask(), Reserve)


@pytest.mark.parametrize("events", range(3))
def test_a_master_that_comes_in_the_middle_of_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    monkeypatch.setattr(copier, "EVENT_RUNS_MAX", 2)
    log = Log(20)
    one = copied(log)
    log.give_ups = 1
    for _ in range(events):
        next_events(one)
    other = Round(log, one.metadata, epoch=2)
    other.open()
    while other.metadata.manifest(ONE).give_ups == 0:
        next_events(other)
    assert other.ranges() == []
    copy(other)
    assert other.ranges() == [(0, 5), (5, 10), (10, 15), (15, 20)]


def test_an_upload_that_was_under_way_is_given_up_with_the_rest() -> None:
    log = Log(15)
    one = Round(log)
    one.open()
    uploads = one.uploads()
    log.give_ups = 1
    for upload in uploads:
        one.put(upload)
    one.answer(Commit)
    assert one.ranges(), "it was put, and has a row by which it is deleted"
    assert next_kinds(one) == [Kind.CUT]
    assert next_kinds(one) == [Kind.GIVE_UP]
    assert one.ranges() == []


def test_a_lost_answer_gives_nothing_up_twice() -> None:
    log = Log(15)
    one = copied(log)
    log.give_ups = 1
    next_events(one)
    command = one.ask()
    one.metadata.apply(command, one.now_ms)
    one.copier.unanswered()
    assert one.ask() == command
    one.copier.answered(command, one.metadata.apply(command, one.now_ms))
    copy(one)
    assert one.metadata.manifest(ONE).give_ups == 1
    assert one.ranges() == [(0, 5), (5, 10), (10, 15)]


@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_master_that_knows_of_fewer_give_ups_than_the_tier_takes_nothing_away(
    *, is_emptied: bool
) -> None:
    """What was copied since may be in the store alone, and this one takes the topic to be off."""
    log = Log(15)
    log.give_ups = 2
    one = Round(log)
    one.open()
    assert next_kinds(one) == [Kind.GIVE_UP]
    copy(one)
    log.give_ups, log.is_emptied = 1, is_emptied
    assert one.copier.take(one.now_ms) == []
    assert one.ranges() == [(0, 5), (5, 10), (10, 15)]


def test_a_partition_that_was_never_copied_begins_with_the_count_of_its_topic() -> None:
    log = Log(5)
    log.give_ups = 3
    one = Round(log)
    one.open()
    assert next_kinds(one) == [Kind.GIVE_UP]
    assert isinstance(one.ask(), Reserve)
    assert one.metadata.manifest(ONE).give_ups == 3


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_count_of_give_ups_rises(count: int) -> None:
    manifest = Manifest()
    manifest.apply(EventGroup(Kind.GIVE_UP, ONE, give_ups=2))
    assert manifest.problem_with(EventGroup(Kind.GIVE_UP, ONE, give_ups=count)) is not None
    assert manifest.problem_with(EventGroup(Kind.GIVE_UP, ONE, give_ups=3)) is None


def test_nothing_is_given_up_that_has_runs() -> None:
    manifest = manifest_of(runs())
    assert manifest.problem_with(EventGroup(Kind.GIVE_UP, ONE, give_ups=1)) is not None
    first, _ = runs()
    with_runs = EventGroup(Kind.GIVE_UP, ONE, (first,), give_ups=1)
    assert Manifest().problem_with(with_runs) is not None


def test_what_was_given_up_lies_below_nothing_that_is_copied_then() -> None:
    """A start that clients had set behind the log of today would keep its records out."""
    first, _ = runs()
    manifest = Manifest()
    manifest.apply(EventGroup(Kind.DELETE, ONE, offset=40))
    manifest.apply(EventGroup(Kind.GIVE_UP, ONE, give_ups=1))
    assert manifest.problem_with(EventGroup(Kind.COPY, ONE, (first,))) is None
    manifest.apply(EventGroup(Kind.COPY, ONE, (first,)))
    again = Manifest(manifest.snapshot())
    assert again.snapshot() == manifest.copy().snapshot() == manifest.snapshot()
    assert (again.give_ups, again.start_offset, again.end_offset) == (1, 0, 10)
