"""Partitions enter a transaction; the last one of the same id may still be ending.

They enter by a request of a client, or by the first batch for them (KIP-890).

    coordinator ─► CONCURRENT_TRANSACTIONS? ─► no: answered
         ▲               └─► yes: wait until the last marker is noted
         └───────────────────────┘

A client that hears CONCURRENT_TRANSACTIONS pauses for 20 ms (librdkafka) to 100 ms, while a marker
takes a few milliseconds. The wait is bounded in time and in number, as that of a produced batch.

Source: our own; KAFKA-18654 for batches, KIP-98.
"""

import asyncio
from collections.abc import Sequence

from penstock.broker.awaited import awaited
from penstock.kafka.transactions.verified import ASKED_MAX, WAIT_MS
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.coordinator import TransactionCoordinator
from penstock.transactions.messages import Producer, ProducerReply
from penstock.transactions.state import TopicPartitionName

CLIENT_VERSION = 1
"""Version of transactions of a client that adds partitions by a request."""


async def enter(
    coordinator: TransactionCoordinator,
    transactional_id: str,
    producer: Producer,
    places: Sequence[TopicPartitionName],
    version: int = CLIENT_VERSION,
    *,
    is_call: bool = False,
) -> ErrorCode:
    """Let all of the partitions enter or none, after the transaction before if that ends soon.

    `version` is that of the transaction (KIP-890). Waits for WAIT_MS at most. `is_call`: a broker
    asks, of whose questions only few may wait.
    """

    async def ask() -> ErrorCode:
        told: asyncio.Future[ProducerReply]
        told, tell = awaited()
        coordinator.add_partitions(transactional_id, producer, places, version, tell)
        return (await told).error

    until = asyncio.get_running_loop().time() + WAIT_MS / 1000
    code = await ask()
    for _ in range(ASKED_MAX - 1):
        if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            break
        is_free = asyncio.Event()
        if not coordinator.ends.wait(transactional_id, is_free.set, is_call=is_call):
            break
        try:
            # It may have become free since the answer was made: nobody would be told again.
            code = await ask()
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            async with asyncio.timeout_at(until):
                await is_free.wait()
        except TimeoutError:
            break
        finally:
            coordinator.ends.give_up(transactional_id, is_free.set)
    else:
        code = await ask()
    return code
