"""The messages of calls with their numbers on the wire, and those that belong to the links.

Questions have numbers below 128, answers from 128 on, also in later releases: so a question of an
unknown type is answered, by its correlation alone. The table again: docs/formats/peer-links.md.

Source: docs/adr/0090.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from penstock.coordinator.calls import (
    Answer,
    CallTooLarge,
    MarkersRequest,
    MarkersResponse,
    PieceQuestion,
    PositionQuestion,
    Question,
    VerifyRequest,
    VerifyResponse,
)
from penstock.coordinator.extent_calls import (
    PIECE_BYTES,
    BatchesRequest,
    BatchesResponse,
    ExtentRequest,
    ExtentResponse,
)
from penstock.coordinator.position_calls import (
    CommitPositionRequest,
    DeleteGroupRequest,
    FetchPositionRequest,
    GroupPositionsRequest,
    GroupPositionsResponse,
    PositionResponse,
)
from penstock.coordinator.recall_calls import RecallRequest, RecallResponse
from penstock.coordinator.share_calls import (
    ShareBeginRequest,
    ShareChangeRequest,
    ShareCodesResponse,
    ShareLeaveRequest,
    ShareSummaryRequest,
    ShareSummaryResponse,
)
from penstock.runtime.long_message import Bounds
from penstock.runtime.peer_codec import MalformedPeerMessage, MessageCodec

PURPOSE = b"call"
CALL_VERSION = 1
FRAME_BYTES_MAX = 256 << 10
"""Largest message of a call, both ways."""
ENTRIES_MAX = 2_000
"""Transactions of one MarkersRequest: four times what is sent, for later releases."""
PARTITIONS_MAX = 10_000
"""Partitions of one VerifyRequest: twice what a transaction may have. Long topic names reach
FRAME_BYTES_MAX before."""
SHARES_MAX = 2_000
"""Shares of one question: four times what is asked, for later releases."""
POSITIONS_MAX = 2_000
"""Positions of one GroupPositionsResponse: above four times what is told, for later releases."""
TOPIC_ID_BYTES = 16

_FIRST_ANSWER = 128
_REASON_CHARS_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """Answers a question that has no other answer."""

    reason: str
    is_begun: bool
    """Whether something may have been done."""
    correlation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StillThere:
    """The answering side lives, and works on a question: sent now and then meanwhile."""

    correlation: int = 0
    """Of none: it is said of all."""


CallMessage = Question | Answer | Unserved | StillThere

_BOUNDS: dict[type, Bounds] = {
    MarkersRequest: Bounds(FRAME_BYTES_MAX, {"entries": ENTRIES_MAX}),
    MarkersResponse: Bounds(FRAME_BYTES_MAX, {"codes": ENTRIES_MAX}),
    VerifyRequest: Bounds(
        FRAME_BYTES_MAX, {"partitions": PARTITIONS_MAX, "topic_ids": PARTITIONS_MAX}
    ),
    VerifyResponse: Bounds(FRAME_BYTES_MAX, {"codes": PARTITIONS_MAX}),
    ShareSummaryRequest: Bounds(FRAME_BYTES_MAX, {"places": SHARES_MAX}),
    ShareSummaryResponse: Bounds(FRAME_BYTES_MAX, {"found": SHARES_MAX}),
    ShareChangeRequest: Bounds(FRAME_BYTES_MAX, {"changes": SHARES_MAX}),
    ShareLeaveRequest: Bounds(FRAME_BYTES_MAX),
    ShareBeginRequest: Bounds(FRAME_BYTES_MAX, {"places": SHARES_MAX}),
    ShareCodesResponse: Bounds(FRAME_BYTES_MAX, {"codes": SHARES_MAX}),
    BatchesRequest: Bounds(4 << 10),
    BatchesResponse: Bounds(PIECE_BYTES + (4 << 10)),
    ExtentRequest: Bounds(4 << 10),
    ExtentResponse: Bounds(PIECE_BYTES + (4 << 10)),
    CommitPositionRequest: Bounds(4 << 10),
    FetchPositionRequest: Bounds(4 << 10),
    PositionResponse: Bounds(64),
    GroupPositionsRequest: Bounds(4 << 10),
    GroupPositionsResponse: Bounds(FRAME_BYTES_MAX, {"positions": POSITIONS_MAX}),
    DeleteGroupRequest: Bounds(4 << 10),
    RecallRequest: Bounds(4 << 10),
    RecallResponse: Bounds(4 << 10),
    Unserved: Bounds(4 << 10),
    StillThere: Bounds(64),
}

CALL_CODEC = MessageCodec[CallMessage](
    {
        1: MarkersRequest,
        2: VerifyRequest,
        3: ShareSummaryRequest,
        4: ShareChangeRequest,
        5: ShareLeaveRequest,
        6: ShareBeginRequest,
        7: BatchesRequest,
        8: ExtentRequest,
        9: CommitPositionRequest,
        10: FetchPositionRequest,
        11: GroupPositionsRequest,
        12: DeleteGroupRequest,
        13: RecallRequest,
        128: Unserved,
        129: StillThere,
        130: MarkersResponse,
        131: VerifyResponse,
        132: ShareSummaryResponse,
        133: ShareCodesResponse,
        134: BatchesResponse,
        135: ExtentResponse,
        136: PositionResponse,
        137: GroupPositionsResponse,
        138: RecallResponse,
    },
    version=CALL_VERSION,
    bounds=_BOUNDS,
)


class _Numbered(msgspec.Struct):
    """What any message of a call has."""

    correlation: int


_read_number = msgspec.msgpack.Decoder(_Numbered).decode


def kind_of(frame: memoryview) -> str:
    """Return the name of a frame's message, for measures."""
    return f"call {CALL_CODEC.kind_of(frame)}"


def encode(message: CallMessage) -> bytes:
    """Return the frame of a message. Raises CallTooLarge."""
    kind = type(message)
    bounds = _BOUNDS[kind]
    for name, count_max in bounds.counts.items():
        count = len(getattr(message, name))
        if count > count_max:
            raise CallTooLarge(f"{kind.__name__} with {count} {name}, at most {count_max}")
    frame = b"".join(CALL_CODEC.encode(message))
    if len(frame) > bounds.bytes_max:
        raise CallTooLarge(f"{kind.__name__} of {len(frame)} bytes, at most {bounds.bytes_max}")
    return frame


def check(message: CallMessage) -> None:
    """Check what the types do not say. Raises MalformedPeerMessage."""
    ids: Iterable[bytes] = ()
    if isinstance(message, MarkersRequest):
        ids = (marked.topic_id for entry in message.entries for marked in entry.partitions)
    elif isinstance(message, VerifyRequest):
        ids = message.topic_ids
    elif isinstance(message, ShareSummaryRequest | ShareBeginRequest):
        ids = (place.topic_id for place in message.places)
    elif isinstance(message, ShareChangeRequest):
        ids = (change.topic_id for change in message.changes)
    elif isinstance(message, PieceQuestion | PositionQuestion | RecallRequest):
        ids = (message.topic_id,)
    elif isinstance(message, GroupPositionsResponse):
        ids = (one.topic_id for one in message.positions)
    for topic_id in ids:
        if len(topic_id) != TOPIC_ID_BYTES:
            raise MalformedPeerMessage(f"a topic id of {len(topic_id)} bytes")


def unserved(correlation: int, reason: str, *, is_begun: bool) -> Unserved:
    """Return the answer to a question that has no other."""
    reason = reason[:_REASON_CHARS_MAX]
    return Unserved(correlation=correlation, reason=reason, is_begun=is_begun)


def is_question(frame: memoryview) -> bool:
    """Whether a frame, of a known type or not, asks for an answer."""
    return frame[0] < _FIRST_ANSWER


def correlation_of(frame: memoryview) -> int:
    """Return the correlation in a frame of any type. Raises MalformedPeerMessage."""
    try:
        return _read_number(frame[2:]).correlation
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedPeerMessage(f"message type {frame[0]} without a correlation") from error
