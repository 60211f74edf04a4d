"""Recalls of the sets that are led here: what fronts and deliveries do with them.

    a message with a time is taken    the set gets its partition for recalls; handle() names it
    recall                            decided by the master of the set (led.py)
    a level is read                   is_ready? what of it is recalled? up to when is it decided?
    look, ten times a second          what no level can have any more is forgotten

A set without a partition has no recalls: no handle was given there.

Source: ours, docs/adr/0165; RocketMQ `RecallMessageProcessor`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from penstock.controller.commands.topic_names import RECALL_TOPIC
from penstock.remoting.later.delayed import LATE_MS
from penstock.remoting.recall.errors import BadHandle
from penstock.remoting.recall.handle import Handle, handle_text
from penstock.remoting.recall.led import LedRecalls
from penstock.remoting.recall.record import Recalled, id_of
from penstock.remoting.recall.state import RECALL_BYTES

if TYPE_CHECKING:
    from penstock.base.ids import ReplicaSetId
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition
    from penstock.remoting.later.due import Waiting
    from penstock.remoting.later.places import Places
    from penstock.remoting.sending import Done

APART_MS: Final = 600_000
"""By how much the clocks of masters may differ, or one may go back: a recall is kept for longer
than any level can have its message behind later ones."""

FloorOf = Callable[["ReplicaSetId"], int | None]
"""All that was due before this time has left the levels of a set; None: that is not known."""


class Recalls:
    """See the module; one for each node."""

    def __init__(self, broker: Broker, places: Places) -> None:
        self._broker = broker
        self._places = places
        self._led: dict[HostedPartition, LedRecalls] = {}
        self.recalled = 0
        """Recalls that were taken."""
        self.dropped = 0
        """Messages that were not delivered, since they are recalled."""

    @property
    def bytes_now(self) -> int:
        """Approximate memory."""
        return self.waiting() * RECALL_BYTES

    def waiting(self) -> int:
        """Return how many recalls of the sets that are led here are known."""
        return sum(len(led.state) for led in self._led.values())

    def handle(self, handle: Handle) -> str:
        """Return the text by which a message that waits is recalled; empty: it can not be."""
        place = self._place(handle.set_id)
        return "" if place is None else handle_text(handle)

    def recall(self, set_id: ReplicaSetId, recalled: Recalled, done: Done) -> None:
        """Recall a message of a set that is led here.

        `done` is called once, when it is confirmed or with an error that came behind the append.
        Raises RecallRefused, RecallsNotReady, ReplicationError kinds.
        """
        place = self._place(set_id)
        if place is None:
            raise BadHandle("no message of this set can be recalled")
        place.check_still_led()
        self._of(place).recall(recalled, done)
        self.recalled += 1

    def is_ready(self, set_id: ReplicaSetId) -> bool:
        """Whether it is known what of a set is recalled; if not, it is being found out."""
        place = self._place(set_id)
        return place is None or self._of(place).is_ready

    def left_of(self, set_id: ReplicaSetId, due: Sequence[Waiting]) -> Sequence[Waiting]:
        """Return those of what is due that are not recalled. Call it when is_ready."""
        place = self._place(set_id)
        state = None if place is None else self._of(place).state
        if not state:
            return due
        return [one for one in due if not (one.destination.until_ms and _recalled(one) in state)]

    def decide(self, set_id: ReplicaSetId, until_ms: int) -> None:
        """Decide what of a set is due until a time. Raises RecallsNotReady, what an append does."""
        place = self._place(set_id)
        if place is not None and until_ms:
            self._of(place).decide(until_ms)

    def look(self, floor_of: FloorOf) -> None:
        """Load what is led since the last look, and forget what is over."""
        for ended in [one for one, led in self._led.items() if not led.is_current]:
            del self._led[ended]
        topic = self._broker.partitions.by_name.get(RECALL_TOPIC.encode())
        for hosted in () if topic is None or not topic.internal else topic.partitions:
            if hosted is None or not hosted.member.is_master:
                continue
            led = self._of(hosted)
            if led.is_ready:
                floor_ms = floor_of(hosted.member.replica_set_id)
                led.tidy(None if floor_ms is None else floor_ms - LATE_MS - APART_MS)

    def _place(self, set_id: ReplicaSetId) -> HostedPartition | None:
        place = self._places.find(RECALL_TOPIC, set_id)
        return place if place is not None and place.topic.internal else None

    def _of(self, place: HostedPartition) -> LedRecalls:
        led = self._led.get(place)
        if led is None or not led.is_current:
            led = self._led[place] = LedRecalls(self._broker, place)
        led.load()
        return led


def _recalled(waiting: Waiting) -> Recalled:
    """Return by what name a message would be recalled."""
    destination = waiting.destination
    message_id = id_of(waiting.record) or ""
    return Recalled(destination.until_ms, destination.topic_id, message_id)
