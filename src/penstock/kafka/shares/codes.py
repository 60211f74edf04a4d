"""What the engine of shares says, as Kafka's codes.

A code that clients try again stands where trying again helps: the master may be another one, or
the log may take it later.

Source: Kafka `ShareFetchUtils`, `SharePartition` (KIP-932).
"""

from collections.abc import Mapping
from enum import Enum

from penstock.coordinator.unwritten import Unwritten
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.messages import Unavailable, WhyNot

_CODES: Mapping[Enum, ErrorCode] = {
    Unavailable.NOT_HERE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Unavailable.LOADING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Unavailable.NOT_STARTED: ErrorCode.INVALID_RECORD_STATE,
    Unavailable.UNREADABLE: ErrorCode.UNSUPPORTED_VERSION,
    Unavailable.FULL: ErrorCode.REQUEST_TIMED_OUT,
    Unavailable.TOO_MANY: ErrorCode.POLICY_VIOLATION,
    Unavailable.INVALID: ErrorCode.INVALID_REQUEST,
    Unwritten.NOT_HERE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Unwritten.OVERTAKEN: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Unwritten.TOO_FEW_IN_STEP: ErrorCode.NOT_ENOUGH_REPLICAS,
    Unwritten.LATE: ErrorCode.REQUEST_TIMED_OUT,
    Unwritten.FAILED: ErrorCode.KAFKA_STORAGE_ERROR,
}


def code_of(why: WhyNot | None) -> ErrorCode:
    """Return the code for an outcome; None is success."""
    return ErrorCode.NONE if why is None else _CODES.get(why, ErrorCode.UNKNOWN_SERVER_ERROR)
