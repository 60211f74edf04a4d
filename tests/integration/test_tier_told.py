"""A master tells readers what the tier has, to those alone who may read the topic."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.workload import create_topic
from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings
from penstock.client.tier import NOT_THERE, StorePlace, TierPart, tier_part
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.own_fields import TierState
from tests.integration.test_tier import COUNT, TOPIC, Directory, offset_at, produce, settings, until
from tests.integration.test_tier_reads import EARLIEST_LOCAL, FREED, is_freed

pytestmark = pytest.mark.process


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "store")


@pytest.fixture
def node(store: Directory, tmp_path: Path) -> Iterator[NodeProcess]:
    own = settings(store.url, read_ms=2_000)
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        create_topic(node.bootstrap, "plain", 1)
        yield node


def told(node: NodeProcess, topic: str, offset: int) -> TierPart:
    with Cluster(ClientSettings(bootstrap=node.bootstrap, deadline_ms=60_000)) as cluster:
        return tier_part(cluster, topic, 0, offset)


def test_a_reader_is_told_which_objects_have_its_offsets_and_for_how_long(
    node: NodeProcess, store: Directory
) -> None:
    for number in range(3):
        produce(node, TOPIC, number * COUNT, COUNT)
        until(partial(is_freed, node, (number + 1) * COUNT), node)
    whole = told(node, TOPIC, 0)
    assert (whole.state, whole.place, whole.lease_ms) == (
        TierState.KNOWN,
        StorePlace(store.url, "", "us-east-1"),
        1_000,
    )
    assert whole.start_offset == whole.runs[0].first_offset == 0
    assert whole.end_offset == whole.runs[-1].end_offset >= offset_at(node, EARLIEST_LOCAL)
    objects = {path.relative_to(store.path).as_posix() for path in store.objects()}
    assert {str(run.name) for run in whole.runs} <= objects
    assert len(whole.runs) >= 3
    last = whole.runs[-1]
    for offset, runs in (
        (whole.runs[1].first_offset - 1, whole.runs),
        (whole.runs[1].first_offset, whole.runs[1:]),
        (last.end_offset - 1, (last,)),
        (last.end_offset, ()),
    ):
        assert told(node, TOPIC, offset).runs == runs


def test_where_the_store_is_is_told_with_what_it_has_of_a_topic_and_never_without(
    node: NodeProcess,
) -> None:
    assert told(node, "plain", 0) == NOT_THERE
    produce(node, TOPIC, 0, COUNT)
    until(partial(is_freed, node, COUNT), node)
    with Cluster(ClientSettings(bootstrap=node.bootstrap, deadline_ms=60_000)) as cluster:
        connection = cluster.connection(cluster.leader(TOPIC, 0))
        for topic, is_told in ((TOPIC, True), ("plain", False), ("absent", False)):
            topics = [{"name": topic, "partition_indexes": [0]}]
            asked = {"topics": topics, "tier_from": 0}
            answer = connection.call(ApiKey.DESCRIBE_PRODUCERS, asked)
            assert bool(answer.tier_store) is bool(answer.tier_cluster) is is_told
        plain = connection.call(ApiKey.DESCRIBE_PRODUCERS, {"topics": topics})
        assert not plain.tier_store
