"""The metrics page of a working node: valid, complete, documented, and its counters move."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.ports import free_port
from penstock.broker.audit.message_trace import OFFSETS_MAX
from penstock.cli.machine.pages import Scraped, merged
from penstock.finding.traces import OFFSETS_MAX as ROW_OFFSETS_MAX
from penstock.http.front import Front
from penstock.http.pages.state import http_metrics
from penstock.http.tokens import Tokens
from penstock.protocol.api_keys import ApiKey
from penstock.shares.state import ShareKey
from penstock.shares.updates.tracing import Event
from tests.kafka.test_produce_fetch import batch, create, fetch_fields, produce
from tests.live_node import LiveNode, running_node

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations" / "metrics.md"
Sample = tuple[str, tuple[tuple[str, str], ...]]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with running_node(tmp_path, f"remoting.port={free_port()}", f"grpc.port={free_port()}") as node:
        yield node


def samples(node: LiveNode) -> dict[Sample, float]:
    """Everything on the page, read by Prometheus' own parser."""
    page = node.call(node.node.metrics_page)
    assert page.status == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.body.decode())
        for sample in family.samples
    }


def families(page: str) -> set[str]:
    """Names of this platform's metrics on a page, as they are documented."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(page)
        if family.name.startswith("penstock_")
    }


def families_of_http() -> set[str]:
    """Names of the metrics of `penstock http`, which has a page of its own."""
    found = list(http_metrics(Front([], lambda: Tokens({}, None))))
    assert found
    return {f"{one.name}_total" if one.type == "counter" else one.name for one in found}


def documented() -> set[str]:
    return set(re.findall(r"^\| `(penstock_\w+)`", DOCUMENT.read_text(), re.MULTILINE))


def test_no_series_is_on_the_page_twice(node: LiveNode) -> None:
    page = node.call(node.node.metrics_page).body.decode()
    series = [line.rsplit(" ", 1)[0] for line in page.splitlines() if line[0] != "#"]
    assert len(series) == len(set(series))


def test_every_metric_is_in_the_document_and_the_other_way_round(node: LiveNode) -> None:
    create(node, "events")
    client = node.connect()
    produce(client, "events", batch(b"a"))
    client.close()
    page = node.call(node.node.metrics_page).body.decode()
    of_the_machine = merged([Scraped(broker_id=1, starts=1, text=page)]).decode()
    of_http = families_of_http()
    assert of_http < documented()
    assert families(page) < families(of_the_machine) == documented() - of_http


def test_counters_move_with_what_clients_do(node: LiveNode) -> None:
    create(node, "events")
    before = samples(node)
    client = node.connect()
    ours = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    for _ in range(2):
        produce(client, "events", batch(b"a", b"b", **ours))
    produce(client, "absent", batch(b"a"))
    client.ask(ApiKey.FETCH, 11, fetch_fields("events", 0))
    client.ask(ApiKey.FETCH, 11, fetch_fields("events", 2, max_wait_ms=5))
    after = samples(node)
    client.close()
    moved = {name: value - before.get(name, 0) for name, value in after.items()}
    expected = {
        ("penstock_requests_total", (("api", "produce"),)): 3,
        ("penstock_requests_total", (("api", "fetch"),)): 2,
        ("penstock_produced_records_total", ()): 2,
        ("penstock_duplicate_batches_total", ()): 1,
        ("penstock_refused_batches_total", (("error", "UNKNOWN_TOPIC_OR_PARTITION"),)): 1,
        ("penstock_fetches_parked_total", ()): 1,
        ("penstock_connections_accepted_total", ()): 1,
        ("penstock_connections", ()): 1,
        ("penstock_frames_total", ()): 5,
    }
    assert {name: moved[name] for name in expected} == expected
    for name in ("produced", "fetched", "received", "sent"):
        assert moved[f"penstock_{name}_bytes_total", ()] > 0
    for api in ("produce", "fetch"):
        assert moved["penstock_request_bytes_total", (("api", api),)] > 0
        assert moved["penstock_answer_bytes_total", (("api", api),)] > 0
    assert moved["penstock_log_durable_position_bytes", (("replica_set", "1"),)] > 0
    assert sum(v for (name, _), v in moved.items() if name == "penstock_disk_sync_seconds_count")


def test_a_node_alone_says_that_it_leads_its_set_and_the_metadata(node: LiveNode) -> None:
    found = samples(node)
    one_set = (("replica_set", "1"),)
    expected = {
        ("penstock_controller_active", ()): 1,
        ("penstock_controller_epoch", ()): 1,
        ("penstock_brokers", ()): 1,
        ("penstock_brokers_fenced", ()): 0,
        ("penstock_sets", ()): 1,
        ("penstock_sets_without_master", ()): 0,
        ("penstock_sets_under_replicated", ()): 0,
        ("penstock_sets_below_minimum", ()): 0,
        ("penstock_elections_total", (("cause", "first"),)): 1,
        ("penstock_set_is_master", one_set): 1,
        ("penstock_set_in_sync_members", one_set): 1,
        ("penstock_set_confirm_lag_bytes", one_set): 0,
    }
    assert {name: found[name] for name in expected} == expected


def test_internal_partitions_are_counted_by_kind_and_state(node: LiveNode) -> None:
    client = node.connect()
    client.ask(ApiKey.FIND_COORDINATOR, 3, {"key": "readers", "key_type": 0})
    client.close()
    groups = node.node.groups
    partitions, count = groups.runtime.base.partitions, groups.config.partition_count
    assert node.until(lambda: partitions.is_active(0) and not partitions.is_loading)
    found = samples(node)
    kind = ("kind", "groups")
    expected = {
        ("penstock_coordinator_partitions", (kind, ("state", "active"))): count,
        ("penstock_coordinator_partitions", (kind, ("state", "loading"))): 0,
        ("penstock_coordinator_writes_in_flight", (kind,)): 0,
    }
    assert {name: found[name] for name in expected} == expected


def test_a_request_that_can_not_be_parsed_is_counted_by_its_reason(node: LiveNode) -> None:
    client = node.connect()
    client.send_body(ApiKey.PRODUCE, 9, b"\xff" * 20)
    assert client.is_closed_by_node()
    client.close()
    found = samples(node)
    assert found["penstock_request_errors_total", (("reason", "MalformedRequest"),)] == 1
    assert found["penstock_request_errors_total", (("reason", "unhandled"),)] == 0
    assert found["penstock_requests_failed_total", (("api", "produce"),)] == 1


def test_a_restart_shows_what_it_replayed_and_the_topics(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        create(node, "events")
    with running_node(tmp_path) as node:
        found = samples(node)
    assert found["penstock_topics", ()] == 2
    assert found["penstock_log_recovery_replayed_bytes", (("replica_set", "1"),)] == 0
    # One epoch ends the mastership of the process that is gone, the next begins the new one.
    assert found["penstock_log_leader_epoch", (("replica_set", "1"),)] == 2


def test_rows_of_the_message_trace_are_counted(tmp_path: Path) -> None:
    with running_node(tmp_path, "broker.message_trace_percent=100") as node:
        create(node, "traced")
        topic_id = bytes(node.broker.partitions.by_name[b"traced"].topic_id)
        trace = node.broker.message_trace
        assert trace is not None
        many = Event("done", [(0, OFFSETS_MAX + 5)])
        node.call(lambda: trace.happened(ShareKey("g", topic_id, 0), [many]))
        assert node.until(lambda: trace.written and not len(trace))
        told = samples(node)
        name = "penstock_message_trace"
        assert told[f"{name}_rows_written_total", ()] == OFFSETS_MAX // ROW_OFFSETS_MAX
        assert told[f"{name}_rows_dropped_total", ()] == 0
        assert told[f"{name}_rows_waiting", ()] == 0
        assert told[f"{name}_left_out_total", ()] == 5


def test_rows_of_the_audit_are_counted(tmp_path: Path) -> None:
    with running_node(tmp_path, "broker.audit=true", "broker.audit_fold_ms=100") as node:
        create(node, "events")
        client = node.connect()
        produce(client, "events", batch(b"a"))
        client.close()
        assert node.until(lambda: node.broker.audit is not None and node.broker.audit.written)
        assert samples(node)["penstock_audit_rows_written_total", ()] >= 1
        assert samples(node)["penstock_audit_rows_dropped_total", ()] == 0
