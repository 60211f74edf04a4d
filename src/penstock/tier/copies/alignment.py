"""Up to where the tier has what a master's log has, by leader epochs; data is not compared.

Source: KIP-101, as replicas do it (replication/alignment.py); here the other side is a manifest,
which only ends: it is cut, and the log never is.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from penstock.tier.metadata.manifest import Run, Snapshot


class OwnLog(NamedTuple):
    """A partition in the master's log."""

    epochs: tuple[tuple[int, int], ...]
    """(leader epoch, first offset), oldest first; of everything that was ever in the partition, or
    from where the log can tell."""
    log_start: int
    """Inclusive, and durable."""
    log_end: int
    """Exclusive. What the tier has was confirmed, so a log that ends below the tier has lost it;
    the confirm position says nothing of that: it may be older right after an election."""
    is_emptied: bool = False
    """Whether the tier is to have nothing of it, and begins anew if that changes."""
    give_ups: int = 0
    """How often its copies were given up, as far as this master knows: older ones go."""


def agreed_end(tier: Snapshot, own: OwnLog) -> int:
    """Return the first offset of the tier that is not the log's own; its end if all of it is.

    Offsets below the log's first epoch can not be compared, and count as agreed.
    """
    comparable = own.epochs[0][1] if own.epochs else own.log_end
    end = min(tier.end_offset, own.log_end)
    for epoch, start in reversed(_epochs_of(tier.runs)):
        if start >= end:
            continue
        if _has_at(own, epoch, max(start, comparable)):
            return min(end, _end_of(own, epoch))
        if start < comparable:
            return min(end, comparable)
        end = start
    return end


def _epochs_of(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """Return the epochs of a partition in the tier, each with its first offset there."""
    found: list[tuple[int, int]] = []
    for run in runs:
        found += [one for one in run.epochs if not found or one[0] != found[-1][0]]
    return found


def _has_at(own: OwnLog, epoch: int, offset: int) -> bool:
    """Whether `offset` is of this epoch in the log."""
    at = bisect_right([start for _, start in own.epochs], offset) - 1
    return at >= 0 and own.epochs[at][0] == epoch


def _end_of(own: OwnLog, epoch: int) -> int:
    """Return where an epoch that the log has ends in it."""
    later = [start for number, start in own.epochs if number > epoch]
    return min([*later, own.log_end])
