"""Messages that wait for their time are held in a partition of their delay level.

    hold ─► due time, topic id and partition become a header
         ─► appended to the level's partition in the set of the message ─► confirmed ─► answered

So a message is as safe while it waits as it is later: synced and replicated by the set's policy
before its sender has an answer, and where the mastership goes it goes, too. Within a level messages
are due in the order in which they came, so nothing is kept in memory but the time of the first.

A message that is to be there at a time of its own goes through several levels, one after another
(delayed.py); those are all made before it is taken, so that none is missing on its way. So is the
partition by which it can be recalled (recall/recalls.py), where the controller knows of such.

Source: ours, docs/adr/0127, 0151; RocketMQ `ScheduleMessageService` (a queue for each level).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.base.errors import PlatformError
from penstock.controller.commands.topic_names import DELAY_TOPICS, RECALL_TOPIC
from penstock.record.batch import BATCH_HEADER_BYTES
from penstock.record.build import record_bytes_max
from penstock.record.errors import BatchTooLarge, RecordsWithoutKey
from penstock.remoting.later.delayed import (
    DELAYS_MS,
    Destination,
    held,
    level_before,
)
from penstock.remoting.later.due import STAMP_BYTES_MAX
from penstock.remoting.sending import Done, Sent
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.base.ids import ReplicaSetId
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition
    from penstock.record.build import Record
    from penstock.remoting.later.places import Places
    from penstock.remoting.sending import Sending


class _Late(NamedTuple):
    """A record that is to wait."""

    target: HostedPartition
    record: Record
    done: Done
    until_ms: int = 0
    """A time of its own; 0: none."""

    @property
    def set_id(self) -> ReplicaSetId:
        """Where it waits, too."""
        return self.target.member.replica_set_id


class Holding:
    """See the module; one for each node."""

    def __init__(self, broker: Broker, places: Places, sending: Sending) -> None:
        self._broker = broker
        self._places = places
        self._sending = sending
        self.held = 0
        """Messages that were taken to be delivered later."""

    def hold(self, target: HostedPartition, level: int, record: Record, done: Done) -> None:
        """Keep a record for a partition until its delay is over.

        `done` is called once: with an offset in the level, when it is confirmed, or with an error.
        """
        late = _Late(target, record, done)
        self._places.use(DELAY_TOPICS[level - 1], late.set_id, partial(self._append, late, level))

    def hold_until(
        self, target: HostedPartition, until_ms: int, record: Record, done: Done
    ) -> None:
        """Keep a record for a partition until a time.

        `done` is called once: with an offset in a level, when it is confirmed, or with an error. A
        time that is over is none: the record is sent, and the offset is that in its partition.
        """
        left_ms = until_ms - self._broker.clock.wall_ms()
        if left_ms <= 0:
            self._sending.add(target, Sent([record], done))
        else:
            late = _Late(target, record, done, until_ms)
            self._places.use(RECALL_TOPIC, late.set_id, lambda _: self._make_places(late, 1))

    def _make_places(self, late: _Late, level: int) -> None:
        """Make what is missing of the levels from this one on, then hold the record."""
        last = level_before(max(late.until_ms - self._broker.clock.wall_ms(), 1))
        if level <= last:
            use = partial(self._made, late, level)
            self._places.use(DELAY_TOPICS[level - 1], late.set_id, use)
            return
        place = self._places.find(DELAY_TOPICS[last - 1], late.set_id)
        found = NotMaster("another broker has this set by now") if place is None else place
        self._append(late, last, found)

    def _made(self, late: _Late, level: int, place: HostedPartition | PlatformError) -> None:
        if isinstance(place, PlatformError):
            late.done(place)
        else:
            self._make_places(late, level + 1)

    def _append(self, late: _Late, level: int, place: HostedPartition | PlatformError) -> None:
        if isinstance(place, PlatformError):
            late.done(place)
            return
        target = late.target
        try:
            check_taken(target, late.record)
        except PlatformError as error:
            late.done(error)
            return
        due_ms = self._broker.clock.wall_ms() + DELAYS_MS[level - 1]
        topic_id, partition = target.topic.topic_id, target.partition
        destination = Destination(due_ms, topic_id, partition, late.until_ms)
        self.held += 1
        self._sending.add(place, Sent([held(late.record, destination)], late.done))


def check_taken(target: HostedPartition, record: Record) -> None:
    """Check what the target would, so that nothing is taken that it refuses later.

    Raises ReplicationError and RecordError kinds, UnknownPartition.
    """
    rules = target.topic.rules
    target.check_still_led()
    target.member.check_in_step(rules.min_insync_replicas)
    size = BATCH_HEADER_BYTES + record_bytes_max(record) + STAMP_BYTES_MAX
    if size > rules.max_message_bytes:
        raise BatchTooLarge(size, rules.max_message_bytes)
    if rules.needs_keys and record.key is None:
        raise RecordsWithoutKey(1, (0,))
