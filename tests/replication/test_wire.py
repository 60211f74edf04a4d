from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import LeaderEpoch, Position, ReplicaId, ReplicaSetId
from penstock.replication.alignment import LogShape
from penstock.replication.epochs import EpochStart
from penstock.replication.errors import InvalidHaMessage
from penstock.replication.messages import (
    NOT_SAID,
    Acknowledge,
    BaseBytes,
    BaseBytesWanted,
    Begin,
    Goodbye,
    HaMessage,
    Hello,
    HelloAnswer,
    KeepAlive,
    LogRun,
    Manifest,
    ManifestWanted,
    Reason,
    Refused,
)
from penstock.replication.wire import (
    EPOCHS_MAX,
    HEAD_BYTES,
    SLAVE_FRAME_BYTES_MAX,
    SLICE,
    decode,
    decode_slices,
    encode,
    is_long,
    kind_of,
)

SET, EPOCH = 7, 12


def shape(*epochs: tuple[int, int], start: int = 0, end: int = 5000) -> LogShape:
    entries = [EpochStart(LeaderEpoch(epoch), Position(at)) for epoch, at in epochs]
    return LogShape(entries, Position(start), Position(end), Position(40))


EVERY = [
    Hello(
        ReplicaSetId(SET), LeaderEpoch(EPOCH), ReplicaId(3), "process-π", shape((1, 0), (4, 900))
    ),
    HelloAnswer(ReplicaSetId(SET), LeaderEpoch(EPOCH), shape()),
    Refused(
        ReplicaSetId(SET), LeaderEpoch(EPOCH), Reason.STALE_EPOCH, LeaderEpoch(14), "asked too late"
    ),
    Begin(ReplicaSetId(SET), LeaderEpoch(EPOCH), Position(900), Position(100)),
    LogRun(
        ReplicaSetId(SET),
        LeaderEpoch(EPOCH),
        LeaderEpoch(4),
        Position(900),
        Position(850),
        Position(0),
        Position(4096),
        b"frames",
    ),
    Acknowledge(ReplicaSetId(SET), LeaderEpoch(EPOCH), Position(1 << 45)),
    Goodbye(ReplicaSetId(SET), LeaderEpoch(EPOCH)),
    ManifestWanted(ReplicaSetId(SET), LeaderEpoch(EPOCH), True),
    Manifest(ReplicaSetId(SET), LeaderEpoch(EPOCH), b"image"),
    BaseBytesWanted(ReplicaSetId(SET), LeaderEpoch(EPOCH), 4096, 1 << 20),
    BaseBytes(ReplicaSetId(SET), LeaderEpoch(EPOCH), 4096, b"raw"),
    KeepAlive(),
    KeepAlive(1 << 45),
    Acknowledge(ReplicaSetId(SET), LeaderEpoch(EPOCH), Position(7), 1 << 45),
]


def frame_of(message: HaMessage) -> bytes:
    return b"".join(bytes(buffer) for buffer in encode(message))


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message: HaMessage) -> None:
    assert decode(memoryview(frame_of(message))) == message


def test_the_data_of_a_run_is_copied_neither_way() -> None:
    data = memoryview(bytearray(b"frames"))
    head, sent = encode(
        LogRun(
            ReplicaSetId(SET),
            LeaderEpoch(EPOCH),
            LeaderEpoch(4),
            Position(0),
            Position(0),
            Position(0),
            Position(4096),
            data,
        )
    )
    assert sent is data
    frame = bytearray(bytes(head) + bytes(data))
    run = decode(memoryview(frame))
    assert isinstance(run, LogRun)
    frame[-1:] = b"!"
    assert bytes(run.data) == b"frame!"


def test_a_keep_alive_of_an_earlier_release_tells_no_time_and_a_time_before_all_is_refused() -> (
    None
):
    whole = frame_of(KeepAlive(5))
    assert decode(memoryview(whole[:HEAD_BYTES])) == KeepAlive(NOT_SAID)
    with pytest.raises(InvalidHaMessage, match="invalid time -2"):
        decode(memoryview(frame_of(KeepAlive(-2))))


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
        if isinstance(found, Acknowledge):
            assert found.read_ms == NOT_SAID, "as an earlier release says it"
        else:
            assert isinstance(found, Refused | LogRun)


def masterships(count: int) -> LogShape:
    return shape(*((epoch, 2 * epoch) for epoch in range(count)), end=2 * count)


def test_a_long_list_of_masterships_is_read_in_slices() -> None:
    many = masterships(EPOCHS_MAX)
    for message in (
        Hello(ReplicaSetId(SET), LeaderEpoch(EPOCH), ReplicaId(3), "process", many),
        HelloAnswer(ReplicaSetId(SET), LeaderEpoch(EPOCH), many),
    ):
        frame = memoryview(frame_of(message))
        assert is_long(frame)
        assert kind_of(frame) in {"HELLO", "HELLO_ANSWER"}
        slices = decode_slices(frame)
        for _ in range(-(-EPOCHS_MAX // SLICE)):
            next(slices)
        with pytest.raises(StopIteration) as end:
            next(slices)
        assert end.value.value == message == decode(frame)
    assert len(frame) <= SLAVE_FRAME_BYTES_MAX
    assert not is_long(
        memoryview(frame_of(HelloAnswer(ReplicaSetId(SET), LeaderEpoch(EPOCH), masterships(2_000))))
    )
    assert not is_long(
        memoryview(
            frame_of(
                LogRun(
                    ReplicaSetId(SET),
                    LeaderEpoch(EPOCH),
                    LeaderEpoch(4),
                    Position(0),
                    Position(0),
                    Position(0),
                    Position(1 << 20),
                    bytes(1 << 20),
                )
            )
        )
    )


def test_epochs_out_of_order_where_one_slice_ends_are_refused() -> None:
    for at in (SLICE, SLICE + 1, 3 * SLICE):
        entries = [(epoch, 2 * epoch) for epoch in range(4 * SLICE)]
        entries[at] = (entries[at][0] - 2, entries[at][1])
        with pytest.raises(InvalidHaMessage, match="out of order"):
            decode(
                memoryview(
                    frame_of(
                        HelloAnswer(
                            ReplicaSetId(SET), LeaderEpoch(EPOCH), shape(*entries, end=1 << 20)
                        )
                    )
                )
            )


def test_a_long_frame_that_is_cut_off_or_of_another_version_is_refused() -> None:
    frame = frame_of(
        Hello(ReplicaSetId(SET), LeaderEpoch(EPOCH), ReplicaId(3), "process", masterships(5_000))
    )
    for bad in (frame[:-1], b"\x03" + frame[1:]):
        with pytest.raises(InvalidHaMessage):
            next(decode_slices(memoryview(bad)))


def test_epochs_out_of_order_and_ranges_that_can_not_be_are_refused() -> None:
    for bad in (
        shape((4, 0), (4, 10)),
        shape((4, 50), (5, 10)),
        shape((4, 6000)),
        shape(start=20, end=10),
    ):
        with pytest.raises(InvalidHaMessage):
            decode(memoryview(frame_of(HelloAnswer(ReplicaSetId(SET), LeaderEpoch(EPOCH), bad))))


@pytest.mark.parametrize(
    "at_its_bound",
    [
        shape(start=10, end=10),
        shape((0, 0), start=0, end=0),
        shape((4, 10), (5, 10), start=0, end=10),
    ],
)
def test_a_shape_that_reaches_its_bounds_is_read(at_its_bound: LogShape) -> None:
    answer = HelloAnswer(ReplicaSetId(SET), LeaderEpoch(EPOCH), at_its_bound)
    assert decode(memoryview(frame_of(answer))) == answer


@pytest.mark.parametrize(("at", "data"), [(0, b"ab"), (4094, b"ab"), (4096, b"")])
def test_a_run_that_reaches_the_bounds_of_its_segment_is_read(at: int, data: bytes) -> None:
    run = LogRun(
        ReplicaSetId(SET),
        LeaderEpoch(EPOCH),
        LeaderEpoch(0),
        Position(at),
        Position(0),
        Position(0),
        Position(4096),
        data,
    )
    assert decode(memoryview(frame_of(run))) == run


def test_a_run_outside_its_segment_is_refused() -> None:
    for run in (
        LogRun(
            ReplicaSetId(SET),
            LeaderEpoch(EPOCH),
            LeaderEpoch(4),
            Position(5000),
            Position(0),
            Position(0),
            Position(4096),
            b"",
        ),
        LogRun(
            ReplicaSetId(SET),
            LeaderEpoch(EPOCH),
            LeaderEpoch(4),
            Position(4095),
            Position(0),
            Position(0),
            Position(4096),
            b"ab",
        ),
        LogRun(
            ReplicaSetId(SET),
            LeaderEpoch(EPOCH),
            LeaderEpoch(4),
            Position(-1),
            Position(0),
            Position(-1),
            Position(4096),
            b"",
        ),
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
