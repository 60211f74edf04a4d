"""A coordinator of a later version, which writes records that ours can not read, and a downgrade.

    append to an internal partition ─► confirmed ─► the process ends ─► ours load it, rewrite it ...
                                                                          at the end: still there

Group records of a later version must survive rewrites byte for byte: unknown kinds of records,
values that can not be read, batches of transactions. The process ends as soon as they are
confirmed, since a process of that version would know them without loading.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.base.errors import PlatformError
from penstock.broker.coordinators.journal import JournalWrite
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import UnreadRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.records import TopicKey, encode_offset_key
from penstock.record.batch import TRANSACTIONAL, read_header
from penstock.record.build import Record, build_batch
from simulator.checks.groups.internal_partitions import journal_of, master_of
from simulator.run.cluster import SimCluster
from simulator.run.server import Server
from simulator.run.topology import PARTITIONS, TOPIC, WALL_START_MS

NEVER_MS = 1 << 62
MARK = b"of a later version"

OnWritten = Callable[[Server], bool]
"""Ends the process, and returns whether it does."""


def amount_of(partition: int, *, is_transaction: bool) -> int:
    """Return what a fault's `amount` says of the batch."""
    return partition + PARTITIONS * is_transaction


@dataclass(frozen=True, slots=True)
class _Written:
    """A batch that was confirmed."""

    partition: int
    base_offset: int
    records: tuple[Record, ...]
    is_transaction: bool

    def is_in(self, found: "_Found") -> bool:
        if self.is_transaction:
            return all(record in found.in_transactions for record in self.records)
        return all(record in found.records for record in self.records)


@dataclass(slots=True)
class _Found:
    """What a partition holds, as a coordinator loads it."""

    records: list[Record] = field(default_factory=list)
    in_transactions: list[Record] = field(default_factory=list)
    is_whole: bool = False
    is_failed: bool = False

    def record(self, record: UnreadRecord) -> None:
        if record.value is not None and MARK in record.value:
            self.records.append(Record(*record))

    def pending(self, writer: Writer, record: UnreadRecord) -> None:
        self.in_transactions.append(Record(*record))

    def ended(self, writer: Writer, *, is_commit: bool) -> None:
        """Later versions end none here."""

    def unread_batch(self, reason: str) -> None:
        """Nor do they write control batches."""

    def end(self, error: PlatformError | None) -> None:
        self.is_whole, self.is_failed = error is None, error is not None


class NewerRecords:
    """See the module."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._written: list[_Written] = []
        self._found: dict[int, _Found] = {}

    def write(self, amount: int, on_written: OnWritten) -> bool:
        """Have the coordinator write a batch; `on_written` must end its process at once.

        Returns whether there is one to write it.
        """
        partition, is_transaction = amount % PARTITIONS, amount >= PARTITIONS
        place = master_of(self._cluster.servers.values(), partition)
        if place is None:
            return False
        server, hosted = place
        records = _records(partition, len(self._written))
        attributes = TRANSACTIONAL if is_transaction else 0
        batch = memoryview(bytearray(build_batch(list(records), attributes=attributes)))

        def append() -> None:
            member = hosted.member
            try:
                member.check_writable()
                base_offset = member.log.append(hosted.log, batch, read_header(batch))
            except PlatformError:
                return
            written = _Written(partition, base_offset, records, is_transaction)

            def done(reason: Unwritten | None) -> None:
                if reason is None:
                    world = self._cluster.simulation.processes[0]
                    world.call_soon(self._keep, written, place, on_written)

            member.waiting_for_all.park(member.log.end_position, JournalWrite(done, NEVER_MS))

        assert server.process is not None
        server.process.call_soon(append)
        return True

    def _keep(
        self, written: _Written, place: tuple[Server, HostedPartition], on_written: OnWritten
    ) -> None:
        """Promise it, unless this very process has rewritten the partition, or will.

        It knows nothing of what stands there, and goes on where it was confirmed too late.
        """
        server, hosted = place
        is_rewritten = hosted.log.log_start_offset > written.base_offset
        if on_written(server) and not is_rewritten:
            self._written.append(written)

    # --- at the end ----------------------------------------------------------------------------

    def look(self) -> bool:
        """Read what has to be there; returns whether that goes on."""
        partitions = dict.fromkeys(one.partition for one in self._written)
        for partition in partitions:
            if self._found.get(partition, _Found(is_failed=True)).is_failed:
                self._load(partition)
        return any(not self._found.get(each, _Found()).is_whole for each in partitions)

    def _load(self, partition: int) -> None:
        place = master_of(self._cluster.servers.values(), partition)
        if place is None:
            return
        server, hosted = place
        found = self._found[partition] = _Found()
        journal = journal_of(server)
        assert journal is not None
        assert server.process is not None
        server.process.call_soon(journal.load, hosted, found, found.end)

    def missing(self) -> Iterator[str]:
        """Name what is not there any more, and where nobody can tell."""
        for one in self._written:
            found = self._found.get(one.partition, _Found())
            if not found.is_whole:
                yield (
                    f"internal partition {one.partition}: can not be loaded, and a later version"
                    f" wrote at {one.base_offset}"
                )
            elif not one.is_in(found):
                yield (
                    f"internal partition {one.partition}: what a later version wrote"
                    f" at {one.base_offset} is not there any more"
                )


def _records(partition: int, number: int) -> tuple[Record, ...]:
    """Return a record of an unknown kind, one without a key, and an unreadable position."""
    names = (f"later-{number}-{suffix}" for suffix in range(100))
    group = next(name for name in names if partition_of(name, PARTITIONS) == partition)
    position = encode_offset_key(group, TopicKey(TOPIC, 0))
    headers = (("by", b"a later version"),)
    value = b"\x00\x63 " + MARK
    kind = b"\x00\x09" + group.encode()
    return tuple(Record(key, value, headers, WALL_START_MS) for key in (kind, None, position))
