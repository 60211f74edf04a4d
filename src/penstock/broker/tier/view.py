"""What a broker knows of its tier; implemented by the runtime, which copies into it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, ReplicaSetId, TopicPartition
from penstock.broker.partitions import HostedPartition
from penstock.record.batch import read_header
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.read.chunk import PIECE_BYTES_MIN, Chunk
from penstock.storage.stores.port import Examine
from penstock.tier.copies.counters import CopyCounters
from penstock.tier.metadata.manifest import Manifest
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.read.counters import ReadCounters

T = TypeVar("T")
Done = Callable[[T | None, PlatformError | None], None]


class TierChunk(Chunk):
    """Batches of a partition that the tier alone has, with the transactions aborted in them."""

    __slots__ = ("aborted", "batches")

    def __init__(
        self,
        batches: list[memoryview],
        offsets: tuple[int, int],
        aborted: list[tuple[int, int]],
    ) -> None:
        """`offsets`: of the first batch, and behind the last one.

        Without batches: the offset that was asked for, and up to where there are no records.
        """
        buffers, size = batches, sum(map(len, batches))
        if len(buffers) > 1 and size < PIECE_BYTES_MIN * len(buffers):
            buffers = [memoryview(b"".join(buffers))]
        super().__init__(buffers, size, *offsets)
        self.count = len(batches)
        self.is_cold = True
        self.batches = batches
        self.aborted = aborted

    def beginning(self, bytes_max: int) -> "TierChunk":
        """Return the first batches up to a number of bytes, at least one.

        Transactions that were aborted behind them may be told, too.
        """
        if self.size <= bytes_max or len(self.batches) == 1:
            return self
        count, size = 1, len(self.batches[0])
        while size + len(self.batches[count]) <= bytes_max:
            size += len(self.batches[count])
            count += 1
        end = read_header(self.batches[count]).base_offset
        return TierChunk(self.batches[:count], (self.first_offset, end), self.aborted)


class TierClient(NamedTuple):
    """Who fetches."""

    connection: object
    wake: Callable[[], object]
    """Called once what was fetched for it is there, or can not be had."""

    @property
    def host(self) -> str:
        """The address that it comes from; empty where nobody says so."""
        return getattr(self.connection, "client_host", "")


class TierReads(Protocol):
    """What handlers read from the tier, within bounds of its own. All calls are on the loop."""

    counters: ReadCounters

    @property
    def open_count(self) -> int:
        """Reads that are in progress, or wait."""

    def fetch(
        self, client: TierClient, hosted: HostedPartition, offset: Offset, bytes_max: int
    ) -> TierChunk | None:
        """Return batches from `offset` on, the first of them perhaps behind a gap; None: not now.

        A chunk without batches tells of a gap up to its `next_offset`, which is further on.
        They are read then, unless there is no room for it; the client is woken, and asks again. A
        client that does not come back finds them there for a while. Raises TierUnavailable once a
        read has failed for the length of its time budget, or what else stands against it.
        """

    def told_start(self, hosted: HostedPartition) -> Offset | None:
        """Return where a partition begins whose slave this node is; None: not told yet."""

    def search(
        self,
        host: str,
        hosted: HostedPartition,
        offsets: tuple[int, int],
        timestamp_ms: int,
        examine: Examine[T],
        *,
        done: Done[T],
    ) -> None:
        """Find the first match in `offsets` (end exclusive), as SetLog.offset_for_timestamp.

        `host` is the address of the client that asks.
        """

    def raise_start(
        self, hosted: HostedPartition, offset: Offset, done: Callable[[PlatformError | None], None]
    ) -> None:
        """Let the tier keep nothing below `offset`; `done` when no failover can undo it."""


class CopyStanding(NamedTuple):
    """How far one mastership's copying is."""

    step: str
    """That of its copier, or `waiting` while there is none."""
    trouble: str | None
    """What failed last, and is tried again; None: nothing."""
    manifests: Mapping[TopicPartition, Manifest]
    """What the tier has, as no failover can undo it; empty while it is not known."""


class TierPlace(NamedTuple):
    """Where the tier is, for those who read it themselves."""

    url: str
    endpoint: str
    region: str
    cluster_id: bytes
    lease_ms: int
    """For how long they may use what they were told of objects."""


class TierView(Protocol):
    """The tier as the masterships of this node have it."""

    @property
    def place(self) -> TierPlace:
        """Where it is. Credentials are not in it."""

    def standing(self, member: ReplicaSetMember) -> CopyStanding | None:
        """Return how far the copying of a set is that is led here; None: it is not looked at."""

    def manifest(self, member: ReplicaSetMember, key: TopicPartition) -> Manifest | None:
        """Return what the tier has of a partition that is led here, as no failover can undo it.

        None: it is not known (yet), or nothing of the set is copied.
        """

    counters: CopyCounters
    reads: TierReads

    async def read(self, member: ReplicaSetMember, key: TopicPartition, offset: int) -> memoryview:
        """Return whole batches of a partition that is led here; the first begins at `offset`.

        Raises TierError: the tier does not have them, or its store does not give them now.
        """

    def waiting_bytes(self, member: ReplicaSetMember) -> int:
        """Return the bytes of records of a set that may be copied and are not; a lower bound."""

    def metadata_of(self, set_id: ReplicaSetId) -> TierMetadata | None:
        """Return the metadata of a set, ahead of its log; None: it is not loaded here."""
