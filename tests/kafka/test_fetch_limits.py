"""How much a fetch answers with, and when: max_bytes, min_bytes, isolation, sessions, ids."""

from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.broker.fetch.operation import FetchOperation
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.broker.fetches import BATCH, SIZE, counts, create, fill, request
from tests.live_node import LiveNode, RawClient, running_node


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
    fields: dict[str, Any] = {"min_bytes": 3 * SIZE, "max_wait_ms": 9000}
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
    long: dict[str, Any] = {"max_wait_ms": 300_000}
    beyond: dict[str, Any] = {"min_bytes": 1 << 30, "max_bytes": 2 * SIZE + 5}
    assert counts(client.ask(ApiKey.FETCH, 11, request(**long, **beyond)))[0] == 2
    cut: dict[str, Any] = {"min_bytes": 1 << 19, "partition_max": 3 * SIZE}
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
    assert [len(read.buffers) for read in cast("FetchOperation", waiting).reads] == [0]


def test_a_session_of_many_long_names_is_not_kept(tmp_path: Path) -> None:
    with running_node(tmp_path, f"net.unfinished_bytes_max={8 << 20}") as node:
        with closing(node.connect()) as client:
            wanted = request(1, session_epoch=0)
            (named,) = wanted["topics"]
            wanted["topics"] = [named | {"topic": f"{n:04}" + "x" * 30_000} for n in range(50)]
            assert client.ask(ApiKey.FETCH, 11, wanted).session_id == 0
            opened = client.ask(ApiKey.FETCH, 11, request(1, session_epoch=0))
            assert opened.session_id > 0
        sessions = node.front.fetch_sessions
        assert node.call(lambda: sessions.pinned_bytes) == node.call(
            lambda: node.front.pinned_bytes - node.broker.groups.pinned_bytes
        )
        assert 0 < node.call(lambda: sessions.pinned_bytes) < 1024


def test_a_session_that_nobody_uses_ends(tmp_path: Path) -> None:
    with running_node(tmp_path, "broker.fetch_session_idle_ms_max=0") as node:
        with closing(node.connect()) as client:
            opened = client.ask(ApiKey.FETCH, 11, request(1, session_epoch=0))
            assert opened.session_id > 0
        node.call(node.broker.expire_waiting)
        assert node.call(lambda: len(node.front.fetch_sessions)) == 0
