"""The committed positions of one group, and their memory.

Any client may commit positions of any partition for any group, each with 4 kB of metadata, and they
stay for a week. So they are counted (pinned.py) and have a bound (GroupConfig).

Source: ours; Kafka only bounds the metadata of each position (offset.metadata.max.bytes).
"""

from collections.abc import Mapping

from penstock.base.ids import ProducerId
from penstock.coordinator.pending_map import PendingMap
from penstock.groups.pinned import PinnedBytes
from penstock.groups.records import CommittedOffset, TopicKey

POSITION_BYTES = 360
"""Memory of a position besides its metadata: 350 measured with tracemalloc, with its key and its
entry in a dict. Names and ids of topics belong to the cluster image."""


def size_of(offset: CommittedOffset | None) -> int:
    """Return the approximate memory of a position, with the real size of its metadata, in bytes."""
    return 0 if offset is None else POSITION_BYTES + offset.metadata.__sizeof__()


class Positions(PendingMap[TopicKey, CommittedOffset]):
    """A PendingMap that counts the memory of its values."""

    __slots__ = ("_meter", "gone", "in_flight_bytes", "size_bytes")

    def __init__(self) -> None:
        super().__init__()
        self.size_bytes = 0
        """Memory of confirmed positions, those that wait for a transaction's end included."""
        self.in_flight_bytes = 0
        self.gone: dict[str, set[bytes | None]] = {}
        """Deleted topics, name -> ids, of which positions stay until an open transaction ends."""
        self._meter: PinnedBytes | None = None

    def growth(
        self, key: TopicKey, offset: CommittedOffset, producer_id: ProducerId | None = None
    ) -> int:
        """Return by how many bytes this change, perhaps of a transaction, lets positions grow."""
        if producer_id is not None:
            return size_of(offset) - size_of(self.pending.of(producer_id, key))
        return size_of(offset) - size_of(self.values.get(key))

    def count_in(self, meter: PinnedBytes | None) -> None:
        """Count in another sum from now on, or in none."""
        size, in_flight = self.size_bytes, self.in_flight_bytes
        self._count(-size, -in_flight)
        self._meter = meter
        self._count(size, in_flight)

    def begin(self, changes: Mapping[TopicKey, CommittedOffset | None]) -> int:
        """As in ConfirmedMap."""
        self._count(0, sum(map(size_of, changes.values())))
        return super().begin(changes)

    def _ended(self, changes: Mapping[TopicKey, CommittedOffset | None]) -> None:
        self._count(0, -sum(map(size_of, changes.values())))

    def _change(self, key: TopicKey, value: CommittedOffset | None) -> None:
        self._count(size_of(value) - size_of(self.values.get(key)), 0)
        super()._change(key, value)

    def _held(self, value: CommittedOffset) -> None:
        self._count(size_of(value), 0)

    def _let_go(self, value: CommittedOffset) -> None:
        self._count(-size_of(value), 0)

    def _count(self, size: int, in_flight: int) -> None:
        self.size_bytes += size
        self.in_flight_bytes += in_flight
        if self._meter is not None:
            self._meter.offsets += size
            self._meter.in_flight += in_flight
