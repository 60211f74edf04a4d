"""Topics whose history only the store has, and the rows that the source gives of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.node import NodeProcess
from harness.workload import create_topic
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings
from penstock.spark.options import source_options
from penstock.spark.source import BatchReader, RangePartition
from tests.integration.test_tier import COUNT, TOPIC, produce, settings, until
from tests.integration.test_tier_reads import FREED, is_freed

COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")


@contextmanager
def tiered_node(
    directory: Path,
    url: str,
    sections: Mapping[str, Mapping[str, object]] | None = None,
    /,
    **more: object,
) -> Iterator[NodeProcess]:
    """A node with one topic whose disk is freed of what the store has."""
    own = settings(url, **{"read_ms": 2_000, **more}) | dict(sections or {})
    with NodeProcess(directory, settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        yield node


def filled(node: NodeProcess, rounds: int = 3) -> list[bytes]:
    """Have history in the store alone, and some records behind it; return all values."""
    values: list[bytes] = []
    for _ in range(rounds):
        values += produce(node, TOPIC, len(values), COUNT)
        until(partial(is_freed, node, len(values)), node)
    return values


def reader(node: NodeProcess, **options: str) -> BatchReader:
    given = {"bootstrap": node.bootstrap, "subscribe": TOPIC, "brokerTimeout": "20s", **options}
    return BatchReader(source_options(given, streaming=False), COLUMNS)


def partitions(reading: BatchReader) -> list[RangePartition]:
    return [one for one in reading.partitions() if isinstance(one, RangePartition)]


def rows(reading: BatchReader, parts: Sequence[RangePartition]) -> list[dict[str, Any]]:
    """Return what tasks give, each after the other."""
    batches = [batch for part in parts for batch in reading.read(part)]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def read(node: NodeProcess, **options: str) -> list[dict[str, Any]]:
    reading = reader(node, **options)
    return rows(reading, partitions(reading))


def tiered(parts: Sequence[RangePartition]) -> list[RangePartition]:
    return [part for part in parts if part.planned.piece is not None]


@contextmanager
def asked(node: NodeProcess) -> Iterator[Admin]:
    with Cluster(ClientSettings(bootstrap=node.bootstrap, deadline_ms=60_000)) as cluster:
        yield Admin(cluster)


Done = Callable[[], bool]
