"""The metrics of what clients are limited by."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.broker.broker import Broker


def quota_metrics(broker: Broker) -> Iterator[Metric]:
    """Yield how often clients were delayed and for how long, and what is kept for that."""
    table = broker.quota_table
    throttled = CounterMetricFamily(
        "penstock_quota_throttled",
        "Answers that told a delay, and connections that were refused, by what was over its quota.",
        labels=["quota"],
    )
    delayed = CounterMetricFamily(
        "penstock_quota_delay_seconds",
        "Delays that clients were told, in sum, by what was over its quota.",
        labels=["quota"],
    )
    buckets = GaugeMetricFamily(
        "penstock_quota_buckets",
        "Users, client ids, pairs of them and addresses whose rates are kept, by quota.",
        labels=["quota"],
    )
    for key, count in table.bucket_counts.items():
        throttled.add_metric([key], table.throttled[key])
        delayed.add_metric([key], table.delayed_ms[key] / 1000)
        buckets.add_metric([key], count)
    yield throttled
    yield delayed
    yield buckets
    entities = len(broker.metadata.configuration.quotas)
    yield GaugeMetricFamily(
        "penstock_quota_entities", "Users, client ids and addresses with quotas.", entities
    )
