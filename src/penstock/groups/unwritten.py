"""Why a write of a group's records is not confirmed, and what its client is told.

Source: Kafka, the error mapping of GroupMetadataManager.storeGroup and storeOffsets.
"""

from enum import Enum

from penstock.protocol.error_codes import ErrorCode


class Unwritten(Enum):
    """What the journal says of a write that it did not confirm."""

    NOT_HERE = "the internal topic, or this partition of it, is not on this node"
    OVERTAKEN = "another node leads the partition, or is about to"
    TOO_FEW_IN_STEP = "fewer members are in step than the topic asks for"
    TOO_LARGE = "the records do not fit into one batch of the log"
    LATE = "it takes longer than a client waits, and may still be confirmed"
    FAILED = "the log can not be written"


def told_of(reason: Unwritten) -> ErrorCode:
    """Return what a group's client hears: to look for the coordinator, or to try again."""
    return _TOLD.get(reason, ErrorCode.COORDINATOR_NOT_AVAILABLE)


_TOLD = {
    Unwritten.OVERTAKEN: ErrorCode.NOT_COORDINATOR,
    Unwritten.TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
}
