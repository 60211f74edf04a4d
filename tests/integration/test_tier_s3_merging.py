"""Nodes merge small objects of a real S3 server: one is killed meanwhile, and a slave reads on."""

import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from harness import s3_server
from harness.node import NodeProcess
from harness.s3_server import S3Server
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings
from penstock.client.tier import tier_part
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import (
    COUNT,
    TOPIC,
    Directory,
    numbers_read,
    offset_at,
    produce,
    until,
)
from tests.integration.test_tier import settings as tier_settings
from tests.integration.test_tier_failover import Copied
from tests.integration.test_tier_failover import until as until_of
from tests.integration.test_tier_merging import MERGES, PAUSE_SECONDS, generations, has_few_runs
from tests.integration.test_tier_reads import EARLIEST_LOCAL, FREED
from tests.integration.test_tier_slave_reads import FIRST, Racked, Reader, freed

pytestmark = [pytest.mark.process, pytest.mark.compat]

PREFIX = "of/merges"
KILLS = 2
FULL = {"merge_bytes": 16 << 20, "merge_ms": 86_400_000, "merge_bytes_per_second": 1 << 28}
"""Merges begin when there are 16 MiB: of what a reader begins with, nothing is merged yet."""
LONG = {"lease_ms": 300_000, "grace_ms": 301_000}


class Bucket(Directory):
    """What a server has of one cluster, as files, and the settings of nodes that use it."""

    def __init__(self, server: S3Server, secret: Path) -> None:
        self.server = server
        self.path = server.path / "objects" / "tier" / PREFIX
        self._secret = secret
        secret.write_text(f"{s3_server.SECRET}\n")

    @property
    def url(self) -> str:
        return f"s3://tier/{PREFIX}"

    def settings(self, **more: object) -> dict[str, dict[str, object]]:
        return tier_settings(
            self.url,
            endpoint=self.server.endpoint,
            region=s3_server.REGION,
            access_key_id=s3_server.ACCESS,
            secret_key_file=str(self._secret),
            **more,
        )

    def of_spark(self) -> dict[str, str]:
        """Return the options of a source with which Spark reads it."""
        return {"tierAccessKeyId": s3_server.ACCESS, "tierSecretKeyFile": str(self._secret)}


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    program = s3_server.binary()
    if isinstance(program, str):
        pytest.skip(program)
    with S3Server(program, tmp_path / "s3") as server:
        yield Bucket(server, tmp_path / "secret")


def told_names(bootstrap: str) -> list[str]:
    """Return the objects that a leader tells of, in the order of offsets."""
    with Cluster(ClientSettings(bootstrap=bootstrap, deadline_ms=60_000)) as cluster:
        return [str(run.name) for run in tier_part(cluster, TOPIC, 0, 0).runs]


def merged_objects(bucket: Bucket) -> set[str]:
    return {name for name, generation in generations(bucket).items() if generation}


def has_new_merge(bucket: Bucket, known: set[str]) -> bool:
    return bool(merged_objects(bucket) - known)


def write_until_merged(node: NodeProcess, bucket: Bucket, count: int) -> int:
    """Write until a merged object comes into the store; return how many records there are now.

    What is written at once may be one run, of which nothing is to be merged.
    """
    known, deadline = merged_objects(bucket), time.monotonic() + UNTIL_SECONDS
    is_there = False
    while not is_there:
        assert time.monotonic() < deadline, node.log_tail(50)
        count += len(produce(node, TOPIC, count, COUNT))
        new = partial(has_new_merge, bucket, known)
        is_there = wait_until(new, PAUSE_SECONDS, every_seconds=0.001)
    return count


def test_a_node_that_is_killed_while_it_merges_leaves_all_of_it_once_and_nothing_behind(
    bucket: Bucket, tmp_path: Path
) -> None:
    with NodeProcess(tmp_path / "node", settings=bucket.settings(**MERGES)) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        count = 0
        for _ in range(KILLS):
            count = write_until_merged(node, bucket, count)
            node.kill()
            node.start()
        count += len(produce(node, TOPIC, count, COUNT))
        until(partial(has_few_runs, node, count - COUNT // 2), node)
        until(lambda: metric(node, "penstock_tier_leaving_objects") == 0, node)
        until(lambda: offset_at(node, EARLIEST_LOCAL) > COUNT, node)
        until(lambda: set(told_names(node.bootstrap)) == set(generations(bucket)), node)
        assert numbers_read(node) == [str(number) for number in range(count)]


class Distant(Racked):
    """Three nodes, each in a rack of its own, over a server instead of a directory."""

    def __init__(self, directory: Path, bucket: Bucket) -> None:
        self.bucket = bucket
        super().__init__(directory)
        self.store = bucket

    def settings_of(self, peer_id: int) -> dict[str, dict[str, object]]:
        own = self.bucket.settings(**FULL, **LONG)
        own["broker"]["slave_reads"] = "rack"
        own["node"] = {"rack": f"r{peer_id}"}
        return own


@pytest.fixture
def copied(bucket: Bucket, tmp_path: Path) -> Iterator[Distant]:
    made = Distant(tmp_path, bucket)
    yield made
    for node in made.layout.nodes.values():
        node.kill()


def is_merged(copied: Copied, first: str) -> bool:
    """Whether the object that the leader told of first has gone into another one."""
    told = told_names(copied.layout.bootstrap)
    return bool(told) and told[0] != first


def test_a_slave_reads_on_once_what_it_was_told_of_is_merged_and_the_master_is_dead(
    bucket: Bucket, copied: Distant
) -> None:
    master, slave = freed(copied)
    told = told_names(copied.layout.bootstrap)
    assert not merged_objects(bucket), "nothing was to be merged before the slave was told"
    with closing(Reader(copied, slave)) as reader:
        reader.take(FIRST)
        copied.produce()
        until_of(partial(is_merged, copied, told[0]), copied)
        copied.layout.nodes[master].kill()
        assert set(told) <= set(generations(bucket)), "a lease was given for these"
        reader.take(len(copied.values))
        assert set(told) <= set(generations(bucket)), "a lease was given for these"
    assert reader.got == list(range(len(copied.values)))
