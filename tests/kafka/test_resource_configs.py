"""Configuration of brokers, groups and client metrics over a real connection to a real node."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.configs.group_keys import GROUP_CONFIGS, METRICS_CONFIGS
from penstock.controller.resource_config.broker_keys import BROKER_CONFIGS
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.live_node import LiveNode, RawClient, running_node

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Entries = dict[str, Any]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with running_node(tmp_path, "net.connections_max=5000") as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        yield client


def alter(
    client: RawClient,
    kind: int,
    name: str,
    *edits: tuple[str, int, str | None],
    version: int = 1,
    is_dry: bool = False,
) -> Any:
    configs = [{"name": key, "config_operation": op, "value": value} for key, op, value in edits]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    fields = {"resources": [resource], "validate_only": is_dry}
    (result,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, fields).responses
    return result


def describe(client: RawClient, kind: int, name: str, version: int = 4) -> Entries:
    wanted = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    fields = {"resources": [wanted], "include_synonyms": True, "include_documentation": True}
    (result,) = client.ask(ApiKey.DESCRIBE_CONFIGS, version, fields).results
    assert result.error_code == Code.NONE, result.error_message
    return {config.name: config for config in result.configs}


def create(client: RawClient, name: str, configs: list[dict[str, str]]) -> None:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": configs}
    fields = {"topics": [topic | {"assignments": []}], "timeout_ms": 5000}
    (made,) = client.ask(ApiKey.CREATE_TOPICS, 7, fields).topics
    assert made.error_code == Code.NONE, made.error_message


def listed(client: RawClient, version: int, *types: int) -> Any:
    return client.ask(ApiKey.LIST_CONFIG_RESOURCES, version, {"resource_types": types})


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "source"),
    [
        (BROKER, "1", "message.max.bytes", "1000", 2),
        (BROKER, "", "message.max.bytes", "2000", 3),
        (GROUP, "g", "consumer.session.timeout.ms", "50000", 8),
        (METRICS, "m", "interval.ms", "1000", 7),
    ],
)
def test_a_change_is_seen_by_the_next_description(
    client: RawClient, version: int, kind: int, name: str, key: str, value: str, source: int
) -> None:
    changed = alter(client, kind, name, (key, SET, value), version=version)
    assert (changed.error_code, changed.error_message) == (Code.NONE, None)
    for asked in range(1, 5):
        entry = describe(client, kind, name, asked)[key]
        assert (entry.value, entry.config_source, entry.read_only) == (value, source, False)
    assert alter(client, kind, name, (key, DELETE, None), version=version).error_code == Code.NONE
    told = describe(client, kind, name)
    assert key not in told if name == "" else told[key].config_source == 5


@pytest.mark.parametrize("version", range(3))
def test_the_older_kind_of_change_replaces_all_of_a_resource(
    client: RawClient, version: int
) -> None:
    alter(client, BROKER, "1", ("num.io.threads", SET, "2"))
    configs = [{"name": "log.retention.ms", "value": "60000"}]
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": configs}
    fields = {"resources": [resource], "validate_only": False}
    (result,) = client.ask(ApiKey.ALTER_CONFIGS, version, fields).responses
    assert result.error_code == Code.NONE, result.error_message
    told = describe(client, BROKER, "1")
    assert told["log.retention.ms"].value == told["topic.retention_ms"].value == "60000"
    assert told["num.io.threads"].config_source == 5


def test_the_strongest_place_wins_and_all_are_told(client: RawClient) -> None:
    alter(client, BROKER, "", ("max.connections", SET, "4000"))
    alter(client, BROKER, "1", ("max.connections", SET, "3000"))
    entry = describe(client, BROKER, "1")["max.connections"]
    assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [
        ("3000", 2),
        ("4000", 3),
        ("5000", 4),
        ("10000", 5),
    ]
    assert describe(client, BROKER, "").keys() == {"max.connections"}
    assert alter(client, BROKER, "1", ("max.connections", DELETE, None)).error_code == Code.NONE
    assert describe(client, BROKER, "1")["max.connections"].config_source == 3


def test_topics_that_say_nothing_go_by_it_at_once(node: LiveNode, client: RawClient) -> None:
    create(client, "one", [])
    create(client, "own", [{"name": "retention.ms", "value": "9"}])
    alter(client, BROKER, "", ("log.retention.ms", SET, "77"))
    entry = describe(client, TOPIC, "one")["retention.ms"]
    assert (entry.value, entry.config_source) == ("77", 3)
    assert [(synonym.name, synonym.value) for synonym in entry.synonyms] == [
        ("log.retention.ms", "77"),
        ("log.retention.hours", "168"),
    ]
    assert describe(client, TOPIC, "own")["retention.ms"].value == "9"
    hosted = node.broker.partitions.by_name
    assert wait_until(lambda: hosted[b"one"].settings.retention_ms == 77, UNTIL_SECONDS)
    assert hosted[b"own"].settings.retention_ms == 9


def test_settings_of_the_node_go_by_it_at_once(node: LiveNode, client: RawClient) -> None:
    wanted = {
        "broker.auto_create_topics": "true",
        "broker.slave_reads": "lag",
        "groups.group_size_max": "3",
        "log.scrub_interval_ms": "12345",
        "producer.id.expiration.ms": "5000",
        "max.connections": "321",
        "net.idle_seconds_max": "17",
    }
    edits = [(key, SET, value) for key, value in wanted.items()]
    assert alter(client, BROKER, "1", *edits).error_code == Code.NONE
    broker = node.broker
    assert broker.config.slave_reads == "lag"
    assert broker.groups.config.group_size_max == 3
    configs = {member.log.config.scrub_interval_ms for member in broker.members.values()}
    expirations = {
        member.log.config.producer_id_expiration_ms for member in broker.members.values()
    }
    assert (configs, expirations) == ({12345}, {5000})
    asked = {"topics": [{"topic_id": None, "name": "made"}], "allow_auto_topic_creation": True}
    assert wait_until(
        lambda: client.ask(ApiKey.METADATA, 12, asked).topics[0].error_code == Code.NONE,
        UNTIL_SECONDS,
    )


def test_fewer_connections_are_let_in_and_more_again(node: LiveNode, client: RawClient) -> None:
    alter(client, BROKER, "", ("max.connections.per.ip", SET, "1"))
    with closing(node.connect()) as second:
        second.send(ApiKey.API_VERSIONS, 0, {})
        assert not second.receive_frame()
    alter(client, BROKER, "", ("max.connections.per.ip", DELETE, None))
    with closing(node.connect()) as third:
        assert third.ask(ApiKey.API_VERSIONS, 0, {}).error_code == Code.NONE


@pytest.mark.parametrize(
    ("kind", "name", "edit", "code", "says"),
    [
        (BROKER, "2", ("max.connections", SET, "5"), Code.INVALID_REQUEST, "this is broker 1"),
        (BROKER, "1", ("node.port", SET, "1"), Code.INVALID_REQUEST, "restart the node"),
        (BROKER, "", ("num.partitions", SET, "1"), Code.INVALID_REQUEST, "read-only"),
        (BROKER, "", ("topic.retention_ms", SET, "1"), Code.INVALID_REQUEST, "log.retention.ms"),
        (BROKER, "", ("log.retention.hours", SET, "1"), Code.INVALID_REQUEST, "log.retention.ms"),
        (BROKER, "1", ("nonsense", SET, "1"), Code.INVALID_CONFIG, "unknown"),
        (BROKER, "1", ("max.connections", APPEND, "1"), Code.INVALID_CONFIG, "no list"),
        (BROKER, "1", ("max.connections", 7, "1"), Code.INVALID_REQUEST, "operation"),
        (GROUP, "", ("share.isolation.level", SET, "x"), Code.INVALID_REQUEST, "empty"),
        (GROUP, "g", ("share.isolation.level", SET, "x"), Code.INVALID_CONFIG, "must be one of"),
        (METRICS, "m", ("interval.ms", SUBTRACT, "1"), Code.INVALID_CONFIG, "no list"),
        (LOGGER, "1", ("root", SET, "DEBUG"), Code.INVALID_REQUEST, "no configuration"),
    ],
)
def test_each_refusal_has_its_code_and_says_why(
    client: RawClient, kind: int, name: str, edit: tuple[str, int, str], code: Code, says: str
) -> None:
    result = alter(client, kind, name, edit)
    assert (result.error_code, result.resource_name) == (code, name)
    assert says in result.error_message
    assert listed(client, 1, GROUP, METRICS).config_resources == ()


def test_a_dry_run_and_a_resource_named_twice_change_nothing(client: RawClient) -> None:
    assert alter(client, GROUP, "g", ("share.isolation.level", SET, "x"), is_dry=True).error_code
    edit = ("share.isolation.level", SET, "read_committed")
    assert alter(client, GROUP, "g", edit, is_dry=True).error_code == Code.NONE
    one = {"resource_type": GROUP, "resource_name": "g", "configs": []}
    fields = {"resources": [one, one], "validate_only": False}
    (result,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, fields).responses
    assert result.error_code == Code.INVALID_REQUEST
    assert listed(client, 1, GROUP).config_resources == ()


def test_what_nobody_has_set_is_described_with_its_defaults(client: RawClient) -> None:
    assert describe(client, GROUP, "none").keys() == GROUP_CONFIGS.keys()
    assert describe(client, METRICS, "none").keys() == METRICS_CONFIGS.keys()
    broker = describe(client, BROKER, "1")
    assert {name for name, one in broker.items() if not one.read_only} == BROKER_CONFIGS.keys()


def test_version_0_lists_client_metrics_alone(client: RawClient) -> None:
    alter(client, METRICS, "m", ("metrics", SET, "*"))
    alter(client, GROUP, "g", ("streams.num.standby.replicas", SET, "1"))
    answer = client.ask(ApiKey.LIST_CONFIG_RESOURCES, 0, {})
    assert answer.error_code == Code.NONE
    assert [config_resource.resource_name for config_resource in answer.config_resources] == ["m"]


@pytest.mark.parametrize(
    ("types", "told"),
    [
        ((), {(TOPIC, "t"), (BROKER, "1"), (METRICS, "m"), (GROUP, "g")}),
        ((GROUP, GROUP), {(GROUP, "g")}),
        ((TOPIC, METRICS), {(TOPIC, "t"), (METRICS, "m")}),
        ((LOGGER,), set()),
    ],
)
def test_version_1_lists_the_types_that_are_asked_for(
    client: RawClient, types: tuple[int, ...], told: set[tuple[int, str]]
) -> None:
    create(client, "t", [])
    alter(client, METRICS, "m", ("metrics", SET, "*"))
    alter(client, GROUP, "g", ("streams.num.standby.replicas", SET, "1"))
    alter(client, BROKER, "", ("num.io.threads", SET, "1"))
    answer = listed(client, 1, *types)
    assert answer.error_code == Code.NONE
    found = {
        (config_resource.resource_type, config_resource.resource_name)
        for config_resource in answer.config_resources
    }
    assert found - {(TOPIC, "__consumer_offsets")} == told
    unknown = listed(client, 1, *types, 3)
    assert (unknown.error_code, unknown.config_resources) == (Code.UNSUPPORTED_VERSION, ())
