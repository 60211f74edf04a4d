"""How much a fetch answers with, and when: max_bytes, min_bytes, isolation, sessions, ids."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.append import append_batch
from penstock.broker.read_ahead import SWEEP_MS, ReadAhead
from penstock.broker.stats import BrokerStats
from penstock.controller.commands import CreateTopics, DeleteTopics, NewTopic, TopicReference
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.build import Record, build_batch
from penstock.record.read import iter_batches
from penstock.storage.set_log import Chunk
from tests.live_node import LiveNode, RawClient, running_node
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.world import ALL, World, append, open_log, partition_number

BATCH = build_batch([Record(None, b"x" * 939, (), 1000)])
SIZE = len(BATCH)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with running_node(tmp_path) as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        yield client


def create(node: LiveNode, name: str = "events", partitions: int = 3) -> bytes:
    new = NewTopic(name=name, partition_count=partitions)
    (outcome,) = node.submit(CreateTopics(topics=(new,)))
    assert outcome.error is None
    return bytes(outcome.topic_id)


def fill(client: RawClient, *counts: int, topic: str = "events") -> None:
    """Append that many batches of 1000 bytes and a bit to partition 0, 1, ..."""
    for partition, count in enumerate(counts):
        for _ in range(count):
            data = [{"name": topic, "partition_data": [{"index": partition, "records": BATCH}]}]
            fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": data}
            client.ask(ApiKey.PRODUCE, 9, fields)


def request(partitions: int = 3, topic: str = "events", **fields: Any) -> dict[str, Any]:
    each = {"current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1}
    each |= {"log_start_offset": -1, "partition_max_bytes": fields.pop("partition_max", 1 << 20)}
    wanted = [{"partition": number} | each for number in range(partitions)]
    base = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
    base |= {"isolation_level": 0, "session_id": 0, "session_epoch": -1, "rack_id": ""}
    named = {"topic": topic, "topic_id": fields.pop("topic_id", bytes(16)), "partitions": wanted}
    return base | {"forgotten_topics_data": [], "topics": [named]} | fields


def counts(answer: Any) -> dict[int, int]:
    """Batches by partition."""
    return {
        partition.partition_index: len(list(iter_batches(memoryview(partition.records or b""))))
        for topic in answer.responses
        for partition in topic.partitions
    }


@pytest.mark.parametrize("max_bytes", [0, 1, SIZE - 1])
def test_a_batch_larger_than_the_answer_comes_from_the_first_partition_only(
    node: LiveNode, client: RawClient, max_bytes: int
) -> None:
    create(node)
    fill(client, 0, 2, 2)
    assert counts(client.ask(ApiKey.FETCH, 11, request(max_bytes=max_bytes))) == {0: 0, 1: 1, 2: 0}


def test_what_is_left_of_the_answer_bounds_the_partitions_that_follow(
    node: LiveNode, client: RawClient
) -> None:
    create(node)
    fill(client, 2, 2, 2)
    found = client.ask(ApiKey.FETCH, 11, request(max_bytes=3 * SIZE + SIZE // 2))
    assert counts(found) == {0: 2, 1: 1, 2: 0}


def test_the_limit_of_a_partition_leaves_it_one_batch(node: LiveNode, client: RawClient) -> None:
    create(node)
    fill(client, 3, 3, 3)
    found = client.ask(ApiKey.FETCH, 11, request(partition_max=2 * SIZE))
    assert counts(found) == {0: 2, 1: 2, 2: 2}
    assert counts(client.ask(ApiKey.FETCH, 11, request(partition_max=1))) == {0: 1, 1: 1, 2: 1}


def test_partitions_of_a_session_take_turns_when_the_answer_is_small(
    node: LiveNode, client: RawClient
) -> None:
    create(node)
    fill(client, 5, 5, 5)
    opened = client.ask(ApiKey.FETCH, 11, request(max_bytes=SIZE, session_epoch=0))
    served = [partition for partition, count in counts(opened).items() if count]
    for epoch in (1, 2):
        fields = {"session_id": opened.session_id, "session_epoch": epoch, "topics": []}
        answer = client.ask(ApiKey.FETCH, 11, request(max_bytes=SIZE, **fields))
        served += [partition for partition, count in counts(answer).items() if count]
    assert served == [0, 1, 2]


def test_a_fetch_waits_until_enough_bytes_have_come_together(
    node: LiveNode, client: RawClient
) -> None:
    create(node)
    fields = {"min_bytes": 3 * SIZE, "max_wait_ms": 9000}
    client.send(ApiKey.FETCH, 11, request(**fields))
    with closing(node.connect()) as producer:
        fill(producer, 1, 1)
        fill(producer, 0, 0, 1)
    assert counts(client.receive(ApiKey.FETCH, 11)) == {0: 1, 1: 1, 2: 1}


def test_a_fetch_answers_with_less_at_its_deadline(node: LiveNode, client: RawClient) -> None:
    create(node)
    fill(client, 1)
    answer = client.ask(ApiKey.FETCH, 11, request(min_bytes=1 << 20, max_wait_ms=50))
    assert counts(answer) == {0: 1, 1: 0, 2: 0}


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_reader_of_committed_records_gets_the_end_and_no_aborted_transactions(
    node: LiveNode, client: RawClient, version: int
) -> None:
    create(node)
    fill(client, 2)
    answer = client.ask(ApiKey.FETCH, version, request(1, isolation_level=1))
    (partition,) = answer.responses[0].partitions
    assert partition.last_stable_offset == partition.high_watermark == 2
    assert not partition.aborted_transactions
    assert counts(answer) == {0: 2}


def test_a_forgotten_partition_is_no_longer_served(node: LiveNode, client: RawClient) -> None:
    create(node)
    opened = client.ask(ApiKey.FETCH, 11, request(session_epoch=0))
    fill(client, 1, 1, 1)
    fields = {"session_id": opened.session_id, "session_epoch": 1, "topics": []}
    fields["forgotten_topics_data"] = [{"topic": "events", "partitions": [0, 2]}]
    assert counts(client.ask(ApiKey.FETCH, 11, request(**fields))) == {1: 1}


def test_a_session_survives_the_deletion_of_its_topic_and_says_so_each_time(
    node: LiveNode, client: RawClient
) -> None:
    topic_id = create(node)
    opened = client.ask(ApiKey.FETCH, 13, request(1, topic_id=topic_id, session_epoch=0))
    node.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    create(node)
    fill(client, 1)
    for epoch in (1, 2):
        fields = {"session_id": opened.session_id, "session_epoch": epoch, "topics": []}
        answer = client.ask(ApiKey.FETCH, 13, request(**fields))
        (partition,) = answer.responses[0].partitions
        assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert not partition.records


def test_a_session_of_names_does_not_take_topic_ids(node: LiveNode, client: RawClient) -> None:
    create(node)
    opened = client.ask(ApiKey.FETCH, 12, request(session_epoch=0))
    fields = {"session_id": opened.session_id, "session_epoch": 1, "topics": []}
    answer = client.ask(ApiKey.FETCH, 13, request(**fields))
    assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_an_unknown_session_is_told_so(node: LiveNode, client: RawClient) -> None:
    create(node)
    answer = client.ask(ApiKey.FETCH, 11, request(session_id=77, session_epoch=5, topics=[]))
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_answer_that_can_not_become_fuller_does_not_wait(
    node: LiveNode, client: RawClient
) -> None:
    create(node)
    fill(client, 4)
    long = {"max_wait_ms": 300_000}
    beyond = {"min_bytes": 1 << 30, "max_bytes": 2 * SIZE + 5}
    assert counts(client.ask(ApiKey.FETCH, 11, request(**long, **beyond)))[0] == 2
    cut = {"min_bytes": 1 << 19, "partition_max": 3 * SIZE}
    assert counts(client.ask(ApiKey.FETCH, 11, request(**long, **cut)))[0] == 3


def test_a_batch_that_is_on_its_way_to_the_disk_wakes_who_waits_for_many_bytes(
    node: LiveNode, client: RawClient
) -> None:
    create(node)
    with closing(node.connect()) as producer:
        for round_number in range(30):
            data = [{"name": "events", "partition_data": [{"index": 0, "records": BATCH}]}]
            fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": data}
            producer.send(ApiKey.PRODUCE, 9, fields)
            wanted = request(1, min_bytes=500, max_wait_ms=300_000)
            wanted["topics"][0]["partitions"][0]["fetch_offset"] = round_number
            client.send(ApiKey.FETCH, 11, wanted)
            producer.receive(ApiKey.PRODUCE, 9)
            assert counts(client.receive(ApiKey.FETCH, 11)) == {0: 1}


def test_a_waiting_fetch_holds_nothing_of_what_it_has_seen(
    node: LiveNode, client: RawClient
) -> None:
    create(node, partitions=1)
    fill(client, 2)
    client.send(ApiKey.FETCH, 11, request(1, min_bytes=1 << 19, max_wait_ms=300_000))
    hosted = node.broker.partitions.find("events", 0)
    assert hosted is not None
    while not node.call(lambda: list(hosted.waiters)):
        pass
    (waiting,) = node.call(lambda: list(hosted.waiters))
    assert [len(read.buffers) for read in waiting.reads] == [0]


def fetch_from(offset: int, **fields: Any) -> dict[str, Any]:
    wanted = request(1, **fields)
    wanted["topics"][0]["partitions"][0]["fetch_offset"] = offset
    return wanted


def offsets(answer: Any) -> list[int]:
    (partition,) = answer.responses[0].partitions
    return [header.base_offset for header, _ in iter_batches(memoryview(partition.records))]


def read_in_order(client: RawClient) -> None:
    """Fetch twice, three batches each, so that the next three are read ahead."""
    for offset in (0, 3):
        client.ask(ApiKey.FETCH, 11, fetch_from(offset, partition_max=3 * SIZE))


def test_a_consumer_that_reads_in_order_finds_the_next_batches_read_already(
    node: LiveNode, client: RawClient
) -> None:
    create(node, partitions=1)
    fill(client, 12)
    stats = node.broker.stats
    seen = []
    for step in range(4):
        answer = client.ask(ApiKey.FETCH, 11, fetch_from(3 * step, partition_max=3 * SIZE))
        seen += offsets(answer)
        node.call(lambda: None)
    assert seen == list(range(12))
    assert stats.reads_ahead_used == 2  # it is in order from the second fetch on
    assert node.broker.read_ahead.kept_bytes == 0


def test_what_was_read_ahead_is_served_only_to_who_asks_for_it(
    node: LiveNode, client: RawClient
) -> None:
    create(node, partitions=1)
    fill(client, 12)
    read_in_order(client)
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 3 * SIZE
    elsewhere = client.ask(ApiKey.FETCH, 11, fetch_from(5, partition_max=3 * SIZE))
    assert offsets(elsewhere) == [5, 6, 7]
    smaller = client.ask(ApiKey.FETCH, 11, fetch_from(6, partition_max=2 * SIZE))
    assert offsets(smaller) == [6, 7]
    assert node.broker.stats.reads_ahead_used == 0


def test_what_was_read_ahead_of_deleted_records_is_not_served(
    node: LiveNode, client: RawClient
) -> None:
    create(node, partitions=1)
    fill(client, 12)
    read_in_order(client)
    hosted = node.broker.partitions.find("events", 0)
    assert hosted is not None
    node.call(lambda: hosted.member.log.delete_records(hosted.log, 8))
    answer = client.ask(ApiKey.FETCH, 11, fetch_from(6, partition_max=3 * SIZE))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_nothing_is_read_ahead_while_other_partitions_wait_for_their_turn(
    node: LiveNode, client: RawClient
) -> None:
    create(node)
    fill(client, 12, 12, 12)
    for offset in (0, 3, 6):
        wanted = request(max_bytes=4 * SIZE, partition_max=3 * SIZE)
        wanted["topics"][0]["partitions"][0]["fetch_offset"] = offset
        assert counts(client.ask(ApiKey.FETCH, 11, wanted)) == {0: 3, 1: 1, 2: 0}
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 0


def test_what_nobody_asks_for_is_let_go(node: LiveNode, client: RawClient) -> None:
    create(node, partitions=1)
    fill(client, 12)
    read_in_order(client)
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 3 * SIZE
    node.call(node.broker.read_ahead._sweep)
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 3 * SIZE
    node.call(node.broker.read_ahead._sweep)
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 0
    assert node.broker.stats.reads_ahead_dropped == 1


def test_nothing_is_read_ahead_that_is_not_confirmed(node: LiveNode, client: RawClient) -> None:
    create(node, partitions=1)
    fill(client, 3)
    hosted = node.broker.partitions.find("events", 0)
    assert hosted is not None
    member, ahead = hosted.member, node.broker.read_ahead

    def kept_bytes() -> int:
        append_batch(hosted, memoryview(bytearray(BATCH)), -1, 1000, node.broker.stats)
        member.log.writer.write_staged()
        assert member.confirm_position < hosted.log.last_end_position
        hosted.next_fetch_offset = 1
        ahead.answered(hosted, 1, 3, 1 << 20)
        ahead._read()
        return ahead.kept_bytes

    assert node.call(kept_bytes) == 0


def test_one_timer_lets_go_of_all_that_was_read_ahead() -> None:
    world = World()
    log = open_log(world, FaultyDisk())
    partition = log.open_partition(partition_number(0))
    append(log, partition)
    world.run()
    before = len(world.later)
    ahead = ReadAhead(world, BrokerStats(), 1 << 20)
    for _ in range(5):
        chunk = log.read(partition, 0, 1 << 20, ALL)
        assert isinstance(chunk, Chunk)
        ahead._keep(partition, chunk)
        assert ahead.take(partition, 0, 1 << 20) is chunk
    assert len(world.later) == before + 1
    ahead._keep(partition, chunk)
    world.advance(2 * SWEEP_MS)
    assert ahead.kept_bytes == 0
    assert len(world.later) == before
