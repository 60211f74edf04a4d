"""The index of the active segment up to the snapshot: from the side file, else from the segment.

Source: docs/adr/0002. Waits for the disk.
"""

from array import array
from collections.abc import Mapping, Sequence

from penstock.base.ids import TopicPartition
from penstock.base.ports import Disk
from penstock.storage.commit_log.segments import Segment
from penstock.storage.commit_log.snapshot import Snapshot
from penstock.storage.errors import CorruptFile, CorruptLog
from penstock.storage.index.aborted import NO_ABORTED, new_aborted
from penstock.storage.index.partition_log import EMPTY, PartitionLog
from penstock.storage.index.rebuild import scan_columns
from penstock.storage.index.sealed_index import Sealed
from penstock.storage.index.side_file import decode_side, side_path


class ActiveColumns:
    """Fills the partitions' columns for [active base, snapshot position)."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        snapshot: Snapshot,
        partitions: Mapping[TopicPartition, PartitionLog],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._snapshot = snapshot
        self._partitions = partitions
        self.touched: list[PartitionLog] = []
        """Partitions that have columns."""

    def load(self, segments: Sequence[Segment], damaged: list[str]) -> None:
        """Read the side file, else the segment; a damaged side file is added to `damaged`.

        Raises CorruptLog: the segment is needed and is damaged or missing.
        """
        snapshot = self._snapshot
        if snapshot.position == snapshot.active_base:
            return
        path = side_path(self._directory, snapshot.active_base, snapshot.side_number)
        try:
            self._read_side(path)
        except (CorruptFile, FileNotFoundError) as error:
            damaged.append(str(error))
            self._scan(segments)

    def _read_side(self, path: str) -> None:
        snapshot = self._snapshot
        if not snapshot.side_bytes:
            self._check_side(path)
            return
        file = self._disk.open(path)
        try:
            data = file.read(0, snapshot.side_bytes)
        finally:
            file.close()
        if len(data) != snapshot.side_bytes:
            raise CorruptFile(path, f"it has {len(data)} of {snapshot.side_bytes} bytes")
        for topic_partition, sealed in list(decode_side(path, data)):
            self._extend(topic_partition, sealed)
        self._check_side(path)

    def _check_side(self, path: str) -> None:
        """Check that every partition with frames in the segment has them in the index."""
        for partition in self._partitions.values():
            if partition.last_end_position <= self._snapshot.active_base:
                continue
            columns = partition.columns
            end = columns.positions[-1] + columns.sizes[-1] + 48 if columns.bases else 0
            if end != partition.last_end_position:
                raise CorruptFile(path, f"entries of {partition.topic_partition} are missing")

    def _scan(self, segments: Sequence[Segment]) -> None:
        snapshot = self._snapshot
        for partition in self.touched:
            partition.take_columns()
        self.touched = []
        base = snapshot.active_base
        segment = self._segment(segments, base)
        file = self._disk.open(segment.path)
        parts, scan = scan_columns(file, base, base, snapshot.position)
        file.close()
        if scan.error is not None or scan.position != snapshot.position:
            reason = scan.error.reason if scan.error else "the segment ends early"
            raise CorruptLog(self._directory, scan.position, reason)
        for topic_partition, sealed in parts.items():
            self._extend(topic_partition, sealed)

    def _segment(self, segments: Sequence[Segment], base: int) -> Segment:
        for segment in segments:
            if segment.base == base:
                return segment
        raise CorruptLog(self._directory, base, "the segment file is missing")

    def _extend(self, topic_partition: TopicPartition, sealed: Sealed) -> None:
        partition = self._partitions.get(topic_partition)
        columns = sealed.columns
        if partition is None or not columns.bases:
            return
        if partition.bases is EMPTY:
            partition.open_columns()
            self.touched.append(partition)
        for own, added in zip(partition.columns, columns, strict=True):
            assert isinstance(own, array)
            own.extend(added)
        if len(sealed.aborted.last_offsets):
            if partition.aborted is NO_ABORTED:
                partition.aborted = new_aborted()
            partition.aborted.extend(sealed.aborted)
