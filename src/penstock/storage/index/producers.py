"""State of idempotent and transactional producers: the last five batches of each of them.

    (partition, producer id) -> (epoch, time of the last append, five newest batches,
                                 epoch of the coordinator whose marker was the last one)
    batch                    =  (base sequence, last sequence, base offset)

A retry of one of the five is answered with the offset that the first copy got. Any other batch must
continue the sequence of the newest one, wrapping from 2^31 - 1 to 0; a new epoch begins at 0. A
producer without state may begin anywhere, since its state may have been deleted with old data.

All producers of a log share one table in the order of their last append, so that one bound holds
for the whole log and the longest idle ones are evicted. A state is a tuple that is replaced, never
changed, so a snapshot is one shallow copy. For a dict with 100,000 states that takes 3 ms of the
loop; for an OrderedDict it took 40. But finding a dict's first entry passes over all entries that
were deleted before it, so a full table evicts a hundredth of its entries at once.

A batch of a coordinator has no sequence: it is of its producer's epoch, and in none of the five.

A marker with a newer epoch begins that epoch without batches: the next one has sequence 0. While a
producer has an open transaction (transactions.py) its state is not forgotten.

Source: KIP-98, KIP-679; Kafka `ProducerStateEntry` (window of 5) and `ProducerAppendInfo`
(`checkProducerEpoch`, `checkSequence`). Departure: age counts from the append and not from the
batch's own timestamp, so that a producer of old data is not forgotten at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import NamedTuple, TypeAlias

from penstock.base.ids import NO_COORDINATOR_EPOCH, CoordinatorEpoch, ProducerEpoch, ProducerId
from penstock.record.batch import BatchHeader
from penstock.storage.errors import OutOfOrderSequence, ProducerFenced
from penstock.storage.index.transactions import LogTransactions

WINDOW_BATCHES = 5
"""A producer has at most five requests in flight on a connection; Kafka keeps as many."""
STATE_BYTES_MAX = 1_192
"""Upper bound of a producer's state with all its batches: 1,164 bytes by tracemalloc."""
NO_SEQUENCE = -1
NO_COORDINATOR = NO_COORDINATOR_EPOCH
SEQUENCE_MAX = 0x7FFFFFFF
ROOM_PART = 100
EXPIRED_AT_ONCE = 5_000
"""About 3 ms. The rest follows with the next call, a minute later."""
LOOKED_AT_ONCE = 500
"""States looked at in one step of `known_producers`, at 2 us each if all are of one partition. In
the first step the keys are copied too: 2 ms for 100,000."""

BatchSpan: TypeAlias = tuple[int, int, int]
"""(base sequence, last sequence, base offset)"""
ProducerState: TypeAlias = tuple[ProducerEpoch, int, tuple[BatchSpan, ...], CoordinatorEpoch]
"""(producer epoch, wall time of the last append in ms, batches oldest first, coordinator epoch)"""
ProducerKey: TypeAlias = tuple[int, ProducerId]
"""(partition serial, producer id)"""


class KnownProducer(NamedTuple):
    """A producer that a partition remembers."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    last_sequence: int
    """Of the last record that it appended; NO_SEQUENCE if its epoch began with a marker."""
    last_append_ms: int
    """Wall time of the last append, in milliseconds."""
    coordinator_epoch: CoordinatorEpoch
    """Of the last marker; NO_COORDINATOR if it has none."""
    first_open_offset: int
    """Where its open transaction begins; -1 if it has none."""


class Duplicate(NamedTuple):
    """The batch is in the log already, at `base_offset`."""

    base_offset: int


class ProducerStates:
    """All producer states of one log, longest idle first; bounded by count and by age."""

    __slots__ = ("_dropped", "capacity", "entries", "now_ms", "transactions")

    def __init__(self, capacity: int, now_ms: int) -> None:
        self.capacity = capacity
        """May be changed; excess states are evicted by the next `put` or `expire`."""
        self.now_ms = now_ms
        """Wall time, updated by the log once in a loop turn."""
        self.entries: dict[ProducerKey, ProducerState] = {}
        """May still have states of dropped partitions, which `all` leaves out."""
        self._dropped: dict[int, None] = {}
        self.transactions = LogTransactions()

    def put(self, key: ProducerKey, state: ProducerState) -> None:
        """Store a producer's new state, and move it to the end of the order."""
        entries = self.entries
        entries.pop(key, None)
        entries[key] = state
        excess = len(entries) - self.capacity
        if excess > 0:
            self._forget(list(islice(entries.items(), max(excess, self.capacity // ROOM_PART))))

    def expire(self, older_than_ms: int) -> int:
        """Forget producers idle since before `older_than_ms`; return how many.

        Those with an open transaction stay. At most EXPIRED_AT_ONCE in one call. Producers above
        the capacity, which may have been lowered, are forgotten too.
        """
        entries = self.entries
        first = list(islice(entries.items(), EXPIRED_AT_ONCE))
        old = sum(1 for _ in takewhile(lambda one: one[1][1] < older_than_ms, first))
        return self._forget(first[: max(old, len(entries) - self.capacity)])

    def _forget(self, oldest: list[tuple[ProducerKey, ProducerState]]) -> int:
        """Forget these; one with an open transaction goes to the end of the order instead."""
        entries, is_open = self.entries, self.transactions.is_open
        gone = len(oldest)
        for key, state in oldest:
            del entries[key]
            if is_open(*key):
                entries[key] = state
                gone -= 1
        return gone

    def forget_partition(self, serial: int) -> None:
        """Forget the producers of a dropped partition; done for many partitions at once."""
        self._dropped[serial] = None
        self.transactions.forget(serial)

    def all(self) -> Mapping[ProducerKey, ProducerState]:
        """Return the states of existing partitions, longest idle first."""
        dropped = self._dropped
        if dropped:
            for key in [key for key in self.entries if key[0] in dropped]:
                del self.entries[key]
            dropped.clear()
        return self.entries.copy()


class ProducerTable:
    """The producers of one partition; a view on the log's shared table."""

    __slots__ = ("serial", "states")

    def __init__(self, states: ProducerStates, serial: int) -> None:
        self.states = states
        self.serial = serial

    def check(self, header: BatchHeader) -> Duplicate | None:
        """Return None if the batch may be appended, a Duplicate if it is in the log already.

        Raises:
            OutOfOrderSequence: a gap, or a repetition older than the window.
            ProducerFenced: the epoch is older than the newest one seen.
        """
        producer_id = header.producer_id
        state = self.states.entries.get((self.serial, producer_id))
        if state is None:
            return None
        epoch, _, window, _ = state
        sequence = header.base_sequence
        if header.producer_epoch != epoch:
            if header.producer_epoch < epoch:
                raise ProducerFenced(producer_id, header.producer_epoch, epoch)
            if sequence != 0:
                raise OutOfOrderSequence(producer_id, sequence, 0)
            return None
        newest = window[-1][1] if window else NO_SEQUENCE
        if sequence == newest + 1 or (sequence == 0 and newest == SEQUENCE_MAX):
            return None
        last_sequence = (sequence + header.last_offset_delta) & SEQUENCE_MAX
        for base, last, base_offset in window:
            if base == sequence and last == last_sequence:
                return Duplicate(base_offset)
        raise OutOfOrderSequence(producer_id, sequence, (newest + 1) & SEQUENCE_MAX)

    def record(self, header: BatchHeader, base_offset: int) -> None:
        """Record a batch that was appended at `base_offset`."""
        states = self.states
        sequence = header.base_sequence
        key = (self.serial, header.producer_id)
        state = states.entries.get(key)
        is_same = state is not None and state[0] == header.producer_epoch
        window = state[2] if state is not None and is_same else ()
        if sequence >= 0:
            span = (sequence, (sequence + header.last_offset_delta) & SEQUENCE_MAX, base_offset)
            window = (*window[1 - WINDOW_BATCHES :], span)
        coordinator_epoch = NO_COORDINATOR if state is None else state[3]
        states.put(key, (header.producer_epoch, states.now_ms, window, coordinator_epoch))

    def record_marker(self, header: BatchHeader, coordinator_epoch: CoordinatorEpoch) -> None:
        """Record the marker of a producer."""
        states = self.states
        key = (self.serial, header.producer_id)
        state = states.entries.get(key)
        is_same = state is not None and state[0] == header.producer_epoch
        window = state[2] if state is not None and is_same else ()
        states.put(key, (header.producer_epoch, states.now_ms, window, coordinator_epoch))

    def known(self, producer_id: ProducerId) -> KnownProducer | None:
        """Return what the partition remembers of a producer; None if nothing."""
        state = self.states.entries.get((self.serial, producer_id))
        return None if state is None else self.told(producer_id, state)

    def told(self, producer_id: ProducerId, state: ProducerState) -> KnownProducer:
        """Return a producer's state as it is told to clients."""
        epoch, last_ms, window, coordinator_epoch = state
        transactions = self.states.transactions.of(self.serial)
        begun = None if transactions is None else transactions.open.get(producer_id)
        return KnownProducer(
            producer_id,
            epoch,
            window[-1][1] if window else NO_SEQUENCE,
            last_ms,
            coordinator_epoch,
            -1 if begun is None else begun.offset,
        )


def known_producers(
    tables: Iterable[ProducerTable],
) -> Iterator[list[tuple[ProducerTable, KnownProducer]]]:
    """Yield the producers of these partitions, LOOKED_AT_ONCE states of a log in each step.

    The states may change between two steps: a producer that writes meanwhile is told as it is when
    its turn comes, one that is forgotten meanwhile is left out. A log is gone through once, however
    many of its partitions are asked for.
    """
    by_log: dict[ProducerStates, dict[int, ProducerTable]] = {}
    for table in tables:
        by_log.setdefault(table.states, {})[table.serial] = table
    for states, by_serial in by_log.items():
        keys = [*states.entries]
        for at in range(0, len(keys), LOOKED_AT_ONCE):
            part: list[tuple[ProducerTable, KnownProducer]] = []
            for key in keys[at : at + LOOKED_AT_ONCE]:
                of_partition = by_serial.get(key[0])
                state = None if of_partition is None else states.entries.get(key)
                if of_partition is not None and state is not None:
                    part.append((of_partition, of_partition.told(key[1], state)))
            yield part
