"""Single situations of a pass: horizons, markers, producers, bounds, and what stops it."""

import pytest

from penstock.compaction.clean import CleaningPass, CleaningRules, LiveProducer
from penstock.compaction.errors import KeyMapTooSmall, UnlistedAbort
from penstock.compaction.fill import Dirty, fill_key_map
from penstock.compaction.key_map import slots_in
from penstock.compaction.transactions import PassTransactions
from penstock.extents.layout import Aborted
from penstock.record.batch import LOG_APPEND_TIME, read_header
from penstock.record.build import Record
from penstock.record.compression import READER_BOUNDS
from penstock.record.errors import CorruptBatch
from penstock.record.read import iter_records
from penstock.record.scan import first_record_at
from tests.compaction.cleaner import MAPS, RETENTION_MS, SALT, Cleaned, views
from tests.compaction.histories import Log, offsets
from tests.record.batches import batch, record

NOW = 50_000


def put(key: bytes, value: bytes | None = b"v", at: int = 10) -> Record:
    return Record(key, value, (), at)


def log_of(*batches: list[Record], codec: int = 0) -> Log:
    log = Log()
    for records in batches:
        log.append(records, codec=codec)
    return log


def cleaned(log: Log, now: int = NOW, **more) -> Cleaned:
    part = Cleaned(log)
    part.clean(bound=log.stable, now=now, **more)
    return part


def header_of(data: bytes):
    return read_header(memoryview(data))


def test_a_batch_that_loses_nothing_keeps_its_bytes() -> None:
    log = log_of([put(b"a"), put(b"b")], [put(b"c")], codec=4)
    assert cleaned(log).batches == log.batches


def test_the_newest_of_each_key_stays_at_its_offset() -> None:
    part = cleaned(log_of([put(b"a"), put(b"b", at=70)], [put(b"a"), put(b"c")], [put(b"c")]))
    left = [list(iter_records(memoryview(one))) for one in part.batches]
    assert [[(r.offset, r.key) for r in records] for records in left] == [
        [(1, b"b")], [(2, b"a")], [(4, b"c")],
    ]  # fmt: skip
    assert offsets(part.batches) == [(0, 1), (2, 3), (4, 4)]
    assert part.report.dropped_records == 2


def test_a_batch_that_loses_records_keeps_its_epoch_and_the_newest_time_that_is_left() -> None:
    part = cleaned(log_of([put(b"a", at=90), put(b"b", at=70), put(b"c", at=60)], [put(b"a")]))
    header = header_of(part.batches[0])
    assert (header.max_timestamp, header.leader_epoch, header.record_count) == (70, 7, 2)


@pytest.mark.parametrize("codec", range(5))
def test_a_tombstone_gets_its_horizon_and_times_stay(codec: int) -> None:
    log = log_of([put(b"a", at=5), put(b"b", None, at=9_000), put(b"c", at=7)], codec=codec)
    part = cleaned(log)
    header = header_of(part.batches[0])
    assert header.delete_horizon_ms == NOW + RETENTION_MS == part.report.newest_horizon_ms
    assert (header.codec, header.max_timestamp) == (codec, 9_000)
    assert [r.timestamp_ms for r in iter_records(memoryview(part.batches[0]))] == [5, 9_000, 7]
    found = first_record_at(memoryview(part.batches[0]), 8_000, 0, READER_BOUNDS)
    assert found == (1, 9_000)


def test_under_log_append_time_the_time_of_the_batch_stays_behind_a_horizon() -> None:
    log = Log()
    log.append([put(b"a", at=5), put(b"a", None, at=6)], append_time=9_000)
    header = header_of(cleaned(log).batches[0])
    assert header.attributes & LOG_APPEND_TIME
    assert header.delete_horizon_ms is not None
    assert header.max_timestamp == 9_000


@pytest.mark.parametrize(("later", "is_gone"), [(RETENTION_MS - 1, False), (RETENTION_MS, True)])
def test_a_tombstone_goes_at_its_horizon_and_not_before(later: int, is_gone: bool) -> None:
    part = cleaned(log_of([put(b"a", None), put(b"b")], [put(b"c")]))
    part.clean(bound=part.end, now=NOW + later)
    keys = [r.key for one in part.batches for r in iter_records(memoryview(one))]
    assert keys == [b"b", b"c"] if is_gone else [b"a", b"b", b"c"]
    assert part.report.newest_horizon_ms == (-1 if is_gone else NOW + RETENTION_MS)


def test_the_first_horizon_counts_also_when_the_batch_is_rewritten_later() -> None:
    log = log_of([put(b"a", None), put(b"b")])
    part = cleaned(log)
    log.append([put(b"b")])
    part.clean(bound=log.stable, now=NOW + 500)
    assert header_of(part.batches[0]).delete_horizon_ms == NOW + RETENTION_MS


def test_a_later_pass_is_promised_for_the_newest_horizon_wherever_it_stands() -> None:
    log = log_of([put(b"a", None), put(b"b")])
    part = cleaned(log)
    log.append([put(b"c", None)])
    part.clean(bound=log.stable, now=NOW - 500)  # the clock was set back
    horizons = [header_of(one).delete_horizon_ms for one in part.batches]
    assert horizons == [NOW + RETENTION_MS, NOW - 500 + RETENTION_MS]
    assert part.report.newest_horizon_ms == NOW + RETENTION_MS


def test_a_record_younger_than_the_lag_ends_the_pass() -> None:
    log = log_of([put(b"a", at=10)], [put(b"a", at=30)], [put(b"a", at=20)])
    part = Cleaned(log)
    part.clean(bound=3, now=NOW, newest_ms=29)
    assert part.end == 1
    part.clean(bound=3, now=NOW, newest_ms=30)
    assert (part.end, offsets(part.batches)) == (3, [(2, 2)])


def test_a_batch_that_reaches_over_the_bound_is_left_alone() -> None:
    log = log_of([put(b"a")], [put(b"a"), put(b"b")])
    part = Cleaned(log)
    part.clean(bound=2, now=NOW)
    assert (part.end, part.batches) == (1, log.batches[:1])


def test_a_full_map_ends_the_pass_where_it_is_complete() -> None:
    log = log_of([put(b"a"), put(b"b")], [put(b"a"), put(b"c"), put(b"d")])
    part = Cleaned(log)
    part.clean(bound=5, now=NOW, key_map=MAPS[-1](4, SALT))
    assert part.end == 2
    assert offsets(part.batches) == [(0, 1)]
    with pytest.raises(KeyMapTooSmall):
        Cleaned(log).clean(bound=5, now=NOW, key_map=MAPS[-1](2, SALT))


def transaction(*, is_commit: bool) -> Log:
    """A transaction in two batches among others, and its marker."""
    log = log_of([put(b"a", b"old")])
    log.append([put(b"a", b"new")], producer=1, is_open=True)
    log.append([put(b"b")])
    log.mark(1, is_commit=is_commit, now=0)
    log.append([put(b"z")])
    return log


def test_aborted_records_go_and_hide_no_older_value() -> None:
    part = cleaned(transaction(is_commit=False))
    assert [span[0] for span in offsets(part.batches)] == [0, 2, 3, 4]
    values = [r.value for r in iter_records(memoryview(part.batches[0]))]
    assert values == [b"old"]


def test_a_marker_stays_while_a_batch_of_its_transaction_does() -> None:
    part = cleaned(transaction(is_commit=True))
    assert [span[0] for span in offsets(part.batches)] == [1, 2, 3, 4]
    assert part.batches[2] == part.log.batches[3]
    part.clean(bound=part.end, now=NOW + 10**6)
    assert [span[0] for span in offsets(part.batches)] == [1, 2, 3, 4]


def test_a_marker_without_batches_waits_for_its_horizon_and_its_note_with_it() -> None:
    part = cleaned(transaction(is_commit=False))
    marker = header_of(part.batches[2])
    assert (marker.is_control, marker.delete_horizon_ms) == (True, NOW + RETENTION_MS)
    assert [r.timestamp_ms for r in iter_records(memoryview(part.batches[2]))] == [0]
    part.clean(bound=part.end, now=NOW + RETENTION_MS - 1)
    assert list(part.aborted.marker_offsets) == [3]
    part.clean(bound=part.end, now=NOW + RETENTION_MS)
    assert [span[0] for span in offsets(part.batches)] == [0, 2, 4]
    assert part.aborted == Aborted()


def test_a_marker_of_each_transaction_counts_for_itself() -> None:
    log = Log()
    for value in (b"1", b"2"):
        log.append([put(b"k", value)], producer=1, is_open=True)
        log.mark(1, is_commit=True, now=0)
    part = cleaned(log)
    assert [span[0] for span in offsets(part.batches)] == [1, 2, 3]
    assert header_of(part.batches[0]).delete_horizon_ms is not None
    assert header_of(part.batches[2]).delete_horizon_ms is None


def test_a_later_transaction_without_batches_is_told_from_one_with_them() -> None:
    log = Log()
    for key, is_commit in ((b"x", True), (b"y", False), (b"z", True)):
        log.append([put(key)], producer=1, is_open=True)
        log.mark(1, is_commit=is_commit, now=0)
    part = cleaned(log)
    assert [span[0] for span in offsets(part.batches)] == [0, 1, 3, 4, 5]
    horizons = [header_of(one).delete_horizon_ms for one in part.batches]
    assert horizons == [None, None, NOW + RETENTION_MS, None, None]


def test_the_last_offset_of_a_pass_stays_without_its_record() -> None:
    log = log_of([put(b"a")], [Record(None, b"v")])
    part = cleaned(log)
    assert offsets(part.batches) == [(0, 0), (1, 1)]
    assert header_of(part.batches[1]).record_count == 0
    log.append([put(b"b")])
    part.clean(bound=3, now=NOW)
    assert offsets(part.batches) == [(0, 0), (2, 2)]


def test_an_empty_batch_of_a_transaction_keeps_its_marker() -> None:
    log = transaction(is_commit=False)
    part = cleaned(log, live={1: LiveProducer(0, 1)})
    headers = [header_of(one) for one in part.batches]
    assert [(h.base_offset, h.record_count) for h in headers][1] == (1, 0)
    assert headers[3].is_control
    assert headers[3].delete_horizon_ms is None


def test_a_transaction_whose_marker_is_above_the_end_is_dropped_all_the_same() -> None:
    log = transaction(is_commit=False)
    part = Cleaned(log)
    part.clean(bound=3, now=NOW)
    assert [span[0] for span in offsets(part.batches)] == [0, 2]
    part.clean(bound=5, now=NOW)
    assert header_of(part.batches[2]).delete_horizon_ms == NOW + RETENTION_MS


def test_an_abort_that_the_notes_do_not_list_stops_the_pass() -> None:
    log = transaction(is_commit=False)
    log.aborted.clear()
    with pytest.raises(UnlistedAbort) as refused:
        Cleaned(log).clean(bound=5, now=NOW)
    assert (refused.value.offset, refused.value.producer_id) == (3, 1)


def test_an_abort_behind_one_that_is_listed_must_be_listed_too() -> None:
    log = transaction(is_commit=False)
    log.append([put(b"later")], producer=1, is_open=True)
    log.mark(1, is_commit=False, now=0)
    del log.aborted[-1]
    with pytest.raises(UnlistedAbort) as refused:
        Cleaned(log).clean(bound=log.stable, now=NOW)
    assert refused.value.offset == log.stable - 1


def test_an_abort_that_had_nothing_to_end_need_not_be_listed() -> None:
    log = log_of([put(b"a")])
    log.mark(1, is_commit=False, now=0)
    part = cleaned(log)
    assert part.end == 2


def test_of_a_live_producer_no_older_batch_stays_empty() -> None:
    log = Log()
    for _ in range(3):
        log.append([put(b"a")], producer=1)
    log.append([put(b"a")])
    part = cleaned(log, live={1: LiveProducer(0, 2)})
    assert [span[0] for span in offsets(part.batches)] == [2, 3]


def test_a_live_producers_last_sequence_stays_without_its_records() -> None:
    log = Log()
    log.append([put(b"a"), put(b"a")], producer=1)
    log.append([put(b"a")], producer=2)
    log.append([put(b"a")])
    part = cleaned(log, live={1: LiveProducer(0, 1)})
    assert offsets(part.batches) == [(0, 1), (3, 3)]
    header = header_of(part.batches[0])
    assert (header.record_count, header.last_sequence, header.producer_id) == (0, 1, 1)
    part.clean(bound=part.end, now=NOW)
    assert offsets(part.batches) == [(3, 3)]


def test_the_marker_with_a_live_producers_epoch_stays_whole() -> None:
    log = transaction(is_commit=False)
    live = {1: LiveProducer(0, None)}
    part = cleaned(log, live=live)
    part.clean(bound=part.end, now=NOW + RETENTION_MS, live=live)
    assert header_of(part.batches[2]).record_count == 1
    assert part.report.newest_horizon_ms == -1
    part.clean(bound=part.end, now=NOW + RETENTION_MS, live={1: LiveProducer(1, None)})
    assert [span[0] for span in offsets(part.batches)] == [0, 2, 4]


def test_damage_and_disorder_stop_the_pass() -> None:
    log = log_of([put(b"a")], [put(b"b")])
    mapped, transactions = MAPS[-1](slots_in(1000), SALT), PassTransactions(Aborted())
    rules = CleaningRules(end_offset=2, now_ms=NOW, delete_retention_ms=1)
    with pytest.raises(CorruptBatch, match="comes again"):
        list(CleaningPass(mapped, rules, transactions).clean(views(log.batches[::-1])))
    with pytest.raises(CorruptBatch, match="offset 0 comes again"):
        list(CleaningPass(mapped, rules, transactions).clean(views(log.batches[:1] * 2)))
    broken = bytearray(log.batches[0])
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch):
        list(CleaningPass(mapped, rules, transactions).clean(views([bytes(broken)])))
    with pytest.raises(CorruptBatch):
        fill_key_map(mapped, views([bytes(broken)]), Dirty(0, 9), transactions)


@pytest.mark.parametrize(("base", "moved_ms"), [(2**63 - 1, 0), (-(2**63), NOW + RETENTION_MS)])
def test_times_at_the_end_of_an_int64_do_not_stop_a_pass(base: int, moved_ms: int) -> None:
    block = record(0, b"k", None, -5) + record(1, b"l", b"v", 2**62)
    log = Log([bytes(batch(block, 2, base_timestamp=base))], end=2)
    part = cleaned(log)
    assert header_of(part.batches[0]).delete_horizon_ms == NOW + RETENTION_MS
    before, after = (
        [r.timestamp_ms for r in iter_records(memoryview(one[0]))]
        for one in (log.batches, part.batches)
    )
    assert [one - moved_ms for one in after] == before
