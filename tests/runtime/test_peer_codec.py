"""Messages as frames: what goes in comes out, and nothing else does."""

import contextlib
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
