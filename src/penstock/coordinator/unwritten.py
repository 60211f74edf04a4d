"""Why a write of a coordinator's records is not confirmed.

Source: Kafka, the error mapping of GroupMetadataManager.storeGroup and storeOffsets.
"""

from enum import Enum


class Unwritten(Enum):
    """The reason that the journal gives for a write that it did not confirm."""

    NOT_HERE = "the internal topic, or this partition of it, is not on this node"
    OVERTAKEN = "another node leads the partition, or is about to"
    TOO_FEW_IN_STEP = "fewer members are in step than the topic asks for"
    TOO_LARGE = "the records do not fit into one batch of the log"
    FENCED = "the producer has a newer epoch"
    NOT_IN_TRANSACTION = "the partition is not in the producer's transaction"
    LATE = "it takes longer than a client waits, and may still be confirmed"
    FAILED = "the log can not be written"
