"""The metrics of what clients may do."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.audit.port import Audit
from penstock.broker.audit.client_metrics import REQUEST_RESULTS
from penstock.broker.broker import Broker
from penstock.shares.updates.tracing import MessageTraces
from penstock.telemetry.port import MetricsSink


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
    yield from _audit_metrics(broker.audit)
    yield from _client_metrics(broker.client_metrics)
    yield from _message_trace(broker.message_trace)


def _audit_metrics(audit: Audit | None) -> Iterator[Metric]:
    """Yield how many rows of the audit there are, were written, and are missing; 0 while off."""
    written = dropped = beyond = waiting = 0
    if audit is not None:
        written, dropped = audit.written, audit.dropped
        beyond, waiting = audit.fold.beyond, len(audit)
    yield CounterMetricFamily(
        "penstock_audit_rows_written", "Rows of the audit confirmed.", written
    )
    yield CounterMetricFamily("penstock_audit_rows_dropped", "Rows that found no room.", dropped)
    yield CounterMetricFamily(
        "penstock_audit_beyond",
        "Times that a row was looked for and one for all the rest was found.",
        beyond,
    )
    yield GaugeMetricFamily("penstock_audit_rows_waiting", "Rows that wait to be written.", waiting)


def _message_trace(trace: MessageTraces | None) -> Iterator[Metric]:
    """Yield how many rows of the trace there are, were written, and are missing; 0 while off."""
    written = dropped = left_out = waiting = 0
    if trace is not None:
        written, dropped = trace.written, trace.dropped
        left_out, waiting = trace.left_out, len(trace)
    yield CounterMetricFamily(
        "penstock_message_trace_rows_written", "Rows of the message trace confirmed.", written
    )
    yield CounterMetricFamily(
        "penstock_message_trace_rows_dropped",
        "Rows of the message trace that found no room.",
        dropped,
    )
    yield CounterMetricFamily(
        "penstock_message_trace_left_out",
        "Messages of events that had more than the trace takes of one event.",
        left_out,
    )
    yield GaugeMetricFamily(
        "penstock_message_trace_rows_waiting",
        "Rows of the message trace that wait to be written.",
        waiting,
    )


def _client_metrics(taken: MetricsSink | None) -> Iterator[Metric]:
    """Yield what clients push of their own metrics, and what became of it; 0 while off."""
    written = dropped = waiting = instances = evicted = 0
    results: Mapping[tuple[str, str], int] = {}
    if taken is not None:
        written, dropped, waiting = taken.written, taken.dropped, len(taken)
        instances, evicted, results = len(taken.instances), taken.instances.evicted, taken.results
    requests = CounterMetricFamily(
        "penstock_client_metrics_requests",
        "Requests of clients about their own metrics, by kind and result.",
        labels=["request", "result"],
    )
    for names in REQUEST_RESULTS:
        requests.add_metric(names, results.get(names, 0))
    yield requests
    yield CounterMetricFamily(
        "penstock_client_metrics_rows_written", "Rows of client metrics confirmed.", written
    )
    yield CounterMetricFamily(
        "penstock_client_metrics_rows_dropped",
        "Rows of client metrics that found no room.",
        dropped,
    )
    yield CounterMetricFamily(
        "penstock_client_metrics_instances_evicted",
        "Client instances forgotten because there were too many.",
        evicted,
    )
    yield GaugeMetricFamily(
        "penstock_client_metrics_rows_waiting",
        "Rows of client metrics that wait to be written.",
        waiting,
    )
    yield GaugeMetricFamily(
        "penstock_client_metrics_instances",
        "Client instances that were here lately.",
        instances,
    )
