"""What one remoting client, and all of them, can take of a node; and frames of any content."""

import random
import socket
from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.base.ports import Offload
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting import held
from penstock.remoting.front import RemotingFront
from penstock.remoting.heartbeat import ConsumerGroup, Heartbeat, Subscription
from penstock.remoting.members import GroupMembers, TooManyMembers
from penstock.remoting.reading import ANSWER_BYTES_MAX
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command, Serialisation
from penstock.remoting.wire.frame import encode_frame
from penstock.remoting.wire.message import decode_messages
from tests.live_node import LiveNode
from tests.remoting.served import Remote, pulled, running_remoting_node, sent

SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
BODY = bytes(512 << 10)


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("bounds")) as served:
        node = served[0]
        topics = NewTopic(name="t"), NewTopic(name="z", configs={"compression.type": "gzip"})
        node.submit(CreateTopics(topics=topics))
        yield served


def front_of(node: LiveNode) -> RemotingFront:
    front = node.node._rocketmq.remoting
    assert front is not None
    return front


def test_pulls_that_wait_are_bounded_for_each_connection(served: tuple[LiveNode, str]) -> None:
    node, address = served
    with closing(Remote(address)) as remote:
        fields = pulled("t", sysFlag=2, suspendTimeoutMillis=20_000)
        for _ in range(3_000):
            remote.send(PULL, fields)
        answer = remote.receive_answer()
        assert answer.code == ResponseCode.PULL_NOT_FOUND, "one too many does not wait"
        front = front_of(node)
        waiting = node.call(lambda: front.held.bytes_now)
        assert held.OF_ONE_MAX // 4 < waiting <= held.OF_ONE_MAX
        assert remote.ask_among(RequestCode.GET_MIN_OFFSET, {"topic": "t", "queueId": 0}).code == 0
        with closing(Remote(address)) as other:
            other.send(PULL, fields)
            assert other.ask(SEND, sent("t"), b"message").code == 0, "others go on"
    assert node.until(lambda: front.held.bytes_now == 0), "all have ended"


def test_clients_that_hang_up_leave_nothing_behind(served: tuple[LiveNode, str]) -> None:
    node, address = served
    front = front_of(node)
    fields = pulled("t", sysFlag=2, suspendTimeoutMillis=2_000)
    for _ in range(8):
        with closing(Remote(address)) as remote:
            for _ in range(2_000):
                remote.send(PULL, fields)
            remote.ask_among(RequestCode.GET_MIN_OFFSET, {"topic": "t", "queueId": 0})
        assert node.call(lambda: front.held.bytes_now) <= front.held.bytes_max
    assert node.until(lambda: front.held.bytes_now == 0)
    assert not node.call(lambda: front.held._of), "no connection is kept"


class HeldWorkers:
    """Workers that begin with nothing until they are let go."""

    def __init__(self, workers: Offload) -> None:
        self._workers = workers
        self.waiting: list[tuple[Any, ...]] = []
        self.is_open = False

    def submit(self, *work: Any) -> None:
        if self.is_open:
            self._workers.submit(*work)
        else:
            self.waiting.append(work)

    def let_go(self) -> None:
        self.is_open = True
        for work in self.waiting:
            self._workers.submit(*work)


def test_messages_that_wait_for_a_worker_are_bounded(
    served: tuple[LiveNode, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node, address = served
    front, workers = front_of(node), HeldWorkers(node.broker.workers)
    monkeypatch.setattr(node.broker, "workers", workers)
    frame = encode_frame(Command(SEND, sent("z"), BODY))
    with closing(Remote(address)) as remote:
        sending = Thread(target=remote.socket.sendall, args=(frame * 40,))
        sending.start()
        assert node.until(lambda: front.held.bytes_now > held.OF_ONE_MAX)
        with closing(Remote(address)) as other:
            for _ in range(20):
                assert other.ask(SEND, sent("t"), b"others go on").code == 0
        waiting = node.call(lambda: front.held.bytes_now)
        assert waiting <= held.OF_ONE_MAX + 2 * len(frame), "it is not read any more"
        assert node.call(lambda: front.held.paused) == 1
        node.call(workers.let_go)
        answers = [remote.receive_answer().code for _ in range(40)]
        sending.join()
    assert answers == [ResponseCode.SUCCESS] * 40
    assert node.call(lambda: (front.held.bytes_now, front.held.paused)) == (0, 0)


def test_an_answer_is_bounded_whatever_a_batch_inflates_to(served: tuple[LiveNode, str]) -> None:
    node, address = served
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{node.port}",
            "compression.type": "zstd",
            "linger.ms": 500,
        }
    )
    for _ in range(90):
        producer.produce("t", bytes(10_000))
    assert producer.flush(60) == 0
    offset = 0
    with closing(Remote(address)) as remote:
        while offset < 90:
            answer = remote.ask(PULL, pulled("t", offset, maxMsgNums=1_000))
            assert 0 < len(answer.body) <= ANSWER_BYTES_MAX + 11_000
            assert decode_messages(memoryview(answer.body))[0].queue_offset == offset
            offset = int(answer.fields["nextBeginOffset"])


def test_members_are_bounded_by_what_they_keep() -> None:
    members: GroupMembers[str] = GroupMembers(bytes_max=100_000)
    large = tuple(Subscription("t" * 100, "a" * 100) for _ in range(100))
    members.note(beat("a", large[:10]), "one", 0)
    with pytest.raises(TooManyMembers):
        members.note(beat("a", large), "one", 1)
    with pytest.raises(TooManyMembers):
        members.note(beat("b", large), "two", 1)
    assert members.note(beat("a", large[:10]), "one", 2) == []
    assert members.closed("one") == ["g"]
    assert (members.bytes_now, members.count) == (0, 0)


def beat(client_id: str, subscriptions: tuple[Subscription, ...]) -> Heartbeat:
    return Heartbeat(client_id, (ConsumerGroup("g", subscriptions=subscriptions),))


VALUES = [
    *("", "-1", "0", "1", "t", "z", "nothing", "set-1", "set-9", "true", "false", "9" * 19),
    *("9" * 30, "a\u0001b\u0002", "\u0002", "TAGS\u0001x\u0002", "g", "%RETRY%g", "é", "TAG", "4"),
    *("0 1 2 3 0 set-1 0 0", "0 1 2 3 0 set-1 1 1"),
]
NAMES = "abcdefghijklmn"
LONG = [
    "topic", "consumerGroup", "queueId", "queueOffset",
    "maxMsgNums", "sysFlag", "commitOffset", "subscription",
    "suspendTimeoutMillis", "expressionType", "bname", "clientID",
    "producerGroup", "properties", "offset", "group",
    "timestamp", "delayLevel", "originMsgId", "setZeroIfNotFound",
    "extraInfo", "invisibleTime", "pollTime", "initMode", "exp", "expType", "order",
]  # fmt: skip
ACKS = b'{"brokerName":"set-1","acks":[{"c":"g","t":"t","q":0,"so":0,"rq":1,"b":"AQ=="}]}'
ASKED = b'{"topic":"t","consumerGroup":"g","clientId":"c","mode":"POP"}'
BODIES = (b"", b"{}", b"[]", b"x" * 50, b'{"clientID":"c"}', bytes(100), ACKS, ASKED)
BINARY_MAX = (1 << 15) - 1


def any_frame(chance: random.Random) -> bytes:
    """A frame with a known code and fields that may mean anything."""
    names = chance.sample(LONG, chance.randrange(12)) + chance.sample(NAMES, chance.randrange(12))
    code = chance.choice([*RequestCode, 0, 9_999])
    kinds = [*Serialisation] if code <= BINARY_MAX else [Serialisation.JSON]
    command = Command(
        code=code,
        fields={name: chance.choice(VALUES) for name in names},
        body=chance.choice(BODIES),
        opaque=chance.randrange(1 << 31),
        flag=chance.choice((0, 0, 0, 2)),
        serialisation=chance.choice(kinds),
    )
    frame = bytearray(encode_frame(command))
    if not chance.randrange(10):
        frame[chance.randrange(4, len(frame))] = chance.randrange(256)
    return bytes(frame)


def test_frames_of_any_content_are_no_bugs(served: tuple[LiveNode, str]) -> None:
    node, address = served
    host, port = address.split(":")
    chance = random.Random(1)
    for _ in range(300):
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(b"".join(any_frame(chance) for _ in range(20)))
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass
    errors = node.call(lambda: dict(node.broker.stats.request_errors))
    assert "unhandled" not in errors, errors
    assert errors["MalformedFrame"] > 0
    assert node.until(lambda: front_of(node).held.bytes_now == 0)


def test_answers_that_nobody_takes_are_bounded(served: tuple[LiveNode, str]) -> None:
    node, address = served
    with closing(Remote(address)) as remote:
        for _ in range(4):
            assert remote.ask(SEND, sent("t"), BODY[: 250 << 10]).code == 0
    listener = node.node._listener
    assert listener is not None
    budget = listener._budget
    clients = [Remote(address) for _ in range(4)]
    try:
        for client in clients:
            client.socket.settimeout(0.2)
            try:
                for _ in range(3_000):
                    client.send(PULL, pulled("t"))
            except TimeoutError:
                pass  # it is not read any more
        most = 0
        with closing(Remote(address)) as other:
            for _ in range(50):
                most = max(most, node.call(lambda: budget.used))
                assert other.ask(SEND, sent("z"), b"others go on").code == 0
        each = node.node._settings.net.queued_bytes_max + 2 * ANSWER_BYTES_MAX
        assert ANSWER_BYTES_MAX < most <= len(clients) * 2 * each
    finally:
        for client in clients:
            client.close()
