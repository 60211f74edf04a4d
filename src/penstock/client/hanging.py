"""Transactions that hang: open in a partition, and not known to any coordinator.

    open in partitions, by their leaders ─┐
                                          ├─► open for long, and nobody will end them
    producers that coordinators know ─────┘

Readers of committed records wait at such a transaction for ever. Brokers look with each first batch
of a transaction, so that none can begin; one may be there if the log of the coordinators was lost.

Source: KIP-664 (find hanging transactions, abort them by WriteTxnMarkers).
"""

import time
from collections.abc import Iterator

from penstock.client.cluster import Cluster, check_code
from penstock.client.transactions import Transactions
from penstock.client.views import ClusterView, OpenTransaction
from penstock.protocol.api_keys import ApiKey

PARTITIONS_PER_REQUEST = 500
NO_EPOCH = -1
_GOING_ON = ("PrepareCommit", "PrepareAbort")
"""States in which the coordinator is about to end what is open."""


class HangingTransactions:
    """Finds and ends them through a `Cluster`, which the caller closes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._transactions = Transactions(cluster)

    def find(self, *, idle_ms: int) -> tuple[OpenTransaction, ...]:
        """Return those to which nothing was appended for `idle_ms`, by topic and partition.

        A transaction that is only slow may be among them if `idle_ms` is below the longest
        time-out that transactions may have.
        """
        cluster = self._cluster.describe()
        newest_ms = time.time() * 1000 - idle_ms
        found = [
            one
            for leader, places in _led(cluster).items()
            for one in self._open_at(leader, places)
            if one.last_append_ms <= newest_ms
        ]
        hanging = [one for one in found if not self._is_known(one)]
        return tuple(sorted(hanging, key=lambda one: (one.topic, one.partition, one.start_offset)))

    def abort(self, one: OpenTransaction) -> None:
        """Write a marker that aborts it; returns when that is confirmed."""
        marker = {
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "transaction_result": False,
            "topics": [{"name": one.topic, "partition_indexes": [one.partition]}],
            "coordinator_epoch": max(one.coordinator_epoch, 0),
        }

        def attempt() -> None:
            leader = self._cluster.leader(one.topic, one.partition)
            connection = self._cluster.connection(leader)
            answer = connection.call(ApiKey.WRITE_TXN_MARKERS, {"markers": [marker]})
            (told,) = answer.markers[0].topics[0].partitions
            check_code(told.error_code, f"marker in {one.topic}-{one.partition}")

        self._cluster.retry(f"marker in {one.topic}-{one.partition}", attempt)

    def _open_at(self, leader: int, places: list[tuple[str, int]]) -> Iterator[OpenTransaction]:
        for begin in range(0, len(places), PARTITIONS_PER_REQUEST):
            yield from self._open_in(leader, places[begin : begin + PARTITIONS_PER_REQUEST])

    def _open_in(self, leader: int, places: list[tuple[str, int]]) -> list[OpenTransaction]:
        topics: dict[str, list[int]] = {}
        for name, partition in places:
            topics.setdefault(name, []).append(partition)
        asked = {
            "topics": [
                {"name": name, "partition_indexes": numbers} for name, numbers in topics.items()
            ]
        }

        def attempt() -> list[OpenTransaction]:
            answer = self._cluster.connection(leader).call(ApiKey.DESCRIBE_PRODUCERS, asked)
            found: list[OpenTransaction] = []
            for topic in answer.topics:
                for one in topic.partitions:
                    what = f"producers of {topic.name}-{one.partition_index}"
                    check_code(one.error_code, what)
                    found += [
                        OpenTransaction(
                            topic=topic.name,
                            partition=one.partition_index,
                            producer_id=producer.producer_id,
                            producer_epoch=producer.producer_epoch,
                            coordinator_epoch=producer.coordinator_epoch,
                            start_offset=producer.current_txn_start_offset,
                            last_append_ms=producer.last_timestamp,
                        )
                        for producer in one.active_producers
                        if producer.current_txn_start_offset >= 0
                    ]
            return found

        return self._cluster.retry(f"open transactions of broker {leader}", attempt)

    def _is_known(self, one: OpenTransaction) -> bool:
        """Whether a coordinator has it open in this partition, or is about to end it."""
        for listed in self._transactions.list(producer_ids=(one.producer_id,)):
            view = self._transactions.describe(listed.transactional_id)
            if view.state in _GOING_ON or (one.topic, one.partition) in view.partitions:
                return True
        return False


def _led(cluster: ClusterView) -> dict[int, list[tuple[str, int]]]:
    """Return the partitions that have a leader, by its id."""
    led: dict[int, list[tuple[str, int]]] = {}
    for topic in cluster.topics.values():
        for partition in topic.partitions:
            if partition.leader >= 0:
                led.setdefault(partition.leader, []).append((topic.name, partition.partition))
    return led
