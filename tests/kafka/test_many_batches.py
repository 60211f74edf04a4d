"""A produce request of many batches is appended over several turns of the loop."""

from random import Random
from typing import Any

import pytest

from penstock.kafka.handlers.records import produce
from penstock.kafka.produce.unprepared import BATCHES_HERE
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.read import iter_batches, iter_records
from tests.broker.cluster import batch
from tests.live_node import LiveNode, RawClient

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
LARGE = Random(1).randbytes(90_000)
"""More than the loop compresses by itself."""


def create(client: RawClient, *names: str, **configs: dict[str, str]) -> None:
    topics = [
        {
            "name": name,
            "num_partitions": 1,
            "replication_factor": -1,
            "assignments": [],
            "configs": [
                {"name": key, "value": value} for key, value in configs.get(name, {}).items()
            ],
        }
        for name in names
    ]
    fields = {"topics": topics, "timeout_ms": 10_000, "validate_only": False}
    answer = client.ask(ApiKey.CREATE_TOPICS, 5, fields)
    assert {int(topic.error_code) for topic in answer.topics} == {0}


def request(acks: int, *topics: tuple[str, list[tuple[int, bytes]]]) -> dict[str, Any]:
    return {
        "acks": acks,
        "timeout_ms": 5_000,
        "topic_data": [
            {
                "name": name,
                "partition_data": [{"index": index, "records": data} for index, data in parts],
            }
            for name, parts in topics
        ],
    }


def stored(client: RawClient, topic: str) -> list[bytes | None]:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    fields = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    answer = client.ask(ApiKey.FETCH, 12, fields)
    records = memoryview(answer.responses[0].partitions[0].records or b"")
    batches = [one for _, one in iter_batches(records)]
    return [record.value for one in batches for record in iter_records(one)]


@pytest.mark.parametrize("acks", [1, -1])
def test_they_are_appended_and_answered_in_their_order(client: RawClient, acks: int) -> None:
    """Batches for a worker among them, and one for a partition that is not there."""
    create(client, "plain", "packed", packed={"compression.type": "zstd"})
    count = 3 * BATCHES_HERE + 7
    values = [b"%d" % number for number in range(count)]
    parts = [(0, batch(value)) for value in values]
    parts.insert(BATCHES_HERE + 1, (9, batch(b"nowhere")))
    large = [(0, batch(LARGE))]
    fields = request(acks, ("packed", large), ("plain", parts), ("packed", large))
    answer = client.ask(ApiKey.PRODUCE, 9, fields)
    told = [
        partition_response
        for topic in answer.responses
        for partition_response in topic.partition_responses
    ]
    assert [one.base_offset for one in (told[0], told[-1])] == [0, 1]
    plain = told[1:-1]
    assert plain.pop(BATCHES_HERE + 1).error_code == UNKNOWN
    assert [one.base_offset for one in plain] == list(range(count))
    assert {int(one.error_code) for one in plain} == {0}
    assert stored(client, "plain") == values


def test_no_turn_appends_more_than_it_may(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client, "plain")
    turns: list[int] = []
    append = produce._append

    def counted(*args: Any, **more: Any) -> Any:
        done = append(*args, **more)
        turns.append(len(done[0]))
        return done

    monkeypatch.setattr(produce, "_append", counted)
    parts = [(0, batch(b"x")) for _ in range(2 * BATCHES_HERE + 1)]
    client.ask(ApiKey.PRODUCE, 9, request(1, ("plain", parts)))
    assert turns == [BATCHES_HERE, BATCHES_HERE, 1]


def test_the_rest_is_dropped_when_the_client_has_gone(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client, "plain")
    parts = [(0, batch(b"x")) for _ in range(3 * BATCHES_HERE)]
    turns: list[int] = []
    append = produce._append

    def closing(*args: Any, **more: Any) -> Any:
        done = append(*args, **more)
        turns.append(len(done[0]))
        client.close()
        return done

    monkeypatch.setattr(produce, "_append", closing)
    other = node.connect()
    client.send(ApiKey.PRODUCE, 9, request(1, ("plain", parts)))
    while not turns:
        other.ask(ApiKey.API_VERSIONS, 0, {})
    for _ in range(10):  # each is a turn in which the rest could have been appended
        other.ask(ApiKey.API_VERSIONS, 0, {})
    other.close()
    assert turns == [BATCHES_HERE]
    hosted = node.broker.partitions.find("plain", 0)
    assert hosted is not None
    assert node.call(lambda: hosted.log.log_end_offset) == BATCHES_HERE
