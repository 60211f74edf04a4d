"""The sender knows what became of each frame, and sees what a node must not do."""

import errno
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from harness.bad_input.frame import BadFrame, framed
from harness.bad_input.grpc_frames import raw_frame
from harness.bad_input.grpc_sender import call_grpc
from harness.bad_input.sender import Sender, Tally
from penstock.http2.codes import ErrorCode
from penstock.http2.frames import goaway_frame, reset_frame, settings_frame
from penstock.protocol.api_keys import ApiKey

LOOPBACK = "127.0.0.1"
Answer = Callable[[int], int | None]
"""Correlation id of a request -> that of its answer; None ends the connection."""


def bad(number: int, kind: str = "plain") -> BadFrame:
    data = framed(struct.pack(">hhih", ApiKey.METADATA, 1, number, -1))
    return BadFrame(kind, "METADATA v1", data, False, 7, number)


@contextmanager
def node(answer: Answer) -> Iterator[tuple[tuple[str, int], list[int]]]:
    """Serve one connection after the other; yields the address and every request's id."""
    seen: list[int] = []
    with socket.create_server((LOOPBACK, 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    converse(connection, answer, seen)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname(), seen
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(120)


def converse(connection: socket.socket, answer: Answer, seen: list[int]) -> None:
    while True:
        head = connection.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            return
        body = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        if len(body) < int.from_bytes(head, "big"):
            return
        (correlation_id,) = struct.unpack_from(">i", body, 4)
        seen.append(correlation_id)
        answered = answer(correlation_id)
        if answered is None:
            return
        connection.sendall(struct.pack(">ii", 4, answered))


def test_frames_that_are_answered_are_counted_so() -> None:
    with node(lambda correlation_id: correlation_id) as (address, _):
        sender = Sender(address)
        sender.send(bad(number) for number in range(10))
    assert (sender.tally.sent, sender.tally.answered) == (10, 10)
    assert not sender.tally.problems
    assert sender.tally.by_kind == {"plain": 10}


def test_frames_behind_the_one_that_was_refused_are_sent_again() -> None:
    refused = {2, 3, 7}
    with node(lambda number: None if number in refused else number) as (address, seen):
        sender = Sender(address)
        sender.send(bad(number) for number in range(10))
    assert (sender.tally.answered, sender.tally.refused) == (7, 3)
    assert [number for number in seen if number < 10] == list(range(10)), "each was handled once"


def test_an_answer_to_a_request_that_was_never_sent_is_shown_with_its_frame() -> None:
    with node(lambda number: 555 if number == 4 else number) as (address, _):
        sender = Sender(address)
        sender.send(bad(number) for number in range(6))
    (problem,) = sender.tally.problems
    assert "0x22b" in problem
    assert str(bad(4)) in problem


class Gone(socket.socket):
    """A socket whose peer has reset it: it has no end to shut down any more."""

    def shutdown(self, how: int, /) -> None:
        super().shutdown(how)
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))


def test_a_connection_that_is_reset_before_its_end_is_sent_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half = bad(1, "half")._replace(data=bad(1).data[:7])
    connect = Sender._connect

    def connect_to_one_that_resets(sender: Sender) -> socket.socket:
        connection = connect(sender)
        gone = Gone(fileno=connection.detach())
        gone.settimeout(60)
        return gone

    monkeypatch.setattr(Sender, "_connect", connect_to_one_that_resets)
    with node(lambda number: number) as (address, _):
        sender = Sender(address)
        sender.send([bad(0), half, bad(2)])
    assert sender.tally.by_kind == {"plain": 2, "half": 1}
    assert not sender.tally.problems


def test_half_a_frame_ends_its_connection_and_the_next_is_sent_on_another() -> None:
    half = bad(1, "half")._replace(data=bad(1).data[:7])
    with node(lambda number: number) as (address, seen):
        sender = Sender(address)
        sender.send([bad(0), half, bad(2)])
    assert (sender.tally.answered, sender.tally.waited_for) == (2, 1)
    assert [number for number in seen if number < 10] == [0, 2]


class Http2Node:
    """Answers each connection with the same bytes once something has come, and ends it."""

    def __init__(self, says: bytes) -> None:
        self._says = says
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address = self._listener.getsockname()[:2]

    def serve(self) -> None:
        with self._listener:
            connection, _ = self._listener.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(self._says)


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        (b"", ""),
        (goaway_frame(0, ErrorCode.PROTOCOL_ERROR, "no"), ""),
        (goaway_frame(0, ErrorCode.INTERNAL_ERROR, "oh"), "the node says that it failed"),
        (reset_frame(1, ErrorCode.INTERNAL_ERROR), "the node says that it failed"),
        (raw_frame(77, 0, 0, b""), "a frame of kind 77"),
        (raw_frame(0, 0, 1, b"\0\0\0\0\x06\x0a\x04\x08\xd1\x86\x03"), "INTERNAL_SERVER_ERROR"),
    ],
)
def test_what_a_node_should_not_say_to_a_grpc_client_is_a_problem(
    says: bytes, problem: str
) -> None:
    served, tally = Http2Node(says), Tally()
    thread = threading.Thread(target=served.serve)
    thread.start()
    call_grpc(served.address, [BadFrame("grpc call", "grpc", b"x", False, 7, 1)], tally)
    thread.join()
    assert (tally.sent, tally.refused, tally.answered) == (1, 1, 0)
    assert problem in "".join(tally.problems)
    assert bool(tally.problems) is bool(problem)


def test_a_grpc_connection_that_answers_its_ping_is_answered() -> None:
    pong = raw_frame(6, 1, 0, b"deal" + bytes(4))
    served, tally = Http2Node(settings_frame(()) + pong), Tally()
    thread = threading.Thread(target=served.serve)
    thread.start()
    call_grpc(served.address, [BadFrame("grpc call", "grpc", b"x", False, 7, 1)], tally)
    thread.join()
    assert (tally.sent, tally.answered, tally.problems) == (1, 1, [])
