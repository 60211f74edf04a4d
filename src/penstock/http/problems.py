"""Refusals as clients are told them: JSON problem documents, each with what to do.

    {"type": "about:blank", "title": "Not Found", "status": 404, "code": "topic-not-found",
     "detail": "…", "do": "…"}

`code` is for programs and never changes; `detail` and `do` are for persons.

Source: RFC 9457. Departure: `code` and `do` are extension members in the place of type URIs.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.http.upstream.errors import NodeRefused, OutOfTime, UpstreamError
from penstock.remoting.wire.codes import ResponseCode

MEDIA_TYPE: Final = "application/problem+json"
_DETAIL_CHARS_MAX: Final = 500


class Problem(PlatformError):
    """A refusal; `code` names it, and `do` says what helps."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        detail: str,
        do: str,
        *,
        headers: Mapping[str, str] | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail[:_DETAIL_CHARS_MAX]
        self.do = do
        self.headers = dict(headers or {})
        self.closes = closes
        """Whether the connection ends with it."""

    def document(self) -> dict[str, object]:
        """Return what the client gets."""
        return {
            "type": "about:blank",
            "title": self.status.phrase,
            "status": int(self.status),
            "code": self.code,
            "detail": self.detail,
            "do": self.do,
        }


_SOON: Final = {"retry-after": "1"}


def bad_request(code: str, detail: str, do: str) -> Problem:
    """Return the refusal of what can not be understood."""
    return Problem(HTTPStatus.BAD_REQUEST, code, detail, do)


def busy(code: str, detail: str, do: str) -> Problem:
    """Return the refusal of what is too much at the moment."""
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, code, detail, do, headers=_SOON)


def unavailable(code: str, detail: str, do: str) -> Problem:
    """Return the refusal of what can not be done at the moment."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, code, detail, do, headers=_SOON)


def stopping() -> Problem:
    """Return the refusal while the process ends."""
    return unavailable("stopping", "this process is about to end", "send it again, to another one")


def of_upstream(error: UpstreamError) -> Problem:
    """Return what a client is told of an error between this process and the nodes."""
    if isinstance(error, OutOfTime):
        error = error.last
    if isinstance(error, NodeRefused):
        return _of_refusal(error)
    do = "send it again; if it was a message it may be there twice, with the same id"
    return unavailable("no-node", str(error), do)


class _Told(NamedTuple):
    """What clients are told of a node's code."""

    status: HTTPStatus
    code: str
    do: str


_TOLD: Final = {
    ResponseCode.TOPIC_NOT_EXIST: _Told(
        HTTPStatus.NOT_FOUND, "topic-not-found", "create it: penstock topic create NAME"
    ),
    ResponseCode.NO_PERMISSION: _Told(
        HTTPStatus.FORBIDDEN,
        "refused-by-node",
        "have the rules of the cluster permit it: penstock acl add",
    ),
    ResponseCode.MESSAGE_ILLEGAL: _Told(
        HTTPStatus.BAD_REQUEST,
        "message-refused",
        "change the message; sending it again does not help",
    ),
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: _Told(
        HTTPStatus.BAD_REQUEST, "bad-tags", "write tags as a || b, or * for all"
    ),
    ResponseCode.NO_MESSAGE: _Told(
        HTTPStatus.GONE,
        "receipt-over",
        "drop the receipt: unless it was done, the message comes again, with another one",
    ),
    ResponseCode.SERVICE_NOT_AVAILABLE: _Told(
        HTTPStatus.SERVICE_UNAVAILABLE, "try-again", "send it again a little later"
    ),
    ResponseCode.SYSTEM_BUSY: _Told(
        HTTPStatus.SERVICE_UNAVAILABLE, "try-again", "send it again a little later"
    ),
}
_OTHER: Final = _Told(HTTPStatus.BAD_GATEWAY, "node-failed", "look into the log of the nodes")


def _of_refusal(error: NodeRefused) -> Problem:
    told = next((one for code, one in _TOLD.items() if code == error.code), _OTHER)
    headers = _SOON if told.status is HTTPStatus.SERVICE_UNAVAILABLE else None
    return Problem(told.status, told.code, error.remark, told.do, headers=headers)
