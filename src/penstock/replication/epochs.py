"""Epoch history of one replica set: which mastership wrote which run of the log.

    leader epoch   3            4          5 (empty)   6
    start          0 ---------- 900 ------ 1400 ------ 1400 ------ log end
    an epoch ends where the next one starts; the last ends at the log end

Every mastership is recorded, even one that wrote nothing: two histories are compared by (epoch,
start), and a missing entry would make a follower mistake another mastership's bytes for its own.

Source: KIP-101 and KIP-279 (answer with the largest epoch at or below the one asked for), RocketMQ
epoch file. Positions are bytes of the shared log; the broker turns them into partition offsets.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from penstock.base.ids import LeaderEpoch, Position
from penstock.base.invariant import invariant


class EpochStart(NamedTuple):
    """The first position (inclusive) written under `leader_epoch`."""

    leader_epoch: LeaderEpoch
    start_position: Position


class EpochHistory:
    """The masterships of one log, oldest first: epochs rise, start positions never fall."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[LeaderEpoch, Position]] = ()) -> None:
        """Take over entries as they were recorded, oldest first."""
        self._entries: list[EpochStart] = []
        for leader_epoch, start in entries:
            self.begin(leader_epoch, start)

    def begin(self, leader_epoch: LeaderEpoch, start: Position) -> None:
        """Record a new mastership that starts at `start`."""
        if self._entries:
            last = self._entries[-1]
            invariant(leader_epoch > last.leader_epoch, "epoch went back", new=leader_epoch)
            invariant(start >= last.start_position, "epoch starts too early", start=start)
        self._entries.append(EpochStart(leader_epoch, start))

    @property
    def latest(self) -> LeaderEpoch:
        """The newest leader epoch, -1 where there was none."""
        return self._entries[-1].leader_epoch if self._entries else LeaderEpoch(-1)

    def end_of(self, leader_epoch: LeaderEpoch, log_end: Position) -> EpochStart | None:
        """Return the largest epoch at or below `leader_epoch` with its end position (exclusive).

        None if every recorded epoch is newer, or `leader_epoch` is above all of them: an unknown
        epoch must not be treated as known (KAFKA-6857).
        """
        if leader_epoch > self.latest:
            return None
        at = bisect_right(self._entries, leader_epoch, key=lambda entry: entry.leader_epoch)
        if at == 0:
            return None
        largest = self._entries[at - 1].leader_epoch
        end = self._entries[at].start_position if at < len(self._entries) else log_end
        return EpochStart(largest, end)

    def entries(self) -> tuple[EpochStart, ...]:
        """All masterships, oldest first."""
        return tuple(self._entries)
