"""What consumers of committed records may read (KIP-98).

    log start <= last stable offset <= high watermark <= log end

The last stable offset is where the oldest transaction begins that is not decided for certain. A
consumer with `isolation.level=read_committed` gets nothing from there on, and is told which of the
transactions in what it gets were aborted: it leaves out their records itself. It moves only when
the high watermark does, since a marker takes an offset.

Source: Kafka `ReplicaManager.readFromLog`, `UnifiedLog.lastStableOffset`.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.partitions import HostedPartition
from penstock.storage.index.aborted import AbortedTransaction
from penstock.storage.read.needs_disk import Turn

AbortedFound = Callable[[list[AbortedTransaction] | None, PlatformError | None], None]


class Stable(NamedTuple):
    """The end (exclusive) of what is stable: as an offset, and as a position of the set's log."""

    offset: int
    position: int


def stable_end(hosted: HostedPartition, high_watermark: int) -> Stable:
    """Return the last stable offset; `high_watermark` is that of the same moment."""
    member, log = hosted.member, hosted.log
    confirmed = member.confirm_position
    begun = member.log.transactions.first_unstable(log, confirmed)
    if begun is None or begun.position >= confirmed:
        return Stable(high_watermark, confirmed)
    return Stable(max(begun.offset, log.log_start_offset), begun.position)


def find_aborted(
    hosted: HostedPartition, start: int, end: int, done: AbortedFound, turn: Turn
) -> None:
    """Find the aborted transactions that touch [start, end), which is stable; at once or later."""
    try:
        hosted.member.log.transactions.find_aborted(hosted.log, start, end, done, turn)
    except PlatformError as error:
        done(None, error)
