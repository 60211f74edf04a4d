"""Transactional messages of gRPC producers: seen by nobody, decided once, asked for."""

from collections.abc import Iterator
from contextlib import closing
from hashlib import md5
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rocketmq.grpc_protocol import definition_pb2 as definition

from harness.ports import free_port
from penstock.broker.access import Operation, PermitsAll, Requester, Resource
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.ids import located, locator_of
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from tests.grpc.producing import COMMIT, OK, ROLLBACK, UNKNOWN, Half, Payer
from tests.grpc.receiving import Member
from tests.grpc.served import Caller, message, records, running_grpc_node
from tests.live_node import LiveNode
from tests.remoting.served import SET, Remote, sent

PARTITIONS = 2
SETTINGS = (
    "remoting.transaction_first_check_ms=1000",
    "remoting.transaction_check_interval_ms=1000",
)
LONG = {"orphaned_transaction_recovery_duration": Duration(seconds=600)}
"""So that nobody is asked."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_grpc_node(tmp_path_factory.mktemp("halves"), *SETTINGS) as served:
        yield served


@pytest.fixture
def payer(caller: Caller) -> Payer:
    return Payer(caller)


def front_of(node: LiveNode) -> Any:
    port = node.node._rocketmq.grpc
    assert port is not None
    return port.front


def halves_of(node: LiveNode) -> Any:
    return front_of(node).keeping.halves


def test_a_half_message_is_seen_when_it_is_committed_and_once(node, payer, one, topic) -> None:
    half = payer.half(topic, properties={"colour": "grün"}, tag="fresh", keys=["k"], **LONG)
    assert one.receive(topic, 0).messages == []
    assert payer.end(half) == OK
    (got,) = one.receive(topic).messages
    system = got.system_properties
    assert (got.body, system.message_id) == (b"half", "ID-half")
    assert system.message_type == definition.TRANSACTION
    assert (system.tag, [*system.keys]) == ("fresh", ["k"])
    assert dict(got.user_properties) == {
        "colour": "grün",
        "__transactionId__": half.transaction_id,
    }
    assert payer.end(half) == OK, "an equal one changes nothing"
    assert one.receive(topic, 0).messages == []
    (record,) = records(node, topic, PARTITIONS, 1)
    assert (record.key(), record.value()) == (None, b"half")
    headers = dict(record.headers())
    assert headers["rmq.PGROUP"] == topic.encode()
    assert "rmq.TRAN_MSG" not in headers


def test_what_is_rolled_back_is_never_seen(payer, one, topic) -> None:
    half = payer.half(topic, **LONG)
    assert payer.end(half, ROLLBACK) == OK
    assert payer.end(half, ROLLBACK) == OK
    assert payer.end(half, COMMIT) == definition.BAD_REQUEST, "it was decided otherwise"
    assert one.receive(topic, 0).messages == []


def test_a_resolution_that_is_not_told_decides_nothing(node, payer, one, topic) -> None:
    half = payer.half(topic, **LONG)
    waiting = node.call(halves_of(node).waiting)
    assert payer.end(half, UNKNOWN) == OK
    assert node.call(halves_of(node).waiting) == waiting
    assert payer.end(half, source=definition.SOURCE_SERVER_CHECK) == OK
    assert one.receive(topic).bodies == ["half"]


def test_a_decision_has_to_be_about_its_half_message(payer, caller, one, topic) -> None:
    half = payer.half(topic, **LONG)
    assert caller.send(message(topic)).status.code == OK
    place = located(int(half.transaction_id, 16))
    assert place is not None
    elsewhere = f"{locator_of(place.partition + 7, place.offset):016X}"
    later = f"{locator_of(place.partition, place.offset + 9):016X}"
    for fields, code in (
        ({"message_id": "ID-another"}, definition.INVALID_TRANSACTION_ID),
        ({"message_id": ""}, definition.ILLEGAL_MESSAGE_ID),
        ({"transaction_id": ""}, definition.INVALID_TRANSACTION_ID),
        ({"transaction_id": "ID-half"}, definition.INVALID_TRANSACTION_ID),
        ({"transaction_id": "z" * 16}, definition.INVALID_TRANSACTION_ID),
        ({"transaction_id": "F" * 16}, definition.INVALID_TRANSACTION_ID),
        ({"transaction_id": elsewhere}, definition.INVALID_TRANSACTION_ID),
        ({"transaction_id": later}, definition.INVALID_TRANSACTION_ID),
        ({"topic": definition.Resource(name="none")}, definition.TOPIC_NOT_FOUND),
        ({"topic": definition.Resource()}, definition.ILLEGAL_TOPIC),
        ({"resolution": 3}, definition.BAD_REQUEST),
        ({"source": 3}, definition.BAD_REQUEST),
    ):
        assert payer.end(half, **{"resolution": COMMIT} | fields) == code, fields
    assert one.receive(topic).bodies == ["body"], "nothing of that is a decision"
    assert payer.end(half) == OK


def test_a_half_message_of_another_topic_is_not_decided(node, payer, one, topic) -> None:
    other = f"{topic}-other"
    node.submit(CreateTopics(topics=(NewTopic(name=other),)))
    half = payer.half(topic, **LONG)
    wrong = Half(other, half.message_id, half.transaction_id)
    assert payer.end(wrong) == definition.INVALID_TRANSACTION_ID
    assert one.receive(topic, 0).messages == []


def test_its_producer_is_asked_and_its_answer_decides(node, payer, one, topic) -> None:
    with payer.settled(topic) as asked:
        half = payer.half(topic, properties={"colour": "grün"}, tag="fresh", keys=["a", "b"])
        command = asked.next().recover_orphaned_transaction_command
        assert command.transaction_id == half.transaction_id
        told = command.message
        assert (told.topic.name, told.body) == (topic, b"half")
        assert dict(told.user_properties) == {"colour": "grün"}
        system = told.system_properties
        assert (system.message_id, system.tag, [*system.keys]) == (
            "ID-half",
            "fresh",
            ["a", "b"],
        )
        assert system.body_digest.type == definition.MD5
        assert system.body_digest.checksum == md5(b"half").hexdigest().upper()
        assert asked.next().recover_orphaned_transaction_command.transaction_id
        assert payer.end(half, source=definition.SOURCE_SERVER_CHECK) == OK
    assert one.receive(topic).bodies == ["half"]
    assert halves_of(node).counts["check"] >= 2
    assert node.until(lambda: front_of(node).producers.count == 0)


def test_another_producer_of_the_topic_is_asked_when_the_first_is_gone(
    caller, payer, one, topic
) -> None:
    half = payer.half(topic)
    other = Payer(caller, "payer@2")
    with other.settled("unrelated", topic) as asked:
        command = asked.next().recover_orphaned_transaction_command
        assert command.transaction_id == half.transaction_id
        assert other.end(half, ROLLBACK, source=definition.SOURCE_SERVER_CHECK) == OK
    assert one.receive(topic, 0).messages == []


def test_who_has_not_told_the_topic_or_may_not_write_to_it_is_not_asked(
    node, caller, payer, topic
) -> None:
    class NoWrites(PermitsAll):
        permits_all = False

        def permits(self, who: Requester, what: Operation, on: Resource, name: str) -> bool:
            return what is not Operation.WRITE or name != topic

    half = payer.half(topic)
    producers = front_of(node).producers
    fit = [Payer(caller, name) for name in ("elsewhere@1", "mine@1")]
    with fit[0].settled("unrelated") as other, fit[1].settled(topic) as mine:
        assert mine.next().recover_orphaned_transaction_command.transaction_id
        assert other.is_quiet()
        asker = halves_of(node).askers[-1]
        hosted = node.broker.partitions.by_name[topic.encode()]
        assert node.call(lambda: asker.producer_of(topic, hosted)) is not None
        assert node.call(lambda: asker.producer_of("another", hosted)) is None
        node.call(lambda: setattr(node.broker, "authoriser", NoWrites()))
        try:
            assert node.call(lambda: asker.producer_of(topic, hosted)) is None
        finally:
            node.call(lambda: setattr(node.broker, "authoriser", PermitsAll()))
        assert producers.count == 2
        assert payer.end(half) == OK


def test_a_producer_that_does_not_take_what_it_is_sent_is_not_asked(node, payer, topic) -> None:
    hosted = node.broker.partitions.by_name[topic.encode()]
    asker = halves_of(node).askers[-1]
    with payer.settled(topic):
        (stream,) = front_of(node).settled
        node.call(lambda: stream.stream.queue.append(memoryview(b"x")))
        assert node.call(lambda: asker.producer_of(topic, hosted)) is None
        node.call(stream.stream.queue.clear)
        assert node.call(lambda: asker.producer_of(topic, hosted)) is not None


def test_a_producer_that_is_not_heard_is_not_asked(
    node, payer, topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = node.broker.partitions.by_name[topic.encode()]
    asker = halves_of(node).askers[-1]
    with payer.settled(topic):
        assert node.call(lambda: asker.producer_of(topic, hosted)) is not None
        now_ms = node.broker.clock.monotonic_ms()

        class Later:
            def monotonic_ms(self) -> int:
                return now_ms + 40_000

        monkeypatch.setattr(asker._broker, "clock", Later(), raising=False)
        try:
            assert asker.producer_of(topic, hosted) is None
        finally:
            monkeypatch.undo()
        assert payer.beat().status.code == OK


REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "with a group": ({"message_group": "g"}, definition.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
    "with a time": (
        {"delivery_timestamp": Timestamp(seconds=9)},
        definition.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
    ),
    "asked for before now": (
        {"orphaned_transaction_recovery_duration": Duration(seconds=-1)},
        definition.BAD_REQUEST,
    ),
    "asked for too late": (
        {"orphaned_transaction_recovery_duration": Duration(seconds=72 * 3_600 + 1)},
        definition.BAD_REQUEST,
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_half_message_that_has_no_place_is_refused(node, payer, topic, kind: str) -> None:
    fields, code = REFUSED[kind]
    waiting = node.call(halves_of(node).waiting)
    assert payer.send(topic, **fields).status.code == code
    assert node.call(halves_of(node).waiting) == waiting


def test_a_request_has_one_half_message(caller, topic) -> None:
    half = message(topic, message_type=definition.TRANSACTION)
    assert caller.send(half, half).status.code == definition.BAD_REQUEST


def test_a_message_that_its_topic_does_not_take_is_no_half_message(payer, topic) -> None:
    answer = payer.send(topic, "x" * (2 << 20), message_id="ID-large")
    assert answer.status.code == definition.MESSAGE_BODY_TOO_LARGE


def test_both_protocols_decide_the_same_half_messages_once(tmp_path) -> None:
    port = free_port()
    with (
        running_grpc_node(tmp_path, f"remoting.port={port}") as (node, address),
        closing(Caller(address)) as caller,
        closing(Remote(f"127.0.0.1:{port}")) as remote,
    ):
        node.submit(CreateTopics(topics=(NewTopic(name="t"),)))
        rocket = node.node._rocketmq
        assert rocket.remoting is not None
        assert rocket.grpc is not None
        assert rocket.remoting.keeping is rocket.grpc.front.keeping
        payer = Payer(caller)
        half = payer.half("t", **LONG)
        number = located(int(half.transaction_id, 16))
        assert number is not None
        fields = {
            "topic": "t",
            "producerGroup": "t",
            "tranStateTableOffset": number.offset,
            "commitLogOffset": int(half.transaction_id, 16),
            "msgId": half.message_id,
            "commitOrRollback": 12,
        }
        assert remote.ask(RequestCode.END_TRANSACTION, fields).code == ResponseCode.SUCCESS
        assert payer.end(half) == definition.BAD_REQUEST
        assert payer.end(half, ROLLBACK) == OK
        told = {"TRAN_MSG": "true", "PGROUP": "others", "UNIQ_KEY": "ID-r"}
        answer = remote.ask(RequestCode.SEND_MESSAGE_V2, sent("t", told, n=SET, f=4), b"r")
        theirs = answer.fields["msgId"][-16:]
        code = payer.end(Half("t", "ID-r", theirs))
        assert code == definition.INVALID_TRANSACTION_ID, "of another group"
        assert Member(caller).receive("t", 0).messages == []
