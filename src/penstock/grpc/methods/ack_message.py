"""AckMessage: messages that are processed; told once it is confirmed that none of them comes again.

Each entry has its own outcome. Those of one partition are acknowledged together, and where some
hold and some do not, the answer says MULTIPLE_RESULTS. To acknowledge what is over is no error.

Source: RocketMQ's proxy `AckMessageActivity`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.grpc.call import Call, Method
from penstock.grpc.consuming.claims import Claimed, claim_of, claimed
from penstock.grpc.consuming.compiled import read_acks
from penstock.grpc.consuming.receipts import Receipt
from penstock.grpc.consuming.serving import serve
from penstock.grpc.error_map import status_of
from penstock.grpc.errors import Refused
from penstock.grpc.gate import group_name, popped_topic, topic_name
from penstock.grpc.proto.messages import (
    AckMessageEntry,
    AckMessageRequest,
    Resource,
    Status,
)
from penstock.grpc.statuses import Code
from penstock.protobuf.codec import decode, encode
from penstock.protobuf.compiled import encode_fields
from penstock.remoting.errors import BadReceipt
from penstock.remoting.pop.saying import OVER, Said, refusal, tell_shares
from penstock.shares.answers import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.broker.partitions import HostedPartition
    from penstock.protobuf.fields import Field
    from penstock.shares.messages import Answer
    from penstock.shares.state import ShareKey

ENTRIES_MAX: Final = 1_000
"""Of one call; Java's and Python's have one."""
_OK: Final = Status(code=Code.OK, message="OK")
_OK_BYTES: Final = encode(_OK)


class _Acknowledging:
    """The entries of one call, until each has its outcome."""

    def __init__(self, call: Call, group: str, entries: Sequence[AckMessageEntry]) -> None:
        self._call = call
        self._group = group
        self._entries = entries
        self._outcomes: list[PlatformError | None] = [None] * len(entries)
        self._open = len(entries)
        """Entries whose numbers are not known yet, and then partitions that have not answered."""
        self._of: dict[ShareKey, tuple[HostedPartition, list[tuple[int, int, int]]]] = {}
        """By share: what is said, each with the entry's place, its offset and its number."""

    def begin(self, claims: Sequence[Claimed | PlatformError]) -> None:
        """Acknowledge; the call is answered once all have an outcome."""
        front = self._call.client.front
        for place, claim in enumerate(claims):
            if isinstance(claim, PlatformError):
                self._outcomes[place] = claim
                self._resolved()
            else:
                use = partial(self._use, place, claim)
                front.attempts.said(claim.key, claim.nonce)
                front.renewals.use(claim.key, claim.offset, claim.nonce, use)

    def end_alike(self, answer: Answer) -> None:
        """End with what the shares have said of all of them together."""
        self._open = 1
        self._answered(range(len(self._entries)), answer)

    def _use(self, place: int, claim: Claimed, nonce: int) -> None:
        _, said = self._of.setdefault(claim.key, (claim.hosted, []))
        said.append((place, claim.offset, nonce))
        self._resolved()

    def _resolved(self) -> None:
        self._open -= 1
        if self._open:
            return
        self._open = len(self._of)
        if not self._open:
            self._end()
        for key, (hosted, said) in self._of.items():
            receipts = [(offset, nonce) for _, offset, nonce in said]
            done = partial(self._answered, [place for place, _, _ in said])
            later = partial(serve, self._call, "receipts")
            tell_shares(self._call.client.broker, Said(hosted, key, receipts, done), later)

    def _answered(self, places: Sequence[int], answer: Answer) -> None:
        refused = refusal(answer) if answer.why_not is not None else None
        for at, place in enumerate(places):
            is_over = refused is None and answer.verdicts[at] is Verdict.LAPSED
            self._outcomes[place] = BadReceipt(OVER) if is_over else refused
        self._open -= 1
        if not self._open:
            self._end()

    def _end(self) -> None:
        statuses = [_OK if one is None else status_of(one) for one in self._outcomes]
        pops, codes = self._call.client.front.desk.pops, {one.code for one in statuses}
        taken = sum(one is None for one in self._outcomes)
        pops.note(self._group, "acknowledged", taken)
        pops.note(self._group, "refused", len(statuses) - taken)
        status = statuses[0]
        if len(codes) > 1:
            status = Status(code=Code.MULTIPLE_RESULTS, message="MULTIPLE_RESULTS")
        if status.code != Code.OK:
            self._call.client.front.refusals[status.code] += 1
        self._call.say_bytes(encoded_outcomes(status, self._entries, statuses))
        self._call.end()


def encoded_outcomes(
    status: Status, entries: Sequence[AckMessageEntry], statuses: Sequence[Status]
) -> bytes:
    """Return an AckMessageResponse with an outcome for each entry; most have the same."""
    fields: list[Field] = [(1, encode(status))]
    for entry, one in zip(entries, statuses, strict=True):
        handle, message_id = entry.receipt_handle or None, entry.message_id or None
        outcome = _OK_BYTES if one is _OK else encode(one)
        fields.append((2, encode_fields([(1, message_id), (2, handle), (3, outcome)])))
    return encode_fields(fields)


class _Usual(NamedTuple):
    """A call about messages of one hand-out, read by compiled code."""

    group: str
    topic: str
    partition: int
    number: int
    offsets: list[int]
    answer: bytes
    """What is told where all is acknowledged."""


def _begin_usual(call: Call, usual: _Usual, message: bytes) -> bool:
    """Acknowledge all with one claim; whether that could be done. Raises what is told."""
    client = call.client
    front, group = client.front, group_name(client, Resource(name=usual.group))
    topic = popped_topic(client, group, topic_name(Resource(name=usual.topic)))
    try:
        claim = claim_of(topic, group, Receipt(usual.partition, usual.offsets[0], usual.number))
    except PlatformError:
        return False
    nonce = front.renewals.number_now(claim.key, usual.offsets, claim.nonce)
    if nonce is None:
        return False
    front.consumers.hear(call.member, client.broker.clock.monotonic_ms())
    front.attempts.said(claim.key, claim.nonce)

    def answered(answer: Answer) -> None:
        if answer.why_not is not None or Verdict.LAPSED in answer.verdicts:
            entries = decode(AckMessageRequest, message).entries
            _Acknowledging(call, group, entries).end_alike(answer)
            return
        front.desk.pops.note(group, "acknowledged", len(usual.offsets))
        front.desk.pops.note(group, "refused", 0)
        call.say_bytes(usual.answer)
        call.end()

    receipts = [(offset, nonce) for offset in usual.offsets]
    said = Said(claim.hosted, claim.key, receipts, answered)
    tell_shares(client.broker, said, partial(serve, call, "receipts"))
    return True


def _handle(call: Call, message: bytes) -> None:
    usual = read_acks(message, _OK_BYTES)
    if usual is not None and _begin_usual(call, _Usual(*usual), message):
        return
    request = decode(AckMessageRequest, message)
    client = call.client
    group = group_name(client, request.group)
    topic = popped_topic(client, group, topic_name(request.topic))
    if not 0 < len(request.entries) <= ENTRIES_MAX:
        raise Refused(Code.BAD_REQUEST, f"a request has 1 to {ENTRIES_MAX} entries")
    client.front.consumers.hear(call.member, client.broker.clock.monotonic_ms())
    claims: list[Claimed | PlatformError] = []
    for entry in request.entries:
        try:
            claims.append(claimed(topic, group, entry.receipt_handle))
        except PlatformError as error:
            claims.append(error)
    _Acknowledging(call, group, request.entries).begin(claims)


METHOD: Final = Method("AckMessage", _handle)
