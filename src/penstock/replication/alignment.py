"""Alignment: where a slave goes on in its master's log, decided by epochs and ends alone.

    slave   [3: 0 ──── 900)[4: 900 ──────── 1600)            newest common epoch: 4, from 900
    master  [3: 0 ──── 900)[4: 900 ── 1400)[6: 1400 ─ 2000)  consistent up to min(1600, 1400)

An epoch has one master, so two logs that both record it with the same start hold a prefix of the
same bytes from there on; everything below is equal by the same argument, one epoch earlier. No
data and no hashes are compared.

    slave's range, beside the master's            outcome
    empty                                         from its start, where the master has that, too
    overlapping from below                        go on at the consistent point, or install
    inside                                        go on, or cut to the consistent point
    ahead at the top                              cut to the consistent point
    below and above                               cut to the consistent point, or install
    no epoch in common:
      confirmed no further than where the         install: retention has deleted what was equal
      oldest epoch begins that the master knows
      confirmed further                           must not happen: stop and tell an operator

A master forgets the epochs of which it keeps nothing. So a slave whose log ends where the master's
begins goes on there only if both know the epoch that goes on over that place. Else nothing tells
who wrote the end of its log, and the position alone proves nothing: it installs. What it knows to
be confirmed lies below the oldest epoch that the master knows, and so was in the master's log.

What the slave knows to be confirmed is in the log of every member that may be elected. A consistent
point below it means that acknowledged records would be cut. This is done only where an unclean
election was allowed (or the policy's name says that it may lose); otherwise the slave stops too.

Source: RocketMQ controller mode (last consistent point); KIP-101, KIP-279. All
positions are compared in full, as integers without a width.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.ids import LeaderEpoch, Position
from penstock.base.invariant import invariant
from penstock.replication.epochs import EpochStart


class LogShape(NamedTuple):
    """One member's description of its log: masterships oldest first, range [start, end)."""

    epochs: Sequence[EpochStart]
    start_position: Position
    end_position: Position
    confirm_position: Position = Position(0)
    """Up to where this member knows the log to be confirmed (exclusive)."""

    @property
    def is_empty(self) -> bool:
        """Whether the log has no bytes at all, not even the frame that starts a mastership."""
        return self.start_position == self.end_position

    def end_of(self, at: int) -> Position:
        """Return where the epoch at this index of `epochs` ends (exclusive)."""
        return (
            self.epochs[at + 1].start_position if at + 1 < len(self.epochs) else self.end_position
        )


class Continue(NamedTuple):
    """The slave's log is a prefix of the master's: go on at its end."""

    position: Position


class Truncate(NamedTuple):
    """Cut the slave's log, durably, and go on at `position`."""

    position: Position
    epoch: LeaderEpoch
    """The newest epoch that both logs have; -1 where nothing is kept."""


class Install(NamedTuple):
    """The master has not kept what comes next: copy the base of its log first."""

    reason: str


class StartAnew(NamedTuple):
    """Discard the slave's log and copy the master's from its beginning, which it still has."""

    reason: str


class Stop(NamedTuple):
    """Change nothing: an operator has to decide."""

    reason: str


Alignment = Continue | Truncate | Install | StartAnew | Stop


def consistent_point(slave: LogShape, master: LogShape) -> EpochStart | None:
    """Return the newest common epoch, and the position (exclusive) up to which both logs are equal.

    None when no epoch has the same start in both.
    """
    starts = {entry.leader_epoch: at for at, entry in enumerate(master.epochs)}
    for at in range(len(slave.epochs) - 1, -1, -1):
        entry = slave.epochs[at]
        master_at = starts.get(entry.leader_epoch)
        if master_at is not None and master.epochs[master_at] == entry:
            end = min(slave.end_of(at), master.end_of(master_at))
            return EpochStart(entry.leader_epoch, end)
    return None


def align(
    slave: LogShape,
    master: LogShape,
    *,
    may_cut_confirmed: bool = False,
    wants_newest_only: bool = False,
) -> Alignment:
    """Decide how a slave begins to follow a master.

    `may_cut_confirmed`: the set has had, or may have had, an election that could lose records.
    `wants_newest_only`: a new slave begins with the master's newest file instead of all that is
    kept. False once it has copied a file: if that was empty, the log still looks new.
    """
    if slave.is_empty:
        return _begin_empty(slave, master, wants_newest_only)
    common = consistent_point(slave, master)
    if common is None:
        return _nothing_in_common(slave, master, may_cut_confirmed)
    point = common.start_position
    if point < slave.confirm_position and not may_cut_confirmed:
        return Stop(
            f"the log is confirmed up to {slave.confirm_position}, but agrees with the master's "
            f"only up to {point}: acknowledged records would be cut"
        )
    return _go_on(slave, master, common)


def _go_on(slave: LogShape, master: LogShape, common: EpochStart) -> Alignment:
    """Decide for two logs that agree up to the end of `common`."""
    point = common.start_position
    if point < master.start_position:
        return Install(f"own log agrees up to {point}, the master keeps {master.start_position} on")
    if point == slave.end_position:
        return Continue(point)
    if point <= slave.start_position:
        return _discard(master, f"own log starts at {slave.start_position}, agrees up to {point}")
    # Anything else would leave a hole, or bytes that are not the master's, below the new end.
    is_inside = slave.start_position < point < slave.end_position
    invariant(is_inside, "a log is cut inside itself", at=point, end=slave.end_position)
    return Truncate(point, common.leader_epoch)


def _begin_empty(slave: LogShape, master: LogShape, wants_newest_only: bool) -> Alignment:
    if not wants_newest_only and _may_begin(slave, master):
        return Continue(slave.start_position)
    if master.is_empty and master.start_position < slave.start_position:
        return _discard(master, "both logs are empty, and begin at different positions")
    return Install("the own log is empty")


def _may_begin(slave: LogShape, master: LogShape) -> bool:
    """Whether an empty log starts at a position that is known to lie in the master's log.

    A log that was copied while the master's newest file was empty starts at that file, and has the
    masterships before it.
    """
    if slave.start_position == master.start_position:
        return True
    common = consistent_point(slave, master)
    is_equal = common is not None and common.start_position == slave.start_position
    return is_equal and slave.start_position > master.start_position


def _nothing_in_common(slave: LogShape, master: LogShape, may_cut_confirmed: bool) -> Alignment:
    """Decide without a common epoch: the master's log starts later, or the histories differ."""
    if slave.confirm_position <= _known_from(master) or may_cut_confirmed:
        return _discard(master, "own log has no epoch in common with the master's")
    where = f"[{slave.start_position}, {slave.end_position})"
    return Stop(
        f"the own log {where} and the master's [{master.start_position}, {master.end_position}) "
        f"have no epoch in common, and {slave.confirm_position} bytes of the own one are confirmed"
    )


def _known_from(master: LogShape) -> Position:
    """Return from where on the master knows who wrote its log (inclusive).

    All below was its own once, as far as it was confirmed, and its retention has deleted it: that
    deletes nothing else.
    """
    oldest = master.epochs[0].start_position if master.epochs else master.start_position
    return min(oldest, master.start_position)


def _discard(master: LogShape, reason: str) -> Alignment:
    return StartAnew(reason) if master.start_position == 0 else Install(reason)
