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

from penstock.broker.awaited import awaited
from penstock.broker.broker import Broker
from penstock.broker.turns import Pace
from penstock.kafka.shares.codes import code_of
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.answers import CLAIM_MAX, Claim, Say, Verdict
from penstock.shares.messages import Answer
from penstock.shares.state import ShareKey

SAY_BY_TYPE = (Say.GAP, Say.ACCEPT, Say.RELEASE, Say.REJECT, Say.RENEW)
RENEW_VERSION = 2
TOGETHER, OF_A_RANGE = 2_000, 9
"""Offsets that are acknowledged at once, and how many a range counts for besides: 2 ms."""
TOGETHER_STEPS = 50
"""Steps of a turn that they stand for."""
CHECKED_OF_A_STEP = 20
"""Ranges that are checked in a step of a turn."""


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


async def check(pace: Pace, batches: Sequence[Any], rules: Rules) -> ErrorCode:
    """Check the form of one partition's acknowledgements, up to more than anybody can hold."""
    before, total = -1, 0
    for number, batch in enumerate(batches):
        if number % CHECKED_OF_A_STEP == 0:
            await pace.step()
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        count = last - first + 1
        if not before < first <= last or not types or len(types) not in {1, count}:
            return ErrorCode.INVALID_REQUEST
        total += count
        if total > CLAIM_MAX:
            return ErrorCode.INVALID_RECORD_STATE
        if min(types) < 0 or max(types) > rules.highest:
            return ErrorCode.INVALID_REQUEST
        before = last
    return ErrorCode.NONE


class Acknowledging:
    """The acknowledgements of one partition, from when they are done until they are confirmed."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: list[asyncio.Future[Answer]] = []

    async def do(  # noqa: PLR0917  what is said, by whom, of which share
        self,
        pace: Pace,
        broker: Broker,
        key: ShareKey,
        member: str,
        batches: Sequence[Any],
        lock_ms: int,
    ) -> None:
        """Do them, some in a turn; `batches` were checked."""
        for say, claims in _portions(batches):
            await pace.step(TOGETHER_STEPS)
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


def _portions(batches: Sequence[Any]) -> Iterator[tuple[Say, list[Claim]]]:
    """Yield what is said alike, about TOGETHER offsets at most at a time."""
    found: dict[Say, list[Claim]] = {}
    sizes = dict.fromkeys(Say, 0)
    for batch in batches:
        for number, first, end in _runs(batch):
            say, begin = SAY_BY_TYPE[number], first
            while begin < end:
                stop = min(end, begin + TOGETHER - sizes[say])
                found.setdefault(say, []).append(Claim(begin, stop))
                sizes[say] += stop - begin + OF_A_RANGE
                begin = stop
                if sizes[say] >= TOGETHER:
                    sizes[say] = 0
                    yield say, found.pop(say)
    yield from found.items()


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
