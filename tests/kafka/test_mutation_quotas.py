"""Partitions that clients create, add and delete beyond a quota are refused, or delayed.

A quota is a token in a hundred seconds here: what is owed after a request is minutes, whatever the
machine does beside. A delayed connection is muted, so each request has one of its own.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.live_node import LiveNode, running_node

RATE = 0.01
OWED_S_OF_PARTITION = 1 / RATE
SLACK_S = 60
REFUSED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Told(NamedTuple):
    codes: dict[str, ErrorCode]
    owed_partitions: int
    """By the delay that the answer tells."""


def ask(node: LiveNode, key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
    with closing(node.connect()) as client:
        return client.ask(key, version, fields)


def change(node: LiveNode, key: ApiKey, version: int, fields: dict[str, Any]) -> Told:
    answer = ask(node, key, version, fields)
    parts = getattr(answer, "topics", None) or getattr(answer, "results", None)
    named = {one.name: one.error_code for one in parts or answer.responses}
    owed_s = answer.throttle_time.total_seconds()
    return Told(named, round((owed_s + SLACK_S / 2) / OWED_S_OF_PARTITION))


def limit(node: LiveNode) -> None:
    entity = [{"entity_type": "client-id", "entity_name": "raw-client"}]
    op = {"key": "controller_mutation_rate", "value": RATE, "remove": False}
    fields = {"entries": [{"entity": entity, "ops": [op]}], "validate_only": False}
    (entry,) = ask(node, ApiKey.ALTER_CLIENT_QUOTAS, 1, fields).entries
    assert entry.error_code == ErrorCode.NONE, entry.error_message


def create(*names: str, partitions: int = 10, is_dry: bool = False) -> dict[str, Any]:
    counts = {"num_partitions": partitions, "replication_factor": 1}
    topics = [{"name": name, **counts, "assignments": [], "configs": []} for name in names]
    return {"topics": topics, "timeout_ms": 10_000, "validate_only": is_dry}


@pytest.mark.parametrize("version", [6, 7])
def test_topics_beyond_the_quota_are_refused_one_by_one(node: LiveNode, version: int) -> None:
    limit(node)
    told = change(node, ApiKey.CREATE_TOPICS, version, create("a", "b", "c"))
    assert told == ({"a": ErrorCode.NONE, "b": REFUSED, "c": REFUSED}, 10)
    told = change(node, ApiKey.CREATE_TOPICS, version, create("b"))
    assert told == ({"b": REFUSED}, 10)


def test_an_older_client_is_delayed_and_not_refused(node: LiveNode) -> None:
    limit(node)
    told = change(node, ApiKey.CREATE_TOPICS, 5, create("a", "b"))
    assert told == ({"a": ErrorCode.NONE, "b": ErrorCode.NONE}, 20)
    told = change(node, ApiKey.CREATE_TOPICS, 5, create("c"))
    assert told == ({"c": ErrorCode.NONE}, 30)


def test_a_dry_run_is_no_mutation(node: LiveNode) -> None:
    limit(node)
    told = change(node, ApiKey.CREATE_TOPICS, 7, create("a", is_dry=True))
    assert told == ({"a": ErrorCode.NONE}, 0)
    told = change(node, ApiKey.CREATE_TOPICS, 7, create("b"))
    assert told == ({"b": ErrorCode.NONE}, 10)


def test_partitions_that_are_added_are_counted(node: LiveNode) -> None:
    ask(node, ApiKey.CREATE_TOPICS, 7, create("a", "b", partitions=3))
    limit(node)
    topics = [{"name": name, "count": 15, "assignments": None} for name in ("a", "b")]
    more = {"topics": topics, "timeout_ms": 10_000, "validate_only": False}
    assert change(node, ApiKey.CREATE_PARTITIONS, 3, more | {"validate_only": True})[1] == 0
    told = change(node, ApiKey.CREATE_PARTITIONS, 3, more)
    assert told == ({"a": ErrorCode.NONE, "b": REFUSED}, 12)
    told = change(node, ApiKey.CREATE_PARTITIONS, 2, more | {"topics": topics[1:]})
    assert told == ({"b": ErrorCode.NONE}, 24)


def test_partitions_that_are_deleted_are_counted(node: LiveNode) -> None:
    ask(node, ApiKey.CREATE_TOPICS, 7, create("a", "b", partitions=3))
    limit(node)
    fields: dict[str, Any] = {"topic_names": ["a", "b"], "timeout_ms": 10_000}
    told = change(node, ApiKey.DELETE_TOPICS, 5, fields)
    assert told == ({"a": ErrorCode.NONE, "b": REFUSED}, 3)
    told = change(node, ApiKey.DELETE_TOPICS, 4, {"topic_names": ["b"], "timeout_ms": 10_000})
    assert told == ({"b": ErrorCode.NONE}, 6)


@pytest.fixture
def creating(tmp_path: Path) -> Iterator[LiveNode]:
    """A node that creates what it is asked for."""
    with running_node(
        tmp_path, "broker.auto_create_topics=true", "controller.default_partitions=4"
    ) as node:
        yield node


def test_a_topic_with_the_default_number_of_partitions_is_counted_with_all(
    creating: LiveNode,
) -> None:
    limit(creating)
    fields = create("a", partitions=-1)
    fields["topics"][0]["replication_factor"] = -1
    assert change(creating, ApiKey.CREATE_TOPICS, 7, fields) == ({"a": ErrorCode.NONE}, 4)


def test_topics_on_demand_are_counted_and_those_beyond_the_quota_come_later(
    creating: LiveNode,
) -> None:
    limit(creating)
    fields = {"allow_auto_topic_creation": True, "topics": [{"name": "a"}, {"name": "b"}]}
    answer = ask(creating, ApiKey.METADATA, 4, fields)
    assert {one.error_code for one in answer.topics} == {ErrorCode.LEADER_NOT_AVAILABLE}
    names = creating.call(lambda: set(creating.broker.metadata.topics_by_name))
    assert names & {"a", "b"} == {"a"}
    told = change(creating, ApiKey.CREATE_TOPICS, 7, create("c"))
    assert told == ({"c": REFUSED}, 4)


def test_without_a_quota_of_mutations_nobody_is_told_anything(node: LiveNode) -> None:
    told = change(node, ApiKey.CREATE_TOPICS, 7, create("a", "b"))
    assert told == ({"a": ErrorCode.NONE, "b": ErrorCode.NONE}, 0)
