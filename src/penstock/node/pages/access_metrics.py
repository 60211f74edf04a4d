"""The metrics of what clients may do."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.broker.broker import Broker


def access_metrics(broker: Broker) -> Iterator[Metric]:
    """Yield what was denied, and how many rules and delegation tokens there are."""
    denied = CounterMetricFamily(
        "penstock_authorization_denied",
        "What clients asked for and were not permitted, by operation and type of resource.",
        labels=["operation", "resource"],
    )
    for (operation, resource), count in sorted(broker.denials.counts.items()):
        denied.add_metric([operation.name.lower(), resource.name.lower()], count)
    yield denied
    tokens = len(broker.metadata.configuration.tokens)
    yield GaugeMetricFamily(
        "penstock_delegation_tokens", "Delegation tokens in the metadata.", tokens
    )
    acls = len(broker.metadata.configuration.acls)
    yield GaugeMetricFamily("penstock_acls", "Rules of access (ACLs) in the metadata.", acls)
