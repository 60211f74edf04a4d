"""The ASGI application: one call at a time from its request to its answer, whatever happens.

    request ─► route, token ─► operation ─► answer
                    └──────────────┴─► Problem, UpstreamError ─► problem document
                                   └─► anything else: a bug, logged; 500

Source: ASGI 3.0.
"""

import logging
from http import HTTPStatus
from typing import Final

from penstock.http.call import Call, Receive, Scope, Send
from penstock.http.front import Front
from penstock.http.problems import Problem, of_upstream
from penstock.http.routing import find_route
from penstock.http.upstream.errors import UpstreamError

log = logging.getLogger(__name__)
OTHER: Final = "other"
"""The operation of requests that are none."""


class App:
    """See the module."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", scope["type"]
        front = self._front
        call = Call(scope, receive, send, limits=front.limits, held=front.held)
        name = OTHER
        try:
            try:
                route = find_route(front, call)
                name = route.name
                await route.run()
            except Problem as problem:
                await _refuse(call, problem)
            except UpstreamError as error:
                await _refuse(call, of_upstream(error))
            except Exception:
                log.exception("%s: unhandled", name)
                await _refuse(call, _bug())
        finally:
            call.end()
            front.stats.requests[name, call.status] += 1


async def _refuse(call: Call, problem: Problem) -> None:
    if not call.status and not call.is_gone:
        await call.refuse(problem)


def _bug() -> Problem:
    return Problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "bug",
        "this process has failed at the request",
        "report it, with the log of penstock http",
    )
