"""Messages as frames: what goes in comes out, and nothing else does."""

import contextlib
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.long_message import SLICE, Bounds
from penstock.runtime.peer_codec import (
    MalformedPeerMessage,
    MessageCodec,
    PeerMessageError,
    UnknownPeerMessage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    number: int
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterAsk:
    """Ask as a later release may write it."""

    number: int
    parts: tuple[Part, ...] = ()
    colour: str = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    is_fine: bool


CODEC = MessageCodec[Ask | Answer]({1: Ask, 2: Answer}, version=1)

parts = st.builds(Part, name=st.text(), data=st.binary())
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
asks = st.builds(Ask, number=int64, parts=st.lists(parts).map(tuple))


@given(st.one_of(asks, st.builds(Answer, is_fine=st.booleans())))
def test_a_message_comes_out_as_it_went_in(message: Ask | Answer) -> None:
    frame = bytearray(b"".join(CODEC.encode(message)))
    decoded = CODEC.decode(memoryview(frame))
    frame[:] = bytes(len(frame))
    assert decoded == message, "also when the frame's memory is used again"


@given(st.binary())
def test_any_bytes_give_a_message_or_a_typed_error(frame: bytes) -> None:
    with contextlib.suppress(PeerMessageError):
        CODEC.decode(frame)


@given(asks, st.data())
def test_a_damaged_message_gives_a_message_or_a_typed_error(ask: Ask, data: st.DataObject) -> None:
    frame = bytearray(b"".join(CODEC.encode(ask)))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PeerMessageError):
        CODEC.decode(frame)


def test_unknown_types_and_versions_are_told_apart_from_damage() -> None:
    _, body = CODEC.encode(Answer(is_fine=True))
    for head in (b"\x03\x01", b"\x01\x02"):
        with pytest.raises(UnknownPeerMessage, match="upgrade"):
            CODEC.decode(head + body)
    with pytest.raises(MalformedPeerMessage):
        CODEC.decode(b"\x01\x01" + body)


def test_a_field_can_be_added_without_a_new_version() -> None:
    later = MessageCodec[LaterAsk]({1: LaterAsk}, version=1)
    assert CODEC.decode(b"".join(later.encode(LaterAsk(number=5, colour="blue")))) == Ask(number=5)
    assert later.decode(b"".join(CODEC.encode(Ask(number=5)))) == LaterAsk(number=5)


def test_deep_nesting_is_malformed_rather_than_a_crash() -> None:
    with pytest.raises(MalformedPeerMessage):
        CODEC.decode(b"\x01\x01" + b"\x81\xa5other" + b"\x91" * 100_000)


BOUNDED = MessageCodec[Ask | Answer](
    {1: Ask, 2: Answer},
    version=1,
    bounds={Ask: Bounds(bytes_max=1 << 20, counts={"parts": 5_000}), Answer: Bounds(100)},
)


def long_ask(count: int, size: int = 100) -> Ask:
    return Ask(
        number=count, parts=tuple(Part(name=f"{at}", data=bytes(size)) for at in range(count))
    )


def test_a_long_message_is_read_in_slices_and_comes_out_as_it_went_in() -> None:
    message = long_ask(5_000)
    frame = b"".join(BOUNDED.encode(message))
    assert BOUNDED.is_long(frame)
    assert BOUNDED.kind_of(memoryview(frame)) == "Ask"
    assert BOUNDED.kind_of(memoryview(b"\x09")) == "unknown"
    slices = BOUNDED.slices(frame)
    for _ in range(1 + 5_000 // SLICE):
        next(slices)
    with pytest.raises(StopIteration) as end:
        next(slices)
    assert end.value.value == message
    assert BOUNDED.decode(memoryview(frame)) == message


def test_a_list_that_is_too_long_is_refused_before_anything_of_it_is_read() -> None:
    body = msgspec.msgpack.encode({"number": 1, "parts": [0] * 100_000})
    frame = b"\x01\x01" + body
    with pytest.raises(MalformedPeerMessage, match="length <= 5000"):
        next(BOUNDED.slices(frame))
    with pytest.raises(MalformedPeerMessage, match="length <= 5000"):
        BOUNDED.decode(frame)


def test_a_message_of_more_bytes_than_its_kind_may_have_is_refused() -> None:
    frame = b"".join(BOUNDED.encode(long_ask(5_000, 300)))
    with pytest.raises(MalformedPeerMessage, match="at most 1048576"):
        BOUNDED.decode(frame)
    answer = b"\x02\x01" + msgspec.msgpack.encode({"is_fine": True, "more": bytes(100)})
    with pytest.raises(MalformedPeerMessage, match="at most 100"):
        BOUNDED.decode(answer)


def test_a_long_message_whose_element_is_none_is_malformed() -> None:
    parts: list[dict[str, object]] = [{"name": f"{at}", "data": bytes(10)} for at in range(4_000)]
    parts[3_000] = {"name": "no data", "more": 1}
    frame = b"\x01\x01" + msgspec.msgpack.encode({"number": 1, "parts": parts})
    with pytest.raises(MalformedPeerMessage, match="data"):
        BOUNDED.decode(frame)


def test_a_long_message_takes_defaults_and_passes_over_what_it_does_not_know() -> None:
    frame = b"\x01\x01" + msgspec.msgpack.encode({"number": 3, "more": bytes(100_000)})
    assert BOUNDED.is_long(frame)
    assert BOUNDED.decode(frame) == Ask(number=3)
