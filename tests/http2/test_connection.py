"""A connection of HTTP/2 with h2 at its other end."""

import h2.events
import pytest
from h2.settings import SettingCodes
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.http2.codes import ErrorCode, FrameType
from penstock.http2.frames import frame
from penstock.http2.limits import Http2Limits
from tests.http2.peer import HELLO, OK, REQUEST, Client, Served, headers_frame


@given(
    st.lists(
        st.tuples(st.binary(max_size=200_000), st.binary(max_size=200_000)),
        min_size=1,
        max_size=5,
    )
)
@settings(max_examples=40, deadline=None)
def test_requests_and_answers_of_any_size_go_through(exchanges) -> None:
    served = Served()
    client = Client(served)
    for number, (body, answer) in enumerate(exchanges):
        stream_id = 2 * number + 1
        client.request(stream_id, body)
        assert served.events.headers[stream_id] == REQUEST
        assert bytes(served.events.bodies[stream_id]) == body
        assert served.events.ended[-1] == stream_id
        served.answer(stream_id, answer)
        while not client.has_ended(stream_id):
            client.exchange()
            unread = client.h2.inbound_flow_control_window
            del unread
            for one in client.events:
                if isinstance(one, h2.events.DataReceived) and one.flow_controlled_length:
                    client.h2.acknowledge_received_data(one.flow_controlled_length, one.stream_id)
                    one.flow_controlled_length = 0
        assert client.data(stream_id) == answer
    assert served.core.held_bytes == 0
    assert served.core.streams == []


def test_data_waits_for_the_window_of_its_stream_and_goes_on_with_it() -> None:
    served = Served()
    client = Client(served)
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 10})
    client.request(1)
    served.answer(1, b"0123456789abcdef")
    client.exchange()
    assert client.data(1) == b"0123456789"
    assert not client.has_ended(1)
    client.h2.increment_flow_control_window(3, 1)
    client.exchange()
    assert client.data(1) == b"0123456789abc"
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 13})
    client.exchange()
    assert client.data(1) == b"0123456789abcdef"
    assert client.has_ended(1)


def test_a_request_is_read_from_frames_with_padding_priority_and_continuations() -> None:
    served = Served()
    block = headers_frame(1, 0)[9:]
    start = b"\x03" + b"\0\0\0\0\x0f" + block[:4] + b"\0\0\0"
    said = HELLO + frame(FrameType.HEADERS, 0x8 | 0x20, 1, start)
    said += frame(FrameType.CONTINUATION, 0, 1, block[4:10])
    said += frame(FrameType.CONTINUATION, 0x4, 1, block[10:])
    said += frame(FrameType.DATA, 0x8 | 0x1, 1, b"\x02body\0\0")
    for byte in said:
        served.take(bytes((byte,)))
    assert served.events.headers[1] == REQUEST
    assert served.events.bodies[1] == b"body"
    assert served.events.ended == [1]
    assert served.core.held_bytes == len(b"body")


def test_pings_are_answered_and_settings_acknowledged() -> None:
    served = Served()
    client = Client(served)
    client.h2.ping(b"12345678")
    kinds = [type(one) for one in client.exchange()]
    assert h2.events.PingAckReceived in kinds
    assert h2.events.SettingsAcknowledged in kinds


def test_a_client_that_resets_a_request_is_told_of_as_gone() -> None:
    served = Served()
    client = Client(served)
    client.h2.send_headers(1, REQUEST)
    client.h2.send_data(1, b"part")
    client.exchange()
    assert served.core.held_bytes == 4
    client.h2.reset_stream(1)
    client.exchange()
    assert served.events.gone == [1]
    assert served.core.held_bytes == 0
    client.request(3, b"whole")
    assert served.events.ended == [3]


def test_an_answer_before_the_end_of_its_request_tells_the_client_to_stop() -> None:
    served = Served()
    client = Client(served)
    client.h2.send_headers(1, REQUEST)
    client.exchange()
    served.core.answer(served.events.streams[1], OK, is_end=True)
    client.exchange()
    reset = [one for one in client.events if isinstance(one, h2.events.StreamReset)]
    assert [(one.stream_id, one.error_code) for one in reset] == [(1, ErrorCode.NO_ERROR)]
    assert served.take(frame(FrameType.DATA, 0x1, 1, b"late")) == b""
    assert served.fault() is None


def test_streams_beyond_the_bound_are_refused_and_the_others_go_on() -> None:
    served = Served(Http2Limits(streams_max=2))
    said = HELLO + b"".join(headers_frame(number, 0x4) for number in (1, 3, 5))
    heard = served.take(said)
    assert frame(FrameType.RST_STREAM, 0, 5, b"\0\0\0\x07") in heard
    assert list(served.events.headers) == [1, 3]
    assert served.fault() is None


def test_a_connection_that_is_drained_serves_what_has_begun_and_refuses_the_rest() -> None:
    served = Served()
    client = Client(served)
    client.request(1, b"x")
    served.core.drain()
    assert not served.core.is_over
    heard = served.core.take_output()
    assert heard == frame(FrameType.GOAWAY, 0, 0, b"\0\0\0\x01\0\0\0\0")
    refused = served.take(headers_frame(3, 0x5))
    assert frame(FrameType.RST_STREAM, 0, 3, b"\0\0\0\x07") in refused
    served.answer(1, b"y")
    assert served.core.is_over
    assert served.fault() is None


def test_many_large_requests_at_once_are_all_read_however_little_may_be_held() -> None:
    limits = Http2Limits(more_bytes_max=256 << 10)
    served = Served(limits)
    client = Client(served)
    left = {2 * number + 1: bytes([number]) * 400_000 for number in range(8)}
    whole = dict(left)
    for stream_id in left:
        client.h2.send_headers(stream_id, REQUEST)
    most = 0
    while left:
        before = {one: len(body) for one, body in left.items()}
        for stream_id, body in list(left.items()):
            size = min(len(body), client.h2.local_flow_control_window(stream_id), 16_384)
            if size:
                client.h2.send_data(stream_id, body[:size], end_stream=size == len(body))
                left[stream_id] = body[size:]
                if not left[stream_id]:
                    del left[stream_id]
            client.exchange()
            most = max(most, served.core.held_bytes)
        for stream_id in served.events.ended:
            if served.events.streams[stream_id] in served.core.streams:
                served.answer(stream_id, b"done")
        client.exchange()
        assert {one: len(body) for one, body in left.items()} != before, "they wait for each other"
    assert {one: bytes(body) for one, body in served.events.bodies.items()} == whole
    assert most <= 8 * 65_535 + limits.more_bytes_max + 400_000 + (64 << 10)


def test_what_is_consumed_may_be_sent_again_for_ever() -> None:
    served = Served()
    client = Client(served)
    client.h2.send_headers(1, REQUEST)
    client.exchange()
    stream = served.events.streams[1]
    for _ in range(2_500):
        client.h2.send_data(1, b"m" * 10_000)
        client.exchange()
        served.core.consume(stream, 10_000)
    assert served.core.held_bytes == 0
    assert served.fault() is None


def test_what_is_consumed_leaves_room_for_other_requests() -> None:
    served = Served(Http2Limits(more_bytes_max=128 << 10))
    client = Client(served)
    client.h2.send_headers(1, REQUEST)
    client.exchange()
    for _ in range(40):
        client.h2.send_data(1, b"m" * 16_384)
        client.exchange()
        if served.events.streams[1].held > 60_000:
            served.core.consume(served.events.streams[1], served.events.streams[1].held)
            client.exchange()
            assert client.h2.local_flow_control_window(1) <= 65_535, "no more than it began with"
    for stream_id in (3, 5):
        client.request(stream_id, b"x" * 100_000)
        assert served.events.ended[-1] == stream_id
        served.answer(stream_id, b"done")


def test_data_waits_for_the_window_of_the_connection() -> None:
    served = Served()
    client = Client(served)
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
    client.request(1)
    served.answer(1, b"x" * 100_000)
    client.exchange()
    assert len(client.data(1)) == 65_535
    client.h2.increment_flow_control_window(40_000)
    client.exchange()
    assert len(client.data(1)) == 100_000
    assert client.has_ended(1)


def test_a_pause_leaves_whole_frames_for_the_next_turn() -> None:
    served = Served()
    served.core.feed(HELLO + headers_frame(1, 0x5) + headers_frame(3, 0x5))
    turns = 1
    while served.core.handle(lambda: False):
        turns += 1
    assert turns == 3
    assert served.events.ended == [1, 3]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "PROTOCOL_ERROR"),
        (HELLO + frame(FrameType.DATA, 0, 1, b"x"), "PROTOCOL_ERROR"),
        (HELLO + headers_frame(2, 0x5), "PROTOCOL_ERROR"),
        (HELLO + headers_frame(0, 0x5), "PROTOCOL_ERROR"),
        (HELLO + frame(FrameType.CONTINUATION, 0x4, 1, b""), "PROTOCOL_ERROR"),
        (HELLO + headers_frame(1, 0) + frame(FrameType.PING, 0, 0, bytes(8)), "PROTOCOL_ERROR"),
        (HELLO + headers_frame(1, 0) + headers_frame(1, 0x4), "PROTOCOL_ERROR"),
        (HELLO + frame(FrameType.PING, 0, 0, bytes(7)), "FRAME_SIZE_ERROR"),
        (HELLO + frame(FrameType.PING, 0, 1, bytes(8)), "PROTOCOL_ERROR"),
        (HELLO + frame(FrameType.SETTINGS, 0, 0, bytes(5)), "FRAME_SIZE_ERROR"),
        (HELLO + frame(FrameType.SETTINGS, 1, 0, bytes(6)), "FRAME_SIZE_ERROR"),
        (HELLO + frame(FrameType.SETTINGS, 0, 0, b"\0\x02\0\0\0\x02"), "PROTOCOL_ERROR"),
        (HELLO + frame(FrameType.SETTINGS, 0, 0, b"\0\x05\0\0\0\x02"), "PROTOCOL_ERROR"),
        (HELLO + frame(FrameType.SETTINGS, 0, 0, b"\0\x04\x80\0\0\0"), "FLOW_CONTROL_ERROR"),
        (HELLO + frame(FrameType.WINDOW_UPDATE, 0, 0, bytes(4)), "PROTOCOL_ERROR"),
        (HELLO + frame(FrameType.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"), "FLOW_CONTROL_ERROR"),
        (HELLO + frame(FrameType.WINDOW_UPDATE, 0, 9, b"\0\0\0\1"), "PROTOCOL_ERROR"),
        (HELLO + frame(FrameType.RST_STREAM, 0, 9, bytes(4)), "PROTOCOL_ERROR"),
        (HELLO + frame(FrameType.PUSH_PROMISE, 0x4, 1, bytes(4)), "PROTOCOL_ERROR"),
        (HELLO + headers_frame(1, 0x4) + frame(FrameType.DATA, 0x8, 1, b"\5a"), "PROTOCOL_ERROR"),
        (HELLO + headers_frame(1, 0x4) + frame(FrameType.DATA, 0x8, 1, b""), "FRAME_SIZE_ERROR"),
        (HELLO + b"\0\x40\x01\0\0\0\0\0\1", "FRAME_SIZE_ERROR"),
        (HELLO + frame(FrameType.HEADERS, 0x5, 1, b"\x80"), "COMPRESSION_ERROR"),
        (HELLO[:24] + frame(FrameType.PING, 0, 0, bytes(8)), "PROTOCOL_ERROR"),
        (HELLO[:24] + frame(FrameType.SETTINGS, 1, 0), "PROTOCOL_ERROR"),
    ],
)
def test_frames_that_no_client_may_send_end_the_connection(said, code) -> None:
    served = Served()
    heard = served.take(said)
    assert served.fault() == code
    assert served.core.is_over
    assert FrameType.GOAWAY in {kind for kind, _ in frames_in(heard)}
    assert served.take(HELLO + headers_frame(5, 0x5)) == b""
    assert 5 not in served.events.headers


@pytest.mark.parametrize(
    "headers",
    [
        REQUEST[:2],
        [*REQUEST, (b":path", b"/b")],
        [*REQUEST, (b"a", b"b"), (b":authority", b"y")],
        [*REQUEST, (b":status", b"200")],
        [*REQUEST, (b"Upper", b"x")],
        [*REQUEST, (b"connection", b"close")],
        [*REQUEST, (b"te", b"gzip")],
        [*REQUEST, (b"x", b"a\r\nb")],
        [*REQUEST, (b"", b"x")],
    ],
)
def test_a_request_with_malformed_headers_is_reset_and_others_go_on(headers) -> None:
    served = Served()
    heard = served.take(HELLO + headers_frame(1, 0x5, headers) + headers_frame(3, 0x5))
    assert frame(FrameType.RST_STREAM, 0, 1, b"\0\0\0\x01") in heard
    assert served.events.ended == [3]
    assert served.fault() is None


def test_more_data_than_its_window_resets_a_stream() -> None:
    served = Served(Http2Limits(more_bytes_max=0))
    served.take(HELLO + headers_frame(1, 0x4) + headers_frame(3, 0x4))
    full = frame(FrameType.DATA, 0, 1, bytes(16_384))
    for _ in range(4):
        served.take(full)  # this one is let through further, so the other one is not
    for _ in range(3):
        served.take(frame(FrameType.DATA, 0, 3, bytes(16_384)))
    assert served.events.gone == []
    served.take(frame(FrameType.DATA, 0, 3, bytes(16_384)))
    assert served.events.gone == [3]
    assert served.fault() is None


def frames_in(data: bytes) -> list[tuple[int, int]]:
    """Kind and stream of each frame."""
    found = []
    while data:
        length = int.from_bytes(data[:3])
        found.append((data[3], int.from_bytes(data[5:9])))
        data = data[9 + length :]
    return found
