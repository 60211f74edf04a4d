"""Random histories, cleaned again and again, against the plain model of what was written."""

from dataclasses import replace
from itertools import pairwise

from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.compaction.errors import KeyMapTooSmall
from penstock.record.batch import BatchHeader, read_header
from penstock.record.build import Record
from penstock.record.read import iter_records
from tests.compaction.cleaner import MAPS, RETENTION_MS, SALT, Cleaned
from tests.compaction.histories import (
    HISTORIES,
    Append,
    Clean,
    Log,
    Mark,
    last_values,
    offsets,
    read_committed,
    write,
)

LATE = 10**9
Step = Append | Mark | Clean


def slots_for(keys: int) -> int:
    return -(-keys * 10 // 9)


def clean(part: Cleaned, step: Clean, now: int, make=MAPS[-1]) -> bool:
    """A pass below a cut of what is decided; False if not one batch fits into the map."""
    bound = part.end + (part.log.stable - part.end) * step.cut // 10
    live = part.log.live if step.knows_producers else {}
    try:
        key_map = make(slots_for(step.keys), SALT)
        part.clean(bound=bound, now=now, key_map=key_map, live=live)
    except KeyMapTooSmall:
        return False
    return True


def headers(batches: list[bytes]) -> list[BatchHeader]:
    return [read_header(memoryview(batch)) for batch in batches]


class Version:
    """What a reader that begins now would read."""

    def __init__(self, part: Cleaned, now: int) -> None:
        self.now = now
        self.stable = part.log.stable
        self.records = read_committed(part.all_batches(), part.all_aborted())


def versions(history: list[Step], make=MAPS[-1]) -> tuple[Cleaned, list[Version]]:
    part, now = Cleaned(Log()), 10_000
    found = [Version(part, now)]
    for step in history:
        if isinstance(step, Clean):
            now += step.later_ms
            clean(part, step, now, make)
        else:
            write(part.log, step, now)
        found.append(Version(part, now))
    return part, found


def written(log: Log) -> list:
    return read_committed(log.batches, log.aborted_below(LATE))


@given(HISTORIES)
def test_a_read_from_the_start_ends_in_the_last_value_of_every_key(history: list[Step]) -> None:
    part, found = versions(history)
    assert last_values(found[-1].records) == last_values(written(part.log))


@given(HISTORIES)
def test_what_is_left_was_there_before_at_its_offset_and_time(history: list[Step]) -> None:
    part, found = versions(history)
    before = {record.offset: record for record in written(part.log)}
    for record in found[-1].records:
        assert before[record.offset] == record
    spans = offsets(part.all_batches())
    assert all(left[1] < right[0] for left, right in pairwise(spans))
    assert set(spans) <= set(offsets(part.log.batches))


@given(HISTORIES, st.data())
def test_who_began_before_sees_each_delete_within_the_horizon(
    history: list[Step], data: st.DataObject
) -> None:
    """The first part of a read is of one version, the rest of a later one, below the retention."""
    _, found = versions(history)
    early = data.draw(st.integers(0, len(found) - 1))
    in_time = [
        at for at in range(early, len(found)) if found[at].now < found[early].now + RETENTION_MS
    ]
    late = data.draw(st.sampled_from(in_time))
    cut = data.draw(st.integers(0, found[early].stable))
    seen = [record for record in found[early].records if record.offset < cut]
    seen += [record for record in found[late].records if record.offset >= cut]
    assert last_values(seen) == last_values(found[late].records)


@given(HISTORIES)
def test_a_pass_that_is_done_again_changes_nothing(history: list[Step]) -> None:
    part, found = versions(history)
    for live in ({}, dict(part.log.live)):
        part.clean(bound=part.log.stable, now=found[-1].now, live=live)
        once, aborted = part.batches, part.aborted
        part.clean(bound=part.end, now=found[-1].now, live=live)
        assert (part.batches, part.aborted) == (once, aborted)


@given(HISTORIES)
def test_all_deletes_and_markers_go_from_a_quiet_partition(history: list[Step]) -> None:
    part, found = versions(history)
    now = found[-1].now
    part.clean(bound=part.log.stable, now=now)
    while part.report.newest_horizon_ms > now:
        now = part.report.newest_horizon_ms
        part.clean(bound=part.end, now=now)
        assert part.report.newest_horizon_ms in {-1, now + RETENTION_MS}
    left_headers = headers(part.batches)
    with_batches = {h.producer_id for h in left_headers if h.is_transactional and not h.is_control}
    for header in left_headers:
        is_last = header.last_offset + 1 == part.end
        assert not header.is_control or is_last or header.producer_id in with_batches
    left = read_committed(part.batches, part.aborted)
    assert all(record.value is not None for record in left)
    assert len(left) == len({record.key for record in left})


@given(HISTORIES)
def test_no_key_is_left_twice_below_the_end_of_a_pass(history: list[Step]) -> None:
    part, _ = versions(history)
    part.clean(bound=part.log.stable, now=LATE)
    left = [
        record
        for batch in part.batches
        if not read_header(memoryview(batch)).is_control
        for record in iter_records(memoryview(batch))
    ]
    keys = [record.key for record in left]
    assert len(keys) == len(set(keys))
    assert None not in keys


@given(HISTORIES)
def test_the_last_offset_and_each_live_producers_last_batch_stay(history: list[Step]) -> None:
    known = [replace(s, knows_producers=True) if isinstance(s, Clean) else s for s in history]
    part, _ = versions(known)
    live = dict(part.log.live)
    part.clean(bound=part.log.stable, now=LATE, live=live)
    left = {header.base_offset: header for header in headers(part.batches)}
    assert not part.end or max(header.last_offset for header in left.values()) == part.end - 1
    for header in headers(part.log.batches):
        producer = live.get(header.producer_id)
        if producer is None or header.is_control or header.last_offset >= part.end:
            continue
        if header.last_offset == producer.last_offset:
            kept = left[header.base_offset]
            assert kept.last_sequence == header.last_sequence
            assert kept.producer_epoch == header.producer_epoch


@given(HISTORIES)
def test_both_twins_leave_the_same_bytes(history: list[Step]) -> None:
    ends = [versions(history, make)[0].all_batches() for make in MAPS]
    assert all(one == ends[0] for one in ends)


@given(HISTORIES)
@settings(max_examples=50)
def test_a_client_that_nobody_here_wrote_reads_what_is_left(history: list[Step]) -> None:
    part, _ = versions(history)
    for batch in part.batches:
        theirs = DefaultRecordBatch(batch)
        assert theirs.validate_crc()
        ours = list(iter_records(memoryview(batch)))
        assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [
            (r.offset, r.timestamp_ms, r.key, r.value) for r in ours
        ]


LOSES_ITS_NEWEST_BEFORE_IT_IS_EMPTIED: list[Step] = [
    Append(
        [Record(None, None, (), 0), Record(b"a", None, (), 1), Record(b"a", None, (), 0)],
        producer=-1,
        is_open=False,
        codec=0,
        append_time=None,
    ),
    Clean(cut=10, later_ms=0, keys=3, knows_producers=False),
    Clean(cut=0, later_ms=128, keys=3, knows_producers=False),
    Clean(cut=0, later_ms=872, keys=3, knows_producers=False),
]


@given(HISTORIES)
@example(LOSES_ITS_NEWEST_BEFORE_IT_IS_EMPTIED)
def test_headers_stay_but_for_what_the_records_say(history: list[Step]) -> None:
    part, _ = versions(history)
    before = {header.base_offset: header for header in headers(part.log.batches)}
    times = {
        read_header(memoryview(batch)).base_offset: {
            record.timestamp_ms for record in iter_records(memoryview(batch))
        }
        for batch in part.log.batches
    }
    for batch in part.batches:
        header = read_header(memoryview(batch))
        old = before[header.base_offset]
        names = (
            "leader_epoch",
            "last_offset_delta",
            "producer_id",
            "producer_epoch",
            "base_sequence",
        )
        assert [getattr(header, name) for name in names] == [getattr(old, name) for name in names]
        records = list(iter_records(memoryview(batch)))
        assert header.attributes & 0x38 == old.attributes & 0x38
        if records:
            assert header.codec == old.codec
            assert header.max_timestamp == max(record.timestamp_ms for record in records)
        else:
            assert (header.codec, header.delete_horizon_ms) == (0, None)
            # That of the records of the pass before: the newest may have gone earlier.
            assert header.max_timestamp in times[header.base_offset]


@given(HISTORIES)
def test_a_report_is_what_counting_both_sides_gives(history: list[Step]) -> None:
    part, now = Cleaned(Log()), 10_000
    for step in history:
        if not isinstance(step, Clean):
            write(part.log, step, now)
            continue
        now += step.later_ms
        before = part.all_batches()
        if not clean(part, step, now):
            continue
        read = [one for one in before if read_header(memoryview(one)).base_offset < part.end]
        report, left = part.report, part.batches
        assert (report.read_batches, report.kept_batches) == (len(read), len(left))
        assert (report.read_bytes, report.kept_bytes) == (size_of(read), size_of(left))
        assert report.dropped_records == records_in(read) - records_in(left)


def size_of(batches: list[bytes]) -> int:
    return sum(len(batch) for batch in batches)


def records_in(batches: list[bytes]) -> int:
    return sum(header.record_count for header in headers(batches))
