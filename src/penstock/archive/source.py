"""Where the records of an archive come from: a port, and brokers behind it.

    a source    which partitions are there, which offsets they have, and the rows of a range

`archive/lost_cluster.py` is the other one, for a cluster that has no broker any more.

Source: docs/adr/0164, docs/adr/0178.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from penstock.archive.chunks import COLUMNS
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.ranges import OffsetRange, PartitionName
from penstock.spark.reading import OnCorrupt, read_range

Span = tuple[int, int]
"""Offsets [start, end)."""


class RecordSource(Protocol):
    """One topic, as an archive copies it. Only committed records count."""

    def topic_id(self) -> str:
        """Return the id of the topic as text; empty where there are no ids."""

    def spans(self) -> Mapping[int, Sequence[Span]]:
        """Return of each partition which offsets it has, in order; between two they are gone."""

    def rows(self, wanted: OffsetRange, on_corrupt: OnCorrupt | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range, in order. Raises DataLost, CorruptRecords, its own."""


class BrokerSource:
    """A topic of a living cluster, up to where its transactions are decided now."""

    def __init__(self, access: BrokerAccess, topic: str) -> None:
        """`access` reads committed records only."""
        self._access, self._topic = access, topic

    def topic_id(self) -> str:
        """Return the present id. Raises TopicNotFound, ClientErrors."""
        return self._access.topic_id(self._topic)

    def spans(self) -> Mapping[int, Sequence[Span]]:
        """Return one for each partition. Raises TopicNotFound, ClientErrors."""
        names = [PartitionName(self._topic, one) for one in self._access.partitions(self._topic)]
        ends = self._access.latest(names)
        starts = self._access.earliest(names)
        return {name.partition: [(starts[name], max(starts[name], ends[name]))] for name in names}

    def rows(self, wanted: OffsetRange, on_corrupt: OnCorrupt | None) -> Iterator[pa.RecordBatch]:
        """As the port says. Raises ClientErrors."""
        return read_range(
            self._access, wanted, COLUMNS, fail_on_data_loss=True, on_corrupt=on_corrupt
        )
