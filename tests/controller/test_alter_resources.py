"""Configuration of brokers, groups and client metrics: what is taken, what is refused."""

import pytest

from penstock.base.ids import BrokerId
from penstock.configs.entry import ConfigSource
from penstock.controller import errors
from penstock.controller.commands import alter_resources
from penstock.controller.commands.command import (
    AlterConfigs,
    ChangeFeatureLevel,
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
)
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.install import install
from penstock.controller.metadata.kinds import ResourceType
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.controller.resource_config.layers import (
    KEYS_OF,
    cluster_entries,
    kept_entries,
    layers_of,
    topic_defaults,
)
from penstock.controller.topic_config.table import TopicSettings
from tests.controller.cluster import Cluster

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
BROKER, GROUP, METRICS = ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def alter(
    cluster: Cluster,
    kind: int,
    name: str,
    *edits: tuple[str, int, str | None],
    replace: bool = False,
) -> errors.MetadataError | None:
    resource = ResourceEdits(
        resource_type=kind,
        resource_name=name,
        edits=tuple(ConfigEdit(key=key, operation=op, value=value) for key, op, value in edits),
    )
    (outcome,) = cluster.submit(AlterConfigs(resources=(resource,), replace=replace))
    return outcome.error


def kept(cluster: Cluster, kind: ResourceType, name: str) -> dict[str, str]:
    return dict(cluster.image.configuration.resources.get((kind, name), {}))


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (BROKER, "0", "log.retention.ms", "5"),
        (BROKER, "", "max.connections", "7"),
        (BROKER, "", "num.io.threads", "3"),
        (GROUP, "no such group", "consumer.session.timeout.ms", "50000"),
        (GROUP, "g", "share.auto.offset.reset", "by_duration:P1DT2H"),
        (METRICS, "m", "interval.ms", "100"),
        (METRICS, "m", "match", "client_id=app-.*,client_source_port=9[0-9]+"),
    ],
)
def test_a_key_is_set_and_taken_away(
    cluster: Cluster, kind: ResourceType, name: str, key: str, value: str
) -> None:
    assert alter(cluster, kind, name, (key, SET, f" {value} ")) is None
    assert kept(cluster, kind, name) == {key: value}
    assert alter(cluster, kind, name, (key, DELETE, None)) is None
    assert (kind, name) not in cluster.image.configuration.resources


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "refused"),
    [
        (BROKER, "0", "log.retention.ms", "soon", errors.InvalidConfig),
        (BROKER, "0", "nonsense", "1", errors.InvalidConfig),
        (BROKER, "", "max.connections", "0", errors.InvalidConfig),
        (BROKER, "", "unclean.leader.election.enable", "true", errors.InvalidConfig),
        (BROKER, "9", "max.connections", "7", errors.UnknownBroker),
        (BROKER, "00", "max.connections", "7", errors.InvalidMetadataRequest),
        (BROKER, "٣", "max.connections", "7", errors.InvalidMetadataRequest),
        (GROUP, "", "streams.num.standby.replicas", "1", errors.InvalidMetadataRequest),
        (GROUP, "g", "streams.num.standby.replicas", "3", errors.InvalidConfig),
        (GROUP, "g", "consumer.session.timeout.ms", "44999", errors.InvalidConfig),
        (GROUP, "g", "share.auto.offset.reset", "by_duration:-P1D", errors.InvalidConfig),
        (GROUP, "g", "share.auto.offset.reset", "by_duration:PT", errors.InvalidConfig),
        (GROUP, "g" * 1025, "streams.num.standby.replicas", "1", errors.InvalidMetadataRequest),
        (METRICS, "", "interval.ms", "100", errors.InvalidMetadataRequest),
        (METRICS, "m", "interval.ms", "99", errors.InvalidConfig),
        (METRICS, "m", "match", "client_id=(", errors.InvalidConfig),
        (METRICS, "m", "match", "who=.*", errors.InvalidConfig),
        (METRICS, "m", "match", "client_id=a,client_id=b", errors.InvalidConfig),
        (METRICS, "m", "metrics", "x" * 4097, errors.InvalidConfig),
        (METRICS, "m", "metrics", None, errors.InvalidMetadataRequest),
    ],
)
def test_what_can_not_be_is_refused(
    cluster: Cluster,
    kind: ResourceType,
    name: str,
    key: str,
    value: str | None,
    refused: type[Exception],
) -> None:
    assert isinstance(alter(cluster, kind, name, (key, SET, value)), refused)
    assert not cluster.image.configuration.resources


def test_lists_are_appended_to_and_subtracted_from_and_nothing_else_is(cluster: Cluster) -> None:
    assert alter(cluster, METRICS, "m", ("metrics", APPEND, "a,b")) is None
    assert alter(cluster, METRICS, "m", ("metrics", APPEND, "b,c")) is None
    assert kept(cluster, METRICS, "m") == {"metrics": "a,b,c"}
    assert alter(cluster, METRICS, "m", ("metrics", SUBTRACT, "b")) is None
    assert kept(cluster, METRICS, "m") == {"metrics": "a,c"}
    for operation in (APPEND, SUBTRACT):
        error = alter(cluster, BROKER, "", ("max.connections", operation, "1"))
        assert isinstance(error, errors.InvalidConfig)


def test_replacing_takes_away_what_is_not_named(cluster: Cluster) -> None:
    alter(cluster, BROKER, "0", ("max.connections", SET, "7"), ("log.retention.ms", SET, "5"))
    assert alter(cluster, BROKER, "0", ("max.connections", SET, "8"), replace=True) is None
    assert kept(cluster, BROKER, "0") == {"max.connections": "8"}


def test_below_the_level_nothing_is_written_and_the_refusal_says_what_to_do(
    cluster: Cluster,
) -> None:
    alter(cluster, GROUP, "g", ("streams.num.standby.replicas", SET, "1"))
    alter(cluster, GROUP, "g", ("streams.num.standby.replicas", DELETE, None))
    brokers = cluster.image.brokers.items()
    checked = tuple((broker_id, broker.broker_epoch) for broker_id, broker in brokers)
    change = ChangeFeatureLevel(
        feature="penstock.metadata", level=1, is_lowering=True, checked_brokers=checked
    )
    cluster.submit(change)
    error = alter(cluster, GROUP, "g", ("streams.num.standby.replicas", SET, "1"))
    assert isinstance(error, errors.FeatureLevelTooLow)
    assert "penstock cluster upgrade" in str(error)


def test_resources_with_configuration_are_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alter_resources, "RESOURCES_MAX", 2)
    edit = ("streams.num.standby.replicas", SET, "1")
    assert [alter(cluster, GROUP, name, edit) for name in ("a", "b")] == [None, None]
    assert isinstance(alter(cluster, GROUP, "c", edit), errors.MetadataPolicyViolation)
    assert alter(cluster, GROUP, "a", ("streams.num.standby.replicas", SET, "2")) is None


def test_a_snapshot_gives_it_all_again(cluster: Cluster) -> None:
    alter(cluster, BROKER, "0", ("max.connections", SET, "7"))
    alter(cluster, BROKER, "", ("max.connections", SET, "8"))
    alter(cluster, METRICS, "m", ("metrics", SET, "*"))
    again = ClusterImage()
    install(again, snapshot_records(cluster.image))
    assert again.configuration == cluster.image.configuration


def test_a_brokers_own_value_stands_before_that_of_all_before_the_settings_file(
    cluster: Cluster,
) -> None:
    alter(cluster, BROKER, "", ("log.retention.ms", SET, "8"), ("message.max.bytes", SET, "9"))
    alter(cluster, BROKER, "0", ("log.retention.ms", SET, "7"))
    configuration = cluster.image.configuration
    static = TopicSettings(retention_ms=6)
    told = {
        entry.name: entry for entry in topic_defaults(layers_of(configuration, BrokerId(0)), static)
    }
    assert told["retention.ms"].value == "7"
    assert told["retention.ms"].source is ConfigSource.DYNAMIC_BROKER
    assert [tuple(synonym) for synonym in told["retention.ms"].synonyms] == [
        ("log.retention.ms", "7", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "8", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.ms", "6", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    assert told["max.message.bytes"].source is ConfigSource.DYNAMIC_DEFAULT_BROKER
    assert (
        layers_of(configuration, BrokerId(1)).overrides() == layers_of(configuration, None).of_all
    )
    assert [cluster_entry.name for cluster_entry in cluster_entries(configuration)] == [
        "log.retention.ms",
        "message.max.bytes",
    ]


@pytest.mark.parametrize(
    ("kind", "source"), [(GROUP, ConfigSource.GROUP), (METRICS, ConfigSource.CLIENT_METRICS)]
)
def test_all_keys_of_a_group_and_of_client_metrics_are_told(
    cluster: Cluster, kind: ResourceType, source: ConfigSource
) -> None:
    key = {GROUP: "share.isolation.level", METRICS: "metrics"}[kind]
    value = {GROUP: "read_committed", METRICS: "org.apache"}[kind]
    alter(cluster, kind, "x", (key, SET, value))
    told = {
        kept_entry.name: kept_entry
        for kept_entry in kept_entries(cluster.image.configuration, kind, "x")
    }
    assert told.keys() == KEYS_OF[kind].keys()
    assert (told[key].value, told[key].source) == (value, source)
    others = [one for name, one in told.items() if name != key]
    assert {other.source for other in others} == {ConfigSource.DEFAULT}
    assert not [name for name, one in told.items() if "no effect" in one.documentation]
