"""A coordinator's write in a transaction, once that one's coordinator knows the partition.

    is the transaction open here? ─► no: guard ─► ask ─► verified, or refused
                                     └── held while the write is appended

The rules are those of produced batches (append/transactional.py).

Source: KIP-890; Kafka `CoordinatorPartitionWriter.maybeStartTransactionVerification`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.broker.append.guard import Guard
from penstock.broker.append.transactional import guard_for, is_open, let_go
from penstock.broker.append.verification import Verification
from penstock.broker.broker import Broker
from penstock.broker.errors import VerificationRefused
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.pending import Writer
from penstock.protocol.error_codes import ErrorCode

ASKED_AGAIN_MS = 20
ASKED_MAX = 5
"""The last transaction may still be ending, which takes a few milliseconds."""


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

    `adds`: the partition enters the transaction by this question.
    """
    if _is_in_it(hosted, writer):
        yield ErrorCode.NONE
        return
    name = hosted.topic.name, hosted.partition
    asked = Verification(transactional_id, *writer, adds, (name,))
    for left in reversed(range(ASKED_MAX)):
        # Each question has a guard of its own: the marker of the last transaction removes it, too.
        guard = guard_for(hosted, *writer)
        try:
            answers = await broker.verifier.verify(asked)
            code = ErrorCode(answers.get(name, ErrorCode.NETWORK_EXCEPTION))
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS or not left:
                _note(guard, code)
                yield code
                return
        finally:
            let_go(hosted, writer.producer_id, guard)
        await asyncio.sleep(ASKED_AGAIN_MS / 1000)


def _note(guard: Guard, code: ErrorCode) -> None:
    if code is ErrorCode.NONE:
        guard.is_verified = True
    else:
        guard.refusal = VerificationRefused(code, f"the transaction's coordinator: {code.name}")


def _is_in_it(hosted: HostedPartition, writer: Writer) -> bool:
    """Whether the transaction that is open here is of this epoch.

    One of an earlier epoch may still wait for its marker: then the coordinator is to be asked, who
    has that written before it lets the next one in.
    """
    known = hosted.log.producers.known(writer.producer_id)
    is_its_epoch = known is not None and known.epoch == writer.producer_epoch
    return is_its_epoch and is_open(hosted, writer.producer_id)
