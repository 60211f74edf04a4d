"""Asks a transaction's coordinator before an append, and guards a coordinator's own write.

    is the transaction open here? ─► no: guard ─► ask ─► verified, or refused
                                     └── held while the write is appended

The rules are those of produced batches (append/transactional.py).

Source: KIP-890; Kafka `CoordinatorPartitionWriter.maybeStartTransactionVerification`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.base.ports import Clock
from penstock.broker.append.guard import Guard
from penstock.broker.append.transactional import guard_for, is_open, let_go
from penstock.broker.append.verification import Verification, WantedPartition
from penstock.broker.broker import Broker
from penstock.broker.errors import VerificationRefused
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.pending import Writer
from penstock.protocol.error_codes import ErrorCode

ASKED_AGAIN_MS = 20
ASKED_MAX = 5
"""Times that the coordinator is asked."""
WAIT_MS = ASKED_AGAIN_MS * ASKED_MAX
"""Longest wait for the end of the last transaction: clients pause for as long before they ask
again. Kafka waits likewise (KAFKA-18654)."""
_CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


class AskedAgain:
    """The pauses of one request between its questions, WAIT_MS together and no more.

    A coordinator where few wait answers after the end or after WAIT_MS: then there is no pause.
    """

    __slots__ = ("_clock", "_until_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = clock.monotonic_ms() + WAIT_MS

    async def pause(self) -> bool:
        """Pause before the next question; False if there is no time left for one."""
        if self._clock.monotonic_ms() >= self._until_ms:
            return False
        await asyncio.sleep(ASKED_AGAIN_MS / 1000)
        return True


@asynccontextmanager
async def verified(
    broker: Broker,
    hosted: HostedPartition,
    transactional_id: str,
    writer: Writer,
    *,
    adds: bool,
) -> AsyncIterator[ErrorCode]:
    """Hold a guard while the caller appends; gives the answer of the transaction's coordinator.

    `adds`: the partition enters the transaction by this question. Then an answer from before a
    marker is asked for again: the epoch tells transactions apart. In version 1 it does not, and
    who was overtaken by a marker would write in the next transaction what the last one had:
    positions have no sequence, and would go back.
    """
    if is_open(hosted, *writer):
        yield ErrorCode.NONE
        return
    wanted = wanted_partition(hosted)
    asked = Verification(transactional_id, *writer, adds, (wanted,))
    again = AskedAgain(broker.clock)
    for left in reversed(range(ASKED_MAX)):
        guard = guard_for(hosted, *writer)
        try:
            answer = await broker.verifier.verify(asked)
            code = ErrorCode(answer.codes.get(wanted, ErrorCode.NETWORK_EXCEPTION))
            # A marker that came meanwhile has removed the guard: this may be from before it.
            is_overtaken = hosted.guards.get(writer.producer_id) is not guard
            is_ending = code is _CONCURRENT and adds and left > 0 and await again.pause()
            if not left or not adds or not (is_overtaken or is_ending):
                if is_overtaken and code is ErrorCode.NONE:
                    code = _CONCURRENT if adds else ErrorCode.INVALID_TXN_STATE
                _note(guard, code, answer.number)
                yield code
                return
        finally:
            let_go(hosted, writer.producer_id, guard)


def wanted_partition(hosted: HostedPartition) -> WantedPartition:
    """Return a partition as a transaction's coordinator is asked for it."""
    return WantedPartition(hosted.topic.name, hosted.partition, hosted.topic.topic_id)


def _note(guard: Guard, code: ErrorCode, number: int) -> None:
    if code is ErrorCode.NONE:
        guard.confirm(number)
    else:
        guard.refusal = VerificationRefused(code, f"the transaction's coordinator: {code.name}")
