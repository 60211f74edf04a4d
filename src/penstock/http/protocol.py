"""A connection of a client: uvicorn's protocol on h11, within bounds that it does not have.

    one too many                     another one gives way (places.py), or else
                                     503 as a problem document, and the end
    no whole head in head_s          the end
    nothing read for write_s         the end, while an answer is being sent
    no HTTP                          400 as a problem document, and the end

The head's time also counts between requests, from the first byte of the next one; before that it is
uvicorn's own time for idle connections. WebSockets are not served.

Source: RFC 9112; uvicorn `H11Protocol`.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast
from weakref import WeakMethod

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.http.call import SHOWS, encode_json
from penstock.http.front import Front
from penstock.http.problems import MEDIA_TYPE, Problem, bad_request, unavailable


class BoundedProtocol(H11Protocol):
    """See the module."""

    def __init__(
        self, front: Front, config: Config, state: ServerState, app_state: dict[str, Any]
    ) -> None:
        super().__init__(config, state, {**app_state, SHOWS: WeakMethod(self._shows)})
        self._front = front
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._is_made = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._is_made = True
        super().connection_made(cast("asyncio.Transport", transport))
        if self._front.places.take(self):
            self._arm_head()
            return
        self._front.stats.refused_connections += 1
        detail = f"{self._front.limits.connections_max} connections are open"
        self._refuse(unavailable("too-many-connections", detail, "try again a little later"))

    def give_way(self) -> None:
        """End at once: its place is wanted."""
        self._front.stats.refused_connections += 1
        self.transport.abort()

    def _shows(self, token: str) -> None:
        self._front.places.shows(self, token)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_made:
            return  # its handshake has failed
        self._disarm_head()
        self._disarm_write()
        self._front.places.leave(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        # What is in a circle would stay until all objects are gone through, bodies among it.
        self.cycle = cast("RequestResponseCycle", None)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.transport.is_closing():
            self._disarm_head()
        elif self._is_between:
            self._arm_head()
        else:
            self._disarm_head()

    @property
    def _is_between(self) -> bool:
        """Whether no request is being handled."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Of a request that has come meanwhile the head may be there in part.
        if self.conn.trailing_data[0] and self._is_between:
            self._arm_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            seconds = self._front.limits.write_s
            self._write_timer = self.loop.call_later(seconds, self._end_slow)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._disarm_write()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; called by uvicorn."""
        self._refuse(bad_request("bad-http", msg, "send HTTP/1.1"))

    def _refuse(self, problem: Problem) -> None:
        """Answer what has come to no request, if nothing was answered yet, and end.

        A request that is being handled is one whose body is no HTTP: its client counts as gone.
        """
        if not self._is_between:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        body = encode_json(problem.document())
        headers = [
            ("content-type", MEDIA_TYPE),
            ("content-length", str(len(body))),
            ("connection", "close"),
            *problem.headers.items(),
        ]
        reason = HTTPStatus(problem.status).phrase.encode()
        try:
            head = h11.Response(status_code=int(problem.status), headers=headers, reason=reason)
            parts = [head, h11.Data(data=body), h11.EndOfMessage()]
            self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        except h11.LocalProtocolError:
            self.transport.abort()
        else:
            self.transport.close()

    # Times

    def _arm_head(self) -> None:
        if self._head_timer is None:
            seconds = self._front.limits.head_s
            self._head_timer = self.loop.call_later(seconds, self._end_slow)

    def _disarm_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _disarm_write(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _end_slow(self) -> None:
        self._front.stats.slow_clients += 1
        self.transport.abort()


MakeProtocol = Callable[[], BoundedProtocol]
