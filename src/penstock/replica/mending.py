"""Repair of damage in the own log of one member of a set.

    found (start, read, send, scrub) ──► logged ──► master: does another member in step follow?
                                                      no: leads on, refuses reads of the damage
                                                      yes ─┐
                                           slave, idle ────┴─► no role, reported as failed
    another member leads ──► log closed ──► new log id, truncated below the damage ──► opened
                         ──► registered as a lost log ──► follows, copies the rest

The new id is durable before the first byte is cut: from then on no acknowledgement of the old log
counts, and the member cannot be elected for what it has lost. The only copy of a log is not
touched. The rest of the log is scrubbed at once: a disk with one bad place may have others.

Source: ADR 0020.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch
from penstock.base.invariant import invariant
from penstock.storage.recover.repair import NOTHING_KEPT

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.base.ids import Position, ReplicaSetId
    from penstock.base.ports import Scheduler
    from penstock.controller.metadata.image import ReplicaSetImage
    from penstock.replica.replica_set import ReplicaSetMember
    from penstock.storage.commit_log.set_log import SetLog

STEP_ASIDE_MS = 2_000
"""How often a master with damage checks whether another member could lead."""
CUTS_MAX = 8
"""Truncations after which an empty log is used: each found new damage below the one before."""

log = logging.getLogger(__name__)


class Damage(NamedTuple):
    """The lowest known damage in a log."""

    position: Position
    reason: str


class DamageStats:
    """Counters of all sets of a broker."""

    def __init__(self) -> None:
        self.found_at_start = 0
        self.found_in_use = 0
        self.repaired = 0
        self.rebuilt_files = 0


class DamagedSet(Protocol):
    """A set with damage in the own log, as far as repair needs it (`SetDriver` is one)."""

    @property
    def member(self) -> ReplicaSetMember | None: ...

    @property
    def replica_set_id(self) -> ReplicaSetId: ...

    @property
    def image(self) -> ReplicaSetImage | None: ...

    @property
    def master_set(self) -> Others | None: ...

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def logs(self) -> Repair: ...

    @property
    def is_failover_enabled(self) -> bool: ...

    def lay_down(self) -> None:
        """Give up the role."""

    async def close_log(self) -> None: ...


class Others(Protocol):
    """The other members of the set, as known to the master."""

    @property
    def has_other_in_step(self) -> bool: ...


class Repair(Protocol):
    """Truncates a log below its damage (`LogSource` in host.py)."""

    async def repair(self, replica_set_id: ReplicaSetId, position: Position) -> Position: ...


class Mending:
    """One set's damage, from its detection to the truncation."""

    def __init__(self, driver: DamagedSet, stats: DamageStats) -> None:
        self.damage: Damage | None = None
        self._driver = driver
        self._stats = stats
        self._aside_epoch = LeaderEpoch(-1)
        self._cuts = 0

    @property
    def _has_peers(self) -> bool:
        image = self._driver.image
        return image is not None and len(image.replicas) > 1

    @property
    def is_pending(self) -> bool:
        """Whether the log has damage that a peer can repair, so that the member takes no role."""
        return self.damage is not None and self._has_peers

    def is_aside(self, leader_epoch: LeaderEpoch) -> bool:
        """Whether the mastership of that epoch was given up because of damage."""
        return self.damage is not None and leader_epoch <= self._aside_epoch

    def watch(self, set_log: SetLog, scrub: Callable[[], None]) -> None:
        """Get notified of damage in an open log; scrub it if it had damage before."""
        if self._cuts:
            scrub()
        self._cuts = 0
        call_soon = self._driver.scheduler.call_soon

        def on_damage(position: Position, reason: str) -> None:  # within a read: act after it
            call_soon(partial(self._found_in_use, set_log, position, reason))

        set_log.on_damage = on_damage

    def _found_in_use(self, set_log: SetLog, position: Position, reason: str) -> None:
        member = self._driver.member
        if member is None or member.log is not set_log or position >= set_log.end_position:
            return  # the log was closed in the meantime
        if self._note(position, reason):
            self._stats.found_in_use += 1
            self._consider()

    def found_at_start(self, position: Position, reason: str) -> None:
        """Note damage that made recovery refuse the log."""
        if self._note(position, reason):
            self._stats.found_at_start += 1

    def _note(self, position: Position, reason: str) -> bool:
        if self.damage is not None and position >= self.damage.position:
            return False
        is_news = self.damage is None
        self.damage = Damage(position, reason)
        log.critical(
            "set=%d log damaged at position=%d: %s; %s",
            self._driver.replica_set_id,
            position,
            reason,
            "to be copied from the set's master" if self._has_peers else "this is the only copy",
        )
        return is_news

    def _consider(self) -> None:
        """Give up the role, unless the set would be without a master."""
        driver = self._driver
        member, image = driver.member, driver.image
        if member is None or image is None or self.damage is None:
            return
        if driver.master_set is not None:  # of a set of one, too: it may get another member
            can_fail_over = driver.is_failover_enabled and driver.master_set.has_other_in_step
            if not can_fail_over:
                driver.scheduler.call_later(STEP_ASIDE_MS, self._consider)
                return
            self._aside_epoch = image.leader_epoch
        elif not self._has_peers:
            return
        driver.lay_down()

    async def mend(self) -> bool:
        """Truncate the damage, as another member leads. Returns whether that is done."""
        driver = self._driver
        await driver.close_log()
        damage = self.damage  # the lowest of all that was found until the log was closed
        assert damage is not None
        invariant(driver.member is None, "a log that is open is not cut below", at=damage.position)
        self._cuts += 1
        position = damage.position if self._cuts <= CUTS_MAX else NOTHING_KEPT
        try:
            end = await driver.logs.repair(driver.replica_set_id, position)
        except (PlatformError, OSError) as error:
            log.critical(
                "set=%d its damaged log cannot be truncated: %s", driver.replica_set_id, error
            )
            return False
        log.warning(
            "set=%d truncated at position=%d below its damage; the rest is copied from the master",
            driver.replica_set_id,
            end,
        )
        self.damage = None
        self._stats.repaired += 1
        return True
