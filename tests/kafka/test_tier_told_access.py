"""Who may not read a topic is told nothing of what the store has of it, nor where the store is."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.ids import TopicPartition
from penstock.broker.access import Operation, Requester, Resource
from penstock.broker.tier.view import TierPlace
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.own_fields import TierState
from penstock.tier.metadata.manifest import Manifest
from simulator.kernel.object_store import Bucket
from tests.extents.files import CLUSTER, Part, batch
from tests.kafka.test_admin_handlers_offsets import create
from tests.live_node import LiveNode, RawClient, running_node
from tests.tier.objects import manifest_of, name, put

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class PermitsAllBut:
    """An authoriser that refuses some operations on topics of one name."""

    permits_all = False
    generation = 0

    def __init__(self, topic: str, *refused: Operation) -> None:
        self._topic, self._refused = topic, refused

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        """As in Authoriser."""
        del who
        is_of_it = resource is Resource.TOPIC and name == self._topic
        return not (is_of_it and operation in self._refused)

    def permits_some(self, who: Requester, operation: Operation, resource: Resource) -> bool:
        """As in Authoriser."""
        del who, operation, resource
        return True


class World:
    """A node that leads two topics; the tier has two runs of each."""

    def __init__(self, node: LiveNode, client: RawClient) -> None:
        self.node, self.client = node, client
        self.hidden, self.open = create(node), create(node)
        manifests: dict[TopicPartition, Manifest] = {}
        for topic in (self.hidden, self.open):
            hosted = node.broker.partitions.find(topic, 0)
            assert hosted is not None
            key, bucket = hosted.log.topic_partition, Bucket()
            runs = [run for at in (0, 1) for run in put(bucket, name(at), [Part(key, [batch(at)])])]
            manifests[key] = manifest_of(runs)
        view: Any = SimpleNamespace(
            manifest=lambda _, key: manifests.get(key),
            place=TierPlace("s3://secret/place", "https://there", "r", CLUSTER, 1_000),
        )
        node.broker.tier = view

    def refuse(self, *operations: Operation) -> None:
        self.node.broker.authoriser = PermitsAllBut(self.hidden, *operations)

    def ask(self, *topics: str) -> Any:
        fields = {
            "topics": [{"name": topic, "partition_indexes": [0]} for topic in topics],
            "tier_from": 0,
        }
        return self.client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, fields)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        made = World(node, client)
        yield made
        node.broker.tier = None


def check_told(partition: Any) -> None:
    assert (partition.error_code, partition.tier_state) == (ErrorCode.NONE, TierState.KNOWN)
    assert (partition.tier_start, partition.tier_end, len(partition.tier_runs)) == (0, 2, 2)


def check_not_told(partition: Any) -> None:
    assert partition.error_code == REFUSED
    assert partition.tier_state == -1
    assert (partition.tier_start, partition.tier_end) == (-1, -1)
    assert not partition.tier_runs


def test_who_may_read_and_nothing_else_is_told(world: World) -> None:
    world.refuse(*(one for one in Operation if one is not Operation.READ))
    answer = world.ask(world.hidden)
    check_told(answer.topics[0].partitions[0])
    assert tuple(answer.tier_store) == ("s3://secret/place", "https://there", "r")


@pytest.mark.parametrize(
    "refused", [(Operation.READ,), tuple(Operation)], ids=["all but read", "nothing"]
)
def test_who_may_not_read_is_told_of_no_run_and_no_store(
    world: World, refused: tuple[Operation, ...]
) -> None:
    world.refuse(*refused)
    answer = world.ask(world.hidden, "absent")
    check_not_told(answer.topics[0].partitions[0])
    assert not answer.tier_store
    assert not answer.tier_cluster
    assert answer.tier_lease_ms <= 0


def test_a_topic_that_may_be_read_tells_nothing_of_another_one(world: World) -> None:
    world.refuse(Operation.READ)
    for topics in ((world.hidden, world.open), (world.open, world.hidden)):
        answer = world.ask(*topics)
        by_name = {topic.name: topic.partitions[0] for topic in answer.topics}
        check_told(by_name[world.open])
        check_not_told(by_name[world.hidden])
