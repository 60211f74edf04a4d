"""Changing configuration, in both ways that Kafka knows."""

import pytest

from penstock.controller import errors
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    CreateTopics,
    NewTopic,
    ResourceEdits,
)
from penstock.controller.metadata.records import ResourceType
from tests.controller.cluster import Cluster

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def _alter(
    cluster: Cluster, *edits: tuple[str, int, str | None], name: str = "t", **options: bool
) -> errors.MetadataError | None:
    resource = ResourceEdits(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        edits=tuple(ConfigEdit(key=key, operation=op, value=value) for key, op, value in edits),
    )
    (outcome,) = cluster.submit(AlterConfigs(resources=(resource,), **options))
    return outcome.error


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create(NewTopic(name="t", configs={"retention.ms": "1", "retention.bytes": "2"}))
    return cluster


def test_incremental_changes_touch_only_what_they_name(cluster: Cluster) -> None:
    assert _alter(cluster, ("retention.ms", DELETE, None), ("max.message.bytes", SET, "9")) is None
    topic = cluster.image.topics_by_name["t"]
    assert topic.configs == {"retention.bytes": "2", "max.message.bytes": "9"}
    assert topic.settings.max_message_bytes == 9
    assert topic.settings.retention_ms == 604_800_000


def test_replacing_drops_what_is_not_named(cluster: Cluster) -> None:
    assert _alter(cluster, ("max.message.bytes", SET, "9"), replace=True) is None
    assert cluster.image.topics_by_name["t"].configs == {"max.message.bytes": "9"}


def test_changes_of_a_resource_happen_all_or_not_at_all(cluster: Cluster) -> None:
    error = _alter(cluster, ("max.message.bytes", SET, "9"), ("retention.ms", SET, "soon"))
    assert isinstance(error, errors.InvalidConfig)
    assert "max.message.bytes" not in cluster.image.topics_by_name["t"].configs


def test_change_that_alters_nothing_writes_nothing(cluster: Cluster) -> None:
    before = len(cluster.log)
    assert _alter(cluster, ("retention.ms", SET, "1"), ("compression.type", DELETE, None)) is None
    assert len(cluster.log) == before


def test_list_values_can_be_appended_to_and_subtracted_from(cluster: Cluster) -> None:
    assert _alter(cluster, ("cleanup.policy", APPEND, "delete")) is None
    assert cluster.image.topics_by_name["t"].configs["cleanup.policy"] == "delete"
    assert _alter(cluster, ("cleanup.policy", APPEND, "compact")) is None
    assert cluster.image.topics_by_name["t"].configs["cleanup.policy"] == "delete,compact"
    assert _alter(cluster, ("cleanup.policy", SUBTRACT, "delete")) is None
    assert cluster.image.topics_by_name["t"].configs["cleanup.policy"] == "compact"
    unknown = _alter(cluster, ("cleanup.policy", APPEND, "shred"))
    no_list = _alter(cluster, ("retention.ms", APPEND, "1"))
    for error in (unknown, no_list):
        assert isinstance(error, errors.InvalidConfig)


@pytest.mark.parametrize(
    "edits",
    [
        [("retention.ms", SET, None)],
        [("retention.ms", 7, "1")],
        [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
    ],
)
def test_contradictory_edits_are_refused(
    cluster: Cluster, edits: list[tuple[str, int, str | None]]
) -> None:
    assert isinstance(_alter(cluster, *edits), errors.InvalidMetadataRequest)


@pytest.mark.parametrize("operation", [SET, APPEND, SUBTRACT])
def test_unknown_keys_are_refused(cluster: Cluster, operation: int) -> None:
    assert isinstance(_alter(cluster, ("nonsense", operation, "1")), errors.InvalidConfig)


def test_a_mirror_may_delete_keys_of_a_newer_kafka_beside_what_it_sets(cluster: Cluster) -> None:
    assert _alter(cluster, ("nonsense", DELETE, None), ("max.message.bytes", SET, "9")) is None
    assert cluster.image.topics_by_name["t"].configs["max.message.bytes"] == "9"


def test_unknown_topic_internal_topic_and_other_resources_are_refused(cluster: Cluster) -> None:
    name = "__consumer_offsets"
    cluster.submit(CreateTopics(topics=(NewTopic(name=name),), internal=True))
    assert isinstance(_alter(cluster, name="no"), errors.UnknownTopic)
    assert isinstance(_alter(cluster, name=name), errors.InvalidMetadataRequest)
    for resource_type in (ResourceType.BROKER_LOGGER, 99):
        resource = ResourceEdits(resource_type=resource_type, resource_name="0", edits=())
        (outcome,) = cluster.submit(AlterConfigs(resources=(resource,)))
        assert isinstance(outcome.error, errors.InvalidMetadataRequest)


def test_resource_named_twice_is_refused_once(cluster: Cluster) -> None:
    resource = ResourceEdits(resource_type=ResourceType.TOPIC, resource_name="t", edits=())
    outcomes = cluster.submit(AlterConfigs(resources=(resource, resource)))
    assert len(outcomes) == 1
    assert isinstance(outcomes[0].error, errors.InvalidMetadataRequest)


def test_validate_only_changes_nothing(cluster: Cluster) -> None:
    assert _alter(cluster, ("retention.ms", SET, "5"), validate_only=True) is None
    assert cluster.image.topics_by_name["t"].configs["retention.ms"] == "1"


def _throttled(count: int, broker: int) -> str:
    return ",".join(f"{partition}:{broker}" for partition in range(count))


def test_value_does_not_grow_beyond_what_an_answer_has_room_for(cluster: Cluster) -> None:
    key = "leader.replication.throttled.replicas"
    assert _alter(cluster, (key, SET, _throttled(4_000, 1))) is None
    before = cluster.image.topics_by_name["t"].configs[key]
    for operation, value in ((APPEND, _throttled(4_000, 2)), (SET, _throttled(8_000, 1))):
        error = _alter(cluster, (key, operation, value))
        assert isinstance(error, errors.InvalidConfig)
        assert "32767 bytes" in str(error)
    assert cluster.image.topics_by_name["t"].configs[key] == before
    assert _alter(cluster, (key, SET, ",".join(["1:1"] * 8_192))) is None  # 32,767 bytes


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_change_of_a_long_list_takes_time_in_proportion_to_it(
    cluster: Cluster, operation: ConfigOperation
) -> None:
    """An item compared with all others: 4,000 times 4,000 take 200 ms of everybody's loop."""
    key = "leader.replication.throttled.replicas"
    compared = 0

    class Item(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

        def strip(self, chars: str | None = None, /) -> "Item":
            return Item(str.strip(self, chars))

        def split(self, sep: str | None = None, maxsplit: int = -1) -> "list[str]":  # type: ignore[override]
            return [Item(one) for one in str.split(self, sep, maxsplit)]

    assert _alter(cluster, (key, SET, _throttled(2_000, 1))) is None
    assert _alter(cluster, (key, operation, Item(_throttled(2_000, 2)))) is None
    assert compared < 10 * 2_000
