"""Reads all logs of a process slowly and continuously, to find damage.

    pass: set 1, set 4, set 9, ... slice by slice ─► pause ─► next pass
    hurry(set): a slave could not use a copy of it; at once and faster, then the pass goes on

One slice at a time over all sets, so that the rate limit holds for the process. Slices are defined
in storage/recover/scrub.py; the reaction to damage is in mending.py.

Source: ZFS scrub, HDFS block scanner.
"""

import logging
from collections import deque
from collections.abc import Mapping
from functools import partial

from penstock.base.errors import PlatformError
from penstock.base.ids import Position, ReplicaSetId
from penstock.base.ports import Cancellable, Scheduler
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.errors import CorruptFrame
from penstock.storage.recover.scrub import FROM_START, Scrubbed

_NONE = ReplicaSetId(-1)
SLICE_BYTES = 1 << 20
HURRY_BYTES_PER_SECOND = 64 << 20
"""Rate for a set that was passed to `hurry`."""
IDLE_MS = 1_000
"""Pause while there is no log, or no set has a rate."""

log = logging.getLogger(__name__)


class ScrubStats:
    """Counters since the start."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.passes = 0
        self.damage_found = 0
        self.rebuilt_files = 0


class Scrubber:
    """The scrub of one process, from `start` to `stop`."""

    def __init__(
        self, members: Mapping[ReplicaSetId, ReplicaSetMember], scheduler: Scheduler
    ) -> None:
        self.stats = ScrubStats()
        self._members = members
        self._scheduler = scheduler
        self._timer: Cancellable | None = None
        self._queue: deque[tuple[ReplicaSetId, Position]] = deque()
        """What the pass still has to read: the set, and the position to go on from."""
        self._hurried: deque[ReplicaSetId] = deque()
        self._set_id = _NONE
        self._position = FROM_START
        self._is_hurried = False
        self._is_reading = False
        self._has_read = False
        """Whether the pass has read anything: none of its sets may have a rate."""
        self._is_stopped = False

    def start(self) -> None:
        """Begin the first pass soon: recovery has read the newest part of each log only."""
        self._wait(IDLE_MS)

    def stop(self) -> None:
        """Stop reading."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is being read and no set is to be hurried."""
        return self._set_id < 0 and not self._hurried

    def hurry(self, replica_set_id: ReplicaSetId) -> None:
        """Scrub this set before any that is not hurried."""
        if replica_set_id not in self._hurried:
            self._hurried.append(replica_set_id)
        if not self._is_reading and not self._is_hurried:
            self._wait(0)

    def _set_aside(self) -> None:
        """Let a hurried set pass; the present one goes on after it where it stopped."""
        if self._set_id >= 0:
            self._queue.appendleft((self._set_id, self._position))
            self._set_id = _NONE

    def _interval_ms(self) -> int:
        intervals = [member.log.config.scrub_interval_ms for member in self._members.values()]
        return min(intervals, default=IDLE_MS)

    def _wait(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_stopped:
            self._timer = self._scheduler.call_later(delay_ms, self._next)

    def _next(self) -> None:
        """Read the next slice, of a hurried set if there is one."""
        self._timer = None
        if self._hurried and not self._is_hurried:
            self._set_aside()
        if self._set_id < 0 and not self._choose():
            return
        member = self._members.get(self._set_id)
        if member is None or not self._rate(member):
            self._over()
            return
        self._is_reading = True
        read = partial(self._read, self._set_id)
        member.log.scrub(self._position, SLICE_BYTES, read)

    def _choose(self) -> bool:
        if self._hurried:
            self._set_id, self._position, self._is_hurried = (
                self._hurried.popleft(),
                FROM_START,
                True,
            )
        elif self._queue:
            self._set_id, self._position = self._queue.popleft()
        else:
            self._has_read = False
            self._queue.extend((set_id, FROM_START) for set_id in sorted(self._members))
            self._wait(IDLE_MS if not self._queue else 0)
            return False
        return True

    def _rate(self, member: ReplicaSetMember) -> int:
        rate = member.log.config.scrub_bytes_per_second
        return max(rate, HURRY_BYTES_PER_SECOND) if self._is_hurried else rate

    def _read(
        self, set_id: ReplicaSetId, found: Scrubbed | None, error: PlatformError | None
    ) -> None:
        self._is_reading = False
        if self._is_stopped:
            return
        member = self._members.get(set_id)
        if found is None or member is None:
            if isinstance(error, CorruptFrame):
                self.stats.damage_found += 1
            elif error is not None:
                log.debug("set=%d not scrubbed: %s", set_id, error)
            self._over()
            return
        self._has_read = self._has_read or not self._is_hurried
        self.stats.read_bytes += found.read_bytes
        self.stats.rebuilt_files += found.rebuilt
        self.stats.damage_found += found.damaged
        self._position = found.next_position
        if self._position == FROM_START:
            self._over()
        elif self._hurried and not self._is_hurried:
            self._wait(0)
        else:
            self._wait(found.read_bytes * 1000 // max(self._rate(member), 1))

    def _over(self) -> None:
        """The set is done; after the last one the pass ends."""
        was_hurried, self._set_id, self._is_hurried = self._is_hurried, _NONE, False
        if not was_hurried and not self._queue:
            self.stats.passes += self._has_read
        is_more = self._hurried or self._queue
        self._wait(0 if is_more else self._interval_ms() if self._has_read else IDLE_MS)
