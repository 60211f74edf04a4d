"""The transactions of one log that are not decided, and the last stable offset that follows.

    open          a producer's batches since its last marker        ─► first offset, first position
    unconfirmed   a marker that the set has not confirmed yet       ─► the same, and its end

Nothing at or above the first offset of either is stable: an open transaction may still be aborted,
and a marker that is not confirmed may be truncated, which opens the transaction again. So the last
stable offset never falls.

Each partition with such transactions has an object, the others none. Open transactions are in the
order of their first offsets, as they began. Of the unconfirmed ones only those are kept that no
later marker hides: the one with the least first offset is then in front (the usual queue for the
minimum of a window), and looking costs nothing whatever their number.

Source: KIP-98 (last stable offset); Kafka `ProducerStateManager` (`ongoingTxns`,
`unreplicatedTxns`, `firstUnstableOffset`).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.base.ids import CoordinatorEpoch, Offset, Position, ProducerEpoch, ProducerId
from penstock.base.invariant import invariant

OPEN = Position(-1)
"""Instead of the end of a marker, in a snapshot."""


class Begun(NamedTuple):
    """Where a transaction begins in a partition."""

    offset: Offset
    position: Position
    """Of the frame of its first batch."""


class TransactionEnd(NamedTuple):
    """How a coordinator ends a producer's transaction."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: CoordinatorEpoch
    is_commit: bool


class Undecided(NamedTuple):
    """One transaction as a snapshot has it."""

    serial: int
    producer_id: ProducerId
    first_offset: Offset
    first_position: Position
    marker_end: Position
    """End position (exclusive) of a marker that is not confirmed yet; OPEN without one."""


class _Unconfirmed(NamedTuple):
    begun: Begun
    producer_id: ProducerId
    marker_end: Position


class PartitionTransactions:
    """The undecided transactions of one partition."""

    __slots__ = ("_unconfirmed", "open")

    def __init__(self) -> None:
        self.open: dict[ProducerId, Begun] = {}
        """By producer id, in the order of their first offsets."""
        self._unconfirmed: deque[_Unconfirmed] = deque()

    def begin(self, producer_id: ProducerId, offset: Offset, position: Position) -> bool:
        """Note a transactional batch; return whether it begins a transaction."""
        if producer_id in self.open:
            return False
        newest = next(reversed(self.open.values()), None)
        is_last = newest is None or newest.offset < offset
        invariant(is_last, "transactions are in the order in which they began", offset=offset)
        self.open[producer_id] = Begun(offset, position)
        return True

    def end(self, producer_id: ProducerId, marker_end: Position) -> Begun | None:
        """Note a marker whose frame ends there; return where its transaction began, if any."""
        begun = self.open.pop(producer_id, None)
        if begun is not None:
            self._put(_Unconfirmed(begun, producer_id, marker_end))
        return begun

    def _put(self, ended: _Unconfirmed) -> None:
        newest = self._unconfirmed
        while newest and newest[-1].begun.offset >= ended.begun.offset:
            newest.pop()
        newest.append(ended)

    def first_unstable(self, confirm_position: Position) -> Begun | None:
        """Return where the oldest undecided transaction begins; None if all are decided.

        `confirm_position` never falls from call to call.
        """
        unconfirmed = self._unconfirmed
        while unconfirmed and unconfirmed[0].marker_end <= confirm_position:
            unconfirmed.popleft()
        first = next(iter(self.open.values()), None)
        if unconfirmed and (first is None or unconfirmed[0].begun.offset < first.offset):
            return unconfirmed[0].begun
        return first

    def first_open(self, otherwise: Offset) -> Offset:
        """Return the first offset of the oldest open transaction."""
        first = next(iter(self.open.values()), None)
        return otherwise if first is None else first.offset

    def copy(self) -> "PartitionTransactions":
        """Return a copy, for a snapshot that is written while this one changes."""
        made = PartitionTransactions()
        made.open, made._unconfirmed = self.open.copy(), self._unconfirmed.copy()
        return made

    @property
    def is_decided(self) -> bool:
        """Whether nothing is known to be undecided."""
        return not self.open and not self._unconfirmed

    def undecided(self, serial: int) -> Iterator[Undecided]:
        """Yield what a snapshot keeps."""
        for producer_id, begun in self.open.items():
            yield Undecided(serial, producer_id, *begun, OPEN)
        for ended in self._unconfirmed:
            yield Undecided(serial, ended.producer_id, *ended.begun, ended.marker_end)


class LogTransactions:
    """The undecided transactions of all partitions of a log, by serial."""

    __slots__ = ("_by_serial", "open_count")

    def __init__(self) -> None:
        self._by_serial: dict[int, PartitionTransactions] = {}
        self.open_count = 0
        """Open transactions of all partitions."""

    def of(self, serial: int) -> PartitionTransactions | None:
        """Return those of a partition; None if it never had any."""
        return self._by_serial.get(serial)

    def begin(
        self, serial: int, producer_id: ProducerId, offset: Offset, position: Position
    ) -> None:
        """Note a transactional batch: the first one of its producer begins a transaction."""
        found = self._by_serial.get(serial)
        if found is None:
            found = self._by_serial[serial] = PartitionTransactions()
        self.open_count += found.begin(producer_id, offset, position)

    def end(self, serial: int, producer_id: ProducerId, marker_end: Position) -> Begun | None:
        """Note a marker whose frame ends there; return where its transaction began, if any."""
        found = self._by_serial.get(serial)
        begun = None if found is None else found.end(producer_id, marker_end)
        self.open_count -= begun is not None
        return begun

    def is_open(self, serial: int, producer_id: ProducerId) -> bool:
        """Whether the producer has an open transaction in the partition."""
        found = self._by_serial.get(serial)
        return found is not None and producer_id in found.open

    def forget(self, serial: int) -> None:
        """Forget the transactions of a dropped partition."""
        gone = self._by_serial.pop(serial, None)
        self.open_count -= 0 if gone is None else len(gone.open)

    def restore(self, kept: Iterable[Undecided]) -> None:
        """Add what a snapshot has, before any frame is read.

        Markers that are not confirmed are given in the order of their ends.
        """
        for serial, producer_id, offset, position, marker_end in kept:
            is_known = self.is_open(serial, producer_id)
            invariant(not is_known, "a producer has one open transaction", producer=producer_id)
            self.begin(serial, producer_id, offset, position)
            if marker_end != OPEN:
                self.end(serial, producer_id, marker_end)

    def add_older(self, older: Iterable[Undecided]) -> None:
        """Add transactions that began before the first frame that was read.

        What was read of a producer since then belongs to its older transaction, if that is open.
        """
        kept = {(one.serial, one.producer_id, one.marker_end): one for one in self.all()}
        kept |= {(one.serial, one.producer_id, one.marker_end): one for one in older}
        self._by_serial.clear()
        self.open_count = 0
        self.restore(sorted(kept.values(), key=_restoring_order))

    def copy(self) -> "LogTransactions":
        """Return a copy: 50,000 open transactions take 1 ms, and `all` of them 200."""
        made = LogTransactions()
        made.open_count = self.open_count
        made._by_serial = {
            serial: partition.copy()
            for serial, partition in self._by_serial.items()
            if not partition.is_decided
        }
        return made

    def all(self) -> list[Undecided]:
        """Return what a snapshot keeps, in the order in which `restore` takes it."""
        found = [
            undecided
            for serial, partition in self._by_serial.items()
            for undecided in partition.undecided(serial)
        ]
        return sorted(found, key=_restoring_order)


def _restoring_order(one: Undecided) -> tuple[int, bool, int]:
    """Of a partition: the markers first, by their ends, then the open ones by first offset.

    A producer may have both, and the marker is of the earlier transaction.
    """
    is_open = one.marker_end == OPEN
    return one.serial, is_open, one.first_offset if is_open else one.marker_end
