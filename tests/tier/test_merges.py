"""A copier's merges: beside its copies, committed only where the very runs are still there."""

from collections.abc import Mapping

import pytest

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.extents.layout import Entry
from penstock.tier.copies.copier import Copier, Step
from penstock.tier.copies.effects import Ask, Built, Look, MergePlan, Replacement, Upload
from penstock.tier.metadata.commands import Command, Commit, Fence, Read, Reason, Refused, Reserve
from penstock.tier.metadata.manifest import Kind, Manifest
from penstock.tier.metadata.objects import State
from penstock.tier.metadata.state import TierMetadata
from tests.extents.files import CLUSTER, SET
from tests.tier.test_copier import ONE, TIMES, Log, Round, built


class Wanted:
    """Wants runs merged, by their numbers, once."""

    def __init__(self) -> None:
        self.numbers: tuple[int, int] | None = None

    def plan(self, manifests: Mapping[TopicPartition, Manifest]) -> MergePlan:
        """As in Mergers."""
        numbers, self.numbers = self.numbers, None
        if numbers is None:
            return ()
        return (Replacement(tuple(manifests[ONE].runs[slice(*numbers)])),)


class Merging(Round):
    """A copier that has copied a log of 20 records in runs of 5, and merges."""

    def __init__(self, *, runs_max: int = 100_000) -> None:
        super().__init__(Log(20), TierMetadata(CLUSTER, TIMES, runs_max))
        self.wanted = Wanted()
        fence = Fence(SET, LeaderEpoch(1), b"1")
        self.copier = Copier(fence, CLUSTER, self.log, TIMES, self.wanted)
        self.open()
        self.copy()

    def copy(self) -> None:
        for upload in self.uploads():
            self.put(upload)
        self.answer(Commit)

    def begin(self, first: int, end: int) -> Upload:
        """Have runs merged; return what is to be put."""
        self.wanted.numbers = first, end
        self.answer(Reserve)
        (upload,) = [one for one in self.copier.take(self.now_ms) if isinstance(one, Upload)]
        return upload

    def put_merged(self, upload: Upload) -> None:
        self.copier.put(upload.name.object_id, merged(upload))

    def asks(self) -> list[Command]:
        return [one.command for one in self.copier.take(self.now_ms) if isinstance(one, Ask)]

    def state_of(self, upload: Upload) -> State:
        return self.metadata.objects.rows[upload.name.object_id].state


def merged(upload: Upload) -> Built:
    of = built(upload, 70)
    entries = tuple(
        Entry(*entry[:2], one.generation, *entry[3:])
        for entry, one in zip(of.entries, upload.merge, strict=True)
    )
    return of._replace(entries=entries)


def test_runs_become_one_of_the_next_generation_and_their_objects_wait_for_readers() -> None:
    one = Merging()
    upload = one.begin(1, 3)
    assert [part[1:] for part in upload.plan] == [(5, 15)]
    assert one.ranges() == [(0, 5), (5, 10), (10, 15), (15, 20)]
    one.put_merged(upload)
    assert one.copier.has_commit
    one.answer(Commit)
    assert one.ranges() == [(0, 5), (5, 15), (15, 20)]
    assert one.metadata.manifest(ONE).runs[1].entry.generation == 1
    assert one.copier.manifests[ONE].snapshot() == one.metadata.manifest(ONE).snapshot()
    doomed = [row for row in one.metadata.objects.rows.values() if row.state is State.DOOMED]
    assert len(doomed) == 2
    assert all(row.due_ms >= one.now_ms + TIMES.grace_ms for row in doomed)
    assert one.asks() == []
    assert not one.copier.has_commit


def test_copies_go_on_while_a_merge_is_built() -> None:
    one = Merging()
    upload = one.begin(0, 4)
    one.log.end = 30
    one.copy()
    assert one.ranges()[-1] == (25, 30)
    one.put_merged(upload)
    one.answer(Commit)
    assert one.ranges() == [(0, 20), (20, 25), (25, 30)]


def test_a_merge_is_committed_while_copies_are_under_way_and_these_are_afterwards() -> None:
    one = Merging()
    merge = one.begin(0, 4)
    one.log.end = 30
    copies = one.uploads()
    one.put_merged(merge)
    command = one.ask()
    assert isinstance(command, Commit)
    assert command.events[0].group.kind is Kind.REPLACE
    for upload in copies:
        one.put(upload)
    assert one.copier.step is Step.COMMIT
    one.copier.answered(command, one.metadata.apply(command, one.now_ms))
    assert one.copier.step is Step.COMMIT
    one.answer(Commit)
    assert one.ranges() == [(0, 20), (20, 25), (25, 30)]


def test_a_merge_of_runs_of_which_some_have_gone_is_given_up() -> None:
    one = Merging()
    upload = one.begin(0, 3)
    one.log.start = 5
    one.answer(Commit)
    assert one.ranges() == [(5, 10), (10, 15), (15, 20)]
    one.put_merged(upload)
    assert one.asks() == []
    assert one.ranges() == [(5, 10), (10, 15), (15, 20)]
    assert one.state_of(upload) is State.RESERVED
    one.now_ms += TIMES.upload_ms
    one.wanted.numbers = 0, 2
    one.answer(Reserve)
    assert one.state_of(upload) is State.ABORTED


def test_a_merge_does_not_bring_back_what_was_taken_from_the_beginning_of_its_first_run() -> None:
    one = Merging()
    upload = one.begin(0, 3)
    one.log.start = 3
    one.answer(Commit)
    one.put_merged(upload)
    one.answer(Commit)
    assert one.ranges() == [(0, 15), (15, 20)]
    assert one.metadata.manifest(ONE).start_offset == 3


def test_runs_that_were_cut_and_copied_again_are_others() -> None:
    one = Merging()
    upload = one.begin(0, 4)
    one.log.is_emptied = True
    one.answer(Commit)
    assert one.ranges() == []
    one.log.is_emptied = False
    one.copy()
    assert one.ranges() == [(0, 5), (5, 10), (10, 15), (15, 20)]
    one.put_merged(upload)
    assert one.asks() == []
    assert one.ranges() == [(0, 5), (5, 10), (10, 15), (15, 20)]


def test_a_put_whose_fate_is_unknown_is_looked_at() -> None:
    one = Merging()
    upload = one.begin(0, 2)
    one.copier.failed(upload.name.object_id, merged(upload))
    (look,) = one.copier.take(one.now_ms)
    assert look == Look(upload.name)
    one.copier.looked(upload.name.object_id, 70)
    one.answer(Commit)
    assert one.ranges() == [(0, 10), (10, 15), (15, 20)]


@pytest.mark.parametrize("is_put", [True, False])
def test_a_merge_that_is_not_there_is_given_up_and_the_next_one_has_another_id(
    is_put: bool,
) -> None:
    one = Merging()
    upload = one.begin(0, 2)
    one.copier.failed(upload.name.object_id, merged(upload) if is_put else None)
    one.copier.take(one.now_ms)
    if is_put:
        one.copier.looked(upload.name.object_id, None)
        one.copier.take(one.now_ms)
    again = one.begin(0, 2)
    assert again.name.object_id > upload.name.object_id


@pytest.mark.parametrize("reason", [Reason.UNKNOWN_OBJECT, Reason.STALE, Reason.DOES_NOT_FOLLOW])
def test_a_merge_that_is_refused_is_given_up_and_the_manifest_is_read_again(
    reason: Reason,
) -> None:
    one = Merging()
    one.put_merged(one.begin(0, 2))
    one.answer(Commit, Refused(reason))
    assert one.copier.step is Step.READ
    one.answer(Read)
    assert one.asks() == []


def test_a_merge_that_is_refused_leaves_a_round_of_copies_alone() -> None:
    one = Merging()
    merge = one.begin(0, 2)
    one.log.end = 30
    copies = one.uploads()
    one.put_merged(merge)
    one.answer(Commit, Refused(Reason.UNKNOWN_OBJECT))
    for upload in copies:
        one.put(upload)
    one.answer(Commit)
    assert one.ranges()[-2:] == [(20, 25), (25, 30)]


def test_a_deposed_master_replaces_nothing() -> None:
    one = Merging()
    upload = one.begin(0, 4)
    other = Round(one.log, one.metadata, epoch=2)
    other.open()
    one.put_merged(upload)
    one.answer(Commit)
    assert one.copier.step is Step.DEPOSED
    assert one.ranges() == [(0, 5), (5, 10), (10, 15), (15, 20)]
    assert one.state_of(upload) is State.ABORTED


def test_the_next_master_cuts_what_was_merged_and_lost() -> None:
    one = Merging()
    one.put_merged(one.begin(0, 4))
    one.answer(Commit)
    one.log.end = 13
    other = Round(one.log, one.metadata, epoch=2)
    other.answer(Fence)
    other.answer(Read)
    other.answer(Commit)
    assert other.ranges() == [(0, 13)]


def test_a_merge_that_was_under_way_when_its_runs_were_cut_is_refused() -> None:
    """The one that a deposed master puts behind the fence, and the one of the next master."""
    one = Merging()
    upload = one.begin(2, 4)
    one.log.end = 17
    other = Round(one.log, one.metadata, epoch=2)
    other.answer(Fence)
    other.answer(Read)
    other.answer(Commit)
    one.put_merged(upload)
    one.answer(Commit)
    assert one.ranges() == [(0, 5), (5, 10), (10, 15), (15, 17)]


def test_where_ids_are_refused_since_there_are_too_many_runs_merges_have_theirs() -> None:
    one = Merging(runs_max=4)
    one.log.end = 30
    one.answer(Reserve)
    assert one.copier.step is Step.READ
    one.wanted.numbers = 0, 4
    one.answer(Read)
    one.answer(Reserve)
    (upload, _) = one.copier.take(one.now_ms)
    assert isinstance(upload, Upload)
    one.put_merged(upload)
    commands = [one.copier._asked]
    while one.ranges() != [(0, 20)]:
        for command in commands:
            assert command is not None
            one.copier.answered(command, one.metadata.apply(command, one.now_ms))
        commands = [*one.asks()]
    assert one.metadata.run_count == 1
    one.copier.unanswered()
    one.copy()
    assert one.ranges() == [(0, 20), (20, 25), (25, 30)]


def test_disks_are_not_freed_up_to_within_what_is_being_merged() -> None:
    one = Merging()
    assert one.copier.may_free(ONE, 10)
    one.wanted.numbers = 1, 3
    command = one.ask()
    offsets = [0, 5, 10, 15, 20]
    assert [at for at in offsets if not one.copier.may_free(ONE, at)] == [10]
    one.copier.answered(command, one.metadata.apply(command, one.now_ms))
    (upload,) = [each for each in one.copier.take(one.now_ms) if isinstance(each, Upload)]
    assert not one.copier.may_free(ONE, 10)
    one.put_merged(upload)
    commit = one.ask()
    assert not one.copier.may_free(ONE, 10)
    one.copier.unanswered()
    assert not one.copier.may_free(ONE, 10)
    one.copier.answered(commit, one.metadata.apply(commit, one.now_ms))
    assert all(one.copier.may_free(ONE, at) for at in offsets)
    assert one.copier.manifests[ONE].run_from(10) is None


def test_a_merge_whose_answer_is_lost_is_asked_for_again_and_done_once() -> None:
    one = Merging()
    one.put_merged(one.begin(0, 2))
    command = one.ask()
    one.metadata.apply(command, one.now_ms)
    one.copier.unanswered()
    assert not one.copier.has_commit, "what waits for an answer is no reason not to pause"
    one.answer(Commit)
    assert one.ranges() == [(0, 10), (10, 15), (15, 20)]
    assert one.metadata.manifest(ONE).last_event_id == one.copier.manifests[ONE].last_event_id
