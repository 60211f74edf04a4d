"""Settings, heartbeats and renewals of consumers, and calls that end in the middle."""

from random import Random
from typing import Any

import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

import grpc
from harness.waiting import wait_until
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.grpc.consuming.receipts import write_receipt
from penstock.grpc.consuming.renewing import Renewals
from penstock.grpc.statuses import GrpcStatus
from penstock.remoting.pop.popping import Part, Popping
from tests.grpc.receiving import OK, Member, duration, metadata, named, send
from tests.live_node import ANSWER_SECONDS, UNTIL_SECONDS, LiveNode

PARTITIONS = 3


def desk_of(node: LiveNode) -> Any:
    return front_of(node).desk


def front_of(node: LiveNode) -> Any:
    port = node.node._rocketmq.grpc
    assert port is not None
    return port.front


@pytest.mark.parametrize("kind", [definition.PUSH_CONSUMER, definition.SIMPLE_CONSUMER])
def test_a_consumer_is_told_how_it_is_to_work(node, one, kind: int) -> None:
    with one.settled(kind) as told:
        assert told.status.code == OK
        settings = told.settings
        assert settings.client_type == kind
        own = settings.subscription
        assert (own.group.name, own.fifo, own.receive_batch_size) == ("g", False, 32)
        assert own.long_polling_timeout.seconds == 20
        policy = settings.backoff_policy
        assert policy.max_attempts == 17
        assert policy.WhichOneof("strategy") == "customized_backoff"
        pauses = [pause.seconds for pause in policy.customized_backoff.next]
        assert pauses[:4] == [1, 5, 10, 30]
        assert (len(pauses), pauses[-1]) == (18, 7_200)
        assert len(front_of(node).consumers) == 1
    assert node.until(lambda: len(front_of(node).consumers) == 0)


def test_a_consumer_is_heard_once_it_has_told_its_settings(node, one) -> None:
    assert one.beat().status.code == definition.UNRECOGNIZED_CLIENT_TYPE
    with one.settled():
        assert one.beat().status.code == OK
        elsewhere = Member(one.caller, one.client_id, group="another")
        assert elsewhere.beat().status.code == definition.UNRECOGNIZED_CLIENT_TYPE
        assert one.beat(definition.LITE_PUSH_CONSUMER).status.code == definition.UNSUPPORTED
    assert node.until(lambda: len(front_of(node).consumers) == 0)


def test_a_consumer_that_ends_gives_back_what_it_has(node, one, other, caller, topic) -> None:
    send(caller, topic, "a")
    with one.settled():
        (got,) = one.receive(topic, auto_renew=True).messages
        assert got.system_properties.invisible_duration.seconds == 60
        assert node.call(lambda: len(front_of(node).renewals)) == 1
        assert other.receive(topic, 0).messages == []
        assert one.end().status.code == OK
        assert node.call(lambda: len(front_of(node).renewals)) == 0
        assert other.receive(topic).bodies == ["a"]


def test_what_a_consumer_has_that_lives_is_renewed_and_its_first_receipt_holds(
    node, one, other, caller, topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.grpc.consuming.renewing.AFTER_MS", 0)
    send(caller, topic, "a", "b", queue=1)
    with one.settled():
        first, second = one.receive(topic, auto_renew=True).handles
        counts = desk_of(node).pops.counts
        begun = counts["g", "renewed"]
        assert wait_until(lambda: counts["g", "renewed"] >= begun + 4, UNTIL_SECONDS)
        assert one.ack(topic, first).status.code == OK
        assert one.change(topic, second, 0).status.code == OK
        assert node.call(lambda: len(front_of(node).renewals)) == 0
        assert other.receive(topic).bodies == ["b"]


def test_what_a_consumer_has_that_is_not_heard_is_renewed_no_more(
    node, one, caller, topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.grpc.consuming.renewing.AFTER_MS", 0)
    monkeypatch.setattr("penstock.grpc.consuming.consumers.HEARD_MS", 0)
    send(caller, topic, "a")
    counts = desk_of(node).pops.counts
    begun = counts["g", "renewed"]
    with one.settled():
        assert one.receive(topic, auto_renew=True).bodies == ["a"]
        assert node.until(lambda: len(front_of(node).renewals) == 0)
    assert counts["g", "renewed"] == begun


def test_who_goes_while_messages_are_read_for_it_takes_nothing(
    node, one, caller, topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(caller, topic, "a")
    reading = Popping._read

    async def read(self: Popping, part: Part, offset: int) -> PartitionRead:
        found = await reading(self, part, offset)
        self._popper._call.end(GrpcStatus.CANCELLED)  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(Popping, "_read", read)
    with pytest.raises(grpc.RpcError):
        one.receive(topic)
    monkeypatch.undo()
    (got,) = one.receive(topic).messages
    assert got.system_properties.delivery_attempt == 1


def test_what_is_said_while_a_renewal_is_on_its_way_waits_for_its_number(
    node, one, caller, topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.grpc.consuming.renewing.AFTER_MS", 0)
    renewals, held = front_of(node).renewals, list[Any]()
    renewed = Renewals._renewed
    monkeypatch.setattr(Renewals, "_renewed", lambda *told: held.append(told))
    send(caller, topic, "a")
    with one.settled():
        (handle,) = one.receive(topic, auto_renew=True).handles
        assert node.until(lambda: held)
        entries = [service.AckMessageEntry(receipt_handle=handle)]
        request = service.AckMessageRequest(group=named("g"), topic=named(topic), entries=entries)
        asked = caller.stub.AckMessage.future(request, metadata=metadata(one.client_id))
        assert node.until(lambda: held[0][1].waiting), "it waits"
        assert not asked.done()
        node.call(lambda: renewed(*held[0]))
        assert asked.result(ANSWER_SECONDS).status.code == OK
    assert node.call(lambda: len(renewals)) == 0


def test_messages_of_one_hand_out_are_acknowledged_with_the_number_of_now(
    node, one, other, caller, topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.grpc.consuming.renewing.AFTER_MS", 0)
    send(caller, topic, "a", "b", "c", queue=1)
    counts = desk_of(node).pops.counts
    begun = counts["g", "renewed"]
    with one.settled():
        handles = one.receive(topic, auto_renew=True).handles
        assert wait_until(lambda: counts["g", "renewed"] >= begun + 3, UNTIL_SECONDS)
        assert one.ack(topic, *handles[:2]).status.code == OK
        assert node.call(lambda: len(front_of(node).renewals)) == 1, "the third one"
        assert one.ack(topic, handles[2]).status.code == OK
        assert node.call(lambda: len(front_of(node).renewals)) == 0
        assert other.receive(topic, 0).messages == []


def test_the_number_of_now_is_told_of_all_or_of_none(node, one, caller, topic) -> None:
    send(caller, topic, "a", "b", queue=1)
    with one.settled():
        assert len(one.receive(topic, auto_renew=True).messages) == 2
        renewals = front_of(node).renewals

        def asked() -> None:
            (handed,) = renewals._handed.values()
            key, nonce = handed.place
            first, second = sorted(handed.offsets)
            handed.nonce = nonce + 1
            now = renewals.number_now
            assert now(key, [first], nonce + 5) == nonce + 5, "of a hand-out that is not renewed"
            assert now(key, [first, second + 1], nonce) is None
            assert now(key, [first, first], nonce) is None
            handed.waiting = []
            assert now(key, [first, second], nonce) is None, "a renewal is on its way"
            handed.waiting = None
            assert handed.offsets == {first, second}, "nothing is changed"
            assert now(key, [first], nonce) == nonce + 1
            assert now(key, [first], nonce) is None, "it was said before"
            assert now(key, [second], nonce) == nonce + 1
            assert not len(renewals)

        node.call(asked)


@pytest.mark.parametrize(
    "method",
    [
        "AckMessage",
        "ChangeInvisibleDuration",
        "ForwardMessageToDeadLetterQueue",
        "Heartbeat",
        "NotifyClientTermination",
        "QueryAssignment",
        "ReceiveMessage",
    ],
)
def test_a_body_that_is_changed_anywhere_is_answered_with_a_status(
    one, node, topic, method: str
) -> None:
    handle = write_receipt(1, 5, 7).decode()
    usual = {"group": named("g"), "topic": named(topic), "receipt_handle": handle}
    bodies = {
        "AckMessage": service.AckMessageRequest(
            group=named("g"),
            topic=named(topic),
            entries=[service.AckMessageEntry(receipt_handle=handle)],
        ),
        "ChangeInvisibleDuration": service.ChangeInvisibleDurationRequest(
            **usual, invisible_duration=duration(30)
        ),
        "ForwardMessageToDeadLetterQueue": service.ForwardMessageToDeadLetterQueueRequest(**usual),
        "Heartbeat": service.HeartbeatRequest(group=named("g"), client_type=2),
        "NotifyClientTermination": service.NotifyClientTerminationRequest(group=named("g")),
        "QueryAssignment": service.QueryAssignmentRequest(group=named("g"), topic=named(topic)),
        "ReceiveMessage": one.asked(topic, long_polling_timeout=duration(0)),
    }
    body = bodies[method].SerializeToString()
    random = Random(method)
    for number in range(100):
        data = bytearray(body)
        for _ in range(random.randrange(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        raw = bytes(data[: random.randrange(len(data))] if number % 3 == 0 else data)
        answer = service.AckMessageResponse.FromString(
            one.caller.raw(f"/apache.rocketmq.v2.MessagingService/{method}", raw)
        )
        assert answer.status.code >= OK, (raw, answer)
    errors = node.call(lambda: dict(node.broker.stats.request_errors))
    assert "unhandled" not in errors


def test_every_queue_is_looked_at_wherever_a_call_begins(one, caller, topic) -> None:
    send(caller, topic, "first", queue=1)
    assert one.receive(topic).bodies == ["first"], "the queues are known to the group"
    for number in range(PARTITIONS):
        send(caller, topic, f"more-{number}", queue=1)
        assert one.receive(topic, 0).bodies == [f"more-{number}"]
