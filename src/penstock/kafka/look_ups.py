"""The look-ups of one request: its connection is held until all have ended, its memory is counted.

    add, add, start ─► connection held ─► room for the answer ─► the broker's queue ─► finish
                                              └─► the client has gone: dropped ─► finish

A request that names many partitions may wait long, and takes more memory than its frame. So a
connection has one such request at a time, and what it will answer is counted, and waits for room,
as answers are (net/answers/answer_room.py). A piece of a long request is held and counted as part
of that one (long_requests.py).
"""

from collections.abc import Callable

from penstock.broker.look_ups import LookUps
from penstock.kafka.request import Request
from penstock.storage.read.needs_disk import Begin, Drop, Over

WAITING_BYTES = 256
"""A decoded partition of a request that waits for room."""
LOOK_UP_BYTES = 1024
"""A look-up in the queue, with its answer."""


class RequestLookUps:
    """See the module. Used once."""

    __slots__ = ("_asked", "_count", "_finish", "_look_ups", "_open_count", "_request")

    def __init__(self, look_ups: LookUps, request: Request, finish: Callable[[], None]) -> None:
        """`finish` is called once, after all have ended or were dropped."""
        self._look_ups = look_ups
        self._request = request
        self._finish = finish
        self._asked: list[tuple[Begin, Drop, LookUps]] = []
        self._count = self._open_count = 0

    def add(self, begin: Begin, drop: Drop, queue: LookUps | None = None) -> None:
        """Add one, as in LookUps.ask; before `start`. `queue`: another one than that of all."""
        self._asked.append((begin, drop, queue or self._look_ups))

    def start(self) -> None:
        """Start the look-ups; without any the request is finished at once."""
        self._count = self._open_count = len(self._asked)
        if not self._asked:
            self._finish()
        elif self._is_piece:
            self._ask()
        else:
            connection = self._request.connection
            connection.hold(self._count * WAITING_BYTES)
            connection.ask_room(self._count * LOOK_UP_BYTES, self._on_room)

    @property
    def _is_piece(self) -> bool:
        return self._request.turns is not None

    def _on_room(self, most: int) -> int:
        """Queue the look-ups, as there is room for the answer; 0: the client has gone."""
        size = self._count * LOOK_UP_BYTES
        self._request.connection.keep(size)
        if most:
            self._ask()
            return size
        asked, self._asked = self._asked, []
        for _, drop, _ in asked:
            self._drop(drop)()
        return 0

    def _ask(self) -> None:
        asked, self._asked = self._asked, []
        for begin, drop, queue in asked:
            queue.ask(self._request.connection, self._begin(begin), self._drop(drop))

    def _begin(self, begin: Begin) -> Begin:
        def begun(over: Over) -> None:
            def ended() -> None:
                over()
                self._ended()

            begin(ended)

        return begun

    def _drop(self, drop: Drop) -> Drop:
        def dropped() -> None:
            drop()
            self._ended()

        return dropped

    def _ended(self) -> None:
        self._open_count -= 1
        if self._open_count:
            return
        self._finish()
        if not self._is_piece:
            connection = self._request.connection
            connection.let_go(self._count * LOOK_UP_BYTES)
            connection.go_on(self._count * WAITING_BYTES)
