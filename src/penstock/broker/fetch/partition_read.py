"""What a consumer requests of one partition, and what one read found there."""

from collections.abc import Sequence

from penstock.base.errors import PlatformError, as_answer
from penstock.base.ids import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from penstock.broker.errors import TierUnavailable, UnknownPartition
from penstock.broker.fetch.epoch_ends import EpochEnd
from penstock.broker.fetch.watermarks import End
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.reach import is_tiered
from penstock.broker.tier.view import TierChunk
from penstock.replication.errors import NotMaster
from penstock.storage.commit_log.set_log import NO_MORE, Chunk
from penstock.storage.errors import OffsetOutOfRange
from penstock.storage.index.aborted import AbortedTransaction
from penstock.storage.index.partition_log import PartitionLog

NO_PREFERENCE = -1
"""The consumer may keep reading from this replica (KIP-392)."""
PartitionKey = tuple[bytes, int]
"""Topic id (16 bytes) or topic name, whichever the consumer uses, and partition."""


class WantedPartition:
    """What a consumer requests of one partition."""

    __slots__ = ("fetch_offset", "key", "last_fetched_epoch", "leader_epoch", "max_bytes")

    def __init__(
        self,
        key: PartitionKey,
        fetch_offset: int,
        max_bytes: int,
        leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        last_fetched_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    ) -> None:
        """`leader_epoch` as known to the consumer, and that of the last record it has; -1: none."""
        self.key = key
        self.fetch_offset = Offset(fetch_offset)
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.last_fetched_epoch = last_fetched_epoch


class PartitionRead:
    """What one read found in one partition."""

    __slots__ = (
        "aborted",
        "begins_at",
        "buffers",
        "diverging",
        "epoch_end",
        "error",
        "found_end",
        "high_watermark",
        "hosted",
        "is_cold",
        "is_told",
        "known_aborted",
        "log",
        "log_start_offset",
        "next_offset",
        "preferred",
        "size",
        "stable_offset",
        "wanted",
        "why_absent",
    )

    def __init__(
        self,
        wanted: WantedPartition,
        hosted: HostedPartition | None,
        why_absent: type[PlatformError] = UnknownPartition,
    ) -> None:
        """`why_absent` is the error for the consumer if `hosted` is None."""
        self.wanted = wanted
        self.hosted = hosted
        self.why_absent = why_absent
        self.epoch_end: EpochEnd | None = None
        """Where the fetcher's last epoch ended, if it has diverged."""
        self.found_end: tuple[PartitionLog, End | PlatformError] | None = None
        """The high watermark that the disk has told, of this log; until the fetch is parked."""

    def end_of(self, hosted: HostedPartition) -> End | None:
        """Return the high watermark; None if the disk is to be asked. Raises what that has said.

        What the disk has told is of an earlier moment: its position is, too.
        """
        known = hosted.member.high_watermark(hosted.log)
        if known is not None:
            return End(known, hosted.member.confirm_position)
        if self.found_end is None or self.found_end[0] is not hosted.log:
            return None
        found = self.found_end[1]
        if isinstance(found, PlatformError):
            raise found
        return found

    def clear(self) -> None:
        """Forget the last read; every read begins with it."""
        self.error: PlatformError | None = None
        self.high_watermark = self.stable_offset = NO_OFFSET
        """The last stable offset."""
        self.log_start_offset = -1
        self.log: PartitionLog | None = None
        """The log that was read."""
        self.begins_at = self.wanted.fetch_offset
        """Where the log was read: behind the fetch offset if there are no records up to there."""
        self.size = 0
        self.buffers: Sequence[memoryview] = ()
        self.is_cold = False
        """Whether what was found came from the disk."""
        self.next_offset = NO_MORE
        self.aborted: list[AbortedTransaction] | None = None
        """Aborted transactions in what was found; None if they are not asked for."""
        self.known_aborted: list[AbortedTransaction] | None = None
        """Aborted transactions in records of the tier, which tells them with the records."""
        self.diverging: tuple[int, int] | None = None
        self.preferred = NO_PREFERENCE
        self.is_told = False
        """Whether there is something other than records to answer at once."""

    def fail(self, error: PlatformError) -> None:
        """Answer with an error and no records. Its traceback would keep this read in memory."""
        self.is_told = True
        self.error = as_answer(error)
        self.size = 0
        self.buffers = ()
        self.aborted = None

    def leave_out(self) -> None:
        """Answer without records: they come with a later fetch, which begins where this did."""
        self.size = 0
        self.buffers = ()
        self.aborted = []

    def take(self, chunk: Chunk) -> None:
        """Answer the partition with these records."""
        self.buffers = chunk.buffers
        self.size = chunk.size
        self.is_cold = chunk.is_cold
        self.next_offset = chunk.next_offset
        if isinstance(chunk, TierChunk):
            self.known_aborted = [AbortedTransaction(*one) for one in chunk.aborted]

    def why_gone(self) -> PlatformError | None:
        """Return why the log no longer has what was found in it, nor what was aborted of that.

        Retention, a client or the copying of a master's log may have taken it away. None if it is
        still there.
        """
        log, offset = self.log, self.begins_at
        if log is None or self.hosted is None or log is not self.hosted.log:
            return NotMaster("the log was opened anew while it was read")
        if offset < log.log_start_offset:
            if is_tiered(self.hosted):
                return TierUnavailable("the disks had it when it was read, and now the tier has")
            return OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
        return None

    def settled(self, *, is_committed: bool) -> int:
        """Return the size of a log of which all is readable; one that is still to be is empty."""
        hosted = self.hosted
        if hosted is None or hosted.log.last_end_position > hosted.member.confirm_position:
            return 0
        is_stable = not is_committed or self.stable_offset >= self.high_watermark
        return hosted.log.size_bytes if is_stable else 0

    def found_end_offset(self) -> Offset:
        """Return an offset at or behind the end of the records that were found, and stable."""
        if self.next_offset == NO_MORE:
            return self.stable_offset
        return min(Offset(self.next_offset), self.stable_offset)
