"""Messages that wait for their time are held in a partition of their delay level.

    hold ─► due time, topic id and partition become a header
         ─► appended to the level's partition in the set of the message ─► confirmed ─► answered

So a message is as safe while it waits as it is later: synced and replicated by the set's policy
before its sender has an answer, and where the mastership goes it goes, too. Within a level messages
are due in the order in which they came, so nothing is kept in memory but the time of the first.

Source: ours, docs/adr/0127; RocketMQ `ScheduleMessageService` (a queue for each level).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.controller.commands.topic_names import DELAY_TOPICS
from penstock.record.batch import BATCH_HEADER_BYTES
from penstock.record.build import record_bytes_max
from penstock.record.errors import BatchTooLarge, RecordsWithoutKey
from penstock.remoting.later.delayed import DELAYS_MS, Destination, held
from penstock.remoting.later.due import STAMP_BYTES_MAX
from penstock.remoting.sending import Done, Sent

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition
    from penstock.record.build import Record
    from penstock.remoting.later.places import Places
    from penstock.remoting.sending import Sending


class Holding:
    """See the module; one for each front."""

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
        set_id = target.member.replica_set_id
        use = partial(self._append, target, level, record, done)
        self._places.use(DELAY_TOPICS[level - 1], set_id, use)

    def _append(
        self,
        target: HostedPartition,
        level: int,
        record: Record,
        done: Done,
        place: HostedPartition | PlatformError,
    ) -> None:
        if isinstance(place, PlatformError):
            done(place)
            return
        try:
            check_taken(target, record)
        except PlatformError as error:
            done(error)
            return
        due_ms = self._broker.clock.wall_ms() + DELAYS_MS[level - 1]
        destination = Destination(due_ms, target.topic.topic_id, target.partition)
        self.held += 1
        self._sending.add(place, Sent([held(record, destination)], done))


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
