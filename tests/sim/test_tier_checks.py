"""The checks of the tier pass what is right, and name each thing that is wrong."""

import pytest

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.extents.layout import Aborted
from penstock.tier.metadata.commands import Commit, Expected, Reserved, Tenure, Written
from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest, Run, Snapshot
from simulator.checks.tier.contents import problems_of
from simulator.checks.tier.promises import TierPromises
from simulator.kernel.distant_store import SharedStore
from tests.extents.files import SET, Part, batch, key
from tests.tier.objects import name, put

KEY = key(1, 0)
FIRST, SECOND = Tenure(SET, LeaderEpoch(1), 1), Tenure(SET, LeaderEpoch(2), 2)


def batches(first: int, end: int, size: int = 9) -> list[bytes]:
    """Batches of one record each."""
    return [batch(offset, size=size) for offset in range(first, end)]


class Told:
    """The checks, a store, and what a copier would be told."""

    def __init__(self) -> None:
        self.store = SharedStore()
        self.found: list[str] = []
        self.promises = TierPromises(self.store, self.found.append)
        self.promises.read(FIRST, KEY, Snapshot())

    def put(self, object_id: int, first: int, end: int, tenure: Tenure = FIRST) -> Run:
        """Have an object made, under an id of the tenure."""
        self.promises.reserved(tenure, Reserved((object_id,)))
        return self.made(object_id, first, end, tenure.leader_epoch)

    def made(self, object_id: int, first: int, end: int, epoch: int = 1) -> Run:
        of = name(object_id, epoch)
        return put(self.store.bucket, of, [Part(KEY, batches(first, end))])[0]

    def commit(self, run: Run, after: int, tenure: Tenure = FIRST) -> None:
        """Say that a copy of one run is committed behind an event."""
        group = EventGroup(Kind.COPY, KEY, (run,))
        size = len(self.store.bucket.objects[str(run.name)][0])
        written = (Written(run.name.object_id, size),)
        self.promises.committed(Commit(tenure, after + 1, written, (Expected(after, group),)))

    def snapshot(self, *runs: Run) -> Snapshot:
        manifest = Manifest()
        for run in runs:
            manifest.apply(EventGroup(Kind.COPY, KEY, (run,)))
        return manifest.snapshot()

    def one_finding(self) -> str:
        assert len(self.found) == 1, self.found
        return self.found[0]


@pytest.fixture
def told() -> Told:
    return Told()


def test_copies_that_follow_each_other_and_a_new_tenure_that_sees_them_are_right(
    told: Told,
) -> None:
    one, other = told.put(1, 0, 3), told.put(2, 3, 5)
    told.commit(one, 0)
    told.commit(other, 1)
    told.promises.read(SECOND, KEY, told.snapshot(one, other))
    told.commit(told.put(3, 5, 6, SECOND), 2, SECOND)
    assert told.found == []
    assert sorted(told.promises.contents.batches[KEY]) == list(range(6))


def test_a_commit_that_is_heard_late_is_right_where_the_next_tenure_has_seen_it(
    told: Told,
) -> None:
    run = told.put(1, 0, 3)
    told.promises.read(SECOND, KEY, told.snapshot(run))
    told.commit(run, 0)
    assert told.found == []


def test_a_commit_of_a_deposed_master_that_counts_is_wrong(told: Told) -> None:
    told.promises.read(SECOND, KEY, Snapshot())
    told.commit(told.put(1, 0, 3), 0)
    assert "it counts, and Tenure" in told.one_finding()


def test_a_commit_that_the_next_tenure_does_not_see_is_wrong(told: Told) -> None:
    told.commit(told.put(1, 0, 3), 0)
    told.promises.read(SECOND, KEY, Snapshot())
    assert "does not see event 1" in told.one_finding()


def test_two_manifests_behind_one_event_are_wrong(told: Told) -> None:
    one, other = told.put(1, 0, 3), told.put(2, 0, 4)
    told.promises.read(SECOND, KEY, told.snapshot(one))
    told.promises.read(Tenure(SET, LeaderEpoch(3), 3), KEY, told.snapshot(other))
    assert "leaves two manifests" in told.one_finding()


def test_an_object_that_is_not_there_when_it_is_committed_is_wrong(told: Told) -> None:
    run = told.put(1, 0, 3)
    data, _ = told.store.bucket.objects.pop(str(run.name))
    group = EventGroup(Kind.COPY, KEY, (run,))
    written = (Written(1, len(data)),)
    told.promises.committed(Commit(FIRST, 1, written, (Expected(0, group),)))
    assert told.found[0].endswith("and is not there")


def test_an_object_that_is_not_whole_when_it_is_committed_is_wrong(told: Told) -> None:
    run = told.put(1, 0, 3)
    data, version = told.store.bucket.objects[str(run.name)]
    group = EventGroup(Kind.COPY, KEY, (run,))
    told.store.bucket.objects[str(run.name)] = data + b"x", version
    written = (Written(1, len(data)),)
    told.promises.committed(Commit(FIRST, 1, written, (Expected(0, group),)))
    assert f"is of {len(data) + 1} bytes" in told.one_finding()


@pytest.mark.parametrize("reserved_by", [None, SECOND])
def test_an_object_that_its_tenure_did_not_reserve_is_wrong(
    told: Told, reserved_by: Tenure | None
) -> None:
    if reserved_by is not None:
        told.promises.reserved(reserved_by, Reserved((1,)))
    told.commit(told.made(1, 0, 3), 0)
    assert "which it did not reserve" in told.one_finding()


def test_an_id_that_is_given_out_twice_is_wrong(told: Told) -> None:
    told.promises.reserved(FIRST, Reserved((1, 2)))
    told.promises.reserved(FIRST, Reserved((1, 2)))  # the same answer, asked for again
    assert told.found == []
    told.promises.reserved(SECOND, Reserved((2, 3)))
    assert "id 2 was given to" in told.one_finding()


def test_a_name_of_another_epoch_is_wrong(told: Told) -> None:
    told.promises.reserved(FIRST, Reserved((1,)))
    told.commit(told.made(1, 0, 3, epoch=7), 0)
    assert "it names" in told.one_finding()


def test_a_gap_between_two_copies_is_wrong(told: Told) -> None:
    told.commit(told.put(1, 0, 3), 0)
    told.commit(told.put(2, 4, 6), 1)
    assert "a copy from 4, the tier ends at 3" in told.one_finding()


def test_a_cut_of_what_was_confirmed_is_wrong(told: Told) -> None:
    told.commit(told.put(1, 0, 3), 0)
    cut = Expected(1, EventGroup(Kind.CUT, KEY, (), 2))
    told.promises.committed(Commit(FIRST, 2, (), (cut,)))
    assert "it cuts what was confirmed, from offset 2 on" in told.one_finding()


def give_up(told: Told, after: int, count: int) -> None:
    """Say that the tier counts so many give-ups from this event on."""
    event = Expected(after, EventGroup(Kind.GIVE_UP, KEY, give_ups=count))
    told.promises.committed(Commit(FIRST, after + 1, (), (event,)))


def cut(told: Told, after: int, offset: int = 0) -> None:
    event = Expected(after, EventGroup(Kind.CUT, KEY, (), offset))
    told.promises.committed(Commit(FIRST, after + 1, (), (event,)))


def test_what_a_topic_has_given_up_may_be_cut_once(told: Told) -> None:
    told.promises.give_ups = lambda _: 1
    told.commit(told.put(1, 0, 3), 0)
    cut(told, 1)
    give_up(told, 2, 1)
    told.commit(told.put(2, 1, 4), 3)
    assert told.found == []
    cut(told, 4)
    assert "it cuts what was confirmed, from offset 0 on" in told.one_finding()


def test_a_give_up_that_no_image_tells_of_is_wrong(told: Told) -> None:
    give_up(told, 0, 1)
    assert "1 give-ups, and the image says 0" in told.one_finding()


@pytest.mark.parametrize("end_offset", [2, 4])
def test_a_run_that_says_another_end_than_its_batches_have_is_wrong(
    told: Told, end_offset: int
) -> None:
    run = told.put(1, 0, 3)
    entry = run.entry._replace(end_offset=max(end_offset, 3))
    told.promises.contents.take(run)
    found = list(told.promises.contents.take(run._replace(entry=entry, end_offset=end_offset)))
    assert bool(found) is (end_offset > 3), found


def test_offsets_that_are_missing_within_a_run_are_wrong(told: Told) -> None:
    of = name(1)
    data = [*batches(0, 2), *batches(4, 6)]
    run = put(told.store.bucket, of, [Part(KEY, data)])[0]
    assert "offset 2 is followed by 4" in next(told.promises.contents.take(run))


def test_other_bytes_at_an_offset_that_was_copied_before_are_wrong(told: Told) -> None:
    told.commit(told.put(1, 0, 3), 0)
    other = put(told.store.bucket, name(2), [Part(KEY, batches(2, 3, 8))])[0]
    found = list(told.promises.contents.take(other))
    assert len(found) == 1
    assert "offset 2 has other bytes than before" in found[0]


def test_a_flipped_bit_is_found_unless_the_store_is_known_to_have_flipped_it(told: Told) -> None:
    run = told.put(1, 0, 3)
    told.store.flip_bit(str(run.name), 64 + run.entry.extent_at + 70, 1)
    assert list(told.promises.contents.take(run)) == []
    data, version = told.store.bucket.objects[str(run.name)]
    told.store.mend(str(run.name))
    assert list(told.promises.contents.take(run)) == []
    told.store.bucket.objects[str(run.name)] = data, version
    assert len(list(told.promises.contents.take(run))) == 1


def of_log(first: int, end: int, size: int = 9) -> list[memoryview]:
    return [memoryview(one) for one in batches(first, end, size)]


@pytest.mark.parametrize(
    ("log", "log_start", "wrong"),
    [
        (of_log(0, 5), 0, []),  # the tier is behind
        (of_log(2, 3), 2, []),  # retention was there
        (of_log(2, 3), 1, ["offset 1 was copied, and is not there"]),
        (of_log(0, 2), 0, ["offset 2 was copied, and is not there"]),
        (
            [*of_log(0, 1), *of_log(1, 2, 8), *of_log(2, 3)],
            0,
            ["offset 1 was copied, and has other bytes"],
        ),
    ],
)
def test_what_was_copied_is_compared_with_the_log_from_its_start_on(
    told: Told, log: list[memoryview], log_start: int, wrong: list[str]
) -> None:
    told.commit(told.put(1, 0, 3), 0)
    found = list(told.promises.contents.differences(KEY, log, log_start))
    assert [text.partition(": ")[2] for text in found] == [f"{one} in the log" for one in wrong]


def runs(told: Told, *ranges: tuple[int, int]) -> tuple[Run, ...]:
    return tuple(told.made(number, *one) for number, one in enumerate(ranges, 1))


@pytest.mark.parametrize(
    ("start", "end", "ranges", "wrong"),
    [
        (0, 6, ((0, 3), (3, 6)), ""),
        (2, 6, ((0, 3), (3, 6)), ""),
        (7, 7, (), ""),
        (0, 6, ((0, 3), (4, 6)), "a gap from 3 to 4"),
        (4, 6, ((0, 3), (3, 6)), "from 4, and its runs from 0"),
        (0, 6, ((1, 3), (3, 6)), "from 0, and its runs from 1"),
        (0, 7, ((0, 3), (3, 6)), "to 7, and its runs to 6"),
    ],
)
def test_a_manifest_has_no_gap_and_the_bounds_of_its_runs(
    told: Told, start: int, end: int, ranges: tuple[tuple[int, int], ...], wrong: str
) -> None:
    found = list(problems_of(KEY, Snapshot(1, start, end, runs(told, *ranges))))
    assert bool(found) is bool(wrong), found
    assert not wrong or wrong in found[0]


def test_what_was_told_is_kept_by_partition(told: Told) -> None:
    other = TopicPartition(KEY.topic_id, 1)
    told.promises.read(FIRST, other, Snapshot())
    told.commit(told.put(1, 0, 3), 0)
    told.promises.read(SECOND, other, Snapshot())
    assert told.found == []


ABORTED = Aborted([7], [1], [2], [3])


def merged(told: Told, *, aborted: Aborted = ABORTED, decided: int = 5, size: int = 9) -> None:
    """Copy [0, 3) with a transaction that was aborted, and [3, 5); then have both be one."""
    parts = [Part(KEY, batches(0, 3), ABORTED), Part(KEY, batches(3, 5))]
    for at, part in enumerate(parts):
        told.promises.reserved(FIRST, Reserved((at + 1,)))
        told.commit(put(told.store.bucket, name(at + 1), [part])[0], at)
    told.promises.reserved(FIRST, Reserved((3,)))
    part = Part(KEY, batches(0, 5, size), aborted, decided, generation=1)
    (run,) = put(told.store.bucket, name(3), [part])
    size = len(told.store.bucket.objects[str(run.name)][0])
    event = Expected(2, EventGroup(Kind.REPLACE, KEY, (run,)))
    told.promises.committed(Commit(FIRST, 3, (Written(3, size),), (event,)))


def test_a_replacement_that_has_and_tells_the_same_is_right(told: Told) -> None:
    merged(told)
    assert told.found == []


def test_a_replacement_with_other_bytes_is_wrong(told: Told) -> None:
    merged(told, size=8)
    assert "has other bytes than before" in told.found[0]


def test_a_replacement_that_tells_of_fewer_aborted_transactions_is_wrong(told: Told) -> None:
    merged(told, aborted=Aborted())
    assert "tells of transactions ([], 5)" in told.one_finding()


def test_a_replacement_that_decides_more_than_was_decided_is_wrong(told: Told) -> None:
    merged(told, decided=6)
    assert "tells of transactions" in told.one_finding()
