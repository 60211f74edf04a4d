"""Rules of access by stock clients: librdkafka's admin calls, and Kafka's own tool."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS
from tests.compat.java_tools import tool

ACCESS = {
    "access": {
        "authorizer": "acl",
        "super_users": ["User:admin"],
        "allow_everyone_if_no_acl_found": True,
    }
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a node that goes by rules, and lets everybody do what none is about."""
    with NodeProcess(tmp_path_factory.mktemp("acls") / "node", settings=ACCESS) as node:
        yield node.bootstrap


def binding(name: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    everybody = ("User:*", "*")
    return AclBinding(
        ResourceType.TOPIC, name, ResourcePatternType.LITERAL, *everybody, operation, permission
    )


def any_of(name: str, pattern: ResourcePatternType = ResourcePatternType.MATCH) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.TOPIC,
        name,
        pattern,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def outcome(bootstrap: str, topic: str) -> int | None:
    """Produce a record; return the error code, None without one."""
    codes: list[int | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(
        topic, b"v", on_delivery=lambda error, _: codes.append(error.code() if error else None)
    )
    producer.flush(UNTIL_SECONDS)
    (code,) = codes
    return code


@pytest.mark.process
def test_librdkafka_adds_finds_and_removes_rules_and_goes_by_them(guarded: str) -> None:
    admin = AdminClient({"bootstrap.servers": guarded})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(UNTIL_SECONDS)
    assert outcome(guarded, "t") is None
    deny = binding("t", AclOperation.WRITE, AclPermissionType.DENY)
    (created,) = admin.create_acls([deny]).values()
    created.result(UNTIL_SECONDS)
    assert admin.describe_acls(any_of("t")).result(UNTIL_SECONDS) == [deny]
    assert outcome(guarded, "t") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    (removed,) = admin.delete_acls([any_of("t")]).values()
    assert removed.result(UNTIL_SECONDS) == [deny]
    assert outcome(guarded, "t") is None


@pytest.mark.process
def test_librdkafka_hears_what_may_not_be(guarded: str) -> None:
    admin = AdminClient({"bootstrap.servers": guarded})
    nobody = binding("u", AclOperation.READ, AclPermissionType.ALLOW)
    nobody = AclBinding(
        nobody.restype, nobody.name, nobody.resource_pattern_type, "nobody", "*",
        nobody.operation, nobody.permission_type,
    )  # fmt: skip
    (created,) = admin.create_acls([nobody]).values()
    with pytest.raises(KafkaException, match="parse principal"):
        created.result(UNTIL_SECONDS)


@pytest.mark.process
def test_rules_are_no_business_of_a_node_without_an_authoriser(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (removed,) = admin.delete_acls([any_of("t")]).values()
    with pytest.raises(KafkaException) as failed:
        removed.result(UNTIL_SECONDS)
    assert failed.value.args[0].code() == KafkaError.SECURITY_DISABLED


@pytest.mark.compat
@pytest.mark.timeout(300)
def test_kafkas_tool_adds_lists_and_removes_rules(guarded: str) -> None:
    at = ("--bootstrap-server", guarded)
    who = ("--allow-principal", "User:alice", "--allow-host", "10.0.0.1")
    named = ("--topic", "jt-", "--resource-pattern-type", "prefixed")
    tool("kafka-acls", *at, "--add", *who, "--producer", *named)
    listed = tool(
        "kafka-acls", *at, "--list", "--topic", "jt-orders", "--resource-pattern-type", "match"
    )
    assert "patternType=PREFIXED" in listed
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        said = f"(principal=User:alice, host=10.0.0.1, operation={operation}, permissionType=ALLOW)"
        assert said in listed
    tool("kafka-acls", *at, "--remove", *who, "--producer", *named, "--force")
    assert "alice" not in tool("kafka-acls", *at, "--list")
