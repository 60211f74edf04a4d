"""Batches that pulls and pops read in parts: each is begun once, and nothing old is served."""

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as Created

from harness.waiting import wait_until
from penstock.controller.commands.command import (
    CreateTopics,
    DeleteTopics,
    NewTopic,
    TopicReference,
)
from penstock.record.opened import KEEP_MS, KeptBatches
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from tests.live_node import UNTIL_SECONDS, LiveNode
from tests.remoting.popping import pop
from tests.remoting.served import Remote, pull, pulled, running_remoting_node

COUNT, AT_ONCE = 100, 8


@pytest.fixture
def kept(node: LiveNode) -> KeptBatches:
    front = node.node._rocketmq.remoting
    assert front is not None
    return front.desk.kept


def begun(kept: KeptBatches) -> tuple[int, int]:
    return kept.opened, kept.read_on


def produce(
    node: LiveNode,
    topic: str,
    *,
    word: str = "",
    codec: str = "none",
    keys: str = "",
    each: int = 1,
) -> None:
    """One batch in partition 0; with `keys` each record has one."""
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{node.port}",
            "linger.ms": 5_000,
            "batch.num.messages": COUNT // each,
            "compression.type": codec,
        }
    )
    for number in range(0, COUNT, each):
        key = keys.format(number) or None
        producer.produce(topic, f"{word}{number:04}", key, partition=0)
    assert producer.flush(UNTIL_SECONDS) == 0


def fill(node: LiveNode) -> None:
    """Write so much that files are closed: the open one is not cleaned."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}"})
    for _ in range(40):
        producer.produce("map", b"x" * 50_000, "filler", partition=0)
    assert producer.flush(UNTIL_SECONDS) == 0


def bodies(word: str = "", first: int = 0, end: int = COUNT) -> list[str]:
    return [f"{word}{number:04}" for number in range(first, end)]


def pulled_bodies(remote: Remote, topic: str, offset: int, **fields: object) -> list[str]:
    fields = {"maxMsgNums": AT_ONCE} | fields
    return [bytes(one.body).decode() for one in pull(remote, topic, offset, **fields)]


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd", "snappy"])
def test_a_batch_that_is_pulled_in_parts_is_begun_once(
    node: LiveNode, remote: Remote, topic: str, kept: KeptBatches, codec: str
) -> None:
    produce(node, topic, codec=codec)
    before = begun(kept)
    found: list[str] = []
    while len(found) < COUNT:
        found += pulled_bodies(remote, topic, len(found))
    assert found == bodies()
    assert (kept.opened - before[0], kept.read_on - before[1]) == (1, COUNT // AT_ONCE)


def test_a_batch_that_is_popped_in_parts_is_begun_once(
    node: LiveNode, remote: Remote, topic: str, kept: KeptBatches
) -> None:
    produce(node, topic)
    before = kept.opened
    found: list[str] = []
    while len(found) < COUNT:
        found += pop(remote, topic, maxMsgNums=AT_ONCE, queueId=0).bodies
    assert found == bodies()
    assert kept.opened - before == 1


def test_groups_at_different_places_of_a_batch_share_it(
    node: LiveNode, remote: Remote, other: Remote, topic: str, kept: KeptBatches
) -> None:
    produce(node, topic)
    before = kept.opened
    for at in (0, 64, 8, 72, 40):
        assert pulled_bodies(remote, topic, at) == bodies(first=at, end=at + AT_ONCE)
        assert pulled_bodies(other, topic, at + 1) == bodies(first=at + 1, end=at + 1 + AT_ONCE)
    assert pop(other, topic, maxMsgNums=AT_ONCE, queueId=0).bodies == bodies(end=AT_ONCE)
    assert kept.opened - before == 1


def test_a_topic_that_is_made_anew_has_its_own_messages(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    produce(node, topic, word="old")
    assert pulled_bodies(remote, topic, 0) == bodies("old", end=AT_ONCE)
    node.submit(DeleteTopics(topics=(TopicReference(name=topic),)))
    node.submit(CreateTopics(topics=(NewTopic(name=topic, partition_count=2),)))
    produce(node, topic, word="new")
    assert pulled_bodies(remote, topic, 8) == bodies("new", first=8, end=16)


def test_what_was_deleted_is_not_served_from_what_is_kept(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    produce(node, topic)
    assert pulled_bodies(remote, topic, 0) == bodies(end=AT_ONCE)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}"})
    (done,) = admin.delete_records([TopicPartition(topic, 0, 50)]).values()
    done.result(UNTIL_SECONDS)
    answer = remote.ask(RequestCode.PULL_MESSAGE, pulled(topic, AT_ONCE))
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED
    assert pulled_bodies(remote, topic, 50) == bodies(first=50, end=58)


def test_what_nobody_reads_on_is_given_back_and_counts_until_then(
    node: LiveNode, remote: Remote, topic: str, kept: KeptBatches
) -> None:
    produce(node, topic)
    listener = node.node._listener
    assert listener is not None
    pulled_bodies(remote, topic, 0)

    def counted() -> tuple[int, int]:
        held, pinned = kept.bytes_now, listener.pinned_elsewhere()
        kept.bytes_now = 0
        without = listener.pinned_elsewhere()
        kept.bytes_now = held
        return held, pinned - without

    held, of_pinned = node.call(counted)
    assert held == of_pinned > 0
    assert KEEP_MS < UNTIL_SECONDS * 1_000
    assert wait_until(lambda: node.call(lambda: kept.bytes_now) == 0, UNTIL_SECONDS)


CLEANED = (
    "broker.housekeeping_interval_ms=200",
    "log.segment_bytes=1048576",
    "log.level0_bytes=0",
)


def cleaned(word: str = "") -> list[str]:
    """What is left of a batch of which every second record was replaced."""
    return bodies(word)[1::2]


def test_a_batch_that_compaction_has_thinned_out_is_read_as_it_is_now(tmp_path: Path) -> None:
    with (
        running_remoting_node(tmp_path, *CLEANED) as (node, address),
        closing(Remote(address)) as remote,
    ):
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}"})
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        new = Created("map", 1, 1, config=config)
        admin.create_topics([new])["map"].result(UNTIL_SECONDS)
        produce(node, "map", keys="k{}")
        assert pulled_bodies(remote, "map", 0) == bodies(end=AT_ONCE)
        produce(node, "map", word="new", keys="k{}", each=2)

        def is_thinned_out() -> bool:
            fill(node)
            return pulled_bodies(remote, "map", 1, maxMsgNums=4) == cleaned()[:4]

        assert wait_until(is_thinned_out, UNTIL_SECONDS)
        assert pulled_bodies(remote, "map", 50, maxMsgNums=4) == cleaned()[25:29]
        assert pulled_bodies(remote, "map", 3, maxMsgNums=4) == cleaned()[1:5]
