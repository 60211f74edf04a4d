"""The periodic duties of a broker; the work of each is limited per loop iteration.

    every 100 ms    deadlines of coordinators (session and rebalance time-outs), and in between at
                    the time of the next one
    every second    overdue produce requests; disks that are full, or have room again; the next
                    extent file, where logs are split and cleaned (splits.py), and how fast
                    (pacing.py); the repair of damaged ones (extent_repairs.py)
    every minute    retention, rewriting of internal topics that have grown (a setting), then of
                    those that keep files which nothing else needs

There is one timer, set again after the work, so that a slow iteration delays the next one and never
accumulates.
"""

import logging
from typing import Protocol

from penstock.base.ids import TopicPartition
from penstock.base.ports import Cancellable
from penstock.broker.broker import Broker
from penstock.broker.partitions import HostedPartition
from penstock.broker.sets.cleanings import Cleaner, Cleanings
from penstock.broker.sets.compacted_topics import CompactedTopics, retention_of
from penstock.broker.sets.extent_repairs import ExtentRepairs
from penstock.broker.sets.pacing import Pacing
from penstock.broker.sets.pin_relief import PinRelief
from penstock.broker.sets.retention_clock import RetentionClock
from penstock.broker.sets.space_watch import SpaceWatch
from penstock.broker.sets.splits import Splits, Splitter
from penstock.controller.commands.topic_names import ROW_TOPICS
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.storage.config import Retention

TICK_MS = 100
DEADLINE_TICK_MIN_MS = 4
"""Greatest delay of a deadline; thousands of sessions may be due in one second."""
EXPIRE_EVERY_TICKS = 10
WINDOW_TICKS = 600
"""How long the longest slice is reported: until a second window of a minute has passed."""
KEEP = Retention(-1, -1)
MOVABLE = Retention(-1, -1, is_movable=True)

log = logging.getLogger(__name__)


class HousekeeperJobs(Splitter, Cleaner, Protocol):
    """Makes all files: the housekeeper, as the node knows it."""


class Housekeeping:
    """The periodic work of one broker, from `start` to `stop`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.retention_clock = RetentionClock(broker.clock)
        self._timer: Cancellable | None = None
        self._deadline_timer: Cancellable | None = None
        self._tick_count = 0
        self._due_us = 0
        self._space = SpaceWatch()
        self._relief = PinRelief(broker, self.apply_retention_to)
        self.splits: Splits | None = None
        """None where nothing is split."""
        self.pacing: Pacing | None = None
        self.repairs: ExtentRepairs | None = None
        """None where nobody can be asked."""

    def split_by(self, splitter: HousekeeperJobs, pacing: Pacing, token: str) -> None:
        """Have logs split, and partitions cleaned, from now on; for `token` see Splits."""
        self.pacing = pacing
        broker = self._broker
        broker.idle_keys.cleans = True
        topics = CompactedTopics(broker.partitions)
        cleanings = Cleanings(
            broker.members, splitter, broker.clock, topics, self.retention_clock.now_ms
        )
        self.splits = Splits(
            broker.members,
            splitter,
            broker.clock,
            self.apply_retention_to,
            token=token,
            cleanings=cleanings,
        )

    def start(self) -> None:
        """Begin; the first retention runs after one interval."""
        self._set_timer()

    def stop(self) -> None:
        """End the periodic work."""
        for timer in (self._timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._deadline_timer = None

    def _tick(self) -> None:
        broker = self._broker
        self._tick_count += 1
        # Timers may come before their time, by what a machine has stood still or a clock rounds.
        broker.stats.loop_delay.observe(max(0, broker.clock.monotonic_us() - self._due_us))
        self._tick_coordinators()
        if self.splits is not None:
            self.splits.go_on()
        if self._tick_count % EXPIRE_EVERY_TICKS == 0:
            broker.expire_waiting()
            self._space.look(broker.members)
            self._relieve_pins()
            if self.splits is not None:
                self.splits.look()
            if self.pacing is not None:
                self.pacing.look(broker.members)
            if self.repairs is not None:
                self.repairs.look()
        if self._tick_count % WINDOW_TICKS == 0:
            for turns in broker.stats.longest_turns():
                turns.next_window()
        interval_ticks = max(1, broker.config.housekeeping_interval_ms // TICK_MS)
        if self._tick_count % interval_ticks == 0:
            self.apply_retention()
            for coordinator in self._broker.coordinators.values():
                coordinator.rewrite_due()
        self._set_timer()

    def _tick_coordinators(self) -> None:
        """Handle what is due, and set a timer for what is due before the next tick."""
        now_ms = self._broker.clock.monotonic_ms()
        runtimes = [each.runtime for each in self._broker.coordinators.values()]
        for runtime in runtimes:
            runtime.tick(now_ms)
        times = (runtime.next_deadline_ms() for runtime in runtimes)
        due_ms = min((at_ms for at_ms in times if at_ms is not None), default=None)
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        if due_ms is not None and due_ms - now_ms < TICK_MS:
            delay_ms = max(due_ms - now_ms, DEADLINE_TICK_MIN_MS)
            self._deadline_timer = self._broker.scheduler.call_later(
                delay_ms, self._tick_coordinators
            )

    def _set_timer(self) -> None:
        """Set the timer; each tick also measures the delay of the loop."""
        self._due_us = self._broker.clock.monotonic_us() + TICK_MS * 1000
        self._timer = self._broker.scheduler.call_later(TICK_MS, self._tick)

    def apply_retention(self) -> None:
        """Apply retention to every log; the log slices the work itself."""
        self._broker.drop_leftovers()
        for member in self._broker.members.values():
            self.apply_retention_to(member)

    def apply_retention_to(self, member: ReplicaSetMember) -> None:
        """Apply retention to one log."""
        member.log.apply_retention(self.retention_clock.now_ms(), self._retention_of)

    def _retention_of(self, partition: TopicPartition) -> Retention:
        topic = self._broker.partitions.by_id.get(partition.topic_id)
        if topic is None:
            return KEEP
        if topic.internal and topic.name not in ROW_TOPICS:
            coordinator = self._broker.coordinators.get(topic.name)
            if coordinator is None or not coordinator.runtime.is_movable(partition.partition):
                return KEEP
            return MOVABLE
        # What the tier has of it is known to the master alone: it tells all members what may go.
        is_told = topic.local is not None and topic.local.is_copied
        return KEEP if is_told else retention_of(topic.settings)

    def _relieve_pins(self) -> None:
        """Process the reports of the last retention pass over each log."""
        internal: dict[ReplicaSetMember, dict[TopicPartition, HostedPartition]] = {}
        for coordinator in self._broker.coordinators.values():
            for hosted in coordinator.partitions:
                if hosted is not None and hosted.member.role is Role.MASTER:
                    of_member = internal.setdefault(hosted.member, {})
                    of_member[hosted.log.topic_partition] = hosted
        for member, partitions in internal.items():
            self._relief.look(member, partitions)
        self._relief.forget(set(internal))
