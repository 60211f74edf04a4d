"""Bodies of requests, as they are checked when they are read, and as the OpenAPI page shows them.

Source: ours; docs/operations/http.md.
"""

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from penstock.http.limits import INVISIBLE_S_MAX, MESSAGES_MAX, POP_MAX, RECEIPTS_MAX, WAIT_S_MAX
from penstock.http.problems import Problem, bad_request

T = TypeVar("T")

KEY_CHARS_MAX: Final = 63
"""A key is the message group of the message for RocketMQ's clients, whose groups have no more."""
DELAY_LEVEL_MAX: Final = 18
ID_CHARS_MAX: Final = 128
RECEIPT_CHARS_MAX: Final = 1_024
INVISIBLE_S: Final = 30.0

Invisible = Annotated[
    float, Meta(ge=1, le=INVISIBLE_S_MAX, description="Seconds in which nobody else gets it.")
]
Key = Annotated[
    str, Meta(min_length=1, max_length=KEY_CHARS_MAX, description="Equal keys stay in order.")
]
Id = Annotated[
    str, Meta(min_length=1, max_length=ID_CHARS_MAX, description="Kept when it is sent again.")
]


class NewMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message to be produced: a value as text or as base64, and its properties."""

    value: Annotated[str, Meta(description="The value, as text.")] | None = None
    value_base64: Annotated[str, Meta(description="The value, if it is no text.")] | None = None
    key: Key | None = None
    id: Id | None = None
    tag: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    keys: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=255)]],
        Meta(max_length=32, description="Words by which RocketMQ's tools find it."),
    ] = []
    headers: Annotated[dict[str, str], Meta(max_length=64)] = {}
    delay_level: Annotated[
        int,
        Meta(
            ge=0,
            le=DELAY_LEVEL_MAX,
            description="1 to 18: after 1, 5, 10 or 30 s, 1 to 10, 20 or 30 min, 1 or 2 h.",
        ),
    ] = 0


class Produce(msgspec.Struct, forbid_unknown_fields=True):
    """Messages for one topic."""

    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=MESSAGES_MAX)]


class ReceiveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How messages are to be handed out."""

    max: Annotated[int, Meta(ge=1, le=POP_MAX, description="Messages at most.")] = POP_MAX
    wait_seconds: Annotated[float, Meta(ge=0, le=WAIT_S_MAX)] = 0.0
    invisible_seconds: Invisible = INVISIBLE_S
    tags: Annotated[
        str, Meta(min_length=1, max_length=1_000, description="Such as `a || b`; * for all.")
    ] = "*"
    begin: Annotated[
        str,
        Meta(pattern="^(start|end)$", description="Where a group begins that is new."),
    ] = "start"


class Receipts(msgspec.Struct, forbid_unknown_fields=True):
    """Messages that were handed out."""

    receipts: Annotated[
        list[Annotated[str, Meta(max_length=RECEIPT_CHARS_MAX)]],
        Meta(min_length=1, max_length=RECEIPTS_MAX),
    ]


class Release(Receipts, forbid_unknown_fields=True):
    """Messages that are to come again."""

    after_seconds: Annotated[
        float, Meta(ge=0, le=INVISIBLE_S_MAX, description="When; 0: at once.")
    ] = 0.0


class Renew(Receipts, forbid_unknown_fields=True):
    """Messages that are kept for longer."""

    invisible_seconds: Invisible = INVISIBLE_S


def read_body(data: bytes, kind: type[T]) -> T:
    """Return a body as what it should be; an empty one is `{}`. Raises Problem."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _bad_body(error) from error


def read_query(fields: dict[str, str], kind: type[T]) -> T:
    """Return the fields of a query as what they should be. Raises Problem."""
    try:
        return msgspec.convert(fields, kind, strict=False)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise bad_request("bad-query", str(error), "see /openapi.json for the fields") from error


def _bad_body(error: Exception) -> Problem:
    return bad_request("bad-body", str(error), "send JSON as /openapi.json describes it")
