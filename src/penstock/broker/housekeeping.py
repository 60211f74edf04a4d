"""What a broker does by itself from time to time, each job bounded per turn of the loop.

    every 100 ms    group deadlines (session and rebalance time-outs)
    every second    overdue produce requests
    every minute    retention, rewriting of the internal topic where it has grown (a setting)

One timer that is set again after the work, so a slow turn delays the next and never piles up.
"""

import logging
from functools import partial

from penstock.base.ids import TopicPartition
from penstock.base.ports import Cancellable
from penstock.broker.broker import Broker
from penstock.broker.group_journal import InternalTopicJournal
from penstock.storage.config import Retention

TICK_MS = 100
EXPIRE_EVERY_TICKS = 10
KEEP = Retention(-1, -1)

log = logging.getLogger(__name__)


class Housekeeping:
    """The periodic work of one broker, from `start` to `stop`."""

    def __init__(self, broker: Broker, journal: InternalTopicJournal) -> None:
        self._broker = broker
        self._journal = journal
        self._timer: Cancellable | None = None
        self._tick_count = 0
        self._due_us = 0
        self._retention_every_ticks = max(1, broker.config.housekeeping_interval_ms // TICK_MS)

    def start(self) -> None:
        """Begin; the first retention runs after one interval."""
        self._set_timer()

    def stop(self) -> None:
        """Do nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        broker = self._broker
        self._tick_count += 1
        broker.stats.loop_delay.observe(broker.clock.monotonic_us() - self._due_us)
        broker.groups.tick(broker.clock.monotonic_ms())
        if self._tick_count % EXPIRE_EVERY_TICKS == 0:
            broker.expire_waiting()
        if self._tick_count % self._retention_every_ticks == 0:
            self.apply_retention()
            self._rewrite_internal_topic()
        self._set_timer()

    def _set_timer(self) -> None:
        """Every tick also measures by how much the loop is late: what a request waits before it."""
        self._due_us = self._broker.clock.monotonic_us() + TICK_MS * 1000
        self._timer = self._broker.scheduler.call_later(TICK_MS, self._tick)

    def apply_retention(self) -> None:
        """Let every log drop what is out of retention; the log slices the work itself."""
        now_ms = self._broker.clock.wall_ms()
        for member in self._broker.members.values():
            member.log.apply_retention(now_ms, self._retention_of)

    def _retention_of(self, partition: TopicPartition) -> Retention:
        topic = self._broker.partitions.by_id.get(partition.topic_id)
        if topic is None or topic.internal:
            return KEEP
        return Retention(topic.settings.retention_bytes, topic.settings.retention_ms)

    def _rewrite_internal_topic(self) -> None:
        groups = self._broker.groups
        hosted = {each.partition: each for each in self._journal.partitions if each is not None}
        for partition in groups.rewrites.due():
            self._journal.rewrite(
                hosted[partition],
                groups.snapshot(partition),
                partial(groups.rewritten, partition),
            )
