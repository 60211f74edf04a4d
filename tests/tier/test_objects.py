"""Whole objects: damage is found, store and metadata are compared, lost metadata is made anew."""

from collections.abc import Mapping, Sequence

import pytest

from penstock.base.ids import LeaderEpoch
from penstock.extents.layout import BLOCK_BYTES, Aborted
from penstock.tier.copies.transfer import size_of, sweep
from penstock.tier.envelope import ENVELOPE_BYTES, Envelope, encode_envelope
from penstock.tier.errors import LyingObject, ObjectNotFound
from penstock.tier.metadata.commands import Adopt, Fence, Fenced, Reason, Refused, Reserve, Reserved
from penstock.tier.metadata.objects import ROUND_OBJECTS_MAX, ObjectRow, State
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName, parse_name
from penstock.tier.read.check import check_object
from penstock.tier.read.describe import WINDOW_BYTES, describe_object
from penstock.tier.read.rebuild import ID_GAP, Gap, Rebuilt, rebuild
from penstock.tier.read.scrub import scrub
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.extents.files import CLUSTER, SET, Part, batch, key
from tests.tier.objects import change, name, put
from tests.tier.store_contract import run

ONE, TWO = key(1, 0), key(1, 1)
SMALL = [
    Part(ONE, [batch(0), batch(1, epoch=2)], Aborted([5], [0], [1], [2])),
    Part(TWO, [batch(7)], generation=2),
]
LARGE = [
    Part(ONE, [batch(at, size=BLOCK_BYTES - 100) for at in range(2 * WINDOW_BYTES // BLOCK_BYTES)]),
    Part(TWO, [batch(0, size=WINDOW_BYTES + 5), batch(1)]),
]
TIMES = TierTimes()


def check(bucket: Bucket, of: ObjectName) -> None:
    run(check_object(ModelledStore(bucket), str(of)))


@pytest.mark.parametrize("parts", [SMALL, LARGE, []])
def test_an_object_as_it_was_put_is_believed(parts: Sequence[Part]) -> None:
    bucket = Bucket()
    put(bucket, name(1), parts)
    described = run(check_object(ModelledStore(bucket), str(name(1))))
    assert [entry.topic_partition for entry in described.directory.entries] == [
        part.key for part in parts
    ]


def test_a_flipped_bit_in_any_byte_of_an_object_is_found() -> None:
    bucket = Bucket()
    put(bucket, name(1), SMALL)
    good = bucket.objects[str(name(1))]
    for at in range(len(good[0])):
        change(bucket, name(1), at, 1 << at % 8)
        with pytest.raises(LyingObject, match=str(name(1))):
            check(bucket, name(1))
        bucket.objects[str(name(1))] = good
    check(bucket, name(1))


def test_damage_in_each_window_of_a_large_object_is_found() -> None:
    bucket = Bucket()
    put(bucket, name(1), LARGE)
    good = bucket.objects[str(name(1))]
    for at in range(0, len(good[0]), BLOCK_BYTES // 2):
        change(bucket, name(1), at)
        with pytest.raises(LyingObject):
            check(bucket, name(1))
        bucket.objects[str(name(1))] = good


def test_an_object_that_was_cut_or_has_grown_is_refused() -> None:
    bucket = Bucket()
    put(bucket, name(1), SMALL)
    data, version = bucket.objects[str(name(1))]
    for changed in [*(data[:size] for size in range(len(data))), data + b"\0", data + data]:
        bucket.objects[str(name(1))] = changed, version
        with pytest.raises(LyingObject):
            run(describe_object(ModelledStore(bucket), str(name(1))))


@pytest.mark.parametrize("other", [name(2), name(1, 2), name(1, 1, SET + 1)])
def test_an_object_under_the_name_of_another_is_refused(other: ObjectName) -> None:
    bucket = Bucket()
    put(bucket, name(1), SMALL)
    bucket.objects[str(other)] = bucket.objects[str(name(1))]
    with pytest.raises(LyingObject, match="says that it is"):
        check(bucket, other)


def test_a_file_in_the_envelope_of_another_set_is_refused() -> None:
    bucket = Bucket()
    put(bucket, name(1), SMALL)
    data, version = bucket.objects[str(name(1))]
    other = name(1, 1, SET + 1)
    envelope = encode_envelope(Envelope(*other, len(data) - ENVELOPE_BYTES))
    bucket.objects[str(other)] = envelope + data[ENVELOPE_BYTES:], version
    with pytest.raises(LyingObject, match="the file is one of"):
        check(bucket, other)


def test_names_tell_what_they_were_made_of_and_others_are_none() -> None:
    for one in (name(1), name((1 << 64) - 1, (1 << 31) - 1, (1 << 31) - 1)):
        assert parse_name(str(one)) == one
    text = str(name(1))
    for other in (text + "x", "x" + text, text.replace("sets", "Sets"), text.upper(), text[:-1]):
        assert parse_name(other) is None


def row(of: ObjectName, state: State, size: int = 0) -> tuple[ObjectName, ObjectRow]:
    return of, ObjectRow(of, state, 0, size, 1)


def compared(bucket: Bucket, *rows: Mapping[ObjectName, ObjectRow]) -> list[list[object]]:
    """Return the differences; the rows are those before the list and after it."""
    answers = iter(rows if len(rows) > 1 else rows * 2)

    async def ask() -> Mapping[ObjectName, ObjectRow]:
        return next(answers)

    return [list(one) for one in run(scrub(ModelledStore(bucket), CLUSTER, ask))]


def test_a_store_that_agrees_with_its_metadata_has_no_differences() -> None:
    bucket = Bucket()
    put(bucket, name(1), SMALL)
    put(bucket, name(2), SMALL)
    size = len(bucket.get(str(name(1)))[0])
    rows = dict([row(name(1), State.LIVE, size), row(name(2), State.ABORTED)])
    rows |= dict([row(name(3), State.RESERVED), row(name(4), State.DOOMED)])
    assert compared(bucket, rows) == [[], [], [], []]


def test_orphans_losses_strangers_and_wrong_sizes_are_told_apart() -> None:
    bucket = Bucket()
    for object_id in (1, 2):
        put(bucket, name(object_id), SMALL)
    put(bucket, name(3, 9), SMALL)
    stranger = str(name(1)).replace(".extents", ".tmp")
    bucket.objects[stranger] = bucket.objects[str(name(1))]
    rows = dict(row(name(object_id), State.LIVE, 1) for object_id in (1, 3, 4))
    found = compared(bucket, rows)
    assert found == [[name(2), name(3, 9)], [stranger], [name(3), name(4)], [name(1)]]


def test_what_came_or_went_while_the_list_was_made_is_no_difference() -> None:
    bucket = Bucket()
    put(bucket, name(1), SMALL)
    put(bucket, name(2), SMALL)
    size = len(bucket.get(str(name(1)))[0])
    before = dict([row(name(2), State.LIVE, size), row(name(3), State.LIVE, size)])
    after = dict([row(name(1), State.RESERVED), row(name(2), State.LIVE, size)])
    assert compared(bucket, before, after) == [[], [], [], []]


def test_an_orphan_that_is_adopted_is_swept_from_the_store() -> None:
    bucket = Bucket()
    put(bucket, name(5), SMALL)
    metadata = TierMetadata(CLUSTER, TIMES)
    metadata.apply(Adopt(name(5)), 1000)
    for swept in run(sweep(ModelledStore(bucket), metadata.due())):
        metadata.apply(swept, 1000)
    with pytest.raises(ObjectNotFound):
        bucket.get(str(name(5)))
    assert run(size_of(ModelledStore(bucket), name(5))) is None
    assert metadata.due() == []


def rebuilt(bucket: Bucket) -> Rebuilt:
    return run(rebuild(ModelledStore(bucket), CLUSTER, TIMES, 5_000))


def ranges(found: Rebuilt, of: object = ONE) -> list[tuple[int, int, int]]:
    """Return object id, first offset and end of a partition's runs."""
    runs = found.metadata.manifest(of).runs  # type: ignore[arg-type]
    return [(run.name.object_id, run.first_offset, run.end_offset) for run in runs]


def batches(first: int, end: int, epoch: int = 1) -> list[bytes]:
    return [batch(at, epoch=epoch) for at in range(first, end)]


def test_metadata_is_made_anew_from_the_objects_alone() -> None:
    bucket = Bucket()
    put(bucket, name(1), [Part(ONE, batches(0, 5)), Part(TWO, batches(3, 4))])
    put(bucket, name(4, 2), [Part(ONE, batches(5, 9))])
    found = rebuilt(bucket)
    assert ranges(found) == [(1, 0, 5), (4, 5, 9)]
    assert ranges(found, TWO) == [(1, 3, 4)]
    assert (found.refused, found.unused, found.gaps) == ([], [], [])
    row = found.metadata.objects.rows[1]
    assert (row.state, row.live_runs) == (State.LIVE, 2)
    assert row.object_bytes == len(bucket.get(str(name(1)))[0])


def test_new_ids_and_epochs_go_on_above_all_that_were_seen() -> None:
    bucket = Bucket()
    put(bucket, name(9, 4), [Part(ONE, batches(0, 5))])
    metadata = rebuilt(bucket).metadata
    assert metadata.apply(Fence(SET, LeaderEpoch(3), b"n"), 0) == Refused(Reason.FENCED)
    fenced = metadata.apply(Fence(SET, LeaderEpoch(4), b"n"), 0)
    assert isinstance(fenced, Fenced)
    assert metadata.apply(Reserve(fenced.tenure, 1, 1), 0) == Reserved((9 + ID_GAP,))
    assert metadata.manifest(ONE).last_event_id == 5_000


def test_a_restored_object_stays_until_no_put_of_before_is_under_way() -> None:
    bucket = Bucket()
    put(bucket, name(1), [Part(ONE, batches(0, 5))])
    objects = rebuilt(bucket).metadata.objects
    objects.release(1, -TIMES.grace_ms)
    quiet_ms = 5_000 + TIMES.upload_ms + TIMES.skew_ms
    assert objects.due(quiet_ms - 1, 9) == []
    assert [one.name for one in objects.due(quiet_ms, 9)] == [name(1)]


def test_of_the_same_offsets_the_object_with_the_later_id_counts() -> None:
    """An upload that was never committed, and the one that was made in its place."""
    bucket = Bucket()
    put(bucket, name(1), [Part(ONE, batches(0, 5))])
    put(bucket, name(2), [Part(ONE, batches(5, 12))])
    put(bucket, name(3, 2), [Part(ONE, batches(5, 8, epoch=2))])
    found = rebuilt(bucket)
    assert ranges(found) == [(1, 0, 5), (3, 5, 8)]
    assert found.unused == [name(2)]


def test_what_a_later_master_has_cut_is_cut_again() -> None:
    bucket = Bucket()
    put(bucket, name(1), [Part(ONE, batches(0, 5, 1) + batches(5, 9, 2))])
    put(bucket, name(2, 3), [Part(ONE, batches(4, 6, 3))])
    found = rebuilt(bucket)
    assert ranges(found) == [(1, 0, 4), (2, 4, 6)]
    assert found.metadata.manifest(ONE).runs[0].epochs == ((1, 0),)


def test_a_rewritten_range_takes_the_place_of_its_runs_and_no_more() -> None:
    bucket = Bucket()
    put(bucket, name(1), [Part(ONE, batches(0, 5))])
    put(bucket, name(2), [Part(ONE, batches(5, 9))])
    put(bucket, name(3), [Part(ONE, batches(9, 12))])
    put(bucket, name(4), [Part(ONE, batches(0, 9), generation=1)])
    found = rebuilt(bucket)
    assert ranges(found) == [(4, 0, 9), (3, 9, 12)]
    assert found.unused == [name(1), name(2)]
    del bucket.objects[str(name(1))], bucket.objects[str(name(2))]
    assert ranges(rebuilt(bucket)) == [(4, 0, 9), (3, 9, 12)]


def test_a_rewritten_range_that_fits_nothing_is_refused_with_all_of_its_object() -> None:
    bucket = Bucket()
    put(bucket, name(1), [Part(ONE, batches(0, 5)), Part(TWO, batches(0, 5))])
    put(bucket, name(2), [Part(ONE, batches(2, 4)), Part(TWO, batches(0, 3), generation=1)])
    found = rebuilt(bucket)
    assert [one for one, _ in found.refused] == [str(name(2))]
    assert ranges(found) == [(1, 0, 5)]


def test_an_object_of_an_older_epoch_than_one_before_it_is_refused() -> None:
    bucket = Bucket()
    put(bucket, name(1, 5), [Part(ONE, batches(0, 5))])
    put(bucket, name(2, 4), [Part(ONE, batches(2, 9))])
    found = rebuilt(bucket)
    assert ranges(found) == [(1, 0, 5)]
    assert [one for one, _ in found.refused] == [str(name(2, 4))]


def test_a_damaged_object_is_refused_by_name_and_its_offsets_are_a_gap() -> None:
    bucket = Bucket()
    for object_id, first in ((1, 0), (2, 5), (3, 10)):
        put(bucket, name(object_id), [Part(ONE, batches(first, first + 5))])
    change(bucket, name(2), len(bucket.get(str(name(2)))[0]) - 1)
    found = rebuilt(bucket)
    assert [one for one, _ in found.refused] == [str(name(2))]
    assert found.gaps == [Gap(ONE, 5, 10)]
    assert ranges(found) == [(3, 10, 15)]
    assert found.unused == [name(1)]
    newest = found.metadata.objects.next_id
    assert newest == 3 + ID_GAP


@pytest.mark.parametrize("landed", [{1, 3}, {1, 3, 5}, {1, 4, 8}, {1, 2, 4, 6, 9}])
def test_what_landed_of_a_round_before_its_first_objects_leaves_all_below_it_in_use(
    landed: set[int],
) -> None:
    bucket = Bucket()
    for object_id in landed:
        first = 5 * object_id
        put(bucket, name(object_id), [Part(ONE, batches(first, first + 5))])
    found = rebuilt(bucket)
    whole = next(at for at in range(1, 10) if at + 1 not in landed)
    assert ranges(found) == [(at, 5 * at, 5 * at + 5) for at in range(1, whole + 1)]
    assert (found.refused, found.gaps) == ([], [])
    assert found.unused == [name(at) for at in sorted(landed) if at > whole]


@pytest.mark.parametrize(
    ("last", "epoch"), [(1 + ROUND_OBJECTS_MAX, 1), (2 + ROUND_OBJECTS_MAX, 1), (3, 2)]
)
def test_more_than_a_round_above_a_gap_is_kept_in_place_of_what_is_below(
    last: int, epoch: int
) -> None:
    bucket = Bucket()
    put(bucket, name(1), [Part(ONE, batches(5, 10))])
    for object_id in range(3, last + 1):
        put(bucket, name(object_id), [Part(ONE, batches(5 * object_id, 5 * object_id + 5))])
    newest = name(last + 1, epoch)
    put(bucket, newest, [Part(ONE, batches(5 * last + 5, 5 * last + 10))])
    found = rebuilt(bucket)
    assert found.refused == []
    assert found.gaps == [Gap(ONE, 10, 15)]
    assert ranges(found)[0] == (3, 15, 20)
    assert found.unused == [name(1)]


def test_an_id_of_a_damaged_object_is_not_given_out_again() -> None:
    bucket = Bucket()
    put(bucket, name(70), [Part(ONE, batches(0, 5))])
    change(bucket, name(70), 0)
    assert rebuilt(bucket).metadata.objects.next_id == 70 + ID_GAP


def test_other_names_and_other_clusters_are_left_out() -> None:
    bucket = Bucket()
    put(bucket, name(1), [Part(ONE, batches(0, 5))])
    bucket.objects[str(name(1)) + ".tmp"] = bucket.objects[str(name(1))]
    assert ranges(rebuilt(bucket)) == [(1, 0, 5)]
