"""What a lost topic is copied from: pieces with gaps between, and what was aborted in each."""

from pathlib import Path
from uuid import UUID

import pytest

from penstock.archive.copying import RunOptions, copy_topic
from penstock.archive.errors import RecordsGone
from penstock.archive.lost_cluster import StoreSource, _with_aborted, look_through
from penstock.spark.tier.reading import TierRun
from penstock.spark.tier.store import call
from penstock.tier.read.settled import AbortedRange
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.archive.world import ledger_at, queried
from tests.extents.files import Part, batch, key
from tests.tier.objects import name, put

ONE = key(1, 0)
PIECES = [(0, 5), (10, 15), (20, 25)]


def source_of(pieces: list[tuple[int, int]]) -> StoreSource:
    bucket = Bucket()
    for first, end in pieces:
        put(bucket, name(1 + first // 5), [Part(ONE, [batch(at) for at in range(first, end)])])
    store = ModelledStore(bucket)
    return StoreSource(store, call(look_through(store, None)), UUID(bytes=ONE.topic_id))


def test_each_side_of_each_gap_is_copied_and_the_gaps_are_written_down(archive: Path) -> None:
    source = source_of(PIECES)
    assert source.spans() == {0: PIECES}
    with ledger_at(archive) as ledger:
        with pytest.raises(RecordsGone, match=r"offsets 5 to 10 of t-0 are gone"):
            copy_topic(ledger, source, RunOptions(topic="t"))
        copy_topic(ledger, source, RunOptions(topic="t", allow_gap=True))
        assert ledger.manifest.parts[0].gaps == [(5, 10), (15, 20)]
    assert [row.offset for row in queried(archive)] == [
        at for first, end in PIECES for at in range(first, end)
    ]


def test_an_archive_that_ends_within_a_later_piece_goes_on_there(archive: Path) -> None:
    with ledger_at(archive) as ledger:
        copy_topic(ledger, source_of([(0, 5), (5, 10), (10, 15)]), RunOptions(topic="t"))
        copy_topic(ledger, source_of([(0, 5), (10, 15), (15, 20)]), RunOptions(topic="t"))
        assert ledger.manifest.parts[0].gaps == []
    assert [row.offset for row in queried(archive)] == list(range(20))


def test_aborted_transactions_go_with_each_run_that_they_touch_and_no_other() -> None:
    aborted = [AbortedRange(0, 12, 1), AbortedRange(3, 9, 2), AbortedRange(10, 30, 3)]
    runs = [TierRun(at, at + 10, memoryview(b"")) for at in (0, 10, 20, 30)]
    told = [[one.producer_id for one in run.aborted] for run in _with_aborted(runs, aborted)]
    assert told == [[1, 2], [1, 3], [3], [3]]
