"""Calls of gRPC as grpcio makes them: what is answered, and what is refused how."""

import gzip
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

import grpc
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.grpc.call import MESSAGE_BYTES_MAX, MESSAGES_AT_ONCE
from penstock.grpc.errors import CallFault
from penstock.grpc.inflating import NotGzip, TooLarge, inflate
from penstock.grpc.metadata import read_head
from penstock.grpc.methods.not_served import NAMES
from penstock.grpc.statuses import GrpcStatus
from penstock.grpc.transport import GrpcConnection
from tests.grpc.raw import RawCall
from tests.grpc.served import METADATA, Caller, message, running_grpc_node
from tests.live_node import ANSWER_SECONDS, LiveNode

SERVICE = "/apache.rocketmq.v2.MessagingService/"
OK = definition.OK
PRODUCER = definition.Settings(
    client_type=definition.PRODUCER,
    publishing=definition.Publishing(topics=[definition.Resource(name="t")]),
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_grpc_node(tmp_path_factory.mktemp("grpc")) as (node, address):
        node.submit(CreateTopics(topics=(NewTopic(name="t", partition_count=2),)))
        yield node, address


@pytest.fixture
def caller(served: tuple[LiveNode, str]) -> Iterator[Caller]:
    with closing(Caller(served[1])) as caller:
        yield caller


def refused(call: Any, *arguments: Any, **options: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **options)
    error: Any = caught.value
    return error.code(), error.details()


def test_a_route_has_each_partition_at_the_address_of_its_master(caller: Caller, served) -> None:
    route = caller.call(
        "QueryRoute", service.QueryRouteRequest(topic=definition.Resource(name="t"))
    )
    host, port = served[1].split(":")
    assert route.status.code == OK
    assert [queue.id for queue in route.message_queues] == [0, 1]
    for queue in route.message_queues:
        assert (queue.topic.name, queue.permission) == ("t", definition.READ_WRITE)
        assert (queue.broker.id, queue.broker.name) == (0, "node-1")
        assert queue.broker.endpoints.scheme == definition.IPv4
        assert [(one.host, one.port) for one in queue.broker.endpoints.addresses] == [
            (host, int(port))
        ]
        assert list(queue.accept_message_types) == [
            definition.NORMAL,
            definition.FIFO,
            definition.DELAY,
            definition.TRANSACTION,
        ]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (definition.Resource(name="none"), definition.TOPIC_NOT_FOUND),
        (definition.Resource(name="__consumer_offsets"), definition.TOPIC_NOT_FOUND),
        (definition.Resource(name="t", resource_namespace="n"), definition.ILLEGAL_TOPIC),
        (definition.Resource(name=""), definition.ILLEGAL_TOPIC),
        (definition.Resource(name="x" * 256), definition.ILLEGAL_TOPIC),
    ],
)
def test_a_topic_that_is_not_there_has_no_route(caller: Caller, topic, code) -> None:
    answer = caller.call("QueryRoute", service.QueryRouteRequest(topic=topic))
    assert (answer.status.code, len(answer.message_queues)) == (code, 0)
    if topic.name == "none":
        assert answer.status.message == (
            "CODE: 17  DESC: No topic route info in name server for the topic: none"
        )


def test_a_missing_topic_is_made_as_its_route_is_asked_for_where_that_is_on(tmp_path) -> None:
    with (
        running_grpc_node(tmp_path, "broker.auto_create_topics=true") as (_, address),
        closing(Caller(address)) as caller,
    ):
        ask = service.QueryRouteRequest(topic=definition.Resource(name="new"))
        route = caller.call("QueryRoute", ask)
        assert (route.status.code, len(route.message_queues)) == (OK, 1)
        bad = service.QueryRouteRequest(topic=definition.Resource(name="a b"))
        assert caller.call("QueryRoute", bad).status.code == definition.ILLEGAL_TOPIC


@pytest.mark.parametrize("method", NAMES)
def test_a_method_that_is_not_served_is_refused_by_its_name(caller: Caller, method) -> None:
    descriptor = service.DESCRIPTOR.services_by_name["MessagingService"]
    wanted = descriptor.methods_by_name[method]
    request = getattr(service, wanted.input_type.name)()
    answer = caller.call(method, request)
    if wanted.server_streaming:
        (answer,) = list(answer)
    assert answer.status.code == definition.UNSUPPORTED
    assert answer.status.message == f"{method} is not supported by this server"


def test_every_method_of_the_published_service_is_served_or_refused_by_its_name(caller) -> None:
    served = {
        "AckMessage",
        "ChangeInvisibleDuration",
        "EndTransaction",
        "ForwardMessageToDeadLetterQueue",
        "Heartbeat",
        "NotifyClientTermination",
        "QueryAssignment",
        "QueryRoute",
        "RecallMessage",
        "ReceiveMessage",
        "SendMessage",
        "Telemetry",
    }
    methods = service.DESCRIPTOR.services_by_name["MessagingService"].methods_by_name
    assert {*methods} == served | {*NAMES}


def test_methods_and_services_that_there_are_not_are_unimplemented(caller: Caller) -> None:
    for path in (f"{SERVICE}None", "/another.Service/QueryRoute", SERVICE):
        code, told = refused(caller.raw, path, b"")
        assert code == grpc.StatusCode.UNIMPLEMENTED
        assert "no such" in told


def test_a_message_that_is_none_is_refused_and_the_connection_goes_on(caller: Caller) -> None:
    answer = service.QueryRouteResponse()
    answer.ParseFromString(caller.raw(f"{SERVICE}QueryRoute", b"\xff"))
    assert answer.status.code == definition.BAD_REQUEST
    answer.ParseFromString(caller.raw(f"{SERVICE}Heartbeat", b""))
    assert answer.status.code == OK


def test_messages_may_be_compressed_with_gzip_either_way(caller: Caller) -> None:
    answer = caller.send(message("t", b"z" * 100_000), compression=grpc.Compression.Gzip)
    assert answer.status.code == OK
    code, told = refused(
        caller.send, message("t", b"z" * 9_999), compression=grpc.Compression.Deflate
    )
    assert code == grpc.StatusCode.UNIMPLEMENTED
    assert "gzip" in told


def test_a_message_beyond_the_bound_is_refused_before_it_has_come(caller: Caller) -> None:
    code, told = refused(caller.send, message("t", bytes(MESSAGE_BYTES_MAX + 1)))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(MESSAGE_BYTES_MAX) in told
    bomb = message("t", bytes(MESSAGE_BYTES_MAX + 1))
    code, told = refused(caller.send, bomb, compression=grpc.Compression.Gzip)
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "unpacks" in told
    assert caller.send(message("t")).status.code == OK


def test_what_is_unpacked_has_a_bound_and_has_to_be_one_whole_gzip() -> None:
    packed = gzip.compress(b"x" * 1_000)
    assert inflate(packed, 1_000) == b"x" * 1_000
    with pytest.raises(TooLarge):
        inflate(packed, 999)
    for bad in (packed[:-1], packed + b"x", b"x" + packed, b""):
        with pytest.raises(NotGzip):
            inflate(bad, 1_000)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (b"3S", 3_000),
        (b"1H", 3_600_000),
        (b"2M", 120_000),
        (b"99999999n", 100),
        (b"1u", 1),
        (b"15m", 15),
        (b"99999999H", None),
    ],
)
def test_deadlines_are_read_in_each_unit(text, ms) -> None:
    assert read_head(head(text)).timeout_ms == ms


@pytest.mark.parametrize("text", [b"", b"S", b"1", b"-1S", b"123456789S", b"1x", b" 1S"])
def test_deadlines_that_are_none_are_refused(text) -> None:
    with pytest.raises(CallFault):
        read_head(head(text))


def head(timeout: bytes) -> list[tuple[bytes, bytes]]:
    path = f"{SERVICE}SendMessage".encode()
    return [(b":method", b"POST"), (b":path", path), (b"grpc-timeout", timeout)]


def test_a_call_that_is_not_done_by_its_deadline_ends_then(caller: Caller, served) -> None:
    """Its message is kept back; that it is confirmed later changes nothing."""
    node, address = served
    sending = node.call(lambda: node.node._rocketmq.grpc.front.sending)
    kept: list[Any] = []
    sending.add = lambda hosted, sent: kept.append(sent)
    asked = service.SendMessageRequest(messages=[message("t")]).SerializeToString()
    whole = struct.pack(">BI", 0, len(asked)) + asked
    try:
        with closing(RawCall(address)) as raw:
            told = raw.call(f"{SERVICE}SendMessage", whole, client_id="c", deadline="500m")
    finally:
        del sending.add
    assert told == {"grpc-status": str(int(GrpcStatus.DEADLINE_EXCEEDED))}
    port = node.node._rocketmq.grpc
    assert port is not None

    def confirm() -> list[bytes]:
        kept[0].done(7)
        return [one.core.take_output() for one in port.connections]

    assert not any(node.call(confirm)), "nobody waits for that answer"
    assert caller.send(message("t")).status.code == OK


def test_a_producer_is_told_its_settings_for_as_long_as_its_stream_is_open(
    caller: Caller, served
) -> None:
    node, _ = served
    say = caller.channel.stream_stream(
        f"{SERVICE}Telemetry",
        service.TelemetryCommand.SerializeToString,
        service.TelemetryCommand.FromString,
    )
    commands = [service.TelemetryCommand(settings=PRODUCER)] * 2
    told = list(say(iter(commands), metadata=METADATA, timeout=ANSWER_SECONDS))
    assert len(told) == 2
    for one in told:
        assert one.status.code == OK
        assert one.settings.client_type == definition.PRODUCER
        assert one.settings.publishing.max_body_size == 4 << 20
        assert one.settings.publishing.validate_message_type
        assert [topic.name for topic in one.settings.publishing.topics] == ["t"]
        backoff = one.settings.backoff_policy
        assert backoff.max_attempts == 3
        assert backoff.exponential_backoff.initial.nanos == 10_000_000
        assert backoff.exponential_backoff.max.seconds == 1
        assert backoff.exponential_backoff.multiplier == 2
        assert not one.settings.metric.on
    assert node.until(lambda: not node.node._rocketmq.grpc.front.settled)


def test_settings_may_be_told_for_ever_on_one_stream(caller: Caller) -> None:
    topics = [definition.Resource(name=f"{one:050}") for one in range(200)]
    settings = definition.Settings(
        client_type=definition.PRODUCER, publishing=definition.Publishing(topics=topics)
    )
    commands = [service.TelemetryCommand(settings=settings)] * 600
    told = caller.stub.Telemetry(iter(commands), metadata=METADATA, timeout=ANSWER_SECONDS)
    assert sum(one.status.code == OK for one in told) == 600


def test_a_stream_hands_over_few_messages_of_a_frame(served) -> None:
    """A frame has room for 2,000 settings, each with an answer: the loop stood for 0.1 s."""
    _, address = served
    settings = service.TelemetryCommand(settings=PRODUCER).SerializeToString()
    one = b"\0" + len(settings).to_bytes(4, "big") + settings
    with closing(RawCall(address)) as raw:
        for count, status in (
            (MESSAGES_AT_ONCE, GrpcStatus.OK),
            (300, GrpcStatus.RESOURCE_EXHAUSTED),
        ):
            told = raw.call(f"{SERVICE}Telemetry", one * count, client_id="c")
            assert told == {"grpc-status": str(int(status))}


def _time_is_over(connection: GrpcConnection) -> None:
    """Requests that have begun to come ought to be whole by now."""
    for stream in connection.core.streams:
        stream.due_ms = 0


def test_a_client_is_not_read_while_all_together_hold_too_much(caller: Caller, served) -> None:
    node, address = served
    port = node.node._rocketmq.grpc
    assert port is not None
    before = port.bytes_max
    node.call(lambda: port.use_memory(20_000))
    try:
        with closing(RawCall(address)) as raw:
            raw.begin(f"{SERVICE}SendMessage", bytes(30_000))
            assert node.until(lambda: port.starved and port.bytes_now >= 30_000)
            (starved,) = port.starved
            assert not node.call(starved._transport.is_reading)
            beat = service.HeartbeatRequest(client_type=definition.PRODUCER)
            assert caller.call("Heartbeat", beat).status.code == OK
        assert port.starved  # nobody reads that the client has left
        node.call(lambda: _time_is_over(starved))
        assert node.until(lambda: not port.starved and port.bytes_now == 0)
    finally:
        node.call(lambda: port.use_memory(before))


def test_a_client_that_was_not_read_goes_on_when_there_is_room(served) -> None:
    node, address = served
    port = node.node._rocketmq.grpc
    assert port is not None
    before = port.bytes_max
    node.call(lambda: port.use_memory(20_000))
    try:
        with closing(RawCall(address)) as raw:
            raw.begin(f"{SERVICE}SendMessage", bytes(30_000))
            assert node.until(lambda: port.starved)
            node.call(lambda: port.use_memory(before))
            node.call(lambda: port.count(0))  # as the next byte of anybody does
            assert not port.starved
            assert raw.call(f"{SERVICE}Heartbeat", bytes(5)) == {"grpc-status": "0"}
    finally:
        node.call(lambda: port.use_memory(before))


def test_lite_and_pull_consumers_are_told_that_they_are_not_served(caller: Caller) -> None:
    consumer = definition.Settings(client_type=definition.LITE_SIMPLE_CONSUMER)
    stream = caller.stub.Telemetry(
        iter([service.TelemetryCommand(settings=consumer)]),
        metadata=METADATA,
        timeout=ANSWER_SECONDS,
    )
    code, told = refused(list, stream)
    assert code == grpc.StatusCode.UNIMPLEMENTED
    assert "clients of this type are not served" in told
    beat = service.HeartbeatRequest(client_type=definition.PULL_CONSUMER)
    assert caller.call("Heartbeat", beat).status.code == definition.UNSUPPORTED


def test_heartbeats_want_an_id_and_ends_are_taken(caller: Caller) -> None:
    beat = service.HeartbeatRequest(client_type=definition.PRODUCER)
    assert caller.call("Heartbeat", beat).status.code == OK
    answer = caller.call("Heartbeat", beat, metadata=())
    assert answer.status.code == definition.CLIENT_ID_REQUIRED
    end = service.NotifyClientTerminationRequest()
    assert caller.call("NotifyClientTermination", end).status.code == OK


def test_bytes_that_are_no_call_are_refused(caller: Caller, served) -> None:
    """A call with two messages, with half of one, and with a flag that there is not."""
    whole = struct.pack(">BI", 0, 0)
    with closing(RawCall(served[1])) as raw:
        for body in (whole + whole, whole[:3], b"\0\0\0\0\5ab", b"\2\0\0\0\0", b"\1\0\0\0\0", b""):
            assert raw.call(f"{SERVICE}Heartbeat", body)["grpc-status"] == "13"
        assert raw.call(f"{SERVICE}Heartbeat", whole)["grpc-status"] == "0"
        assert raw.call(f"{SERVICE}Heartbeat", whole, content_type="text/plain") == {
            ":status": "415"
        }
        assert raw.call(f"{SERVICE}Heartbeat", whole, method="GET")["grpc-status"] == "12"


def test_a_port_that_drains_ends_streams_and_lets_clients_go(tmp_path) -> None:
    with (
        running_grpc_node(tmp_path) as (node, address),
        closing(Caller(address)) as caller,
        closing(OneCommand()) as commands,
    ):
        stream = caller.stub.Telemetry(commands, metadata=METADATA, timeout=ANSWER_SECONDS)
        assert next(stream).status.code == OK
        port = node.node._rocketmq.grpc
        assert port is not None
        connections = node.call(lambda: list(port.connections))
        node.call(port.drain)
        code, _ = refused(list, stream)
        assert code == grpc.StatusCode.UNAVAILABLE
        assert node.until(lambda: all(one.is_closed for one in connections))


class OneCommand:
    """One command, and then nothing until the test is over."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._said = False

    def __iter__(self) -> "OneCommand":
        return self

    def __next__(self) -> Any:
        if not self._said:
            self._said = True
            return service.TelemetryCommand(settings=PRODUCER)
        self._is_over.wait(ANSWER_SECONDS)
        raise StopIteration

    def close(self) -> None:
        self._is_over.set()
