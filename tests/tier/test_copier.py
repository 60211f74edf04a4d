"""A copier, step by step: what it asks for, in which order, and what it makes of outcomes."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.base.invariant import InvariantViolation
from penstock.extents.layout import Entry
from penstock.tier.copies import copier
from penstock.tier.copies.alignment import OwnLog, agreed_end
from penstock.tier.copies.copier import Copier, Step
from penstock.tier.copies.effects import Ask, Built, Look, Part, Plan, Upload
from penstock.tier.metadata.commands import (
    Answer,
    Command,
    Commit,
    Fence,
    Read,
    Reason,
    Refused,
    Reserve,
)
from penstock.tier.metadata.manifest import Kind, Manifest, Run, Snapshot
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName
from tests.extents.files import CLUSTER, SET, key
from tests.tier.clerk import Clerk

TIMES = TierTimes(upload_ms=100, skew_ms=50, lease_ms=200, grace_ms=300)
ONE = key(1, 0)


class Log:
    """One partition, all of one epoch; an object for every `step` offsets."""

    def __init__(self, end: int, step: int = 5) -> None:
        self.end = end
        self.start = 0
        self.step = step
        self.epochs: tuple[tuple[int, int], ...] = ((1, 0),)
        self.keys: Sequence[TopicPartition] = (ONE,)
        self.is_emptied = False
        self.give_ups = 0

    def partitions(self) -> Sequence[TopicPartition]:
        return self.keys

    def own(self, topic_partition: TopicPartition) -> OwnLog:
        return OwnLog(self.epochs, self.start, self.end, self.is_emptied, self.give_ups)

    def plans(self, ends: Mapping[TopicPartition, int], count_max: int) -> Sequence[Plan]:
        if not self.keys:
            return ()
        first = max(ends[ONE], self.start)
        bounds = range(first, self.end, self.step)[:count_max]
        return [(Part(ONE, at, min(at + self.step, self.end)),) for at in bounds]


class Round:
    """A copier with its metadata."""

    def __init__(self, log: Log, metadata: TierMetadata | None = None, epoch: int = 1) -> None:
        self.log = log
        self.metadata = metadata or TierMetadata(CLUSTER, TIMES)
        self.copier = Copier(Fence(SET, LeaderEpoch(epoch), bytes([epoch])), CLUSTER, log, TIMES)
        self.now_ms = 1000

    def ask(self) -> Command:
        """Return the one thing that the copier wants: an answer."""
        (effect,) = self.copier.take(self.now_ms)
        assert isinstance(effect, Ask)
        return effect.command

    def answer(self, kind: type[Command], answer: Answer | None = None) -> None:
        command = self.ask()
        assert isinstance(command, kind)
        self.copier.answered(command, answer or self.metadata.apply(command, self.now_ms))

    def open(self) -> None:
        self.answer(Fence)
        self.answer(Read)

    def uploads(self) -> list[Upload]:
        self.answer(Reserve)
        found = [one for one in self.copier.take(self.now_ms) if isinstance(one, Upload)]
        assert found
        return found

    def put(self, upload: Upload) -> None:
        self.copier.put(upload.name.object_id, built(upload))

    def ranges(self) -> list[tuple[int, int]]:
        runs = self.metadata.manifest(ONE).runs
        return [(run.first_offset, run.end_offset) for run in runs]


def built(upload: Upload, size: int = 7) -> Built:
    entries = tuple(
        Entry(*part.topic_partition, 0, part.first_offset, part.end_offset, *[0] * 11)
        for part in upload.plan
    )
    return Built(entries, tuple(((1, entry.first_offset),) for entry in entries), size)


def test_a_round_goes_from_the_fence_to_the_commit_and_ends() -> None:
    one = Round(Log(12))
    one.open()
    assert not one.copier.is_open
    uploads = one.uploads()
    assert one.copier.is_open
    assert [upload.plan[0][1:] for upload in uploads] == [(0, 5), (5, 10), (10, 12)]
    for upload in uploads:
        one.put(upload)
    one.answer(Commit)
    assert one.ranges() == [(0, 5), (5, 10), (10, 12)]
    assert one.copier.take(one.now_ms) == []
    assert one.copier.step is Step.IDLE


def test_nothing_is_asked_twice_until_no_answer_will_come() -> None:
    one = Round(Log(0))
    command = one.ask()
    assert one.copier.take(5000) == []
    one.copier.unanswered()
    assert one.ask() == command


def test_an_answer_that_comes_twice_counts_once() -> None:
    one = Round(Log(12))
    command = one.ask()
    answer = one.metadata.apply(command, one.now_ms)
    one.copier.answered(command, answer)
    one.answer(Read)
    one.copier.answered(command, answer)
    assert isinstance(one.ask(), Reserve)


def test_the_time_for_an_upload_counts_from_when_the_ids_were_asked_for() -> None:
    one = Round(Log(5))
    one.open()
    command = one.ask()
    one.now_ms += 30
    one.copier.answered(command, one.metadata.apply(command, one.now_ms))
    (upload,) = one.copier.take(one.now_ms)
    assert isinstance(upload, Upload)
    assert upload.until_ms == 1100


@pytest.mark.parametrize(("size", "is_there"), [(7, True), (6, False), (None, False)])
def test_after_a_failed_put_the_size_decides(size: int | None, is_there: bool) -> None:
    one = Round(Log(5))
    one.open()
    (upload,) = one.uploads()
    one.copier.failed(upload.name.object_id, built(upload))
    assert one.copier.take(one.now_ms) == [Look(upload.name)]
    one.copier.looked(upload.name.object_id, size)
    assert isinstance(one.ask(), Commit if is_there else Reserve)


def test_an_id_that_was_given_up_is_not_put_again() -> None:
    one = Round(Log(5))
    one.open()
    (upload,) = one.uploads()
    one.copier.failed(upload.name.object_id, None)
    (again,) = one.uploads()
    assert again.plan == upload.plan
    assert again.name != upload.name


def test_a_partition_does_not_begin_behind_an_object_that_was_given_up() -> None:
    """The tier may begin anywhere; not with less than was to be copied."""
    one = Round(Log(15))
    one.open()
    first, second, third = one.uploads()
    one.copier.failed(first.name.object_id, None)
    one.put(second)
    one.put(third)
    assert not one.copier.has_commit
    assert [upload.plan[0][1:] for upload in one.uploads()] == [(0, 5), (5, 10), (10, 15)]
    assert one.ranges() == []


def test_a_partition_that_comes_later_is_read_and_copied() -> None:
    one = Round(Log(5))
    one.log.keys = ()
    one.open()
    assert one.copier.take(one.now_ms) == []
    one.log.keys = (ONE,)
    command = one.ask()
    assert isinstance(command, Read)
    assert not one.copier.is_open, "the tier may have of it what the log has not"
    one.copier.answered(command, one.metadata.apply(command, one.now_ms))
    (upload,) = one.uploads()
    one.put(upload)
    one.answer(Commit)
    assert one.ranges() == [(0, 5)]


def test_a_round_of_which_nothing_came_into_the_store_ends_where_no_other_follows() -> None:
    one = Round(Log(5))
    one.open()
    (upload,) = one.uploads()
    one.copier.failed(upload.name.object_id, None)
    one.log.end = 0
    for _ in range(2):
        assert one.copier.take(one.now_ms) == []
        assert one.copier.step is Step.IDLE


def _with_many_runs(monkeypatch: pytest.MonkeyPatch) -> Round:
    """Return a round whose tier has ten runs of an offset each; three go at a time."""
    monkeypatch.setattr(copier, "EVENT_RUNS_MAX", 3)
    one = Round(Log(10, step=1))
    one.open()
    for _ in range(2):
        for upload in one.uploads():
            one.put(upload)
        one.answer(Commit)
    assert len(one.ranges()) == 10
    return one


def test_many_runs_are_deleted_a_bounded_number_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = _with_many_runs(monkeypatch)
    one.log.start = 8
    for left in (7, 4, 2):
        one.answer(Commit)
        assert len(one.ranges()) == left
    assert one.copier.take(one.now_ms) == []


def test_many_runs_are_cut_a_bounded_number_at_a_time_before_anything_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = _with_many_runs(monkeypatch)
    one = Round(Log(12, step=20), old.metadata, epoch=2)
    one.log.epochs = ((1, 0), (2, 2))
    one.answer(Fence)
    one.answer(Read)
    for left in (7, 4, 2):
        assert not one.copier.is_open
        one.answer(Commit)
        assert len(one.ranges()) == left
    assert [upload.plan[0][1:] for upload in one.uploads()] == [(2, 12)]


def test_what_stands_behind_an_object_that_was_given_up_is_not_committed() -> None:
    one = Round(Log(15))
    one.open()
    first, second, third = one.uploads()
    one.put(first)
    one.copier.failed(second.name.object_id, None)
    one.put(third)
    one.answer(Commit)
    assert one.ranges() == [(0, 5)]
    assert [upload.plan[0][1:] for upload in one.uploads()] == [(5, 10), (10, 15)]


def test_a_copier_that_was_deposed_wants_nothing_any_more() -> None:
    one = Round(Log(5))
    one.open()
    (upload,) = one.uploads()
    Round(Log(5), one.metadata, epoch=2).answer(Fence)
    one.put(upload)
    one.answer(Commit)
    assert one.copier.step is Step.DEPOSED
    one.copier.put(upload.name.object_id, built(upload))
    one.copier.unanswered()
    assert one.copier.take(9999) == []
    assert one.ranges() == []


@pytest.mark.parametrize("reason", [Reason.STALE, Reason.UNKNOWN_OBJECT, Reason.DOES_NOT_FOLLOW])
def test_after_any_other_refusal_the_manifest_is_read_again(reason: Reason) -> None:
    one = Round(Log(5))
    one.open()
    (upload,) = one.uploads()
    one.put(upload)
    one.answer(Commit, Refused(reason))
    assert not one.copier.is_open
    one.answer(Read)
    (again,) = one.uploads()
    one.copier.put(upload.name.object_id, built(upload))  # late, of the round before
    assert one.copier.step is Step.UPLOAD
    one.put(again)
    one.answer(Commit)
    assert one.ranges() == [(0, 5)]


def test_what_is_below_the_log_start_is_deleted_before_more_is_copied() -> None:
    one = Round(Log(10))
    one.open()
    for upload in one.uploads():
        one.put(upload)
    one.answer(Commit)
    one.log.start, one.log.end = 5, 20
    command = one.ask()
    assert isinstance(command, Commit)
    assert [expected.group.kind for expected in command.events] == [Kind.DELETE]
    one.copier.answered(command, one.metadata.apply(command, one.now_ms))
    assert one.ranges() == [(5, 10)]
    assert isinstance(one.ask(), Reserve)


def test_what_the_log_has_lost_is_cut_before_anything_is_copied() -> None:
    old = Round(Log(10))
    old.open()
    for upload in old.uploads():
        old.put(upload)
    old.answer(Commit)
    log = Log(9)
    log.epochs = ((1, 0), (2, 7))
    new = Round(log, old.metadata, epoch=2)
    new.open()
    assert not new.copier.is_open
    new.answer(Commit)
    assert new.ranges() == [(0, 5), (5, 7)]
    (upload,) = new.uploads()
    assert upload.plan == ((ONE, 7, 9),)


def test_an_object_that_is_not_as_planned_is_a_mistake_of_ours() -> None:
    one = Round(Log(5))
    one.open()
    (upload,) = one.uploads()
    other = upload._replace(plan=(Part(ONE, 0, 4),))
    with pytest.raises(InvariantViolation):
        one.copier.put(upload.name.object_id, built(other))


def tier(*epochs: tuple[int, int], end: int) -> Snapshot:
    """Return a tier with one run that has these epochs."""
    first = epochs[0][1]
    entry = Entry(*ONE, 0, first, end, *[0] * 11)
    run = Run(ObjectName(CLUSTER, SET, LeaderEpoch(1), 1), entry, epochs, end)
    return Snapshot(1, first, end, (run,))


@pytest.mark.parametrize(
    ("snapshot", "epochs", "log_end", "agreed"),
    [
        (tier((1, 0), end=10), ((1, 0),), 20, 10),
        (tier((1, 0), end=10), ((1, 0),), 8, 8),
        (tier((1, 0), end=10), ((1, 0), (2, 6)), 20, 6),
        (tier((1, 0), (3, 4), end=10), ((1, 0), (2, 6)), 20, 4),
        (tier((1, 0), (2, 4), end=10), ((1, 0), (2, 4), (5, 12)), 20, 10),
        (tier((1, 0), (2, 4), end=10), ((1, 0), (3, 4)), 20, 4),
        (tier((2, 0), end=10), ((1, 0),), 20, 0),
        (tier((1, 0), (2, 4), end=10), ((2, 8),), 20, 10),
        (tier((1, 0), (2, 4), end=10), ((2, 8), (3, 9)), 20, 9),
        (tier((1, 0), (2, 4), end=10), ((3, 8),), 20, 8),
        (tier((1, 0), end=10), ((7, 10),), 20, 10),
        (tier((1, 0), end=10), (), 10, 10),
        (tier((1, 0), end=10), (), 6, 6),
        (Snapshot(), ((1, 0),), 20, 0),
    ],
)
def test_the_tier_agrees_with_a_log_up_to_where_their_epochs_part(
    snapshot: Snapshot, epochs: tuple[tuple[int, int], ...], log_end: int, agreed: int
) -> None:
    assert agreed_end(snapshot, OwnLog(epochs, 0, log_end)) == agreed


def test_a_partition_that_is_emptied_loses_its_runs_from_the_end_on_and_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copier, "EVENT_RUNS_MAX", 2)
    log = Log(15)
    one = Round(log)
    one.open()
    for upload in one.uploads():
        one.put(upload)
    one.answer(Commit)
    log.is_emptied = True
    one.answer(Commit)
    assert one.ranges() == [(0, 5)]
    one.answer(Commit)
    assert one.ranges() == []
    log.is_emptied, log.start = False, 7
    for upload in one.uploads():
        one.put(upload)
    one.answer(Commit)
    assert one.ranges() == [(7, 12), (12, 15)]
    assert one.metadata.manifest(ONE).start_offset == 7


def test_what_is_emptied_has_its_beginning_deleted_too() -> None:
    log = Log(15)
    one = Round(log)
    one.open()
    for upload in one.uploads():
        one.put(upload)
    one.answer(Commit)
    log.start = 3
    one.answer(Commit)
    assert one.metadata.manifest(ONE).start_offset == 3
    log.is_emptied = True
    one.answer(Commit)
    assert not one.metadata.manifest(ONE).runs
    log.end = 3
    assert one.copier.take(one.now_ms) == []


def _empty(log: Log) -> None:
    log.is_emptied = True


def _lose(log: Log) -> None:
    log.epochs = ((2, 0),)


def _delete(log: Log) -> None:
    log.start = 10


@pytest.mark.parametrize(
    ("change", "offsets"), [(_empty, (0, 5)), (_lose, (0, 5)), (_delete, (10, 5))]
)
def test_what_one_commit_takes_away_is_bounded_over_all_partitions(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Log], None], offsets: tuple[int, int]
) -> None:
    monkeypatch.setattr(copier, "EVENT_RUNS_MAX", 3)
    metadata, two = TierMetadata(CLUSTER, TIMES), key(1, 1)
    for each in (ONE, two):
        runs = tuple(
            Clerk.run(ObjectName(CLUSTER, SET, LeaderEpoch(1), first), each, first, first + 5)
            for first in (0, 5)
        )
        metadata.restore(each, Manifest(Snapshot(1, 0, 10, runs)))
    log = Log(10)
    log.keys = (ONE, two)
    change(log)
    one = Round(log, metadata)
    one.open()
    command = one.ask()
    assert isinstance(command, Commit)
    assert [(group.topic_partition, group.offset) for _, group in command.events] == [
        (ONE, offsets[0]),
        (two, offsets[1]),
    ]
