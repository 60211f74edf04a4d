"""A coordinator's write in a transaction, once that one's coordinator knows the partition.

    is the transaction open here? ─► no: guard ─► ask ─► verified, or refused
                                     └── held while the write is appended

The rules are those of produced batches (append/transactional.py).

Source: KIP-890; Kafka `CoordinatorPartitionWriter.maybeStartTransactionVerification`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from penstock.broker.append.transactional import guard_for, is_open, let_go
from penstock.broker.append.verification import Verification
from penstock.broker.broker import Broker
from penstock.broker.errors import VerificationRefused
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.pending import Writer
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.state import TopicPartitionName

ASKED_AGAIN_MS = 20
ASKED_AGAIN_MAX = 5
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
    if is_open(hosted, writer.producer_id):
        yield ErrorCode.NONE
        return
    guard = guard_for(hosted, *writer)
    try:
        name = hosted.topic.name, hosted.partition
        asked = Verification(transactional_id, *writer, adds, (name,))
        code = ErrorCode((await _ask(broker, asked)).get(name, ErrorCode.NETWORK_EXCEPTION))
        if code is ErrorCode.NONE:
            guard.is_verified = True
        else:
            guard.refusal = VerificationRefused(code, f"the transaction's coordinator: {code.name}")
        yield code
    finally:
        let_go(hosted, writer.producer_id, guard)


async def _ask(broker: Broker, asked: Verification) -> Mapping[TopicPartitionName, int]:
    answers: Mapping[TopicPartitionName, int] = {}
    for _ in range(ASKED_AGAIN_MAX):
        answers = await broker.verifier.verify(asked)
        if ErrorCode.CONCURRENT_TRANSACTIONS not in answers.values():
            break
        await asyncio.sleep(ASKED_AGAIN_MS / 1000)
    return answers
