"""Half messages of the sets that are led here: what the front does with them.

    send     ─► taken by the set of the message (led.py)
    end      ─► committed, or rolled back
    look, ten times a second, over what is due
               producer of its group here? ─► asked, and due again after the interval
               asked often enough, or kept for three days ─► discarded, where it can be looked at

A transaction is decided by its producer alone: a check asks, and what nobody answers for is never
committed.

Source: ours, docs/adr/0132; RocketMQ `TransactionalMessageServiceImpl.check`. Departure: a check
counts when it was sent, and without a producer nothing is.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicId
from penstock.broker.append.append import partition_to_mark
from penstock.controller.commands.topic_names import DISCARDED_TOPIC, HALF_TOPIC
from penstock.remoting.errors import MessageGone, TooManyHalves
from penstock.remoting.halves.asking import Asker, Producer, Question
from penstock.remoting.halves.led import LedHalves
from penstock.remoting.halves.record import Half, Outcome, copy_of, text_of, transaction_id
from penstock.remoting.halves.state import OPEN_BYTES, OpenHalf
from penstock.remoting.halves.times import (
    ABSENT_MS,
    CHECKS_A_LOOK,
    HALVES_MAX,
    KEPT_MS,
    LOOKED_AT,
    OF_TOPIC_MAX,
    Times,
)
from penstock.remoting.halves.work import Check, Decide
from penstock.remoting.ids import NOT_ADDRESSABLE, locator_of
from penstock.remoting.later.delayed import stamped
from penstock.remoting.later.holding import check_taken

if TYPE_CHECKING:
    from penstock.base.ids import ReplicaSetId
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition, HostedTopic
    from penstock.record.build import Record
    from penstock.remoting.later.places import Places
    from penstock.remoting.sending import Done, Sending

log = logging.getLogger(__name__)


class _Budget:
    """What a look may take, of all sets together; each set is the first one in its turn."""

    def __init__(self) -> None:
        self.checks = CHECKS_A_LOOK
        self.looked_at = LOOKED_AT


class Halves:
    """See the module; one for each node."""

    def __init__(self, broker: Broker, places: Places, sending: Sending) -> None:
        self._broker = broker
        self._places = places
        self._sending = sending
        self.times = Times()
        self.askers: list[Asker] = []
        """Who knows producers, the one that was not asked for longest first."""
        self._led: dict[HostedPartition, LedHalves] = {}
        self._turn = 0
        self.counts: Counter[str] = Counter()
        """What was `taken` and decided here, by outcome, and `check`: producers that were asked."""

    @property
    def bytes_now(self) -> int:
        """Approximate memory."""
        return self.waiting() * OPEN_BYTES

    def send(self, target: HostedPartition, half: Half, record: Record, done: Done) -> None:
        """Take a half message for a partition.

        `done` is called once: with its number when the set has confirmed it, or with an error.
        """
        set_id = target.member.replica_set_id
        self._places.use(HALF_TOPIC, set_id, partial(self._take, target, half, record, done))

    def end(self, place: HostedPartition, work: Decide) -> None:
        """Decide a half message of a partition that is led here. Raises HalvesNotReady."""
        self._of(place).decide(work)

    def place(self, partition: int) -> HostedPartition:
        """Return where half messages of a set are, by what their names say.

        Raises MessageGone, NotMaster and others of partitions that are not led here.
        """
        hosted = partition_to_mark(self._own_topic(partition), partition)
        hosted.check_still_led()
        return hosted

    def set_of(self, partition: int) -> ReplicaSetId:
        """Return the set whose half messages are in a partition. Raises MessageGone."""
        return self._own_topic(partition).placed[partition]

    def _own_topic(self, partition: int) -> HostedTopic:
        topic = self._broker.partitions.by_name.get(HALF_TOPIC.encode())
        if topic is None or not topic.internal or not 0 <= partition < len(topic.placed):
            raise MessageGone("no half message waits there")
        return topic

    def find(self, place: HostedPartition, number: int) -> OpenHalf | None:
        """Return a half message that waits; None if none does, or that is not known yet."""
        return self._of(place).halves.get(number)

    def topic_of(self, place: HostedPartition, number: int) -> HostedTopic | None:
        """Return the topic of a half message that waits, or was decided not long ago.

        None for other numbers, and where the topic is not known here.
        """
        return self._broker.partitions.by_id.get(TopicId(self._of(place).halves.topic_of(number)))

    def locator(self, set_id: ReplicaSetId, number: int) -> int:
        """Return the locator of a half message of a set."""
        place = self._places.find(HALF_TOPIC, set_id)
        return NOT_ADDRESSABLE if place is None else locator_of(place.partition, number)

    def transaction_id(self, set_id: ReplicaSetId, number: int) -> str:
        """Return the text that names a half message of a set by its place."""
        return text_of(self.locator(set_id, number))

    def look(self) -> None:
        """Load what is led since the last look, ask, discard, and let log starts follow."""
        now_ms = self._broker.clock.wall_ms()
        for hosted in [one for one, led in self._led.items() if not led.is_current]:
            self._led.pop(hosted).end()
        led_here = list(self._led_places())
        budget = _Budget()
        self._turn += 1
        for at in range(len(led_here)):
            led = self._of(led_here[(at + self._turn) % len(led_here)])
            if led.is_ready:
                self._look_at(led, now_ms, budget)
            led.tidy(now_ms)

    def waiting(self) -> int:
        """Return how many half messages wait in what is led here."""
        return sum(len(led.halves) for led in self._led.values())

    def oldest_age_ms(self) -> int:
        """Return for how long the oldest of them has waited; 0 where none does."""
        oldest = [led.halves.oldest_ms() for led in self._led.values()]
        taken = min((one for one in oldest if one is not None), default=None)
        return 0 if taken is None else max(self._broker.clock.wall_ms() - taken, 0)

    # --- half messages that come in ------------------------------------------------------------

    def _take(
        self,
        target: HostedPartition,
        half: Half,
        record: Record,
        done: Done,
        place: HostedPartition | PlatformError,
    ) -> None:
        now_ms = self._broker.clock.wall_ms()
        try:
            if isinstance(place, PlatformError):
                raise place
            number = place.log.log_end_offset
            told = transaction_id(place.partition, number)
            check_taken(target, copy_of(record, number, told, now_ms))
            if self.waiting() >= HALVES_MAX:
                raise TooManyHalves(f"{HALVES_MAX} half messages wait for their decision")
            if (
                sum(led.halves.of_topic[half.topic_id] for led in self._led.values())
                >= OF_TOPIC_MAX
            ):
                raise TooManyHalves(f"{OF_TOPIC_MAX} half messages of this topic wait")
            due = half._replace(due_ms=now_ms + half.due_ms)
            self._of(place).take(due, stamped(record, now_ms), self._sending, done)
        except PlatformError as error:
            done(error)
            return
        self.counts["taken"] += 1

    def _of(self, place: HostedPartition) -> LedHalves:
        led = self._led.get(place)
        if led is None or not led.is_current:
            if led is not None:
                led.end()
            led = LedHalves(self._broker, place, partial(self._ask, place), self.counts)
            self._led[place] = led
        led.load()
        return led

    def _led_places(self) -> Iterator[HostedPartition]:
        topic = self._broker.partitions.by_name.get(HALF_TOPIC.encode())
        for hosted in () if topic is None or not topic.internal else topic.partitions:
            if hosted is not None and hosted.member.is_master:
                yield hosted

    # --- what is due ---------------------------------------------------------------------------

    def _look_at(self, led: LedHalves, now_ms: int, budget: _Budget) -> None:
        """See to what is due, as far as the budget goes."""
        for found in led.halves.due(now_ms, budget.looked_at):
            if not budget.checks:
                break
            budget.looked_at -= 1
            number, half = found.half.number, found.half
            led.halves.postpone(number, now_ms + ABSENT_MS)
            try:
                if half.checks >= self.times.checks_max or now_ms - found.taken_ms >= KEPT_MS:
                    self._discard(led, number)
                    budget.checks -= 1
                    continue
                topic = self._topic(half)
                producer = None if topic is None else self._producer(half, topic)
                if producer is not None:
                    led.add(Check(number, producer))
                    budget.checks -= 1
            except PlatformError as error:
                log.info("half message %d: %s", number, error)
                break

    def _topic(self, half: Half) -> HostedTopic | None:
        return self._broker.partitions.by_id.get(half.topic_id)

    def _producer(self, half: Half, topic: HostedTopic) -> Producer | None:
        for at, asker in enumerate(self.askers):
            producer = asker.producer_of(half.group, topic)
            if producer is not None:
                self.askers.append(self.askers.pop(at))
                return producer
        return None

    def _ask(self, place: HostedPartition, check: Check, record: Record) -> int | None:
        """Ask a producer; return when the next check is due, None if it has gone."""
        found = self._of(place).halves.get(check.number)
        topic = None if found is None else self._topic(found.half)
        if found is None or topic is None or check.producer.is_gone:
            return None
        check.producer.ask(Question(place, topic, found, record))
        return self._broker.clock.wall_ms() + self.times.interval_ms

    def _discard(self, led: LedHalves, number: int) -> None:
        """Put a half message that nobody has decided where it can be looked at."""

        def use(place: HostedPartition | PlatformError) -> None:
            if isinstance(place, PlatformError):
                log.info("half message %d can not be discarded: %s", number, place)
            elif led.is_ready and led.halves.get(number) is not None:
                done = partial(_note_discarded, number)
                led.add(Decide(number, Outcome.DISCARD, done, place=place))

        self._places.use(DISCARDED_TOPIC, led.hosted.member.replica_set_id, use)


def _note_discarded(number: int, outcome: int | PlatformError) -> None:
    if isinstance(outcome, PlatformError):
        log.warning("half message %d can not be discarded: %s", number, outcome)
    else:
        log.warning("half message %d is discarded: its producers have not decided it", number)
