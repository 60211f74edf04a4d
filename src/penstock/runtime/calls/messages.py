"""The messages of calls with their numbers on the wire, and those that belong to the links.

Questions have numbers below 128, answers from 128 on, also in later releases: so a question of an
unknown type is answered, by its correlation alone. The table again: docs/formats/peer-links.md.

Source: docs/adr/0090.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from penstock.coordinator.calls.asking import CallTooLarge, Message
from penstock.coordinator.calls.decision import DecisionRequest, DecisionResponse
from penstock.coordinator.calls.extents import (
    BatchesRequest,
    BatchesResponse,
    ExtentRequest,
    ExtentResponse,
)
from penstock.coordinator.calls.positions import (
    CommitPositionRequest,
    DeleteGroupRequest,
    FetchPositionRequest,
    GroupPositionsRequest,
    GroupPositionsResponse,
    PositionResponse,
)
from penstock.coordinator.calls.recall import RecallRequest, RecallResponse
from penstock.coordinator.calls.shares import (
    ShareBeginRequest,
    ShareChangeRequest,
    ShareCodesResponse,
    ShareLeaveRequest,
    ShareSummaryRequest,
    ShareSummaryResponse,
)
from penstock.coordinator.calls.tier import TierRunsRequest, TierRunsResponse
from penstock.coordinator.calls.transactions import (
    MarkersRequest,
    MarkersResponse,
    VerifyRequest,
    VerifyResponse,
)
from penstock.runtime.long_message import Bounds
from penstock.runtime.peer_codec import MalformedPeerMessage, MessageCodec

PURPOSE = b"call"
CALL_VERSION = 1
TOPIC_ID_BYTES = 16

_FIRST_ANSWER = 128
_REASON_CHARS_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved(Message):
    """Answers a question that has no other answer."""

    reason: str
    is_begun: bool
    """Whether something may have been done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StillThere(Message):
    """The answering side lives, and works on a question: sent now and then meanwhile.

    Its correlation is of none: it is said of all.
    """

    BYTES_MAX: ClassVar[int] = 64


KINDS: Final[Mapping[int, type[Message]]] = {
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
    13: TierRunsRequest,
    14: RecallRequest,
    15: DecisionRequest,
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
    138: TierRunsResponse,
    139: RecallResponse,
    140: DecisionResponse,
}

CALL_CODEC = MessageCodec[Message](
    KINDS,
    version=CALL_VERSION,
    bounds={kind: Bounds(kind.BYTES_MAX, kind.COUNTS_MAX) for kind in KINDS.values()},
)


class _Numbered(msgspec.Struct):
    """What any message of a call has."""

    correlation: int


_read_number = msgspec.msgpack.Decoder(_Numbered).decode


def kind_of(frame: memoryview) -> str:
    """Return the name of a frame's message, for measures."""
    return f"call {CALL_CODEC.kind_of(frame)}"


def encode(message: Message) -> bytes:
    """Return the frame of a message. Raises CallTooLarge."""
    kind = type(message)
    for name, count_max in kind.COUNTS_MAX.items():
        count = len(getattr(message, name))
        if count > count_max:
            raise CallTooLarge(f"{kind.__name__} with {count} {name}, at most {count_max}")
    frame = b"".join(CALL_CODEC.encode(message))
    if len(frame) > kind.BYTES_MAX:
        raise CallTooLarge(f"{kind.__name__} of {len(frame)} bytes, at most {kind.BYTES_MAX}")
    return frame


def check(message: Message) -> None:
    """Check what the types do not say. Raises MalformedPeerMessage."""
    for topic_id in message.ids():
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
