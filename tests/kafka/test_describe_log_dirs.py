"""DescribeLogDirs, against a real node: whose bytes are where."""

from typing import Any

import pytest

from penstock.broker.log_directories import LogDirectory
from penstock.broker.turns import Turns
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.protocol.slices import SLICE as SLICE_ELEMENTS
from penstock.storage.errors import LogFenced
from penstock.storage.second_level.splitting import Splitting
from tests.broker.cluster import batch
from tests.live_node import LiveNode, RawClient

KEY = ApiKey.DESCRIBE_LOG_DIRS


def create(node: LiveNode, name: str, partitions: int = 1) -> None:
    (outcome,) = node.submit(
        CreateTopics(topics=(NewTopic(name=name, partition_count=partitions),))
    )
    assert outcome.error is None


def produce(client: RawClient, topic: str, records: bytes) -> None:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": data}
    (answer,) = client.ask(ApiKey.PRODUCE, 9, fields).responses
    assert answer.partition_responses[0].error_code == Code.NONE


def describe(client: RawClient, topics: Any = None, version: int = 4) -> Any:
    (result,) = client.ask(KEY, version, {"topics": topics}).results
    return result


def sizes(result: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 5))
def test_a_partition_has_the_bytes_of_its_batches(
    node: LiveNode, client: RawClient, version: int
) -> None:
    name = f"log-dirs-{version}"
    create(node, name, partitions=2)
    produce(client, name, batch(b"a", b"b"))
    produce(client, name, batch(b"c"))
    result = describe(client, None, version)
    assert result.error_code == Code.NONE
    (directory,) = node.broker.log_directories()
    assert result.log_dir == directory.path
    written = len(batch(b"a", b"b")) + len(batch(b"c"))
    found = {key: size for key, size in sizes(result).items() if key[0] == name}
    assert found == {(name, 0): written, (name, 1): 0}
    told = [partition for topic in result.topics for partition in topic.partitions]
    assert not any(one.offset_lag or one.is_future_key for one in told)
    if version == 4:
        assert result.total_bytes >= result.usable_bytes > 0


def test_bytes_that_were_moved_to_the_second_level_count_for_their_partition(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(node, "log-dirs-moved")
    produce(client, "log-dirs-moved", batch(b"a"))
    monkeypatch.setattr(Splitting, "moved_bytes", lambda _, log: 1_000 + log.log_end_offset)
    assert sizes(describe(client))["log-dirs-moved", 0] == len(batch(b"a")) + 1_001


def test_only_what_is_named_and_here_is_told_and_once(node: LiveNode, client: RawClient) -> None:
    create(node, "log-dirs-named", partitions=2)
    named = [
        {"topic": "log-dirs-named", "partitions": [1, 1, 7, -1]},
        {"topic": "absent", "partitions": [0]},
        {"topic": "log-dirs-named", "partitions": []},
    ]
    assert list(sizes(describe(client, named))) == [("log-dirs-named", 1)]
    assert describe(client, []).topics == ()


def test_a_set_is_told_in_its_directory_and_one_that_failed_is_an_error(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(node, "log-dirs-failed")
    broker = node.broker
    directories = [
        LogDirectory("/spare", -1, -1, frozenset()),
        LogDirectory("/data", 1_000, 400, frozenset(broker.members)),
    ]
    monkeypatch.setattr(broker, "log_directories", lambda: directories)
    spare, data = client.ask(KEY, 4, {"topics": None}).results
    assert (spare.log_dir, spare.topics, spare.total_bytes) == ("/spare", (), -1)
    assert ("log-dirs-failed", 0) in sizes(data)
    assert (data.total_bytes, data.usable_bytes) == (1_000, 400)
    member = next(iter(broker.members.values()))
    monkeypatch.setattr(member.log.parts.writer, "fenced", LogFenced("disk"))
    spare, data = client.ask(KEY, 4, {"topics": None}).results
    assert (spare.error_code, data.error_code) == (Code.NONE, Code.KAFKA_STORAGE_ERROR)
    assert data.topics == ()


def test_many_partitions_are_told_in_many_turns(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No handler holds the loop for all partitions of a broker."""
    create(node, "log-dirs-many", partitions=2_000)
    turns: list[None] = []
    wait = Turns.next

    async def counted(self: Turns) -> None:
        turns.append(None)
        await wait(self)

    monkeypatch.setattr(Turns, "next", counted)
    assert len(sizes(describe(client))) >= 2_000
    assert len(turns) >= 20


def test_topics_named_without_partitions_are_gone_through_in_many_turns(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[None] = []
    wait = Turns.next

    async def counted(self: Turns) -> None:
        turns.append(None)
        await wait(self)

    monkeypatch.setattr(Turns, "next", counted)
    assert not describe(client, [{"topic": "absent", "partitions": []}] * 2_000).topics
    decoded = 2_000 // SLICE_ELEMENTS
    assert len(turns) >= decoded + 20
