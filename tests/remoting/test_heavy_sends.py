"""Sends that are small as frames and much as messages: no turn is long, and memory has a bound."""

import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import cramjam
import pytest

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.front import RemotingFront
from penstock.remoting.handlers import sent_messages
from penstock.remoting.handlers.sent_messages import HERE_BYTES, PROPERTIES_MAX
from penstock.remoting.wire import body_codec
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from tests.live_node import LiveNode
from tests.remoting.served import Remote, pull, sent, visits
from tests.remoting.test_unreadable_batches import CountingWorkers
from tests.turn_calls import CALLS_MAX, Turns

SEND, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
ILLEGAL, SUCCESS = ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SUCCESS
ZLIB, LZ4_FLAG, ZSTD_FLAG = 1, 0x101, 0x201
TOPIC_BYTES = 1_048_588


def lz4(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress(data))


def zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


CODECS: Mapping[str, tuple[int, Callable[[bytes], bytes]]] = {
    "zlib": (ZLIB, zlib.compress),
    "lz4": (LZ4_FLAG, lz4),
    "zstd": (ZSTD_FLAG, zstd),
}


@pytest.fixture
def workers(node: LiveNode, monkeypatch: pytest.MonkeyPatch) -> CountingWorkers:
    workers = CountingWorkers(node.broker.workers)
    monkeypatch.setattr(node.broker, "workers", workers)
    return workers


@pytest.fixture
def front(node: LiveNode) -> RemotingFront:
    front = node.node._rocketmq.remoting
    assert front is not None
    return front


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_compressed_body_is_unpacked_by_a_worker(
    node: LiveNode, remote: Remote, topic: str, workers: CountingWorkers, codec: str
) -> None:
    flag, compress = CODECS[codec]
    body = bytes(range(256)) * 1_024
    for many, text in enumerate((body, b"small" * 100), start=1):
        assert remote.ask(SEND, sent(topic, f=flag), compress(text)).code == SUCCESS
        assert pull(remote, topic, many - 1)[0].body == text
    assert workers.count == 1, "the small one is not worth a worker"


@pytest.mark.parametrize("codec", CODECS)
def test_a_body_unpacks_to_what_its_topic_permits_and_no_further(
    remote: Remote, topic: str, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    plain_body = body_codec.plain_body

    def counting(body: bytes, sys_flag: int, bounds: Any) -> bytes:
        made.append(bounds.limit(len(body)))
        return plain_body(body, sys_flag, bounds)

    monkeypatch.setattr(sent_messages, "plain_body", counting)
    flag, compress = CODECS[codec]
    answer = remote.ask(SEND, sent(topic, f=flag), compress(bytes(64 << 20)))
    assert answer.code == ILLEGAL
    assert made == [TOPIC_BYTES]


def test_bodies_of_a_batch_share_what_a_topic_permits(
    remote: Remote, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = zlib.compress(bytes(400_000))
    made: list[int] = []
    plain_body = body_codec.plain_body

    def counting(body: bytes, sys_flag: int, bounds: Any) -> bytes:
        plain = plain_body(body, sys_flag, bounds)
        made.append(len(plain))
        return plain

    monkeypatch.setattr(sent_messages, "plain_body", counting)
    batch = encode_batch([BatchedMessage(0, bomb, "")] * 1_000)
    assert remote.ask(BATCH, sent(topic, f=ZLIB), batch).code == ILLEGAL
    assert sum(made) <= TOPIC_BYTES
    two = encode_batch([BatchedMessage(0, bomb, "")] * 2)
    assert remote.ask(BATCH, sent(topic, f=ZLIB), two).code == SUCCESS
    assert [len(one.body) for one in pull(remote, topic)] == [400_000]


@pytest.mark.parametrize("flag", [ZLIB, LZ4_FLAG, ZSTD_FLAG, 0x301, 0x401, 0x701])
@pytest.mark.parametrize("size", [1, 1_000, HERE_BYTES + 1])
def test_a_body_that_is_not_what_it_says_is_refused(
    remote: Remote, topic: str, flag: int, size: int
) -> None:
    answer = remote.ask(SEND, sent(topic, f=flag), b"\x04\x22" * size)
    assert (answer.code, bool(answer.remark)) == (ILLEGAL, True)
    batch = encode_batch([BatchedMessage(0, b"\x04\x22" * size, "")])
    assert remote.ask(BATCH, sent(topic, f=flag), batch).code == ILLEGAL
    assert pull(remote, topic) == []


def test_bodies_larger_than_their_topic_permits_are_refused_before_a_batch_is_made(
    remote: Remote, topic: str, workers: CountingWorkers
) -> None:
    assert remote.ask(SEND, sent(topic), bytes(TOPIC_BYTES + 1)).code == ILLEGAL
    batch = encode_batch([BatchedMessage(0, bytes(TOPIC_BYTES // 2), "")] * 3)
    assert remote.ask(BATCH, sent(topic), batch).code == ILLEGAL
    small = encode_batch([BatchedMessage(0, bytes(500), "")] * 2)
    assert remote.ask(BATCH, sent(topic), small).code == SUCCESS


def properties(count: int) -> str:
    return "".join(f"{one}\1v\2" for one in range(count))


def longest_turn(node: LiveNode, ask: Callable[[], Any]) -> tuple[Any, Turns]:
    turns = Turns()
    node.call(turns.begin)
    try:
        return ask(), turns
    finally:
        node.call(turns.end)


def test_a_batch_of_many_messages_is_stored_whole_in_short_turns(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    batch = encode_batch([BatchedMessage(0, b"%d" % one, "") for one in range(3_000)])
    answer, turns = longest_turn(node, lambda: remote.ask(BATCH, sent(topic), batch))
    assert answer.code == SUCCESS
    assert 0 < turns.longest < 2 * CALLS_MAX, turns.begun_in
    found: list[bytes] = []
    while len(found) < 3_000:
        found += [bytes(one.body) for one in pull(remote, topic, len(found), maxMsgNums=1_000)]
    assert found == [b"%d" % one for one in range(3_000)]


def test_a_batch_of_many_properties_takes_short_turns(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    batch = encode_batch([BatchedMessage(0, b"x", properties(2_000))] * 20)
    answer, turns = longest_turn(node, lambda: remote.ask(BATCH, sent(topic), batch))
    assert answer.code == SUCCESS
    assert 0 < turns.longest < 2 * CALLS_MAX, turns.begun_in


def test_properties_of_a_batch_have_a_bound_together(remote: Remote, topic: str) -> None:
    few = BatchedMessage(0, b"x", "\2" * 400)  # more messages than are read in a turn
    at_most = encode_batch([few] * (PROPERTIES_MAX // 400))
    assert remote.ask(BATCH, sent(topic), at_most).code == SUCCESS
    one_more = at_most + encode_batch([BatchedMessage(0, b"x", "a\1b\2")])
    answer = remote.ask(BATCH, sent(topic), one_more)
    assert answer.code == ILLEGAL
    assert "properties" in (answer.remark or "")


@pytest.mark.parametrize("wrong", ["\1", "\2\2\2", "a\1", "\1b\2", "a\1b\1c\2", "a\2b\1", "a\1b"])
def test_properties_with_separators_in_wrong_places_stop_nobody(
    remote: Remote, topic: str, wrong: str
) -> None:
    assert remote.ask(SEND, sent(topic, i=wrong), b"body").code == SUCCESS
    batch = encode_batch([BatchedMessage(0, b"batched", wrong)] * 2)
    assert remote.ask(BATCH, sent(topic), batch).code == SUCCESS
    assert [one.body for one in pull(remote, topic)] == [b"body", b"batched", b"batched"]


LENGTHS = [(0, 0), (0, 1 << 31), (4, 0xFFFFFFFF), (16, 0xFFFFFFFF), (16, 100), (25, 0xFF)]


@pytest.mark.parametrize(("at", "value"), LENGTHS)
def test_a_batch_whose_lengths_lie_is_refused(
    remote: Remote, topic: str, at: int, value: int
) -> None:
    batch = bytearray(encode_batch([BatchedMessage(0, b"body!", "a\1b\2")] * 2))
    if at == 4:
        batch[0:4] = value.to_bytes(4)
    elif at == 25:
        batch[25] = value
    else:
        batch[at : at + 4] = value.to_bytes(4)
    assert remote.ask(BATCH, sent(topic), bytes(batch)).code != SUCCESS
    assert pull(remote, topic) == []


def test_a_client_that_goes_while_its_messages_are_read_leaves_nothing(
    node: LiveNode, served: tuple[LiveNode, str], topic: str, front: RemotingFront
) -> None:
    bomb = encode_batch([BatchedMessage(0, zlib.compress(bytes(100_000)), "")] * 8)
    with visits(node, 3):
        for _ in range(3):
            with closing(Remote(served[1])) as gone:
                for _ in range(20):
                    gone.send(BATCH, sent(topic, f=ZLIB), bomb)
    assert node.until(lambda: front.held.bytes_now == 0)
    assert node.until(lambda: (front.unpacking.waiting, front.unpacking.in_progress) == (0, 0))


def test_a_heavy_send_holds_no_other_client(
    node: LiveNode, remote: Remote, other: Remote, topic: str, front: RemotingFront
) -> None:
    node.submit(CreateTopics(topics=(NewTopic(name=f"{topic}-other"),)))
    batch = encode_batch([BatchedMessage(0, b"x", properties(400))] * 100)
    for _ in range(20):
        remote.send(BATCH, sent(topic), batch)
    for _ in range(20):
        assert other.ask(SEND, sent(f"{topic}-other"), b"others go on").code == SUCCESS
    assert [remote.receive_answer().code for _ in range(20)] == [SUCCESS] * 20


def test_ids_of_many_messages_are_those_of_each(remote: Remote, topic: str) -> None:
    batch = encode_batch([BatchedMessage(0, b"x", "")] * 5)
    answer = remote.ask(BATCH, sent(topic), batch)
    told = answer.fields["msgId"].split(",")
    alone = remote.ask(SEND, sent(topic), b"x").fields["msgId"]
    assert len(set(told)) == 5
    assert int(alone, 16) - int(told[0], 16) == 5
    assert {len(one) for one in told} == {len(alone)}
