"""`penstock tier status` of running nodes: what is copied, what waits and for what, what failed."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from harness.node import NodeProcess
from harness.ports import free_port
from harness.workload import create_topic
from tests.integration.layouts import run_penstock
from tests.integration.test_tier import (
    COUNT,
    TOPIC,
    VALUE_BYTES,
    Directory,
    has_deleted,
    is_copied,
    offset_at,
    produce,
    settings,
    until,
)
from tests.integration.test_tier_failover import Copied

pytestmark = pytest.mark.process

START, END, LOCAL_START, TIERED = -2, -1, -4, -5


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "store")


@pytest.fixture
def node(store: Directory, tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node", settings=settings(store.url)) as node:
        yield node


def asked(*nodes: NodeProcess) -> tuple[int, Any]:
    """Return the exit code of the command and its document."""
    ports = [f"127.0.0.1:{node.metrics_port}" for node in nodes]
    code, text = run_penstock("tier", "status", *ports, "-o", "json")
    return code, json.loads(text[: text.rindex("}") + 1])


def row_now(node: NodeProcess) -> dict[str, Any]:
    """Return the row of the topic, empty while there is none: its set may not be known yet."""
    code, told = asked(node)
    rows = [one for one in told["partitions"] if one["topic"] == TOPIC]
    return dict(rows[0]) if code == 0 and rows else {}


def row_of(node: NodeProcess) -> dict[str, Any]:
    row = row_now(node)
    assert row
    return row


def waits_for(node: NodeProcess, what: str) -> bool:
    return bool(row_now(node).get("waits_for") == what)


def is_copied_behind(node: NodeProcess, offset: int) -> bool:
    return (row_now(node).get("tier_end") or 0) > offset


def is_freed(node: NodeProcess) -> bool:
    row = row_now(node)
    return (row.get("local_start") or 0) > 0 and row["local_start"] == row["tier_end"]


def test_ends_are_those_that_clients_are_told_and_what_is_not_copied_is_counted(
    node: NodeProcess,
) -> None:
    create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
    create_topic(node.bootstrap, "local", 1)
    produce(node, "local", 0, 10)
    produce(node, TOPIC, 0, COUNT)
    until(partial(is_copied, node), node)
    until(partial(waits_for, node, "a file of the second level"), node)
    _, told = asked(node)
    assert [one["topic"] for one in told["partitions"]] == [TOPIC]
    (row,) = told["partitions"]
    assert (row["start"], row["local_start"]) == (0, 0)
    assert row["start"] == offset_at(node, START)
    assert row["local_start"] == offset_at(node, LOCAL_START)
    assert row["tier_end"] == offset_at(node, TIERED) + 1
    assert row["log_end"] == offset_at(node, END) == COUNT
    left = COUNT - row["tier_end"]
    assert row["lag_records"] == left > 0
    assert left * VALUE_BYTES < row["lag_bytes"] < left * VALUE_BYTES * 1.1
    assert row["tier_bytes"] > row["tier_end"] * VALUE_BYTES
    assert told["sums"]["lag_records"] == left
    (one_set,) = (one for one in told["sets"] if one["replica_set"] == row["replica_set"])
    assert (one_set["step"], one_set["trouble"], one_set["is_fenced"]) == ("idle", None, False)
    assert one_set["objects"] == told["nodes"][0]["objects"] > 0


def test_freed_disks_show_in_the_local_start_alone(node: NodeProcess) -> None:
    limits = {"remote.storage.enable": "true", "local.retention.bytes": "1"}
    create_topic(node.bootstrap, TOPIC, 1, limits)
    produce(node, TOPIC, 0, COUNT)
    until(partial(is_freed, node), node)
    row = row_of(node)
    assert (row["start"], row["tier_start"]) == (0, 0)
    assert row["lag_records"] == COUNT - row["tier_end"]


def test_an_open_transaction_is_named_as_what_holds_the_copy(node: NodeProcess) -> None:
    create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "open"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(TOPIC, b"first", partition=0)
    producer.flush()
    produce(node, TOPIC, 0, COUNT)
    until(partial(waits_for, node, "the end of a transaction"), node)
    producer.commit_transaction()
    until(partial(is_copied_behind, node, COUNT // 2), node)
    assert row_of(node)["waits_for"] != "the end of a transaction"


def test_a_store_that_fails_is_told_with_its_words_until_it_is_there_again(
    store: Directory, node: NodeProcess
) -> None:
    create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
    produce(node, TOPIC, 0, COUNT)
    until(partial(is_copied, node), node)
    away = store.path.with_name("away")
    store.path.rename(away)
    store.path.touch()
    produce(node, TOPIC, COUNT, COUNT)
    until(partial(waits_for, node, "the store"), node)
    until(lambda: trouble(node) is not None, node)
    assert ".extents" in (trouble(node) or "")
    assert asked(node)[1]["nodes"][0]["failures"] > 0
    store.path.unlink()
    away.rename(store.path)
    until(lambda: is_copied_behind(node, COUNT) and trouble(node) is None, node)


def trouble(node: NodeProcess) -> str | None:
    (found,) = {one["trouble"] for one in asked(node)[1]["sets"] if one["objects"]}
    return None if found is None else str(found)


def test_a_deleted_topic_leaves_the_list_with_its_objects(
    store: Directory, node: NodeProcess
) -> None:
    create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
    produce(node, TOPIC, 0, COUNT)
    until(partial(is_copied, node), node)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result()
    until(partial(has_deleted, node), node)
    assert asked(node)[1]["partitions"] == []
    assert store.objects() == []


def test_whoever_asks_too_few_nodes_hears_of_it(tmp_path: Path) -> None:
    copied = Copied(tmp_path)
    with copied.layout:
        copied.produce()
        nodes, master = copied.layout.nodes, copied.master(via=1)
        code, told = asked(*(node for number, node in nodes.items() if number != master))
        assert (code, told["unknown"], told["partitions"]) == (1, [copied.set_id], [])
        code, told = asked(*nodes.values())
        assert (code, told["unknown"], told["silent"]) == (0, [], [])
        assert [one["log_end"] for one in told["partitions"]] == [len(copied.values)]


def test_a_node_that_does_not_answer_is_named(node: NodeProcess) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    code, text = run_penstock("tier", "status", f"127.0.0.1:{node.metrics_port}", nobody)
    assert code == 1
    assert f"{nobody} does not answer" in text
    code, text = run_penstock("tier", "status", "nowhere")
    assert (code, "is no HOST:PORT" in text) == (2, True)
