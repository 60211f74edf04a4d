"""What a member says of its records in one partition: checked, done, and confirmed.

    0 gap      there is no such record          1 accept   processed
    2 release  again, please                    3 reject   never again
    4 renew    longer, please (v2, in requests that say so)

A range has one type, or one for each offset. Ranges ascend. What the member does not hold is
INVALID_RECORD_STATE, and what it does hold changes all the same: records that were processed do not
come again because another one of the request had timed out. Saying the same again is no error.

Source: KIP-932, KIP-1222; Kafka `KafkaApis.validateAcknowledgementBatches`,
`SharePartition.acknowledge`, which undoes all of a partition for one range that fails.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from penstock.broker.broker import Broker
from penstock.kafka.awaited import awaited
from penstock.kafka.shares.codes import code_of
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.answers import CLAIM_MAX, Claim, Say, Verdict
from penstock.shares.messages import Answer
from penstock.shares.state import ShareKey

SAY_BY_TYPE = (Say.GAP, Say.ACCEPT, Say.RELEASE, Say.REJECT, Say.RENEW)
RENEW_VERSION = 2
OFFSETS_OF_A_STEP = 150
"""Offsets that take as long as a step of a turn: 100 us."""


class Rules(NamedTuple):
    """What a request may say."""

    version: int
    is_renewing: bool
    """Whether it says that records are renewed in it."""

    @property
    def highest(self) -> int:
        """The highest number of a type."""
        return SAY_BY_TYPE.index(Say.RENEW if self.is_renewing else Say.REJECT)


def rules_of(version: int, body: Any) -> Rules:
    """Return the rules of a request."""
    is_renewing = version >= RENEW_VERSION and body.is_renew_ack
    return Rules(version, is_renewing)


def check(batches: Sequence[Any], rules: Rules) -> ErrorCode:
    """Check the form of one partition's acknowledgements."""
    before, total = -1, 0
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        count = last - first + 1
        if not before < first <= last or not types or len(types) not in {1, count}:
            return ErrorCode.INVALID_REQUEST
        if min(types) < 0 or max(types) > rules.highest:
            return ErrorCode.INVALID_REQUEST
        before = last
        total += count
    # Nobody can hold so many, and each would be looked at.
    return ErrorCode.INVALID_RECORD_STATE if total > CLAIM_MAX else ErrorCode.NONE


def cost_of(batches: Sequence[Any]) -> int:
    """Return the steps of a turn that acknowledgements take, which were checked."""
    offsets: int = sum(batch.last_offset - batch.first_offset + 1 for batch in batches)
    return 1 + (offsets + len(batches)) // OFFSETS_OF_A_STEP


class Acknowledging:
    """The acknowledgements of one partition, from when they are done until they are confirmed."""

    __slots__ = ("_answers",)

    def __init__(
        self, broker: Broker, key: ShareKey, member: str, batches: Sequence[Any], lock_ms: int
    ) -> None:
        """Do them now; `batches` were checked."""
        self._answers: list[asyncio.Future[Answer]] = []
        for say, claims in _claims(batches).items():
            told: asyncio.Future[Answer]
            told, tell = awaited()
            self._answers.append(told)
            during_ms = lock_ms if say is Say.RENEW else None
            broker.shares.say(key, say, claims, member, tell, during_ms)

    async def outcome(self) -> ErrorCode:
        """Return the code once everything is confirmed, or is known not to be."""
        worst = ErrorCode.NONE
        for answer in [await told for told in self._answers]:
            if answer.why_not is not None:
                return code_of(answer.why_not)
            if Verdict.LAPSED in answer.verdicts:
                worst = ErrorCode.INVALID_RECORD_STATE
        return worst


def _claims(batches: Sequence[Any]) -> dict[Say, list[Claim]]:
    found: dict[Say, list[Claim]] = {}
    for batch in batches:
        for number, first, end in _runs(batch):
            found.setdefault(SAY_BY_TYPE[number], []).append(Claim(first, end))
    return found


def _runs(batch: Any) -> Iterator[tuple[int, int, int]]:
    """Yield (type, first offset, end) of what is said alike."""
    first, end, types = batch.first_offset, batch.last_offset + 1, batch.acknowledge_types
    if len(types) == 1:
        yield types[0], first, end
        return
    begin = 0
    for at in range(1, len(types) + 1):
        if at == len(types) or types[at] != types[begin]:
            yield types[begin], first + begin, first + at
            begin = at
