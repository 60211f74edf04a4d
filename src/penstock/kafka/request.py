"""A request on its way through the broker, and its reply."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any

from penstock.base.ports import Buffer, Clock
from penstock.broker.api_stats import NOT_TIMED, Measure
from penstock.net.answers.replies import ReplyPlace
from penstock.protocol.header import RequestHeader, has_tagged_response_header
from penstock.protocol.messages import encode_response, encode_response_slices

if TYPE_CHECKING:
    from penstock.broker.turns import Turns
    from penstock.net.connection import Connection
    from penstock.protocol.slices import Encoding

_HEADER = Struct(">ii")
_FLEXIBLE_HEADER = Struct(">iib")


class Request:
    """A decoded request of a rarely used API; Produce and Fetch have their own parsers."""

    __slots__ = ("api_version", "body", "connection", "named", "turns")

    def __init__(self, api_version: int, body: Any, connection: Connection) -> None:
        self.api_version = api_version
        self.body = body
        self.connection = connection
        self.named: set[Any] | None = None
        """Names seen so far, for a request that is handled in slices."""
        self.turns: Turns | None = None
        """For waiting between slices in a long request; None in a short one."""

    def is_first(self, name: Any) -> bool:
        """Whether the request names this for the first time: repeating long answers is avoided."""
        if self.named is None:
            self.named = set()
        if name in self.named:
            return False
        self.named.add(name)
        return True


class Reply(ReplyPlace):
    """The answer to one request: send it once, now or later, from the loop.

    It is also its own place in the connection's order of answers: an early one waits there.

    Of pipelined requests only the first is timed: the others wait for that one, and reading the
    clock would add a tenth to their handling. Where a quota of time counts, all are timed
    (throttled.py).

    A reply may belong to several requests that were handled as one: it is then sent by `whole`.
    """

    __slots__ = ("_clock", "_handled_us", "_header", "_measure", "count", "is_timed", "started_us")

    connection: Connection
    throttle_ms = 0
    """Delay that the answer tells (throttled.py); 0 where nothing limits the client."""
    fetch_bytes_max: int | None = None
    """How much a fetch may take now (throttled.py); None where nothing limits the client."""

    def __init__(  # noqa: PLR0917  super().__init__ is written out: made for every request
        self,
        connection: Connection,
        header: RequestHeader,
        clock: Clock,
        measure: Measure,
        started_us: int,
        count: int = 1,
    ) -> None:
        """`started_us`: monotonic time at which the request was complete; `count`: requests."""
        self.connection = connection
        self.buffers = None
        self.next_place = None
        self._header = header
        self._clock = clock
        self._measure = measure
        self.started_us = started_us
        self._handled_us = 0
        self.count = count
        self.is_timed = connection.enqueue(self, count)

    def __call__(self, fields: Mapping[str, object]) -> None:
        """Encode `fields` for the request's version and send them."""
        key, version, *_ = self._header
        self.send([encode_response(key, version, fields)])

    async def in_turns(self, turns: Turns, fields: Mapping[str, object]) -> None:
        """Encode `fields` in slices, one per loop iteration, and send them."""
        encoding = self._kept(encode_response_slices(*self._header[:2], fields))
        self.raw(await turns.run(encoding, self.note_turn))

    def _kept(self, encoding: Encoding) -> Generator[None, None, bytearray]:
        """Count the bytes encoded so far, so that other answers start only if there is room."""
        kept, connection = 0, self.connection
        try:
            while True:
                size = next(encoding)
                connection.keep(size - kept)
                kept = size
                yield
        except StopIteration as end:
            answer: bytearray = end.value
            return answer
        finally:
            connection.let_go(kept)

    @property
    def measure(self) -> Measure:
        """What is told of the costs of the request."""
        return self._measure

    @property
    def api_key(self) -> int:
        """API key of the request."""
        return self._header.api_key

    def raw(self, body: Buffer) -> None:
        """Send an encoded body."""
        size = len(body)
        head = self._answer_header(size)
        self.connection.answered(self, (head, body), len(head) + size)

    def whole(self, answer: bytes) -> None:
        """Send an answer, or several, that has size field and header already."""
        size = len(answer)
        waited_us = self._clock.monotonic_us() - self._handled_us if self._handled_us else NOT_TIMED
        self._measure.answered(size, waited_us)
        self.connection.answered(self, (answer,), size, self.count)

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send a body of several buffers, none of which is copied."""
        size = sum(map(len, buffers))
        head = self._answer_header(size)
        self.connection.answered(self, (head, *buffers), len(head) + size)

    def note_turn(self, microseconds: int) -> None:
        """Count a part of this request that held the loop."""
        self._measure.took_turn(microseconds)

    def skip(self) -> None:
        """Send no answer: the client asked for acks=0."""
        self.connection.answered(self, (), 0)

    def close(self, reason: str) -> None:
        """Close the connection instead of answering."""
        self.connection.close(reason)

    def handled(self) -> None:
        """The handler of a timed request has returned; the time from here on is waiting."""
        self._handled_us = handled_us = self._clock.monotonic_us()
        self._measure.handled(handled_us - self.started_us)

    def _answer_header(self, body_bytes: int) -> bytes:
        """Count the answer, and return its size field and header."""
        key, version, correlation_id, _, _ = self._header
        waited_us = self._clock.monotonic_us() - self._handled_us if self._handled_us else NOT_TIMED
        if has_tagged_response_header(key, version):
            self._measure.answered(body_bytes + 9, waited_us)
            return _FLEXIBLE_HEADER.pack(body_bytes + 5, correlation_id, 0)
        self._measure.answered(body_bytes + 8, waited_us)
        return _HEADER.pack(body_bytes + 4, correlation_id)
