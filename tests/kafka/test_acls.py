"""DescribeAcls, CreateAcls and DeleteAcls on a live node, and what the rules then do."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.kafka.handlers.cluster.delete_acls import OPEN_FILTERS_MAX, REMOVED_TOGETHER
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_acls import ACL, ANY_ACL
from tests.kafka.gate_asks import ms, new_topic, produce
from tests.live_node import LiveNode, RawClient, running_node

OPEN_TO_ALL = (
    "access.authorizer=acl",
    "access.allow_everyone_if_no_acl_found=true",
    "access.super_users=User:root",
)
TOPIC, GROUP, CLUSTER, USER = 2, 3, 4, 7
LITERAL, PREFIXED = 3, 4
READ, WRITE = 3, 4
DENY = 2


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with running_node(tmp_path, *OPEN_TO_ALL) as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        yield client


def add(client: RawClient, *changes: dict[str, Any], version: int = 3) -> list[tuple[int, Any]]:
    creations = [ACL | one for one in changes]
    answer = client.ask(ApiKey.CREATE_ACLS, version, {"creations": creations})
    return [(one.error_code, one.error_message) for one in answer.results]


def found(client: RawClient, version: int = 3, **wanted: Any) -> list[tuple[str, int, str, int]]:
    answer = client.ask(ApiKey.DESCRIBE_ACLS, version, ANY_ACL | wanted)
    assert answer.error_code == Code.NONE
    return sorted(
        (one.resource_name, one.pattern_type, acl.principal, acl.operation)
        for one in answer.resources
        for acl in one.acls
    )


def remove(client: RawClient, *filters: dict[str, Any], version: int = 3) -> list[Any]:
    wanted = [ANY_ACL | one for one in filters]
    return list(client.ask(ApiKey.DELETE_ACLS, version, {"filters": wanted}).filter_results)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rules_are_added_found_and_removed(client: RawClient, version: int) -> None:
    first, second = {"resource_name": "a"}, {"resource_name": "b"}
    prefixed: dict[str, Any] = {**second, "resource_pattern_type": PREFIXED}
    assert add(client, first, prefixed, version=version) == [(Code.NONE, None)] * 2
    both = [("a", LITERAL, "User:u", READ), ("b", PREFIXED, "User:u", READ)]
    assert found(client, version) == both
    assert found(client, version, resource_name_filter="bc", pattern_type_filter=2) == both[1:]
    (result,) = remove(client, {"resource_name_filter": "a"}, version=version)
    (gone,) = result.matching_acls
    assert (gone.error_code, gone.resource_name, gone.host) == (Code.NONE, "a", "*")
    assert found(client, version) == both[1:]


def test_a_rule_that_is_there_already_stays_there_once(client: RawClient) -> None:
    assert add(client, {}, {}) == [(Code.NONE, None)] * 2
    assert add(client, {}) == [(Code.NONE, None)]
    assert len(found(client)) == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"resource_name": ""}, "Resource name should not be empty"),
        ({"resource_type": CLUSTER}, "The only valid name for the CLUSTER resource"),
        ({"principal": "alice"}, "Could not parse principal"),
        ({"principal": "User:"}, "Could not parse principal"),
        ({"host": ""}, "host is empty"),
        ({"resource_type": 0}, "Invalid resource type 0"),
        ({"resource_pattern_type": 2}, "Invalid pattern type 2"),
        ({"operation": 1}, "Invalid operation 1"),
        ({"permission_type": 1}, "Invalid permission type 1"),
        ({"resource_name": "x" * 1_025}, "1024 characters at most"),
    ],
)
def test_what_is_no_rule_is_refused_alone(
    client: RawClient, change: dict[str, Any], text: str
) -> None:
    (code, why), fine = add(client, change, {"resource_name": "fine"})
    assert code == Code.INVALID_REQUEST
    assert text in why
    assert fine == (Code.NONE, None)
    assert len(found(client)) == 1


def test_rules_about_users_and_the_cluster_are_taken(client: RawClient) -> None:
    of_cluster = {"resource_type": CLUSTER, "resource_name": "kafka-cluster", "operation": 8}
    of_user = {"resource_type": USER, "resource_name": "User:a", "operation": 13}
    assert add(client, of_cluster | {"principal": "User:*"}, of_user) == [(Code.NONE, None)] * 2
    assert found(client, resource_type_filter=USER) == [("User:a", LITERAL, "User:u", 13)]


def test_each_filter_is_answered_by_what_it_has_removed(client: RawClient) -> None:
    add(client, {"resource_name": "a"}, {"resource_name": "b"}, {"resource_name": "c"})
    named = {"resource_name_filter": "a"}
    wrong, one, both, none = remove(
        client,
        {"permission_type": 7},
        named,
        {"operation": READ, "resource_name_filter": None},
        {"resource_name_filter": "z"},
    )
    assert wrong.error_code == Code.INVALID_REQUEST
    assert [acl.resource_name for acl in one.matching_acls] == ["a"]
    assert sorted(acl.resource_name for acl in both.matching_acls) == ["a", "b", "c"]
    assert (none.error_code, none.matching_acls) == (Code.NONE, ())
    assert found(client) == []


def test_more_rules_than_one_command_takes_are_removed(client: RawClient) -> None:
    count = 2 * REMOVED_TOGETHER + 1
    assert set(add(client, *({"resource_name": f"t{n}"} for n in range(count)))) == {
        (Code.NONE, None)
    }
    assert len(found(client)) == count
    (result,) = remove(client, {})
    assert len(result.matching_acls) == count
    assert found(client) == []


def test_a_request_has_a_bounded_number_of_filters_that_walk(client: RawClient) -> None:
    add(client, {})
    results = remove(client, *[{"resource_name_filter": "x"}] * (OPEN_FILTERS_MAX + 1))
    assert [one.error_code for one in results] == [Code.NONE] * OPEN_FILTERS_MAX + [
        Code.INVALID_REQUEST
    ]
    assert len(found(client)) == 1


def test_a_filter_of_an_unknown_kind_is_an_invalid_request(client: RawClient) -> None:
    answer = client.ask(ApiKey.DESCRIBE_ACLS, 3, ANY_ACL | {"pattern_type_filter": 0})
    assert (answer.error_code, answer.resources) == (Code.INVALID_REQUEST, ())


def write(client: RawClient, topic: str) -> int:
    answer = client.ask(ApiKey.PRODUCE, 11, produce(topic))
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def test_rules_decide_from_the_next_request_on(node: LiveNode, client: RawClient) -> None:
    topics = {"topics": [new_topic("t")], "timeout": ms(9_000)}
    client.ask(ApiKey.CREATE_TOPICS, 7, topics)
    assert write(client, "t") == Code.NONE
    deny = {
        "resource_name": "t",
        "principal": "User:*",
        "operation": WRITE,
        "permission_type": DENY,
    }
    add(client, deny)
    assert write(client, "t") == Code.TOPIC_AUTHORIZATION_FAILED
    remove(client, {"resource_name_filter": "t"})
    assert write(client, "t") == Code.NONE
    add(client, deny | {"permission_type": 3, "host": "10.9.9.9"})
    assert write(client, "t") == Code.TOPIC_AUTHORIZATION_FAILED  # another host's rule is one
    add(client, deny | {"permission_type": 3, "host": "127.0.0.1"})
    assert write(client, "t") == Code.NONE
    assert sum(node.broker.denials.counts.values()) == 2


def test_rules_are_kept_over_a_restart(tmp_path: Path) -> None:
    deny = {
        "resource_name": "t",
        "principal": "User:*",
        "operation": WRITE,
        "permission_type": DENY,
    }
    with running_node(tmp_path, *OPEN_TO_ALL) as node, closing(node.connect()) as client:
        client.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [new_topic("t")], "timeout": ms(9_000)})
        add(client, deny)
    with running_node(tmp_path, *OPEN_TO_ALL) as node, closing(node.connect()) as client:
        assert write(client, "t") == Code.TOPIC_AUTHORIZATION_FAILED
        assert len(found(client)) == 1


def test_without_an_authoriser_rules_are_neither_seen_nor_changed(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        assert add(client, {})[0][0] == Code.SECURITY_DISABLED
        assert remove(client, {})[0].error_code == Code.SECURITY_DISABLED
        answer = client.ask(ApiKey.DESCRIBE_ACLS, 3, ANY_ACL)
        assert answer.error_code == Code.SECURITY_DISABLED


def test_an_expression_of_a_consumer_group_matches_what_its_member_may_see(
    node: LiveNode, client: RawClient
) -> None:
    names = ("seen", "hidden")
    client.ask(
        ApiKey.CREATE_TOPICS,
        7,
        {"topics": [new_topic(name) for name in names], "timeout": ms(9_000)},
    )
    client.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    add(client, {"resource_name": "hidden", "principal": "User:other"})
    fields = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": ms(60_000),
        "subscribed_topic_names": None,
        "subscribed_topic_regex": "seen|hidden",
        "topic_partitions": [],
    }
    answer = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields)
    assert answer.error_code == Code.NONE
    topics = node.broker.metadata.topics_by_name
    assert [one.topic_id.bytes for one in answer.assignment.topic_partitions] == [
        topics["seen"].topic_id
    ]
