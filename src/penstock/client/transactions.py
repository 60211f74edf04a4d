"""Transactions for operators: list, describe, and abort what a producer has left open.

Lists are collected from every broker, since each coordinator knows only its own ids; all other
requests go to the coordinator of the id.

Source: KIP-664 (list, describe); Kafka `Admin.fenceProducers` (KIP-618) for abort: an
InitProducerId without a producer ends what the last one has left open, and fences it.
"""

from collections.abc import Callable
from typing import TypeVar

from penstock.client.cluster import TRANSACTION_KEY, Cluster, check_code
from penstock.client.connection import Connection
from penstock.client.views import ListedTransaction, TransactionView
from penstock.protocol.api_keys import ApiKey

T = TypeVar("T")
FENCE_TIMEOUT_MS = 1
"""The time-out of a producer that never begins a transaction."""


class Transactions:
    """Administration of transactions through a `Cluster`, which the caller closes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list(
        self,
        *,
        states: tuple[str, ...] = (),
        producer_ids: tuple[int, ...] = (),
        longer_than_ms: int = -1,
    ) -> tuple[ListedTransaction, ...]:
        """Return the transactional ids of all brokers by name, as far as the filters admit them.

        `states` are Kafka's names (Ongoing, CompleteCommit), `producer_ids` those of their
        producers; empty admits all. `longer_than_ms` counts from the begin of an open transaction,
        exclusive; -1 admits ids without one, too.
        """
        asked = {
            "state_filters": states,
            "producer_id_filters": producer_ids,
            "duration_filter": longer_than_ms,
        }

        def attempt() -> tuple[ListedTransaction, ...]:
            found: dict[str, ListedTransaction] = {}
            for broker in self._cluster.describe([]).brokers:
                connection = self._cluster.connection(broker.broker_id)
                answer = connection.call(ApiKey.LIST_TRANSACTIONS, asked)
                check_code(answer.error_code, f"transactions of broker {broker.broker_id}")
                for one in answer.transaction_states:
                    found[one.transactional_id] = ListedTransaction(
                        transactional_id=one.transactional_id,
                        producer_id=one.producer_id,
                        state=one.transaction_state,
                        coordinator=broker.broker_id,
                    )
            return tuple(found[name] for name in sorted(found))

        return self._cluster.retry("list of transactions", attempt)

    def describe(self, transactional_id: str) -> TransactionView:
        """Return what its coordinator knows. Raises BrokerError (TRANSACTIONAL_ID_NOT_FOUND)."""

        def ask(connection: Connection) -> TransactionView:
            asked = {"transactional_ids": [transactional_id]}
            (found,) = connection.call(ApiKey.DESCRIBE_TRANSACTIONS, asked).transaction_states
            check_code(found.error_code, f"transactional id {transactional_id}")
            return TransactionView(
                transactional_id=transactional_id,
                state=found.transaction_state,
                producer_id=found.producer_id,
                producer_epoch=found.producer_epoch,
                timeout_ms=round(found.transaction_timeout.total_seconds() * 1000),
                start_ms=round(found.transaction_start_time.timestamp() * 1000),
                partitions=tuple(
                    (topic.topic, partition)
                    for topic in found.topics
                    for partition in topic.partitions
                ),
            )

        return self._ask(transactional_id, "describe", ask)

    def abort(self, transactional_id: str) -> None:
        """Abort what is open, and fence the producer; returns when the id is free again."""

        def ask(connection: Connection) -> None:
            asked = {
                "transactional_id": transactional_id,
                "transaction_timeout_ms": FENCE_TIMEOUT_MS,
                "producer_id": -1,
                "producer_epoch": -1,
            }
            answer = connection.call(ApiKey.INIT_PRODUCER_ID, asked)
            check_code(answer.error_code, f"transactional id {transactional_id}")

        self._ask(transactional_id, "abort", ask)

    def _ask(self, transactional_id: str, verb: str, ask: Callable[[Connection], T]) -> T:
        def attempt() -> T:
            key = transactional_id
            return ask(self._cluster.coordinator_connection(key, key_type=TRANSACTION_KEY))

        return self._cluster.retry(f"{verb} of transactional id {transactional_id}", attempt)
