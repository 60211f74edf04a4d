"""Messages of protobuf: read and written as protobuf's own runtime does it."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocketmq.grpc_protocol import definition_pb2, service_pb2

from penstock.grpc.proto import messages
from penstock.protobuf.codec import (
    _FIELDS,
    ALL_FIELDS_MAX,
    FIELDS_MAX,
    VALUES_MAX,
    Kind,
    decode,
    encode,
)
from penstock.protobuf.errors import MalformedMessage

INTS = st.integers(-(1 << 31), (1 << 31) - 1)
WIDE = {("Duration", "seconds"), ("SendResultEntry", "offset")}
BOOLS = {
    ("Publishing", "validate_message_type"),
    ("Metric", "on"),
    ("Subscription", "fifo"),
    ("ReceiveMessageRequest", "auto_renew"),
}
FLOATS = st.floats(width=32, allow_nan=False)
ONE_OF: dict[type, tuple[str, str]] = {
    messages.RetryPolicy: ("exponential_backoff", "customized_backoff"),
    messages.Settings: ("publishing", "subscription"),
    messages.TelemetryCommand: ("settings", "recover_orphaned_transaction_command"),
}
ROOTS = (
    messages.QueryRouteRequest,
    messages.QueryRouteResponse,
    messages.SendMessageRequest,
    messages.SendMessageResponse,
    messages.HeartbeatRequest,
    messages.ReceiveMessageRequest,
    messages.AckMessageRequest,
    messages.AckMessageResponse,
    messages.ChangeInvisibleDurationRequest,
    messages.ChangeInvisibleDurationResponse,
    messages.ForwardMessageToDeadLetterQueueRequest,
    messages.QueryAssignmentRequest,
    messages.QueryAssignmentResponse,
    messages.EndTransactionRequest,
    messages.RecallMessageRequest,
    messages.RecallMessageResponse,
    messages.TelemetryCommand,
)


def theirs(kind: type) -> Any:
    """protobuf's class of a message."""
    return getattr(service_pb2, kind.__name__, None) or getattr(definition_pb2, kind.__name__)


def made(kind: type) -> st.SearchStrategy[Any]:
    """Any message of a kind."""
    parts = {}
    for declared in _FIELDS[kind].values():
        name = declared.name
        one: st.SearchStrategy[Any]
        if declared.kind is Kind.INT:
            one = st.integers(-(1 << 63), (1 << 63) - 1)
            if (kind.__name__, name) not in WIDE:
                one = st.integers(0, 1) if (kind.__name__, name) in BOOLS else INTS
        elif declared.kind is Kind.FLOAT:
            one = FLOATS
        elif declared.kind is Kind.TEXT:
            one = st.text(max_size=20)
        elif declared.kind is Kind.BYTES:
            one = st.binary(max_size=300)
        else:
            assert declared.of is not None
            one = made(declared.of)
        if declared.is_repeated:
            key = (lambda entry: entry.key) if declared.of is messages.Property else None
            one = st.lists(one, max_size=3, unique_by=key)
        elif declared.is_optional:
            one = st.one_of(st.none(), one)
        parts[name] = one
    one_of = ONE_OF.get(kind)
    return st.builds(kind, **parts).map(lambda found: only_one(found, *one_of) if one_of else found)


def only_one(found: Any, first: str, second: str) -> Any:
    """A message of which one of two fields is set at most."""
    return found if getattr(found, first) is None else dataclasses.replace(found, **{second: None})


def same(ours: Any, other: Any) -> None:
    """Compare field by field."""
    for declared in _FIELDS[type(ours)].values():
        name = declared.name
        value, their = getattr(ours, name), getattr(other, name)
        if declared.of is messages.Property:
            assert {one.key: one.value for one in value} == dict(their)
        elif declared.kind is Kind.MESSAGE and declared.is_repeated:
            assert len(value) == len(their)
            for one, another in zip(value, their, strict=True):
                same(one, another)
        elif declared.kind is Kind.MESSAGE:
            assert (value is not None) == other.HasField(name)
            if value is not None:
                same(value, their)
        elif declared.is_repeated:
            assert list(value) == list(their)
        elif value is None:
            assert not other.HasField(name)
        else:
            assert value == their


def test_fields_have_the_numbers_and_types_of_the_published_ones() -> None:
    kinds = {Kind.INT: {3, 5, 8, 14}, Kind.FLOAT: {2}, Kind.TEXT: {9}, Kind.BYTES: {12}}
    for kind, fields in _FIELDS.items():
        is_common = kind in {messages.Answer, messages.Duration, messages.Property}
        if is_common or kind.__module__ != messages.__name__:
            continue
        published = theirs(kind).DESCRIPTOR.fields_by_name
        for declared in fields.values():
            field = published[declared.name]
            assert field.number == declared.number, (kind, declared)
            assert field.type in kinds.get(declared.kind, {11}), (kind, declared)
            assert field.is_repeated == declared.is_repeated, (kind, declared)
            if declared.kind is not Kind.MESSAGE and declared.is_optional:
                assert field.has_presence, (kind, declared)


@pytest.mark.parametrize("kind", ROOTS)
def test_messages_are_read_by_protobuf_as_they_were_written_and_back(kind) -> None:
    @given(made(kind))
    def check(ours: Any) -> None:
        other = theirs(kind)()
        other.ParseFromString(encode(ours))
        same(ours, other)
        same(decode(kind, other.SerializeToString()), other)

    check()


@pytest.mark.parametrize("kind", ROOTS)
def test_any_bytes_are_a_message_as_for_protobuf_or_malformed(kind) -> None:
    example = encode(decode(kind, b"\x0a\x00"))

    @given(st.one_of(st.binary(max_size=60), st.binary(max_size=20).map(lambda b: example + b)))
    def check(data: bytes) -> None:
        other = theirs(kind)()
        try:
            other.ParseFromString(data)
        except Exception:  # noqa: BLE001  whatever it is
            other = None
        try:
            ours = decode(kind, data)
        except MalformedMessage:
            ours = None
        if ours is not None:
            assert other is not None, "what protobuf refuses is refused"

    check()


def test_what_is_not_declared_is_skipped() -> None:
    request = service_pb2.QueryRouteRequest(
        topic=definition_pb2.Resource(name="t"),
        endpoints=definition_pb2.Endpoints(scheme=1),
    )
    assert decode(messages.QueryRouteRequest, request.SerializeToString()).topic == (
        messages.Resource(name="t")
    )


def test_a_message_may_have_so_many_fields_and_so_many_values() -> None:
    skipped = b"\xf8\x06\x01"
    assert decode(messages.Resource, skipped * FIELDS_MAX) == messages.Resource()
    with pytest.raises(MalformedMessage):
        decode(messages.Resource, skipped * (FIELDS_MAX + 1))
    one = b"\x0a\x00"
    assert len(decode(messages.SendMessageRequest, one * VALUES_MAX).messages) == VALUES_MAX
    with pytest.raises(MalformedMessage):
        decode(messages.SendMessageRequest, one * (VALUES_MAX + 1))
    packed = b"\x2a" + bytes((0x81, 0x08)) + bytes(VALUES_MAX + 1)
    with pytest.raises(MalformedMessage):
        decode(messages.MessageQueue, packed)


def test_fields_of_messages_within_a_message_count_together() -> None:
    """Two megabytes of empty properties in a thousand messages held the loop for 1.6 s."""
    properties = b"\x12\x00" * 60
    one = bytes((0x0A, len(properties))) + properties
    most = ALL_FIELDS_MAX // 61
    assert len(decode(messages.SendMessageRequest, one * most).messages) == most
    with pytest.raises(MalformedMessage):
        decode(messages.SendMessageRequest, one * (most + 1))
    packed = b"\x2a" + bytes((0x80, 0x08)) + bytes(VALUES_MAX)
    queue = b"\x12" + bytes((0x83, 0x08)) + packed
    most = ALL_FIELDS_MAX // (VALUES_MAX + 2)
    assert len(decode(messages.QueryRouteResponse, queue * most).message_queues) == most
    with pytest.raises(MalformedMessage):
        decode(messages.QueryRouteResponse, queue * (most + 1))


@pytest.mark.parametrize(
    "data",
    [
        b"\x12\x02a",  # cut off
        b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length beyond all bounds
        b"\x10\x01",  # a number where a text is
        b"\x12\x01\xff",  # no UTF-8
        b"\x0b",  # a group
        b"\x02\x00",  # number 0
        b"\xd2\x80\x80\x80\x10\x00",  # a number above 2^29 - 1
        b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",  # a number that does not end
        b"\x19\x00",  # fixed64, cut off
    ],
)
def test_bytes_that_are_no_message_are_malformed(data) -> None:
    with pytest.raises(MalformedMessage):
        decode(messages.Resource, data)


def test_declared_messages_can_not_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        messages.Resource(name="t").name = "u"  # type: ignore[misc]
