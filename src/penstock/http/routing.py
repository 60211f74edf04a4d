"""Which request is which operation, and whether its token permits it.

    POST /v1/topics/TOPIC/messages                    produce
    POST /v1/topics/TOPIC/groups/GROUP/receive        receive
    POST /v1/topics/TOPIC/groups/GROUP/ack            ack, release, renew, reject
    GET  /v1/topics/TOPIC/groups/GROUP/stream         stream
    GET  /health, /openapi.json, /docs                without a token
    GET  /metrics                                     with a token that has metrics

What a token may not do is refused before anything is asked of the nodes, and before it is told
whether the topic is there.

Source: RFC 6750 section 3 (WWW-Authenticate), RFC 9110 section 15.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from penstock.http.call import Call
from penstock.http.front import Front
from penstock.http.operations.produce import produce
from penstock.http.operations.receive import receive
from penstock.http.operations.settle import WORDS, settle
from penstock.http.operations.stream import stream
from penstock.http.pages import api_page, health, metrics_page, openapi
from penstock.http.problems import Problem, bad_request
from penstock.http.tokens import Token

Operation = Callable[[], Awaitable[None]]
_NAME: Final = re.compile(r"[%|A-Za-z0-9._-]{1,249}")
_SCHEME: Final = b"bearer "


class Route(NamedTuple):
    """An operation with its name, by which it is counted."""

    name: str
    method: str
    run: Operation


def find_route(front: Front, call: Call) -> Route:
    """Return what is asked for; the token has been checked. Raises Problem."""
    parts = call.path_parts()
    page = _page(front, call, parts)
    route = page or _of_topic(front, call, parts)
    if route is None:
        do = "see /openapi.json for what there is"
        raise Problem(HTTPStatus.NOT_FOUND, "no-such-path", "there is nothing at this path", do)
    if call.method != route.method:
        do = f"use {route.method}"
        detail = f"{route.name} is no {call.method[:20]}"
        status = HTTPStatus.METHOD_NOT_ALLOWED
        raise Problem(status, "wrong-method", detail, do, headers={"allow": route.method})
    return route


def _page(front: Front, call: Call, parts: list[str]) -> Route | None:
    match parts:
        case ["health"]:
            return Route("health", "GET", partial(health, front, call))
        case ["openapi.json"]:
            return Route("openapi", "GET", partial(openapi, call))
        case ["docs"]:
            return Route("docs", "GET", partial(api_page, call))
        case ["metrics"]:
            token = _token(front, call)
            if not token.metrics:
                raise _not_permitted(token, "read /metrics", "metrics = true")
            return Route("metrics", "GET", partial(metrics_page, front, call))
        case _:
            return None


def _of_topic(front: Front, call: Call, parts: list[str]) -> Route | None:
    match parts:
        case ["v1", "topics", topic, "messages"]:
            token = _token(front, call)
            _check_name("topic", topic)
            if topic not in token.produce:
                raise _not_permitted(token, f"produce to {topic}", f'produce = ["{topic}"]')
            return Route("produce", "POST", partial(produce, front, call, topic))
        case ["v1", "topics", topic, "groups", group, name]:
            return _of_group(front, call, topic, group, name)
        case _:
            return None


def _of_group(front: Front, call: Call, topic: str, group: str, name: str) -> Route | None:
    token = _token(front, call)
    _check_name("topic", topic)
    _check_name("group", group)
    if topic not in token.consume:
        raise _not_permitted(token, f"consume {topic}", f'consume = ["{topic}"]')
    if group not in token.groups:
        raise _not_permitted(token, f"consume as {group}", f'groups = ["{group}"]')
    if name == "receive":
        return Route(name, "POST", partial(receive, front, call, topic, group))
    if name == "stream":
        return Route(name, "GET", partial(stream, front, call, topic, group))
    if name in WORDS:
        return Route(name, "POST", partial(settle, front, call, topic, group, name=name))
    return None


def _token(front: Front, call: Call) -> Token:
    """Return the token of a call. Raises Problem."""
    told = call.headers.get(b"authorization", b"")
    scheme, text = told[: len(_SCHEME)], told[len(_SCHEME) :]
    call.bearer = text.decode("latin-1").strip() if scheme.lower() == _SCHEME else ""
    token = front.tokens().find(call.bearer) if call.bearer else None
    if token is None:
        raise Problem(
            HTTPStatus.UNAUTHORIZED,
            "no-token",
            "no token is shown that is known here",
            "send the header Authorization: Bearer TOKEN",
            headers={"www-authenticate": 'Bearer realm="penstock"'},
        )
    call.token = token
    call.shows(token.name)
    return token


def _not_permitted(token: Token, what: str, line: str) -> Problem:
    detail = f"token {token.name} may not {what}"
    do = f"have {line} added to it in the file of tokens"
    return Problem(HTTPStatus.FORBIDDEN, "not-permitted", detail, do)


def _check_name(kind: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        do = "use ASCII letters, digits, '.', '_', '-', and at most 249 of them"
        raise bad_request("bad-name", f"this is no name of a {kind}", do)
