"""What consumers of committed records may read (KIP-98).

    log start <= last stable offset <= high watermark <= log end

The last stable offset is where the oldest transaction begins that is not decided for certain. A
consumer with `isolation.level=read_committed` gets nothing from there on, and is told which of the
transactions in what it gets were aborted: it leaves out their records itself. It moves only when
the high watermark does, since a marker takes an offset.

Source: Kafka `ReplicaManager.readFromLog`, `UnifiedLog.lastStableOffset`.
"""

from collections.abc import Callable

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, Position
from penstock.broker.fetch.watermarks import End
from penstock.broker.partitions import HostedPartition
from penstock.storage.index.aborted import AbortedTransaction
from penstock.storage.read.needs_disk import Turn

AbortedFound = Callable[[list[AbortedTransaction] | None, PlatformError | None], None]


def stable_end(hosted: HostedPartition, confirmed: End) -> End:
    """Return the end of what is stable of what was confirmed, now or at an earlier moment.

    What has been decided since then counts: it was, of what lies below that end.
    """
    member, log = hosted.member, hosted.log
    begun = member.log.transactions.first_unstable(log, member.confirm_position)
    if begun is None or begun.position >= confirmed.position:
        return confirmed
    return End(max(begun.offset, log.log_start_offset), begun.position)


def stable_position(hosted: HostedPartition) -> Position:
    """Return the position (exclusive) up to which the set's log is stable for the partition."""
    return stable_end(hosted, End(Offset(0), hosted.member.confirm_position)).position


def find_aborted(
    hosted: HostedPartition, start: Offset, end: Offset, done: AbortedFound, turn: Turn
) -> None:
    """Find the aborted transactions that touch [start, end), which is stable; at once or later."""
    try:
        hosted.member.log.transactions.find_aborted(hosted.log, start, end, done, turn)
    except PlatformError as error:
        done(None, error)
