"""The metrics of transactions."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.transactions.coordinator import TransactionCoordinator

COUNTERS = {
    "committed": "Transactions that were decided to be committed, by their coordinator here.",
    "aborted": "Transactions that were decided to be aborted.",
    "timed_out": "Of these: because they were open for too long.",
}


def transaction_metrics(coordinator: TransactionCoordinator) -> Iterator[Metric]:
    """Yield what the coordinator of this broker counts."""
    yield GaugeMetricFamily(
        "penstock_transactional_ids",
        "Transactional ids that are coordinated here.",
        coordinator.here.id_count,
    )
    yield GaugeMetricFamily(
        "penstock_transactions_ending",
        "Transactions whose partitions have not all heard how they ended.",
        coordinator.ending_count,
    )
    for name, text in COUNTERS.items():
        count = getattr(coordinator.counters, name)
        yield CounterMetricFamily(f"penstock_transactions_{name}", text, value=count)
