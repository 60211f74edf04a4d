"""Batches that are heavy, or lie, for readers of messages: they hold no turn, and stop nobody.

Kafka's clients write them: a topic with `penstock.record.validation=header` takes what has a right
checksum, whatever is in it.
"""

import logging
from contextlib import closing

import pytest

from penstock.base.ports import Offload
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.protocol.api_keys import ApiKey
from penstock.record.build import Record, build_batch
from penstock.record.compression import ZSTD
from penstock.remoting.front import RemotingFront
from penstock.remoting.ids import locator_of
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.message import decode_messages
from tests.live_node import LiveNode
from tests.record.test_excerpt import LIES
from tests.remoting.popping import POP, Popped, asked
from tests.remoting.served import Remote, pulled, visits
from tests.turn_calls import CALLS_MAX, Turns

MANY = 100_000
PULL, SEND_BACK = RequestCode.PULL_MESSAGE, RequestCode.CONSUMER_SEND_MSG_BACK
SUCCESS = ResponseCode.SUCCESS
IN_RECORDS = sorted(LIES.keys() - {"a codec that there is not", "more records than offsets"})
"""Lies that a header does not show; the others are refused whatever is looked at."""


@pytest.fixture
def topic(node: LiveNode, topic: str) -> str:
    """A topic of one partition that looks at headers alone."""
    name = f"{topic}-header"
    configs = {"penstock.record.validation": "header", "max.message.bytes": "4000000"}
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=1, configs=configs),)))
    return name


@pytest.fixture
def front(node: LiveNode) -> RemotingFront:
    front = node.node._rocketmq.remoting
    assert front is not None
    return front


def produce(node: LiveNode, topic: str, *batches: bytes) -> None:
    with closing(node.connect()) as client:
        for one in batches:
            data = [{"name": topic, "partition_data": [{"index": 0, "records": one}]}]
            fields = {"transactional_id": None, "acks": -1, "timeout": 30_000, "topic_data": data}
            answer = client.ask(ApiKey.PRODUCE, 7, fields)
            assert answer.responses[0].partition_responses[0].error_code == 0


def plain(*values: bytes, codec: int = 0) -> bytes:
    return build_batch([Record(None, one) for one in values], codec=codec)


def pulled_all(remote: Remote, topic: str, end: int) -> list[bytes]:
    """What a consumer gets that pulls on from where each answer says."""
    found: list[bytes] = []
    offset = 0
    while offset < end:
        answer = remote.ask(PULL, pulled(topic, offset))
        assert answer.code in {SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY}, answer.remark
        found += [bytes(one.body) for one in decode_messages(memoryview(answer.body))]
        following = int(answer.fields["nextBeginOffset"])
        assert following > offset, "it goes on"
        offset = following
    return found


@pytest.mark.parametrize("lie", IN_RECORDS)
def test_a_batch_that_lies_stops_no_pull(
    node: LiveNode, remote: Remote, topic: str, lie: str, front: RemotingFront
) -> None:
    before = node.call(lambda: front.desk.excerpts.unreadable)
    produce(node, topic, plain(b"a"), LIES[lie], plain(b"b"))
    assert pulled_all(remote, topic, 5) == [b"a", b"b"]
    assert node.call(lambda: front.desk.excerpts.unreadable) == before + 1


@pytest.mark.parametrize("lie", IN_RECORDS)
def test_a_batch_that_lies_stops_no_pop(
    node: LiveNode, remote: Remote, topic: str, lie: str
) -> None:
    produce(node, topic, plain(b"a"), LIES[lie], plain(b"b"))
    bodies: list[str] = []
    while len(bodies) < 2:
        popped = Popped(remote.ask(POP, asked(topic)))
        assert popped.code is SUCCESS
        bodies += popped.bodies
    assert bodies == ["a", "b"]


def test_the_log_names_what_is_stepped_over(
    node: LiveNode,
    remote: Remote,
    topic: str,
    front: RemotingFront,
    caplog: pytest.LogCaptureFixture,
) -> None:
    produce(node, topic, plain(b"a"), LIES["gzip that is plain"], plain(b"b"))
    node.call(lambda: setattr(front.desk.excerpts, "_logged_ms", -10_000))
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            pulled_all(remote, topic, 5)
    told = [one.message for one in caplog.records if "can not be read" in one.message]
    assert f"topic={topic} partition=0 offsets=1-3 can not be read" in told[0]
    assert len(told) < 20, "a client does not fill the log"


def test_few_messages_of_a_batch_with_many_are_found_in_a_short_turn(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    produce(node, topic, plain(*[b"v"] * MANY, codec=ZSTD))
    turns = Turns()
    node.call(turns.begin)
    try:
        answer = remote.ask(PULL, pulled(topic, MANY - 7))
        popped = Popped(remote.ask(POP, asked(topic)))
        place = {"offset": locator_of(0, MANY - 9), "delayLevel": 1, "maxReconsumeTimes": 16}
        back = remote.ask(SEND_BACK, {"group": "g", "originTopic": topic, **place})
    finally:
        node.call(turns.end)
    found = decode_messages(memoryview(answer.body))
    assert [one.queue_offset for one in found] == list(range(MANY - 7, MANY))
    assert len(popped.messages) == 32
    assert back.code == SUCCESS, back.remark
    assert 0 < turns.longest < CALLS_MAX, turns.begun_in


class CountingWorkers:
    """Workers that say how much they are given."""

    def __init__(self, workers: Offload) -> None:
        self._workers = workers
        self.count = 0

    def submit(self, *work: object) -> None:
        self.count += 1
        self._workers.submit(*work)  # type: ignore[arg-type]


@pytest.fixture
def workers(node: LiveNode, monkeypatch: pytest.MonkeyPatch) -> CountingWorkers:
    workers = CountingWorkers(node.broker.workers)
    monkeypatch.setattr(node.broker, "workers", workers)
    return workers


def test_what_unpacks_to_much_is_unpacked_by_a_worker(
    node: LiveNode, remote: Remote, topic: str, workers: CountingWorkers
) -> None:
    produce(node, topic, plain(bytes(3_000_000), codec=ZSTD), plain(b"small", codec=ZSTD))
    before = workers.count
    answer = remote.ask(PULL, pulled(topic, 0, maxMsgNums=1))
    assert [len(one.body) for one in decode_messages(memoryview(answer.body))] == [3_000_000]
    assert workers.count == before + 1
    assert len(remote.ask(PULL, pulled(topic, 1)).body) > 0
    assert workers.count == before + 1, "the small one is not worth a worker"


def test_a_client_that_goes_while_its_batch_is_unpacked_leaves_nothing(
    node: LiveNode, topic: str, served: tuple[LiveNode, str], front: RemotingFront
) -> None:
    produce(node, topic, plain(bytes(3_000_000), codec=ZSTD))
    with visits(node, 5):
        for _ in range(5):
            with closing(Remote(served[1])) as gone:
                for _ in range(20):
                    gone.send(PULL, pulled(topic))
                gone.send(POP, asked(topic, pollTime=0))
    assert node.until(lambda: front.held.bytes_now == 0)
    assert node.until(lambda: front.desk.pops.waiting == 0)
    listener = node.node._listener
    assert listener is not None
    budget = listener._budget
    # Once a second it is told what groups of other tests have in memory.
    assert node.until(lambda: budget.used == budget._elsewhere)
