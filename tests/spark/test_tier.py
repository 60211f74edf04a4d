"""Spark reads history straight from the store: the same rows as through brokers, and none lost."""

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from penstock.spark.errors import DataLost, HistoryUnreadable
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import (
    COUNT,
    SMALL_BATCHES,
    TOPIC,
    Directory,
    flip,
    produce,
    until,
)
from tests.integration.test_tier_reads import is_freed, transact
from tests.spark.history import (
    asked,
    filled,
    partitions,
    read,
    reader,
    rows,
    tiered,
    tiered_node,
)

pytestmark = [pytest.mark.spark, pytest.mark.process]
LONG = {"lease_ms": 600_000, "grace_ms": 600_001}


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "store")


@pytest.fixture
def node(store: Directory, tmp_path: Path) -> Iterator[NodeProcess]:
    with tiered_node(tmp_path / "node", store.url) as node:
        yield node


def test_history_from_the_store_has_the_rows_that_brokers_give(node: NodeProcess) -> None:
    values = filled(node)
    before = metric(node, "penstock_tier_reads_total")
    reading = reader(node, tier="required")
    parts = partitions(reading)
    assert tiered(parts)
    got = rows(reading, parts)
    assert [row["value"] for row in got] == values
    assert [row["offset"] for row in got] == list(range(len(values)))
    assert metric(node, "penstock_tier_reads_total") == before, "a broker read the store"
    assert got == read(node, tier="off")
    assert metric(node, "penstock_tier_reads_total") > before


def test_keys_headers_and_times_come_as_they_were_written(node: NodeProcess) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, **SMALL_BATCHES})
    begun = int(time.time()) * 1_000 - 3_600_000
    for at in range(COUNT):
        producer.produce(
            TOPIC,
            bytes(2_000),
            partition=0,
            timestamp=begun + at,
            key=b"k%d" % at,
            headers=[("h", b"%d" % at), ("none", None)],
        )
    producer.flush()
    produce(node, TOPIC, COUNT, COUNT)
    until(partial(is_freed, node, 2 * COUNT), node)
    got = read(node, tier="required")
    assert got == read(node, tier="off")
    assert (got[7]["key"], got[7]["timestamp"].timestamp()) == (b"k7", (begun + 7) / 1_000)
    assert got[7]["headers"][0] == {"key": "h", "value": b"7"}


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_count_in_history_as_they_do_at_brokers(
    node: NodeProcess, isolation: str
) -> None:
    committed: list[bytes] = []
    for round_number in range(2):  # one producer, now aborting and now committing
        transact(node, "same", round_number, is_commit=False)
        committed += transact(node, "same", round_number, is_commit=True)
    committed += produce(node, TOPIC, 0, COUNT)
    until(partial(is_freed, node, 4 * 150 + COUNT), node)
    reading = reader(node, tier="required", isolation=isolation)
    parts = partitions(reading)
    assert sum(part.wanted.length for part in tiered(parts)) > 4 * 150
    got = rows(reading, parts)
    assert got == read(node, tier="off", isolation=isolation)
    values = [row["value"] for row in got]
    assert (values == committed) is (isolation == "read_committed")


def test_a_master_killed_between_plan_and_read_is_not_missed(
    store: Directory, tmp_path: Path
) -> None:
    with tiered_node(tmp_path / "node", store.url, **LONG) as node:
        values = filled(node)
        reading = reader(node, tier="required")
        parts = tiered(partitions(reading))
        node.kill()
        got = rows(reading, parts)
        assert [row["value"] for row in got] == values[: len(got)]
        assert len(got) > COUNT
        node.start()


def deleted_up_to(node: NodeProcess, offset: int, store: Directory) -> None:
    """Delete what is below an offset, and wait until no object has it any more."""
    count = len(store.objects())
    with asked(node) as admin:
        admin.delete_records(TOPIC, {0: offset})
    until(lambda: len(store.objects()) < count, node)


def test_what_is_deleted_while_the_lease_lasts_is_read_all_the_same(
    store: Directory, tmp_path: Path
) -> None:
    with tiered_node(tmp_path / "node", store.url, **LONG) as node:
        values = filled(node)
        reading = reader(node, tier="required")
        parts = tiered(partitions(reading))
        with asked(node) as admin:
            admin.delete_records(TOPIC, {0: COUNT})
        assert partitions(reader(node))[0].wanted.start == COUNT
        assert [row["value"] for row in rows(reading, parts)][:COUNT] == values[:COUNT]


def test_a_plan_that_outlives_its_lease_says_what_is_gone(
    node: NodeProcess, store: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    values = filled(node)
    reading, lenient = reader(node), reader(node, failOnDataLoss="false")
    parts = partitions(reading)
    deleted_up_to(node, COUNT, store)
    with pytest.raises(DataLost, match=f"{TOPIC}-0 from offset 0 are gone.*now has {COUNT}"):
        rows(reading, parts)
    capsys.readouterr()
    assert [row["value"] for row in rows(lenient, parts)] == values[COUNT:]
    assert "are gone" in capsys.readouterr().err


def test_a_damaged_and_a_lost_object_are_named_and_no_row_of_them_is_made_up(
    node: NodeProcess, store: Directory
) -> None:
    filled(node)
    reading = reader(node)
    parts = partitions(reading)
    first = sorted(store.objects())[0]
    flip(first)
    with pytest.raises(HistoryUnreadable, match=first.stem):
        rows(reading, parts)
    first.unlink()
    with pytest.raises(HistoryUnreadable, match=f"{first.stem}.*is lost"):
        rows(reading, parts)


def test_where_the_driver_can_not_read_the_store_brokers_give_all_of_it(
    node: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    values = filled(node)
    capsys.readouterr()
    elsewhere = {"tierUrl": "file:///no/such/place"}
    assert [row["value"] for row in read(node, **elsewhere)] == values
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"penstock: history of {TOPIC}-0 comes from brokers, and not from the store:"
        " there is no directory /no/such/place here"
    )
    with pytest.raises(HistoryUnreadable, match="no directory /no/such/place"):
        read(node, tier="required", **elsewhere)


def test_where_only_executors_can_not_read_the_store_brokers_give_the_rest(
    node: NodeProcess, store: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    values = filled(node)
    mounted = store.path.with_name("mounted")
    shutil.copytree(store.path, mounted)
    reading = reader(node, tierUrl=f"file://{mounted}")
    parts = partitions(reading)
    assert tiered(parts)
    shutil.rmtree(mounted)
    reader_elsewhere = reader(node, tierUrl=f"file://{mounted}/x")
    assert [row["value"] for row in rows(reader_elsewhere, parts)] == values
    assert f"{TOPIC}-0: history from 0 comes from brokers" in capsys.readouterr().err


def test_a_topic_that_is_not_copied_is_read_from_brokers(node: NodeProcess) -> None:
    create_topic(node.bootstrap, "plain", 1)
    values = produce(node, "plain", 0, 10)
    got = read(node, subscribe="plain", tier="required")
    assert [row["value"] for row in got] == values


def test_a_copy_beside_the_disk_is_read_from_the_store_as_well(node: NodeProcess) -> None:
    create_topic(node.bootstrap, "copied", 1, {"remote.storage.enable": "true"})
    values = produce(node, "copied", 0, COUNT)

    def is_read_from_the_store() -> bool:
        return bool(tiered(partitions(reader(node, subscribe="copied"))))

    assert wait_until(is_read_from_the_store, UNTIL_SECONDS), node.log_tail(50)
    got = read(node, subscribe="copied", tier="required")
    assert [row["value"] for row in got] == values
