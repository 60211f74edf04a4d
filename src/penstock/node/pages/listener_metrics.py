"""The metrics of each listener: who is there, who was refused, who had to wait or to give way."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.net.stats import NetStats


def listener_metrics(stats: NetStats) -> Iterator[Metric]:
    """Yield what is counted by listener."""
    is_open = GaugeMetricFamily(
        "penstock_listener_connections",
        "Connections of a listener, those in the middle of TLS included.",
        labels=["listener"],
    )
    unproven = GaugeMetricFamily(
        "penstock_listener_connections_unproven",
        "Of them those whose clients are in the middle of TLS or SASL.",
        labels=["listener"],
    )
    for name, count in sorted(stats.open_at.items()):
        is_open.add_metric([name], count)
        unproven.add_metric([name], stats.unproven_at[name])
    yield is_open
    yield unproven
    refused = CounterMetricFamily(
        "penstock_listener_connections_refused",
        "Connections refused at a listener, by reason.",
        labels=["listener", "reason"],
    )
    gave_way = CounterMetricFamily(
        "penstock_listener_connections_gave_way",
        "Connections of a listener that were closed for new ones, by reason.",
        labels=["listener", "reason"],
    )
    waits = CounterMetricFamily(
        "penstock_listener_accept_waits",
        "Times that a listener accepted later, as connections came too fast, by reason.",
        labels=["listener", "reason"],
    )
    for family, counts in (
        (refused, stats.refused_at),
        (gave_way, stats.gave_way_at),
        (waits, stats.waits_at),
    ):
        for (name, reason), count in sorted(counts.items()):
            family.add_metric([name, reason], count)
        yield family
    seconds = CounterMetricFamily(
        "penstock_listener_accept_wait_seconds",
        "For how long a listener accepted nothing, as connections came too fast.",
        labels=["listener"],
    )
    for name, waited in sorted(stats.waited_seconds_at.items()):
        seconds.add_metric([name], waited)
    yield seconds
