"""How often a topic gave up what the object store had of it: counted, kept, and by its level."""

import pytest

from penstock.base.ids import TopicId
from penstock.base.invariant import InvariantViolation
from penstock.controller.commands.command import (
    AlterConfigs,
    ChangeFeatureLevel,
    ConfigEdit,
    ConfigOperation,
    DeleteTopics,
    NewTopic,
    ResourceEdits,
    TopicReference,
)
from penstock.controller.config import ControllerConfig
from penstock.controller.errors import FeatureLevelRefused
from penstock.controller.metadata.levels import GIVE_UPS_LEVEL, METADATA
from penstock.controller.metadata.record_codec import encode_records
from penstock.controller.metadata.records import ResourceType
from penstock.controller.metadata.tier_records import CopiesGivenUp
from tests.controller.cluster import Cluster

ON = {"remote.storage.enable": "true"}
OFF = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
AWAY = {"remote.storage.enable": None, "remote.log.delete.on.disable": "true"}
LIMITED = {**ON, "local.retention.ms": "5"}


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(config=ControllerConfig(tiered_topics=True))
    cluster.create(NewTopic(name="t", configs=ON), "u")
    return cluster


def alter(cluster: Cluster, *, name: str = "t", replace: bool = False, **edits: object) -> None:
    """Set keys of a topic, or take them away; `edits` has options of the command as well."""
    wanted = edits.pop("keys")
    assert isinstance(wanted, dict)
    resource = ResourceEdits(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        edits=tuple(
            ConfigEdit(
                key=key,
                operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET,
                value=value,
            )
            for key, value in wanted.items()
        ),
    )
    (outcome,) = cluster.submit(AlterConfigs(resources=(resource,), replace=replace, **edits))  # type: ignore[arg-type]
    assert outcome.error is None


def count(cluster: Cluster, name: str = "t") -> int:
    topic_id = cluster.image.topics_by_name[name].topic_id
    return cluster.image.configuration.give_ups.get(topic_id, 0)


def lower(cluster: Cluster, level: int) -> None:
    brokers = cluster.image.brokers.items()
    checked = tuple((key, one.broker_epoch) for key, one in brokers)
    change = ChangeFeatureLevel(
        feature=METADATA, level=level, is_lowering=True, checked_brokers=checked
    )
    assert cluster.submit(change) == level


@pytest.mark.parametrize("off", [OFF, AWAY])
def test_each_time_that_a_store_is_given_up_counts(
    cluster: Cluster, off: dict[str, str | None]
) -> None:
    seen = []
    for keys in (LIMITED, off, {"retention.ms": "5"}, ON, LIMITED, off, ON):
        alter(cluster, keys=keys)
        seen.append(count(cluster))
    assert seen == [0, 1, 1, 1, 1, 2, 2]
    assert count(cluster, "u") == 0


def test_a_change_of_all_keys_that_leaves_this_one_out_gives_the_store_up(
    cluster: Cluster,
) -> None:
    alter(cluster, keys={"remote.log.delete.on.disable": "true"}, replace=True)
    assert count(cluster) == 1


def test_what_is_only_tried_and_what_never_was_on_counts_nothing(cluster: Cluster) -> None:
    alter(cluster, keys=OFF, validate_only=True)
    alter(cluster, keys=OFF, name="u")
    alter(cluster, keys=ON, name="u")
    assert (count(cluster), count(cluster, "u")) == (0, 0)


def test_the_count_goes_with_its_topic_and_lets_the_level_be_lowered_then(
    cluster: Cluster,
) -> None:
    alter(cluster, keys=OFF)
    with pytest.raises(FeatureLevelRefused, match="1 topics that gave up what the object store"):
        lower(cluster, GIVE_UPS_LEVEL - 1)
    cluster.submit(DeleteTopics(topics=(TopicReference(name="t"),)))
    assert cluster.image.configuration.give_ups == {}
    lower(cluster, GIVE_UPS_LEVEL - 1)
    cluster.create(NewTopic(name="t", configs=ON))
    assert count(cluster) == 0


def test_below_its_level_a_store_is_given_up_without_a_count(cluster: Cluster) -> None:
    lower(cluster, GIVE_UPS_LEVEL - 1)
    alter(cluster, keys=OFF)
    assert count(cluster) == 0
    assert cluster.image.topics_by_name["t"].configs == OFF


@pytest.mark.parametrize(("topic", "number"), [("t", 1), ("t", 0), ("gone", 3)])
def test_a_count_that_does_not_rise_or_has_no_topic_is_corruption(
    cluster: Cluster, topic: str, number: int
) -> None:
    alter(cluster, keys=OFF)
    image = cluster.image
    topic_id = image.topics_by_name["t"].topic_id if topic == "t" else TopicId(bytes(16))
    record = CopiesGivenUp(topic_id=topic_id, count=number)
    with pytest.raises(InvariantViolation):
        cluster.controller.replay([record])
    assert encode_records([record], GIVE_UPS_LEVEL)
