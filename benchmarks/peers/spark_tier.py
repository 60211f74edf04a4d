"""A node whose topic is in an object store: what Spark reads of it comes from there.

The store is a directory. Behind the records that are read come others, until all of the former are
copied: the newest records of a log are not, and brokers would give them.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.parts.nodes import SMALL_SEGMENT_BYTES, temporary_node, with_a_store
from benchmarks.peers.kafka_load import PenstockLoad
from benchmarks.peers.model import CanNotRun
from harness.node import NodeProcess
from penstock.client.admin import LATEST, Admin
from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings
from penstock.client.tier import tier_part

FILLER_BYTES = 2 * SMALL_SEGMENT_BYTES
COPY_SECONDS = 600.0
PAUSE_SECONDS = 0.5


class TieredTopic(NamedTuple):
    """A topic, of which everything below its ends is in the store."""

    node: NodeProcess
    name: str
    ends: dict[int, int]


@contextlib.contextmanager
def tiered_topic(name: str, partitions: int, how: Sequence[object]) -> Iterator[TieredTopic]:
    """Yield a topic that was written as `how` says (see KafkaLoad.produce). Raises CanNotRun."""
    load = PenstockLoad(acks="1")
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-store-") as store,
        temporary_node(with_a_store(Path(store))) as node,
        Cluster(ClientSettings(bootstrap=node.bootstrap)) as cluster,
    ):
        admin = Admin(cluster)
        configs = {"remote.storage.enable": "true"}
        admin.create_topic(name, partitions=partitions, configs=configs)
        load.produce(node.bootstrap, name, how)
        found = admin.list_offsets(name, LATEST, list(range(partitions)))
        ends = {partition: one.offset for partition, one in found.items()}
        deadline = time.monotonic() + COPY_SECONDS
        while not _is_copied(cluster, name, ends):
            if time.monotonic() > deadline:
                raise CanNotRun(f"the topic is not in the store after {COPY_SECONDS:.0f} s")
            load.produce(node.bootstrap, name, (*how[:-1], FILLER_BYTES))
            time.sleep(PAUSE_SECONDS)
        yield TieredTopic(node, name, ends)


def _is_copied(cluster: Cluster, name: str, ends: dict[int, int]) -> bool:
    told = {partition: tier_part(cluster, name, partition, end) for partition, end in ends.items()}
    return all(told[partition].end_offset >= end for partition, end in ends.items())
