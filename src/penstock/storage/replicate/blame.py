"""Whose mistake it is that a run can not be read: the log's, or that of whoever named its position.

    scan from the segment's start ──► reaches the place, and it is bad    the log is damaged
                               ├────► finds a bad frame before it         the log is damaged there
                               └────► steps over the place                no frame begins there

A slave names where it goes on, and may be wrong: it has other bytes, or it lies. Bytes inside a
frame look like damage to a read that begins at them. Only a scan from where a frame surely begins
tells the two apart; a log that was taken for damaged by a peer's word would be cut.

Source: ours; the scan is recovery's, as Kafka's `LogSegment.recover`. Waits for the disk: as long
as it takes to read one segment.
"""

from penstock.base.errors import PlatformError
from penstock.base.ids import Position
from penstock.base.ports import DiskFile
from penstock.storage.errors import CorruptFrame, NoFrameBegins
from penstock.storage.recover.scan import SegmentScan


def blame(file: DiskFile, base: Position, end: Position, error: CorruptFrame) -> PlatformError:
    """Return what a read says that met `error` in the segment [base, end).

    NoFrameBegins if the place lies inside a frame or behind the last one; else CorruptFrame, which
    is damage.
    """
    scan, begins_at = SegmentScan(file, base, base, end), base
    for _ in scan:
        if scan.position > error.position:
            break
        begins_at = scan.position
    else:
        if scan.error is not None and scan.error.position <= error.position:
            return scan.error
    return error if begins_at == error.position else NoFrameBegins(error.position)
