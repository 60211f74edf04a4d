"""Which aborted transactions go with which part of a lost topic."""

from penstock.archive.lost_cluster import _with_aborted
from penstock.spark.tier.reading import TierRun
from penstock.tier.read.settled import AbortedRange


def test_aborted_transactions_go_with_each_run_that_they_touch_and_no_other() -> None:
    aborted = [AbortedRange(0, 12, 1), AbortedRange(3, 9, 2), AbortedRange(10, 30, 3)]
    runs = [TierRun(at, at + 10, memoryview(b"")) for at in (0, 10, 20, 30)]
    told = [[one.producer_id for one in run.aborted] for run in _with_aborted(runs, aborted)]
    assert told == [[1, 2], [1, 3], [3], [3]]
