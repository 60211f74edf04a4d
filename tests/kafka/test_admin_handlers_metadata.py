"""What clients learn about the cluster: Metadata, DescribeCluster, DescribeTopicPartitions."""

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.live_node import LiveNode, RawClient, running_node

_numbers = itertools.count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with running_node(tmp_path_factory.mktemp("metadata"), "node.rack=here") as node:
        topics = tuple(NewTopic(name=name, partition_count=3) for name in ("a", "b", "c"))
        node.submit(CreateTopics(topics=topics))
        yield node


@pytest.fixture(scope="module")
def creating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """A node that creates what it is asked for."""
    overrides = ("broker.auto_create_topics=true", "controller.default_partitions=4")
    with running_node(tmp_path_factory.mktemp("creating"), *overrides) as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    client = node.connect()
    yield client
    client.close()


@pytest.fixture
def creator(creating: LiveNode) -> Iterator[RawClient]:
    client = creating.connect()
    yield client
    client.close()


def metadata(client: RawClient, version: int, *names: str | None, **fields: Any) -> Any:
    topics = [{"topic_id": None, "name": name} for name in names]
    return client.ask(ApiKey.METADATA, version, {"topics": topics} | fields)


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_brokers_and_leaders_in_every_version(
    node: LiveNode, client: RawClient, version: int
) -> None:
    answer = metadata(client, version, "b")
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", node.port)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (Code.NONE, "b")
    assert [one.partition_index for one in topic.partitions] == [0, 1, 2]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id) == (Code.NONE, 1)
        assert (tuple(partition.replica_nodes), tuple(partition.isr_nodes)) == ((1,), (1,))
    if version >= 1:
        assert (broker.rack, answer.controller_id, topic.is_internal) == ("here", 1, False)
    if version >= 2:
        assert answer.cluster_id == node.broker.metadata.cluster_id
    if version >= 7:
        assert {one.leader_epoch for one in topic.partitions} == {0}
    if version >= 8:
        assert topic.topic_authorized_operations == -(2**31)
    if version >= 10:
        assert topic.topic_id.bytes == node.broker.metadata.topics_by_name["b"].topic_id


def test_no_list_means_all_topics_and_an_empty_list_none(client: RawClient) -> None:
    everything = {"a", "b", "c", "__consumer_offsets"}
    before_v1 = metadata(client, 0)
    null = client.ask(ApiKey.METADATA, 1, {"topics": None})
    empty = metadata(client, 1)
    assert {topic.name for topic in before_v1.topics} == everything
    assert {topic.name for topic in null.topics} == everything
    assert empty.topics == ()
    assert {topic.name for topic in null.topics if topic.is_internal} == {"__consumer_offsets"}


def test_unknown_and_ill_formed_names_have_their_codes(client: RawClient) -> None:
    answer = metadata(client, 12, "no-such-topic", "a/b", "", "a", "a")
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("no-such-topic", Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", Code.INVALID_TOPIC_EXCEPTION),
        ("", Code.INVALID_TOPIC_EXCEPTION),
        ("a", Code.NONE),
    ]
    assert metadata(client, 12, "no-such-topic").topics[0].error_code != Code.NONE


def test_topics_are_found_by_id(node: LiveNode, client: RawClient) -> None:
    known = uuid.UUID(bytes=node.broker.metadata.topics_by_name["a"].topic_id)
    unknown = uuid.uuid4()
    topics = [{"topic_id": known, "name": None}, {"topic_id": unknown, "name": None}]
    answer = client.ask(ApiKey.METADATA, 12, {"topics": topics})
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics] == [
        ("a", known, Code.NONE),
        (None, unknown, Code.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", range(14))
def test_missing_topic_is_created_where_that_is_switched_on(
    creator: RawClient, version: int
) -> None:
    name = f"new-{next(_numbers)}"
    (first,) = metadata(creator, version, name).topics
    assert (first.error_code, first.partitions) == (Code.LEADER_NOT_AVAILABLE, ())
    (second,) = metadata(creator, version, name).topics
    assert second.error_code == Code.NONE
    assert len(second.partitions) == 4


def test_client_can_forbid_creation(creator: RawClient) -> None:
    for _ in range(2):
        answer = metadata(creator, 4, "not-wanted", allow_auto_topic_creation=False)
        assert answer.topics[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_names_that_can_not_be_created_have_their_codes(creator: RawClient) -> None:
    metadata(creator, 12, "x.y")
    answer = metadata(creator, 12, "x_y", "..", "__consumer_offsets")
    assert [topic.error_code for topic in answer.topics] == [
        Code.INVALID_TOPIC_EXCEPTION,
        Code.INVALID_TOPIC_EXCEPTION,
        Code.NONE,
    ]


@pytest.mark.parametrize("version", range(3))
def test_cluster_is_described_in_every_version(
    node: LiveNode, client: RawClient, version: int
) -> None:
    answer = client.ask(
        ApiKey.DESCRIBE_CLUSTER, version, {"include_cluster_authorized_operations": False}
    )
    assert (answer.error_code, answer.controller_id) == (Code.NONE, 1)
    assert answer.cluster_id == node.broker.metadata.cluster_id
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.port, broker.rack) == (1, node.port, "here")


def test_controllers_have_no_endpoint(client: RawClient) -> None:
    fields = {"include_cluster_authorized_operations": False, "endpoint_type": 2}
    answer = client.ask(ApiKey.DESCRIBE_CLUSTER, 1, fields)
    assert answer.error_code == Code.MISMATCHED_ENDPOINT_TYPE
    assert answer.brokers == ()


@pytest.mark.parametrize("endpoint_type", [0, 3, 127, -1])
def test_an_endpoint_type_that_is_none_is_not_supported(
    client: RawClient, endpoint_type: int
) -> None:
    fields = {"include_cluster_authorized_operations": False, "endpoint_type": endpoint_type}
    for version, more in ((1, {}), (2, {"include_fenced_brokers": False})):
        answer = client.ask(ApiKey.DESCRIBE_CLUSTER, version, fields | more)
        assert answer.error_code == Code.UNSUPPORTED_ENDPOINT_TYPE
        assert answer.brokers == ()


def test_nobody_is_an_eligible_leader_who_is_not_in_step(client: RawClient) -> None:
    (topic,) = page(client, "a").topics
    for partition in topic.partitions:
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())


def page(client: RawClient, *names: str, limit: int = 2000, cursor: Any = None) -> Any:
    fields = {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": limit,
        "cursor": cursor,
    }
    return client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, fields)


def test_partitions_of_topics_come_sorted_by_name(client: RawClient) -> None:
    answer = page(client, "c", "a/b", "a", "nope")
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", Code.NONE),
        ("a/b", Code.INVALID_TOPIC_EXCEPTION),
        ("c", Code.NONE),
        ("nope", Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert answer.next_cursor is None
    assert len(page(client).topics) == 4, "no names mean all topics"


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 9, 10])
def test_pages_cover_every_partition_once(client: RawClient, limit: int) -> None:
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(12):
        answer = page(client, "a", "b", "c", limit=limit, cursor=cursor)
        got = [
            (topic.name, at.partition_index) for topic in answer.topics for at in topic.partitions
        ]
        assert len(got) <= limit
        seen += got
        if answer.next_cursor is None:
            break
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }
    assert seen == [(name, partition) for name in "abc" for partition in range(3)]


def test_page_after_a_deleted_topic_goes_on_with_the_next_one(client: RawClient) -> None:
    cursor = {"topic_name": "aa", "partition_index": 2}
    answer = page(client, "a", "b", cursor=cursor)
    assert [topic.name for topic in answer.topics] == ["b"]
    assert len(answer.topics[0].partitions) == 3


TOPIC_OPERATIONS = 3576
"""Read, write, create, delete, alter, describe, describe and alter configurations."""
CLUSTER_OPERATIONS = 8096
"""Create, alter, describe, cluster action, the same for configurations, idempotent write."""


@pytest.mark.parametrize("version", range(8, 14))
def test_metadata_tells_the_operations_that_are_asked_for(client: RawClient, version: int) -> None:
    asked = {"include_topic_authorized_operations": True}
    if version <= 10:
        asked |= {"include_cluster_authorized_operations": True}
    known, missing = metadata(client, version, "b", "missing", **asked).topics
    assert known.topic_authorized_operations == TOPIC_OPERATIONS
    assert missing.topic_authorized_operations == -(2**31)
    if version <= 10:
        answer = metadata(client, version, "b", **asked)
        assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS
        answer = metadata(client, version, "b")
        assert answer.cluster_authorized_operations == -(2**31)


def test_partitions_of_topics_come_with_the_operations_on_each_topic(client: RawClient) -> None:
    known, missing = page(client, "b", "missing").topics
    assert known.topic_authorized_operations == TOPIC_OPERATIONS
    assert missing.topic_authorized_operations == -(2**31)


@pytest.mark.parametrize(("is_asked", "told"), [(True, CLUSTER_OPERATIONS), (False, -(2**31))])
def test_the_description_of_the_cluster_tells_the_operations_that_are_asked_for(
    client: RawClient, is_asked: bool, told: int
) -> None:
    fields = {"include_cluster_authorized_operations": is_asked}
    answer = client.ask(ApiKey.DESCRIBE_CLUSTER, 1, fields | {"endpoint_type": 1})
    assert answer.cluster_authorized_operations == told
