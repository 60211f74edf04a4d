from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import LeaderEpoch, Position
from penstock.replication.alignment import LogShape
from penstock.replication.epochs import EpochStart
from penstock.replication.errors import InvalidHaMessage
from penstock.replication.messages import (
    Acknowledge,
    Begin,
    Goodbye,
    HaMessage,
    Hello,
    HelloAnswer,
    Image,
    ImageWanted,
    KeepAlive,
    LogRun,
    Piece,
    PieceWanted,
    Reason,
    Refused,
)
from penstock.replication.wire import decode, encode

SET, EPOCH = 7, 12


def shape(*epochs: tuple[int, int], start: int = 0, end: int = 5000) -> LogShape:
    entries = [EpochStart(LeaderEpoch(epoch), Position(at)) for epoch, at in epochs]
    return LogShape(entries, Position(start), Position(end), Position(40))


EVERY = [
    Hello(SET, EPOCH, 3, "process-π", shape((1, 0), (4, 900))),
    HelloAnswer(SET, EPOCH, shape()),
    Refused(SET, EPOCH, Reason.STALE_EPOCH, 14, "asked too late"),
    Begin(SET, EPOCH, 900, 100),
    LogRun(SET, EPOCH, 4, 900, 850, 0, 4096, b"frames"),
    Acknowledge(SET, EPOCH, 1 << 45),
    Goodbye(SET, EPOCH),
    ImageWanted(SET, EPOCH, True),
    Image(SET, EPOCH, b"image"),
    PieceWanted(SET, EPOCH, 4096, 1 << 20),
    Piece(SET, EPOCH, 4096, b"raw"),
    KeepAlive(),
]


def frame_of(message: HaMessage) -> bytes:
    return b"".join(bytes(buffer) for buffer in encode(message))


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message: HaMessage) -> None:
    assert decode(memoryview(frame_of(message))) == message


def test_the_data_of_a_run_is_copied_neither_way() -> None:
    data = memoryview(bytearray(b"frames"))
    head, sent = encode(LogRun(SET, EPOCH, 4, 0, 0, 0, 4096, data))
    assert sent is data
    frame = bytearray(bytes(head) + bytes(data))
    run = decode(memoryview(frame))
    assert isinstance(run, LogRun)
    frame[-1:] = b"!"
    assert bytes(run.data) == b"frame!"


@pytest.mark.parametrize("message", EVERY[:7], ids=lambda message: type(message).__name__)
def test_a_message_that_is_cut_off_is_refused_or_read_as_a_shorter_payload(
    message: HaMessage,
) -> None:
    whole = frame_of(message)
    for length in range(len(whole)):
        try:
            found = decode(memoryview(whole[:length]))
        except InvalidHaMessage:
            continue
        assert type(found) is type(message)
        assert isinstance(found, Refused | LogRun)


def test_epochs_out_of_order_and_ranges_that_can_not_be_are_refused() -> None:
    for bad in (
        shape((4, 0), (4, 10)),
        shape((4, 50), (5, 10)),
        shape((4, 6000)),
        shape(start=20, end=10),
    ):
        with pytest.raises(InvalidHaMessage):
            decode(memoryview(frame_of(HelloAnswer(SET, EPOCH, bad))))


def test_a_run_outside_its_segment_is_refused() -> None:
    for run in (
        LogRun(SET, EPOCH, 4, 5000, 0, 0, 4096, b""),
        LogRun(SET, EPOCH, 4, 4095, 0, 0, 4096, b"ab"),
        LogRun(SET, EPOCH, 4, -1, 0, -1, 4096, b""),
    ):
        with pytest.raises(InvalidHaMessage):
            decode(memoryview(frame_of(run)))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_refused(frame: bytes) -> None:
    with suppress(InvalidHaMessage):
        decode(memoryview(frame))


@given(st.integers(1, 12), st.binary(max_size=80))
def test_any_fields_are_a_message_or_refused(kind: int, rest: bytes) -> None:
    frame = bytes([1, kind, 0, 0]) + rest
    try:
        found = decode(memoryview(frame))
    except InvalidHaMessage:
        return
    assert frame_of(found)
