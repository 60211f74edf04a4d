"""What a client can take of a connection, whatever it sends: each flood ends at a bound."""

import random

import pytest

from penstock.http2.allowance import Allowance
from penstock.http2.codes import FrameType
from penstock.http2.errors import Http2Error
from penstock.http2.frames import frame, settings_frame, window_frame
from penstock.http2.limits import Http2Limits
from tests.http2.peer import HELLO, OK, Served, always, headers_frame

CALM = "ENHANCE_YOUR_CALM"
PING = frame(FrameType.PING, 0, 0, bytes(8))
FUZZED = 120_000


def resets(number: int) -> bytes:
    return headers_frame(number, 0x5) + frame(FrameType.RST_STREAM, 0, number, b"\0\0\0\x08")


def broken(number: int) -> bytes:
    """A request that this side is made to reset."""
    return headers_frame(number, 0x4) + window_frame(number, 0)


FLOODS = {
    "pings": lambda number: PING,
    "ping acknowledgements": lambda number: frame(FrameType.PING, 1, 0, bytes(8)),
    "settings": lambda number: settings_frame(()),
    "settings of windows": lambda number: settings_frame([(4, number % 100)]),
    "priorities": lambda number: frame(FrameType.PRIORITY, 0, number + 1, bytes(5)),
    "windows": lambda number: window_frame(0, 1),
    "unknown frames": lambda number: frame(99, 0, 0),  # type: ignore[arg-type]
    "empty data": lambda number: frame(FrameType.DATA, 0, 1),
    "tiny data": lambda number: frame(FrameType.DATA, 0, 1, b"x"),
    "padding": lambda number: frame(FrameType.DATA, 0x8, 1, b"\x3f" + bytes(63)),
    "going away": lambda number: frame(FrameType.GOAWAY, 0, 0, bytes(8)),
    "data behind the end": lambda number: frame(FrameType.DATA, 1, 1, b"x"),
    "resets": lambda number: resets(2 * number + 3),
    "requests that are broken": lambda number: broken(2 * number + 3),
    "late headers": lambda number: headers_frame(1, 0x5),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_ends_the_connection_within_its_bound(kind) -> None:
    served = Served()
    served.take(HELLO + headers_frame(1, 0x4))
    count, most = 0, 0
    while served.fault() is None and count < 20_000:
        served.take(FLOODS[kind](count))
        most = max(most, served.core.held_bytes)
        count += 1
    assert served.fault() == CALM
    limits = Http2Limits()
    bound = limits.resets_burst if count < 300 else limits.frames_burst + 2
    assert count <= bound * 1.1
    assert most < 1 << 20


@pytest.mark.parametrize("kind", ["pings", "windows", "resets", "settings"])
def test_what_clients_do_now_and_then_ends_nothing(kind) -> None:
    served = Served()
    served.take(HELLO + headers_frame(1, 0x4))
    for number in range(5_000):
        served.take(FLOODS[kind](number))
        served.now_ms += 25
    assert served.fault() is None


def test_a_client_that_pings_with_each_of_its_requests_is_no_flood() -> None:
    served = Served()
    served.take(HELLO)
    for number in range(5_000):
        stream_id = 2 * number + 1
        served.take(headers_frame(stream_id, 0x5) + 3 * PING)
        served.core.answer(served.events.streams[stream_id], OK, is_end=True)
    assert served.fault() is None


@pytest.mark.parametrize("size", [0, 100, 1_200])
def test_header_blocks_that_do_not_end_are_cut(size) -> None:
    served = Served()
    served.take(HELLO + frame(FrameType.HEADERS, 0, 1, b""))
    count = 0
    while served.fault() is None:
        served.take(frame(FrameType.CONTINUATION, 0, 1, bytes(size)))
        count += 1
        assert served.core.held_bytes <= Http2Limits().block_bytes_max + 1_200
    assert served.fault() == CALM
    assert count <= Http2Limits().continuations_max + 1


def test_time_ends_what_is_left_unfinished() -> None:
    limits = Http2Limits()
    silent, half_block = Served(), Served()
    half_block.take(HELLO + frame(FrameType.HEADERS, 0, 1, b"\x83"))
    for served, ms in ((silent, limits.settings_ms), (half_block, limits.block_ms)):
        served.now_ms += ms
        served.core.sweep()
        assert served.fault() is None
        served.now_ms += 1
        served.core.sweep()
    assert silent.fault() == "SETTINGS_TIMEOUT"
    assert half_block.fault() == CALM


def test_a_request_that_does_not_end_is_reset_and_its_memory_is_free() -> None:
    served = Served()
    served.take(HELLO + headers_frame(1, 0x4) + frame(FrameType.DATA, 0, 1, bytes(9_000)))
    served.now_ms += Http2Limits().request_ms
    served.core.sweep()
    assert served.core.held_bytes == 9_000
    served.now_ms += 1
    served.core.sweep()
    assert served.events.gone == [1]
    assert served.core.held_bytes == 0
    assert served.fault() is None


def test_answers_that_nobody_lets_through_end_the_connection() -> None:
    served = Served()
    served.take(HELLO + settings_frame([(4, 0)]) + headers_frame(1, 0x5))
    served.answer(1, b"x" * 100)
    assert served.core.held_bytes == 100
    served.now_ms += Http2Limits().request_ms
    served.core.sweep()
    assert served.fault() is None
    served.now_ms += 1
    served.core.sweep()
    assert served.fault() == CALM


def test_answers_that_wait_have_a_bound() -> None:
    limits = Http2Limits(queued_bytes_max=10_000)
    served = Served(limits)
    said = settings_frame([(4, 0)]) + b"".join(headers_frame(n, 0x5) for n in range(1, 21, 2))
    served.take(HELLO + said)
    for stream_id in range(1, 21, 2):
        if served.fault() is None:
            served.answer(stream_id, b"x" * 3_000)
    assert served.fault() == CALM
    assert served.core.held_bytes <= 13_000


def test_an_allowance_is_a_burst_and_a_rate() -> None:
    allowance = Allowance(10, 5, 0)
    assert [allowance.take(1, 0) for _ in range(11)] == [True] * 10 + [False]
    assert not allowance.take(0, 100)
    assert allowance.take(1, 500)
    assert not allowance.take(1, 500)
    assert [allowance.take(1, 1_000_000) for _ in range(11)] == [True] * 10 + [False]
    assert not allowance.take(1, 0), "time that goes back adds nothing"


def fuzzed(random_one: random.Random) -> bytes:
    """A frame that is often nearly right."""
    kind = random_one.choice([0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, random_one.randrange(256)])
    flags = random_one.choice([0, 1, 4, 5, 5, 8, 0x20, 0x2D, random_one.randrange(256)])
    stream_id = random_one.choice([0, 1, 3, 5, random_one.randrange(1, 99), 1 << 31 | 7])
    size = random_one.choice([0, 1, 4, 4, 5, 6, 8, 8, 12, 300])
    payload = random_one.randbytes(size)
    if kind == 1 and random_one.random() < 0.7:
        payload = headers_frame(1, 0)[9:]
    if kind == 8 and random_one.random() < 0.7:
        payload = b"\0\0" + payload[:2].ljust(2, b"\1")
    head = len(payload).to_bytes(3) + bytes((kind, flags)) + stream_id.to_bytes(4)
    return head + payload


def test_any_frames_end_in_a_fault_or_in_requests_and_hold_little() -> None:
    """100,000 frames and more, on connections that begin anew once one has ended."""
    random_one = random.Random(19)
    frames = connections = requests = 0
    faults: set[str | None] = set()
    while frames < FUZZED:
        served = Served()
        served.take(HELLO)
        connections += 1
        said = 0
        while served.fault() is None and said < 300:
            data = b"".join(fuzzed(random_one) for _ in range(3))
            served.now_ms += 5
            served.core.feed(data[: random_one.choice([len(data), len(data), len(data) - 1])])
            served.core.handle(always)
            assert len(served.core.take_output()) < 10_000
            said += 3
            for stream in served.core.streams[:2]:
                try:
                    served.answer(stream.stream_id, b"answer")
                except Http2Error:
                    pytest.fail("an answer raises nothing")
        served.core.sweep()
        assert served.core.held_bytes < 300 * 1_000
        requests += len(served.events.headers)
        faults.add(served.fault())
        served.core.lost()
        assert served.core.streams == []
        frames += said
    assert requests > 1_000
    assert {"PROTOCOL_ERROR", "FRAME_SIZE_ERROR", "COMPRESSION_ERROR"} <= faults
