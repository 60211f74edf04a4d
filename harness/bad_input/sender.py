"""Sends bad frames over plain sockets, and knows of each whether the node has dealt with it.

Behind every frame follows a small good request, the marker. Answers come in the order of requests,
so the answer to a marker says that the frame before it was dealt with. Several frames with their
markers leave in one write; where the node ends the connection, the first frame without an answered
marker is the one that was refused, and those behind it, which the node never saw, are sent again on
the next connection. A frame that swallows what follows (a wrong size) is waited for shortly.

What comes back is checked: an answer must belong to one of the requests that were sent.
"""

import contextlib
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from harness.bad_input.frame import BadFrame, framed
from harness.waiting import UNTIL_SECONDS
from penstock.protocol.api_keys import ApiKey

WINDOW = 3
"""Frames in one write; more of them would mostly be sent twice."""
CONNECT_SECONDS = UNTIL_SECONDS
ANSWER_SECONDS = 0.4
"""How long one more answer is waited for."""
PROBLEMS_MAX = 20

_MARKER_ID = 0x7EAD0000
_ENDING = ("half", "size", "pipelined size", "noise", "tls", "http")
"""Starts of kinds that leave the connection without a known place for the next frame."""


@dataclass(slots=True)
class Tally:
    """What happened; tallies can be added up."""

    sent: int = 0
    answered: int = 0
    """Dealt with, and the connection lived on."""
    refused: int = 0
    """The node ended the connection."""
    waited_for: int = 0
    """The node waits for the rest, or the answer takes its time."""
    not_connected: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Take in what another sender has done."""
        self.sent += other.sent
        self.answered += other.answered
        self.refused += other.refused
        self.waited_for += other.waited_for
        self.not_connected += other.not_connected
        self.by_kind += other.by_kind
        self.problems = (self.problems + other.problems)[:PROBLEMS_MAX]

    def count(self, frame: BadFrame) -> None:
        """One frame is dealt with."""
        self.sent += 1
        self.by_kind[frame.kind] += 1


class Sender:
    """Sends frames to one Kafka port, one connection at a time."""

    def __init__(self, address: tuple[str, int], *, window: int = WINDOW) -> None:
        self.tally = Tally()
        self._address = address
        self._window = window

    def send(self, frames: Iterable[BadFrame]) -> None:
        """Send all frames. Raises OSError when the node can not be reached for some seconds."""
        source = iter(frames)
        waiting: deque[BadFrame] = deque()
        while True:
            waiting.extend(islice(source, self._window - len(waiting)))
            if not waiting:
                return
            with self._connect() as connection:
                while self._send_some(connection, waiting):
                    waiting.extend(islice(source, self._window - len(waiting)))

    def _connect(self) -> socket.socket:
        """Connect, also to a node that takes nobody for a moment."""
        deadline = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                connection = socket.create_connection(self._address, CONNECT_SECONDS)
            except ConnectionError:
                self.tally.not_connected += 1
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(ANSWER_SECONDS)
                return connection

    def _send_some(self, connection: socket.socket, waiting: deque[BadFrame]) -> bool:
        """Send the first frames of `waiting` and take away those that are dealt with.

        Returns whether the connection can be used on.
        """
        batch = list(_until_ending(waiting))
        if not batch:
            return False
        is_ending = batch[-1].kind.startswith(_ENDING)
        done, is_open = self._exchange(connection, batch)
        for frame in batch[:done]:
            self.tally.count(frame)
            waiting.popleft()
        self.tally.answered += done
        if done == len(batch):
            return is_open and not is_ending
        stopped_at = waiting.popleft()
        self.tally.count(stopped_at)
        if is_open or stopped_at.kind.startswith("half"):
            self.tally.waited_for += 1
        else:
            self.tally.refused += 1
        return False

    def _exchange(self, connection: socket.socket, batch: list[BadFrame]) -> tuple[int, bool]:
        """Return how many of the batch were dealt with, and whether the connection is open."""
        # One that is reset has no end to shut down, and tells that by OSError itself.
        with contextlib.suppress(OSError):
            for data in _writes(batch):
                connection.sendall(data)
            if batch[-1].kind.startswith("half"):
                connection.shutdown(socket.SHUT_WR)
        done = 0
        allowed = {_MARKER_ID + at for at in range(len(batch))}
        for frame in batch:
            allowed |= _correlation_ids(frame.data)
        try:
            for correlation_id in _answers(connection):
                if correlation_id not in allowed and len(self.tally.problems) < PROBLEMS_MAX:
                    self.tally.problems.append(f"answer to {correlation_id:#x}: {batch[done]}")
                if correlation_id == _MARKER_ID + done:
                    done += 1
                if done == len(batch):
                    return done, True
        except TimeoutError:
            return done, True
        except ConnectionError:
            pass
        return done, False


def _until_ending(frames: Iterable[BadFrame]) -> Iterator[BadFrame]:
    """Yield frames up to the first that leaves the connection in the middle of something.

    Half a frame goes alone: the end of the connection follows it.
    """
    for at, frame in enumerate(frames):
        is_half = frame.kind.startswith("half")
        if is_half and at > 0:
            return
        yield frame
        if is_half or frame.kind.startswith(_ENDING):
            return


def _writes(batch: list[BadFrame]) -> Iterator[bytes]:
    """Yield what is written at once: everything, but for frames that go byte by byte."""
    together = bytearray()
    for at, frame in enumerate(batch):
        if frame.is_slow:
            yield bytes(together)
            together.clear()
            for byte in frame.data:
                yield bytes((byte,))
        else:
            together += frame.data
        if not frame.kind.startswith("half"):
            together += framed(struct.pack(">hhih", ApiKey.API_VERSIONS, 0, _MARKER_ID + at, -1))
    yield bytes(together)


def _answers(connection: socket.socket) -> Iterator[int]:
    """Yield the correlation id of each answer until the end. Raises TimeoutError."""
    received = bytearray()
    while True:
        while len(received) >= 8:
            size, correlation_id = struct.unpack_from(">ii", received)
            if len(received) < 4 + size:
                break
            del received[: 4 + size]
            yield correlation_id
        more = connection.recv(1 << 16)
        if not more:
            return
        received += more


def _correlation_ids(data: bytes) -> set[int]:
    """Return the correlation ids of the requests in `data`, as a node reads it."""
    found = set()
    at = 0
    while len(data) >= at + 12:
        size, _, correlation_id = struct.unpack_from(">iii", data, at)
        found.add(correlation_id)
        if size < 0:
            break
        at += 4 + size
    return found
