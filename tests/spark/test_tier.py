"""Spark reads history straight from the store: the same rows as through brokers, and none lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.node import NodeProcess
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import Directory
from tests.spark.history import filled, partitions, read, reader, rows, tiered, tiered_node

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(300)]


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
