"""Recalls of one replica set, in one mastership.

    recall    its time is not decided ─► a record ─► confirmed ─► answered
    decide    what is due is about to be delivered: up to when that is decided is a record first

Both are in the log of the deliveries, and in front of them. So each message has one fate, in the
order of that log: a recall that stands there is found by whoever moves or delivers the message
later, and a time that is decided takes no recall any more, whatever clock the next master has.

AHEAD_MS is decided in advance, so that there is a record a second and not one for each delivery.

Source: ours, docs/adr/0165. A promise before the act, as in a log of intentions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset
from penstock.broker.append.append import ACKS_ALL, append_batch
from penstock.broker.append.preparation import prepare
from penstock.record.build import build_batch
from penstock.remoting.recall.errors import BadHandle, RecallsNotReady, TooLate, TooManyRecalls
from penstock.remoting.recall.loading import Loading
from penstock.remoting.recall.record import Event, Recalled, Through, record_of
from penstock.remoting.recall.state import RECALLS_MAX, RecallState
from penstock.remoting.sending import WAIT_MS, Done, Pending, Waiting
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition

log = logging.getLogger(__name__)

AHEAD_MS: Final = 1_000
MOVED_BEHIND: Final = 100_000
"""What has so many records behind it moves to the end: a new master reads no more than twice these,
and disks are freed."""
MOVES_AT_ONCE: Final = 500
_DAY_MS: Final = 86_400_000
KEPT_MS: Final = 41 * _DAY_MS
"""No message waits for a time that is further away."""


class LedRecalls:
    """See the module."""

    def __init__(self, broker: Broker, hosted: HostedPartition) -> None:
        self._broker = broker
        self.hosted = hosted
        self._leader_epoch = hosted.member.leader_epoch
        self._log = hosted.log
        self.state = RecallState()
        self.is_ready = False
        self._loading: Loading | None = None

    @property
    def is_current(self) -> bool:
        """Whether the mastership goes on, and its log is the one that was read."""
        hosted, member = self.hosted, self.hosted.member
        is_same = member.leader_epoch == self._leader_epoch and hosted.log is self._log
        return is_same and member.is_master and not hosted.is_dropped

    def load(self) -> None:
        """Read the log, unless it is being read or has been; an empty one is read at once."""
        if self.is_ready or self._loading is not None:
            return
        self._loading = Loading(self._broker, self.hosted, lambda: self.is_current, self._on_loaded)
        self._loading.go_on()

    def recall(self, recalled: Recalled, done: Done) -> None:
        """Recall a message; `done` is called once, when that is confirmed or with an error.

        Raises RecallRefused, RecallsNotReady, and what an append does.
        """
        self._check()
        now_ms = self._broker.clock.wall_ms()
        if recalled.until_ms <= max(now_ms, self.state.through_ms):
            raise TooLate
        if recalled.until_ms > now_ms + KEPT_MS:
            raise BadHandle("no message waits for so long: the recall handle is invalid")
        if recalled not in self.state and len(self.state) >= RECALLS_MAX:
            raise TooManyRecalls(f"{RECALLS_MAX} recalls wait until their messages are due")
        self._append([recalled])
        member = self.hosted.member
        deadline_ms = self._broker.clock.monotonic_ms() + WAIT_MS
        pending = Pending(self.hosted, [Waiting(1, done)], 0, deadline_ms)
        member.waiting_for_all.park(member.log.end_position, pending)

    def decide(self, until_ms: int) -> None:
        """Decide deliveries up to a time, which has come. Raises what an append does."""
        if until_ms <= self.state.through_ms:
            return
        self._check()
        through_ms = max(self._broker.clock.wall_ms(), until_ms) + AHEAD_MS
        self._append([Through(through_ms)])

    def tidy(self, before_ms: int | None) -> None:
        """Forget what no level can have any more, and let the log start follow.

        `before_ms`: all that was due before it has left the levels; None: that is not known.
        """
        if before_ms is not None:
            self.state.forget(before_ms)
        end, start = self._log.log_end_offset, self._log.log_start_offset
        try:
            old = self.state.before(end - MOVED_BEHIND, MOVES_AT_ONCE)
            if old:
                self._check()
                self._append(old)
            first = self.state.first()
            low = self._log.log_end_offset if first is None else first
            if low > start:
                self.hosted.member.log.delete_records(self._log, Offset(low))
        except PlatformError as error:
            log.info("recalls partition=%d: %s", self.hosted.partition, error)

    def _on_loaded(self, state: RecallState | PlatformError) -> None:
        self._loading = None
        if isinstance(state, PlatformError):
            log.info("recalls partition=%d: %s", self.hosted.partition, state)
        elif self.is_current:
            self.state, self.is_ready = state, True

    def _check(self) -> None:
        """Raise a PlatformError where nothing can be appended."""
        if not self.is_current:
            raise NotMaster("another mastership has begun")
        if not self.is_ready:
            raise RecallsNotReady("the recalls of this set are being read")
        self.hosted.check_still_led()
        self.hosted.member.check_writable()
        self.hosted.member.check_in_step(self.hosted.topic.rules.min_insync_replicas)

    def _append(self, events: Sequence[Event]) -> None:
        """Append events, and note them."""
        now_ms, stats = self._broker.clock.wall_ms(), self._broker.stats
        batch = build_batch([record_of(one, now_ms) for one in events])
        memory = memoryview(bytearray(batch))
        appended = append_batch(self.hosted, memory, ACKS_ALL, now_ms, stats, None)
        if appended is None:
            prepared = prepare(memory, self.hosted.topic.rules, now_ms)
            appended = append_batch(self.hosted, memory, ACKS_ALL, now_ms, stats, prepared)
        assert appended is not None, "it is prepared"
        for offset, event in enumerate(events, appended[0]):
            self.state.apply(event, offset)
