"""Topics, configuration and producer ids over a real connection to a real node."""

import importlib
import itertools
import pkgutil
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from penstock.controller.resource_config.broker_keys import BROKER_CONFIGS
from penstock.controller.topic_config.table import TOPIC_CONFIGS
from penstock.kafka import handlers
from penstock.kafka.answers.admin import ASSIGNMENTS_MAX, SETTINGS_MAX
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.live_node import LiveNode, RawClient, running_node

_numbers = itertools.count()
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = range(3)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with running_node(tmp_path_factory.mktemp("admin")) as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    client = node.connect()
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    """A topic name that no other test has."""
    return f"topic-{next(_numbers)}"


def create(client: RawClient, *topics: dict[str, Any], version: int = 7, **fields: Any) -> Any:
    base = {"num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": []}
    answer = client.ask(
        ApiKey.CREATE_TOPICS,
        version,
        {"topics": [base | topic for topic in topics], "timeout_ms": 5000} | fields,
    )
    return answer.topics


def edit(
    client: RawClient,
    topic: str,
    *edits: tuple[str, int, str | None],
    resource_type: int = TOPIC,
    **fields: Any,
) -> Any:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in edits
    ]
    resource = {"resource_type": resource_type, "resource_name": topic, "configs": configs}
    answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]} | fields)
    (response,) = answer.responses
    return response


def describe(client: RawClient, resource: str, version: int = 4, **fields: Any) -> Any:
    wanted = {"resource_type": TOPIC, "configuration_keys": None, "resource_name": resource}
    answer = client.ask(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        {
            "resources": [wanted | fields],
            "include_synonyms": True,
            "include_documentation": True,
        },
    )
    (result,) = answer.results
    return result


def placed(count: int) -> list[dict[str, Any]]:
    return [{"partition_index": one, "broker_ids": [1]} for one in range(count)]


def test_what_names_more_than_a_command_carries_is_refused_and_the_rest_is_done(
    client: RawClient, name: str
) -> None:
    settings = [{"name": f"no.such.{one}", "value": "1"} for one in range(SETTINGS_MAX + 1)]
    answers = create(
        client,
        {"name": f"{name}-wide", "assignments": placed(ASSIGNMENTS_MAX + 1)},
        {"name": f"{name}-set", "configs": settings},
        {"name": name, "num_partitions": 1},
    )
    codes = {one.name: one.error_code for one in answers}
    assert codes == {
        f"{name}-wide": Code.INVALID_PARTITIONS,
        f"{name}-set": Code.INVALID_CONFIG,
        name: Code.NONE,
    }
    more = {
        "name": name,
        "count": ASSIGNMENTS_MAX + 2,
        "assignments": [{"broker_ids": [1]}] * (ASSIGNMENTS_MAX + 1),
    }
    fields = {"topics": [more], "timeout_ms": 5000, "validate_only": True}
    (answer,) = client.ask(ApiKey.CREATE_PARTITIONS, 3, fields).results
    assert answer.error_code == Code.INVALID_PARTITIONS
    assert str(ASSIGNMENTS_MAX) in answer.error_message


def test_topics_with_more_assignments_than_one_command_carries_are_judged_one_by_one(
    client: RawClient, name: str
) -> None:
    half = placed(ASSIGNMENTS_MAX // 2 + 1)
    answers = create(
        client,
        *({"name": f"{name}-{one}", "assignments": half} for one in range(3)),
        validate_only=True,
    )
    assert [answer.name for answer in answers] == [f"{name}-{one}" for one in range(3)]
    assert {answer.error_code for answer in answers} == {Code.NONE}


def test_api_versions_lists_exactly_the_handlers_with_the_bounds_they_declare(
    client: RawClient,
) -> None:
    modules = [
        importlib.import_module(package.name)
        for package in pkgutil.walk_packages(handlers.__path__, f"{handlers.__name__}.")
        if not package.ispkg
    ]
    declared = {
        int(module.KEY): (module.VERSIONS.start, module.VERSIONS.stop - 1)
        for module in modules
        if not hasattr(module, "is_offered")  # by settings that this node does not have
    }
    declared[ApiKey.PRODUCE] = (0, 13)
    for version in range(5):
        answer = client.ask(
            ApiKey.API_VERSIONS,
            version,
            {"client_software_name": "raw", "client_software_version": "1.0"},
        )
        listed = {
            api_key.api_key: (api_key.min_version, api_key.max_version)
            for api_key in answer.api_keys
        }
        assert listed == declared
        assert list(listed) == sorted(listed)


def test_api_versions_of_an_unknown_version_is_answered_in_version_zero(client: RawClient) -> None:
    client.send_body(ApiKey.API_VERSIONS, 99, b"whatever")
    answer = client.receive(ApiKey.API_VERSIONS, 0)
    assert answer.error_code == Code.UNSUPPORTED_VERSION
    assert any(api_key.api_key == ApiKey.API_VERSIONS for api_key in answer.api_keys)


@pytest.mark.parametrize("software", [("", "1"), ("a b", "1"), ("raw", "-1")])
def test_api_versions_refuses_ill_formed_software_names(
    client: RawClient, software: tuple[str, str]
) -> None:
    fields = {"client_software_name": software[0], "client_software_version": software[1]}
    assert client.ask(ApiKey.API_VERSIONS, 3, fields).error_code == Code.INVALID_REQUEST


@pytest.mark.parametrize("version", range(2, 8))
def test_topic_is_created_in_every_version(client: RawClient, name: str, version: int) -> None:
    (topic,) = create(
        client,
        {
            "name": name,
            "num_partitions": 3,
            "replication_factor": 1,
            "configs": [{"name": "retention.ms", "value": "1000"}],
        },
        version=version,
    )
    assert (topic.name, topic.error_code, topic.error_message) == (name, Code.NONE, None)
    if version >= 5:
        assert (topic.num_partitions, topic.replication_factor) == (3, 1)
        configs = {config.name: (config.value, config.config_source) for config in topic.configs}
        assert configs.keys() == TOPIC_CONFIGS.keys()
        assert configs["retention.ms"] == ("1000", 1)
    if version >= 7:
        assert topic.topic_id.int != 0


def test_creation_answers_each_refusal_with_its_code(client: RawClient, name: str) -> None:
    create(client, {"name": name})
    wanted: dict[str, tuple[dict[str, Any], Code]] = {
        name: ({}, Code.TOPIC_ALREADY_EXISTS),
        "a/b": ({}, Code.INVALID_TOPIC_EXCEPTION),
        "__consumer_offsets": ({}, Code.TOPIC_ALREADY_EXISTS),
        "none": ({"num_partitions": 0}, Code.INVALID_PARTITIONS),
        "many": ({"num_partitions": 1_000_000}, Code.INVALID_PARTITIONS),
        "copies": ({"replication_factor": 3}, Code.INVALID_REPLICATION_FACTOR),
        "config": ({"configs": [{"name": "x", "value": "1"}]}, Code.INVALID_CONFIG),
        "tiered": (
            {"configs": [{"name": "remote.storage.enable", "value": "true"}]},
            Code.INVALID_CONFIG,
        ),
        "elsewhere": (
            {"assignments": [{"partition_index": 0, "broker_ids": [7]}]},
            Code.INVALID_REPLICA_ASSIGNMENT,
        ),
    }
    answers = create(client, *[{"name": one} | fields for one, (fields, _) in wanted.items()])
    assert {answer.name: answer.error_code for answer in answers} == {
        one: code for one, (_, code) in wanted.items()
    }
    assert all(answer.error_message for answer in answers)


def test_manual_assignment_to_the_only_broker_works(client: RawClient, name: str) -> None:
    assignments = [{"partition_index": at, "broker_ids": [1]} for at in range(2)]
    (topic,) = create(client, {"name": name, "assignments": assignments})
    assert (topic.error_code, topic.num_partitions) == (Code.NONE, 2)


def test_validation_only_creates_nothing(client: RawClient, name: str) -> None:
    (topic,) = create(client, {"name": name}, validate_only=True)
    assert (topic.error_code, topic.topic_id) == (Code.NONE, None)
    (again,) = create(client, {"name": name})
    assert again.error_code == Code.NONE


@pytest.mark.parametrize("version", range(1, 7))
def test_topic_is_deleted_in_every_version(client: RawClient, name: str, version: int) -> None:
    (created,) = create(client, {"name": name})
    other = f"{name}-by-id"
    (by_id,) = create(client, {"name": other})
    topics = [{"name": name, "topic_id": None}, {"name": None, "topic_id": by_id.topic_id}]
    fields = {"topic_names": [name, other], "topics": topics, "timeout_ms": 5000}
    answer = client.ask(ApiKey.DELETE_TOPICS, version, fields)
    assert {response.name: response.error_code for response in answer.responses} == {
        name: 0,
        other: 0,
    }
    if version >= 6:
        ids = {response.topic_id for response in answer.responses}
        assert ids == {created.topic_id, by_id.topic_id}


def test_deletion_answers_each_refusal_with_its_code(client: RawClient, name: str) -> None:
    (created,) = create(client, {"name": name})
    unknown = uuid.uuid4()
    topics = [
        {"name": "no-such-topic", "topic_id": None},
        {"name": None, "topic_id": unknown},
        {"name": name, "topic_id": created.topic_id},
        {"name": "__consumer_offsets", "topic_id": None},
    ]
    answer = client.ask(ApiKey.DELETE_TOPICS, 6, {"topics": topics, "timeout_ms": 5000})
    codes = {response.name: response.error_code for response in answer.responses}
    assert codes == {
        "no-such-topic": Code.UNKNOWN_TOPIC_OR_PARTITION,
        None: Code.UNKNOWN_TOPIC_ID,
        name: Code.INVALID_REQUEST,
        "__consumer_offsets": Code.INVALID_REQUEST,
    }


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_in_every_version(client: RawClient, name: str, version: int) -> None:
    create(client, {"name": name})

    def add(count: int, assignments: Any = None) -> int:
        topic = {"name": name, "count": count, "assignments": assignments}
        fields = {"topics": [topic], "timeout_ms": 5000, "validate_only": False}
        (result,) = client.ask(ApiKey.CREATE_PARTITIONS, version, fields).results
        return int(result.error_code)

    assert add(3) == Code.NONE
    assert add(4, [{"broker_ids": [1]}]) == Code.NONE
    assert add(2) == Code.INVALID_PARTITIONS
    assert add(6, [{"broker_ids": [1]}]) == Code.INVALID_REPLICA_ASSIGNMENT
    metadata = client.ask(ApiKey.METADATA, 12, {"topics": [{"topic_id": None, "name": name}]})
    assert len(metadata.topics[0].partitions) == 4


@pytest.mark.parametrize("version", range(1, 5))
def test_topic_configuration_is_described_in_every_version(
    client: RawClient, name: str, version: int
) -> None:
    create(client, {"name": name, "configs": [{"name": "retention.ms", "value": "7"}]})
    result = describe(client, name, version)
    assert (result.error_code, result.resource_name) == (Code.NONE, name)
    entries = {config.name: config for config in result.configs}
    assert entries.keys() == TOPIC_CONFIGS.keys()
    retention = entries["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == ("7", 1, False)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in retention.synonyms] == [
        ("retention.ms", "7", 1),
        ("log.retention.hours", "168", 5),
    ]
    assert entries["compression.type"].config_source == 5
    if version >= 3:
        assert retention.config_type == 5
        assert "milliseconds" in retention.documentation


def test_only_the_keys_that_were_asked_for_are_described(client: RawClient, name: str) -> None:
    create(client, {"name": name})
    result = describe(client, name, configuration_keys=["retention.ms", "no.such"])
    assert [config.name for config in result.configs] == ["retention.ms"]
    assert len(describe(client, name, configuration_keys=[]).configs) == len(TOPIC_CONFIGS)


def test_settings_of_the_broker_are_described_read_only(client: RawClient) -> None:
    result = describe(client, "1", resource_type=BROKER)
    entries = {config.name: config for config in result.configs}
    assert len(entries) == len(result.configs)
    assert entries["node.broker_id"].value == entries["broker.id"].value == "1"
    assert entries["log.retention.hours"].value == "168"
    assert entries["message.max.bytes"].value == "1048588"
    changeable = {entry.name for entry in entries.values() if not entry.read_only}
    assert changeable == BROKER_CONFIGS.keys()
    assert describe(client, "", resource_type=BROKER).configs == ()


def test_description_answers_each_refusal_with_its_code(client: RawClient) -> None:
    wanted = [
        ("no-such-topic", TOPIC, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", TOPIC, Code.INVALID_TOPIC_EXCEPTION),
        ("9", BROKER, Code.INVALID_REQUEST),
        ("x", 99, Code.INVALID_REQUEST),
    ]
    for resource, resource_type, code in wanted:
        result = describe(client, resource, resource_type=resource_type)
        assert (result.error_code, result.configs) == (code, ())
        assert result.error_message


def test_incremental_changes_are_seen_by_the_next_description(client: RawClient, name: str) -> None:
    create(client, {"name": name, "configs": [{"name": "retention.ms", "value": "7"}]})
    changed = edit(client, name, ("retention.ms", DELETE, None), ("max.message.bytes", SET, "99"))
    assert (changed.error_code, changed.error_message) == (Code.NONE, None)
    entries = {config.name: config.value for config in describe(client, name).configs}
    assert entries["max.message.bytes"] == "99"
    assert entries["retention.ms"] == "604800000"
    dry = edit(client, name, ("retention.ms", SET, "1"), validate_only=True)
    assert dry.error_code == Code.NONE
    assert describe(client, name).configs[0].value == "604800000"


def test_change_answers_each_refusal_with_its_code(client: RawClient, name: str) -> None:
    create(client, {"name": name})
    bad_value = edit(client, name, ("retention.ms", SET, "soon"))
    gone = edit(client, name, ("message.format.version", SET, "3.0"))
    null = edit(client, name, ("retention.ms", SET, None))
    unknown = edit(client, "no-such-topic")
    internal = edit(client, "__consumer_offsets", ("retention.ms", SET, "1"))
    broker = edit(client, "1", ("node.port", SET, "1"), resource_type=BROKER)
    long = edit(client, name, ("x" * 30_000, SET, "1"))
    assert [one.error_code for one in (bad_value, gone, long)] == [Code.INVALID_CONFIG] * 3
    assert "leave it out" in gone.error_message
    assert [one.error_code for one in (null, internal, broker)] == [Code.INVALID_REQUEST] * 3
    assert unknown.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_key_without_effect_is_taken_with_a_warning_once(
    client: RawClient, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka Streams makes every repartition topic so."""
    create(client, {"name": name, "configs": [{"name": "segment.bytes", "value": "52428800"}]})
    entry = {config.name: config for config in describe(client, name).configs}["segment.bytes"]
    assert (entry.value, entry.config_source) == ("52428800", 1)
    edit(client, name, ("cleanup.policy", APPEND, "compact"), ("retention.ms", SET, "-1"))
    entries = {config.name: config.value for config in describe(client, name).configs}
    assert entries["cleanup.policy"] == "delete,compact"
    said = [message for message in caplog.messages if f"topic={name} without effect" in message]
    assert [one.split(": ")[1].split("=")[0] for one in said] == ["segment.bytes", "cleanup.policy"]


def test_unclean_election_of_a_topic_is_what_its_sets_say(client: RawClient, name: str) -> None:
    create(client, {"name": name})
    key = "unclean.leader.election.enable"
    assert edit(client, name, (key, SET, "false")).error_code == Code.NONE
    refused = edit(client, name, (key, SET, "true"))
    assert refused.error_code == Code.INVALID_CONFIG
    assert "penstock set unclean" in refused.error_message
    entry = {config.name: config for config in describe(client, name).configs}[key]
    assert (entry.value, entry.config_source) == ("false", 5)


@pytest.mark.parametrize("version", range(3))
def test_old_way_of_changing_replaces_everything(
    client: RawClient, name: str, version: int
) -> None:
    create(client, {"name": name, "configs": [{"name": "retention.ms", "value": "7"}]})
    resource = {
        "resource_type": TOPIC,
        "resource_name": name,
        "configs": [{"name": "retention.bytes", "value": "8"}],
    }
    fields = {"resources": [resource], "validate_only": False}
    (response,) = client.ask(ApiKey.ALTER_CONFIGS, version, fields).responses
    assert response.error_code == Code.NONE
    dynamic = {
        config.name: config.value
        for config in describe(client, name).configs
        if config.config_source == 1
    }
    assert dynamic == {"retention.bytes": "8"}


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_its_own_id(client: RawClient, version: int) -> None:
    fields = {"transactional_id": None, "transaction_timeout_ms": 1000}
    answers = [client.ask(ApiKey.INIT_PRODUCER_ID, version, fields) for _ in range(3)]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert len({answer.producer_id for answer in answers}) == 3
    assert min(answer.producer_id for answer in answers) >= 0


def test_producer_ids_are_not_used_again_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("restart")
    seen: set[int] = set()
    epochs: list[int] = []
    fields = {"transactional_id": None, "transaction_timeout_ms": 1000}
    for _ in range(3):
        with running_node(directory) as node, closing(node.connect()) as client:
            for _ in range(2):
                producer_id = client.ask(ApiKey.INIT_PRODUCER_ID, 4, fields).producer_id
                assert producer_id not in seen
                seen.add(producer_id)
            (replica_set,) = node.broker.metadata.replica_sets.values()
            epochs.append(replica_set.leader_epoch)
    assert epochs == sorted(set(epochs)), "every start is a new mastership"


def test_the_settings_of_a_node_are_described_with_their_meaning(client: RawClient) -> None:
    resource = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": ["node.port"]}
    fields: dict[str, Any] = {"include_synonyms": False, "include_documentation": True}
    (result,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, fields | {"resources": [resource]}).results
    assert [config.documentation for config in result.configs] == ["Port of the Kafka listener."]
    fields["include_documentation"] = False
    (result,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, fields | {"resources": [resource]}).results
    assert [config.documentation for config in result.configs] == [None]


def test_what_is_asked_for_many_times_is_described_once(client: RawClient) -> None:
    """An answer that is a thousand times its request would end the node."""
    resource = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}
    other = {"resource_type": TOPIC, "resource_name": "no-such-topic", "configuration_keys": None}
    fields: dict[str, Any] = {"include_synonyms": False, "include_documentation": False}
    fields["resources"] = [resource, other, *[resource] * 500]
    results = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, fields).results
    assert [result.resource_name for result in results] == ["1", "no-such-topic"]
    groups = {"groups": ["a", "b", *["a"] * 500], "include_authorized_operations": False}
    described = client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups).groups
    assert [one.group_id for one in described] == ["a", "b"]
    group = {"group_id": "a", "topics": None, "member_id": None, "member_epoch": -1}
    asked = {"groups": [group] * 500, "require_stable": False}
    assert len(client.ask(ApiKey.OFFSET_FETCH, 9, asked).groups) == 1
