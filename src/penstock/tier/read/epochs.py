"""Where a mastership ends in a partition, by what the manifest says; no object is read.

Source: KIP-101, KIP-405: Kafka keeps the epochs of each remote segment with its metadata.
"""

from bisect import bisect_right
from typing import NamedTuple

from penstock.base.ids import LeaderEpoch
from penstock.tier.metadata.manifest import Manifest


class TierEpochEnd(NamedTuple):
    """The largest epoch at or below the wanted one, and its end (exclusive)."""

    leader_epoch: LeaderEpoch
    end_offset: int


def epoch_end(manifest: Manifest, leader_epoch: LeaderEpoch, limit: int) -> TierEpochEnd | None:
    """Return where a mastership ends below `limit`, above which others know better.

    None: all that the tier has is of newer ones.
    """
    runs = manifest.runs
    at = bisect_right(runs, leader_epoch, key=lambda run: LeaderEpoch(run.epochs[0][0])) - 1
    if at < 0:
        return None
    run = runs[at]
    number = bisect_right(run.epochs, leader_epoch, key=lambda one: LeaderEpoch(one[0])) - 1
    is_last = number + 1 == len(run.epochs)
    end = run.end_offset if is_last else run.epochs[number + 1][1]
    return TierEpochEnd(LeaderEpoch(run.epochs[number][0]), min(end, limit))
