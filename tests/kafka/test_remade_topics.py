"""A topic that was deleted and made again under its name: who goes by the old id is told so."""

import uuid
from typing import Any

import pytest

from penstock.controller.commands.command import (
    CreateTopics,
    DeleteTopics,
    NewTopic,
    TopicReference,
)
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.record.read import iter_records
from tests.broker.cluster import batch
from tests.live_node import LiveNode, RawClient

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH


def make(node: LiveNode, name: str) -> uuid.UUID:
    (outcome,) = node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=1),)))
    assert outcome.error is None
    return uuid.UUID(bytes=bytes(outcome.topic_id))


def delete(node: LiveNode, name: str) -> None:
    node.submit(DeleteTopics(topics=(TopicReference(name=name),)))


def produce(client: RawClient, topic_id: uuid.UUID, value: bytes) -> int:
    data = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": batch(value)}]}]
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": data}
    (answer,) = client.ask(PRODUCE, 13, fields).responses
    return int(answer.partition_responses[0].error_code)


def fetch_fields(*topic_ids: uuid.UUID, **fields: Any) -> dict[str, Any]:
    partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0}
    partition |= {"last_fetched_epoch": -1, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
    topics = [{"topic_id": topic_id, "partitions": [partition]} for topic_id in topic_ids]
    base: dict[str, Any] = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
    }
    base |= {"session_id": 0, "session_epoch": -1, "topics": topics}
    return base | {"forgotten_topics_data": [], "rack_id": ""} | fields


def fetched(answer: Any) -> tuple[int, list[bytes | None]]:
    (topic,) = answer.responses
    (partition,) = topic.partitions
    records = bytes(partition.records or b"")
    values = [record.value for record in iter_records(memoryview(records))] if records else []
    return int(partition.error_code), values


def test_old_id_is_unknown_and_the_new_one_begins_empty(node: LiveNode, client: RawClient) -> None:
    old = make(node, "remade")
    assert produce(client, old, b"old") == Code.NONE
    delete(node, "remade")
    assert produce(client, old, b"late") == Code.UNKNOWN_TOPIC_ID
    new = make(node, "remade")
    assert new != old
    assert produce(client, old, b"late") == Code.UNKNOWN_TOPIC_ID
    assert fetched(client.ask(FETCH, 17, fetch_fields(old)))[0] == Code.UNKNOWN_TOPIC_ID
    assert fetched(client.ask(FETCH, 17, fetch_fields(new))) == (Code.NONE, [])
    assert produce(client, new, b"new") == Code.NONE
    assert fetched(client.ask(FETCH, 17, fetch_fields(new))) == (Code.NONE, [b"new"])


def test_a_fetch_that_waits_hears_that_its_topic_is_gone(node: LiveNode, client: RawClient) -> None:
    old = make(node, "remade-waiting")
    client.send(FETCH, 17, fetch_fields(old, max_wait_ms=20_000))
    delete(node, "remade-waiting")
    make(node, "remade-waiting")
    code, records = fetched(client.receive(FETCH, 17))
    assert (code, records) == (Code.UNKNOWN_TOPIC_ID, [])


@pytest.mark.parametrize("version", [13, 17])
def test_a_session_goes_on_with_the_new_id_beside_the_old_one(
    node: LiveNode, client: RawClient, version: int
) -> None:
    name = f"remade-session-{version}"
    old = make(node, name)
    session = client.ask(FETCH, version, fetch_fields(old, session_epoch=0)).session_id
    assert session > 0
    delete(node, name)
    new = make(node, name)
    assert produce(client, new, b"new") == Code.NONE
    answer = client.ask(FETCH, version, fetch_fields(new, session_id=session, session_epoch=1))
    told = {topic.topic_id: topic.partitions[0] for topic in answer.responses}
    assert told[old].error_code == Code.UNKNOWN_TOPIC_ID
    assert told[new].error_code == Code.NONE
    assert told[new].records
