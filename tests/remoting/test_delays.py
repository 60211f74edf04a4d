"""Messages that wait for their time: held, delivered, and what comes between."""

from typing import Any

import pytest

from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.frames.run import Run
from penstock.record.build import Record
from penstock.remoting.errors import IllegalMessage
from penstock.remoting.later.delayed import (
    DELAYS_MS,
    Destination,
    held,
    level_of,
    released,
    stamped,
)
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.properties import read_properties
from tests.broker.cluster import Cluster
from tests.remoting.served import sent
from tests.remoting.world import SET, Remoting, look, remotings, settle

SEND = RequestCode.SEND_MESSAGE_V2
SECOND = 1_000


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(2)
    cluster.create("events", partitions=2)
    return cluster


def delayed(remote: Remoting, level: int, body: bytes = b"body", queue: int = 0) -> int:
    """Send a message with a delay level."""
    properties = {"DELAY": str(level), "UNIQ_KEY": f"ID-{body.decode()}"}
    return remote.send(SEND, sent("events", properties, n=SET, e=queue), body)


def acknowledged(cluster: Cluster, remote: Remoting, asked: int) -> Command:
    cluster.replicate()
    answer = remote.answer(asked)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer


def bodies(remote: Remoting, topic: str = "events", queue: int = 0) -> list[bytes]:
    return [bytes(one.body) for one in remote.pull(topic, queueId=queue)]


def test_levels_are_those_of_rocketmq() -> None:
    minutes = [60 * SECOND * one for one in (*range(1, 11), 20, 30, 60, 120)]
    assert list(DELAYS_MS) == [SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, *minutes]


@pytest.mark.parametrize(
    ("text", "level"), [("0", 0), ("1", 1), ("18", 18), ("19", 18), ("9999999999", 18)]
)
def test_a_level_is_read(text: str, level: int) -> None:
    assert level_of({"DELAY": text}) == level


@pytest.mark.parametrize("text", ["-1", "x", "", "1.5", "²", "9" * 5_000])
def test_a_level_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(IllegalMessage, match="level"):
        level_of({"DELAY": text})


def test_a_record_that_waits_says_where_it_is_to_go_by_its_last_header() -> None:
    """Anyone may have written a header of that name before."""
    record = Record(b"k", b"v", (("rmq.delayed", b"1 00 0"), ("a", b"b")), 5)
    destination = Destination(9, b"t" * 16, 3)
    assert released(held(record, destination)) == (destination, record)
    assert released(record) is None
    assert released(Record(None, b"v", (("rmq.delayed", b"1 zz 0"),))) is None
    assert released(Record(None, b"v", (("rmq.delayed", None),))) is None


def test_the_time_of_birth_is_that_of_the_first_stamp() -> None:
    once = stamped(Record(None, b"v", (), 5), 10)
    assert (once.timestamp_ms, once.headers) == (10, (("rmq.born", b"5"),))
    assert stamped(once, 20) == once._replace(timestamp_ms=20)


def test_a_delayed_message_comes_when_its_time_has_and_not_before(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    answer = acknowledged(cluster, remote, delayed(remote, 3))
    assert (answer.fields["queueId"], answer.fields["transactionId"]) == ("0", "ID-body")
    cluster.world.advance(10 * SECOND - 1)
    settle(cluster)
    assert bodies(remote) == []
    cluster.world.advance(1)
    settle(cluster)
    (message,) = remote.pull("events")
    assert (message.body, message.born_ms) == (b"body", 7)
    assert message.store_ms == cluster.world.wall_ms()
    told = {"UNIQ_KEY": "ID-body", "MSG_REGION": "DefaultRegion"}
    assert read_properties(message.properties) == told
    settle(cluster)
    assert bodies(remote) == [b"body"], "once"


def test_it_is_answered_when_the_set_has_it_and_not_before(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    asked = delayed(remote, 1)
    cluster.world.run()
    assert remote.answer(asked) is None
    acknowledged(cluster, remote, asked)


def test_messages_go_to_their_queues_in_order_and_shorter_delays_pass_longer_ones(
    cluster: Cluster,
) -> None:
    remote, _ = remotings(cluster)
    for level, body, queue in ((2, b"a", 0), (2, b"b", 1), (2, b"c", 0), (1, b"first", 0)):
        acknowledged(cluster, remote, delayed(remote, level, body, queue))
    cluster.world.advance(SECOND)
    settle(cluster)
    assert (bodies(remote), bodies(remote, queue=1)) == ([b"first"], [])
    cluster.world.advance(4 * SECOND)
    settle(cluster)
    assert (bodies(remote), bodies(remote, queue=1)) == ([b"first", b"a", b"c"], [b"b"])


@pytest.mark.parametrize("is_delivered", [False, True])
def test_a_new_master_delivers_what_waits_and_nothing_twice(
    cluster: Cluster, is_delivered: bool
) -> None:
    first, second = remotings(cluster)
    acknowledged(cluster, first, delayed(first, 1, b"old"))
    acknowledged(cluster, first, delayed(first, 2, b"new"))
    cluster.world.advance(SECOND)
    if is_delivered:
        settle(cluster)
    cluster.lead(1)
    cluster.replicate()
    settle(cluster)
    assert bodies(second) == [b"old"]
    cluster.world.advance(4 * SECOND)
    settle(cluster)
    assert bodies(second) == [b"old", b"new"]


def test_what_was_delivered_and_not_confirmed_is_delivered_by_the_new_master(
    cluster: Cluster,
) -> None:
    """The old master has appended the copy, and nobody else has it."""
    first, second = remotings(cluster)
    acknowledged(cluster, first, delayed(first, 1))
    cluster.world.advance(SECOND)
    look(cluster)
    assert first.front.delivery.delivered == 1
    cluster.lead(1)
    cluster.align()
    cluster.replicate()
    settle(cluster)
    assert bodies(second) == [b"body"]
    cluster.lead(0)
    cluster.replicate()
    settle(cluster)
    assert bodies(first) == [b"body"], "the first master cuts its copy, and goes by the second one"


@pytest.mark.parametrize("frames", range(4))
def test_wherever_the_log_of_a_new_master_ends_what_waited_is_delivered(
    cluster: Cluster, frames: int
) -> None:
    """The copy, and then the end of its wait: twice where the log ends between them, never not."""
    first, second = remotings(cluster)
    acknowledged(cluster, first, delayed(first, 1))
    cluster.world.advance(SECOND)
    look(cluster)
    source, target = cluster.nodes[0].member.log, cluster.nodes[1].member.log
    for _ in range(frames):
        run = source.read_run(target.end_position, 1, source.written_position)
        if isinstance(run, Run):
            target.append_run(run)
            cluster.world.run()
    cluster.lead(1)
    cluster.align()
    cluster.replicate()
    settle(cluster)
    assert bodies(second) == [b"body"] * (2 if frames == 1 else 1)


def test_what_its_topic_refuses_waits_once_more_and_holds_nobody(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    acknowledged(cluster, remote, delayed(remote, 1, b"x" * 2_000))
    acknowledged(cluster, remote, delayed(remote, 1, b"small", queue=1))
    hosted = cluster.nodes[0].broker.partitions.by_name[b"events"]
    rules = hosted.rules
    hosted.rules = rules._replace(max_message_bytes=1_000)
    cluster.world.advance(SECOND)
    settle(cluster)
    assert (bodies(remote), bodies(remote, queue=1)) == ([], [b"small"])
    assert (remote.front.delivery.put_back, remote.front.delivery.waiting()) == (1, 1)
    assert remote.front.delivery.moved == 0
    assert remote.front.delivery.dropped == 0
    hosted.rules = rules
    settle(cluster)
    assert bodies(remote) == [], "not before another second"
    cluster.world.advance(SECOND)
    settle(cluster)
    assert bodies(remote) == [b"x" * 2_000]


def test_messages_are_batches_that_their_topic_permits(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    for n in range(4):
        acknowledged(cluster, remote, delayed(remote, 1, b"%d" % n * 400))
    hosted = cluster.nodes[0].broker.partitions.by_name[b"events"]
    hosted.rules = hosted.rules._replace(max_message_bytes=1_200)
    cluster.world.advance(SECOND)
    settle(cluster)
    assert bodies(remote) == [b"%d" % n * 400 for n in range(4)]
    assert remote.front.delivery.put_back == 0


def test_a_topic_s_compression_is_done_by_a_worker(cluster: Cluster) -> None:
    cluster.create("packed", compression_type="zstd")
    remote, _ = remotings(cluster)
    asked = remote.send(SEND, sent("packed", {"DELAY": "1"}, n=SET), b"x" * 20_000)
    acknowledged(cluster, remote, asked)
    cluster.world.advance(SECOND)
    remote.front.delivery.look()
    assert bodies(remote, "packed") == [], "it is at the worker"
    settle(cluster)
    assert bodies(remote, "packed") == [b"x" * 20_000]


def test_messages_of_a_deleted_topic_are_dropped_and_hold_nobody(cluster: Cluster) -> None:
    cluster.create("others")
    remote, _ = remotings(cluster)
    acknowledged(cluster, remote, delayed(remote, 1))
    asked = remote.send(SEND, sent("others", {"DELAY": "1"}, n=SET), b"kept")
    acknowledged(cluster, remote, asked)
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    cluster.world.advance(SECOND)
    settle(cluster)
    assert bodies(remote, "others") == [b"kept"]
    assert remote.front.delivery.dropped == 1


def test_a_topic_that_is_not_known_yet_is_waited_for(cluster: Cluster) -> None:
    """After a restart the metadata may be behind the log: that is no proof of a deletion."""
    remote, _ = remotings(cluster)
    acknowledged(cluster, remote, delayed(remote, 1))
    by_id = cluster.nodes[0].broker.partitions.by_id
    topic_id = cluster.metadata.image.topics_by_name["events"].topic_id
    topic = by_id.pop(topic_id)
    cluster.world.advance(SECOND)
    settle(cluster)
    assert (remote.front.delivery.dropped, remote.front.delivery.waiting()) == (0, 1)
    by_id[topic_id] = topic
    cluster.world.advance(SECOND)
    settle(cluster)
    assert bodies(remote) == [b"body"]


def test_thousands_that_are_due_at_once_all_come_in_order_and_a_read_is_bounded(
    cluster: Cluster,
) -> None:
    remote, _ = remotings(cluster)
    for begin in range(0, 1_300, 50):
        asked = [delayed(remote, 1, b"%d" % n) for n in range(begin, begin + 50)]
        acknowledged(cluster, remote, asked[-1])
    cluster.world.advance(SECOND)
    look(cluster)
    cluster.replicate()
    found: list[bytes] = []
    while messages := remote.pull("events", len(found)):
        found += [bytes(one.body) for one in messages]
    assert found == [b"%d" % n for n in range(1_300)]


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC"])
def test_a_batch_is_not_delayed(cluster: Cluster, name: str) -> None:
    """Whichever of its messages would be."""
    remote, _ = remotings(cluster)
    body = encode_batch([BatchedMessage(0, b"b", ""), BatchedMessage(0, b"b", f"{name}\x011\x02")])
    asked = remote.send(RequestCode.SEND_BATCH_MESSAGE, sent("events", n=SET, m=True), body)
    answer = remote.answer(asked)
    assert answer is not None
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "one by one" in (answer.remark or "")


def test_too_few_in_step_for_the_topic_are_told_before_a_message_waits(cluster: Cluster) -> None:
    cluster.create("strict", min_insync_replicas="2")
    remote, _ = remotings(cluster)
    cluster.lead(0, members=(0,))
    answer = remote.answer(remote.send(SEND, sent("strict", {"DELAY": "1"}, n=SET), b"b"))
    cluster.world.run()
    assert answer is not None
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_how_late_it_is_can_be_seen(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    acknowledged(cluster, remote, delayed(remote, 1))
    settle(cluster)
    assert remote.front.delivery.late_ms() == 0
    cluster.world.advance(5 * SECOND)
    assert (remote.front.delivery.late_ms(), remote.front.delivery.waiting()) == (4 * SECOND, 1)
    settle(cluster)
    assert (remote.front.delivery.late_ms(), remote.front.delivery.waiting()) == (0, 0)


def test_messages_of_one_turn_are_batches_that_their_topic_permits(cluster: Cluster) -> None:
    """Together they may be more than one message of that topic may be."""
    cluster.create("small", max_message_bytes="1200")
    remote, _ = remotings(cluster)
    asked = [remote.send(SEND, sent("small", n=SET), b"x" * 500) for _ in range(4)]
    for one in asked:
        acknowledged(cluster, remote, one)


@pytest.mark.parametrize(
    ("configs", "properties", "body"),
    [
        ({"max_message_bytes": "1200"}, {}, b"x" * 1_200),
        ({"cleanup_policy": "compact"}, {}, b"x"),
    ],
)
def test_what_its_topic_would_refuse_later_is_refused_at_once(
    cluster: Cluster, configs: dict[str, Any], properties: dict[str, str], body: bytes
) -> None:
    """Else it would be acknowledged, and wait for ever."""
    cluster.create("narrow", **configs)
    remote, _ = remotings(cluster)
    asked = remote.send(SEND, sent("narrow", properties | {"DELAY": "1"}, n=SET), body)
    cluster.replicate()
    answer = remote.answer(asked)
    assert answer is not None
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL, answer.remark
    assert remote.front.delivery.waiting() == 0


def test_a_message_with_a_key_is_delivered_to_a_compacted_topic(cluster: Cluster) -> None:
    cluster.create("narrow", cleanup_policy="compact")
    remote, _ = remotings(cluster)
    properties = {"DELAY": "1", "__SHARDINGKEY": "key"}
    acknowledged(cluster, remote, remote.send(SEND, sent("narrow", properties, n=SET), b"b"))
    cluster.world.advance(SECOND)
    settle(cluster)
    assert bodies(remote, "narrow") == [b"b"]


def test_a_message_as_large_as_its_topic_permits_can_wait(cluster: Cluster) -> None:
    cluster.create("wide", max_message_bytes=str(4 << 20))
    remote, _ = remotings(cluster)
    asked = remote.send(SEND, sent("wide", {"DELAY": "1"}, n=SET), b"b")
    acknowledged(cluster, remote, asked)
    topics = cluster.nodes[0].broker.partitions.by_name
    assert topics[b"__delayed_1"].rules.max_message_bytes >= 4 << 20
