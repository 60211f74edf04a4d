"""The OpenAPI document, made of the bodies that are checked: what it says of them is what counts.

Source: OpenAPI 3.1.1; JSON Schema 2020-12, which msgspec writes.
"""

from functools import cache
from typing import Any, Final

import msgspec

from penstock import __version__
from penstock.http.bodies import Produce, Receipts, ReceiveRequest, Release, Renew
from penstock.http.operations.stream import StreamRequest
from penstock.http.problems import MEDIA_TYPE

JSON: Final = "application/json"
_TOPIC: Final = "/v1/topics/{topic}"
_GROUP: Final = _TOPIC + "/groups/{group}"
_SCHEMAS: Final = "#/components/schemas/"
_REF: Final = _SCHEMAS + "{name}"

_MESSAGE: Final[dict[str, Any]] = {
    "type": "object",
    "description": "A message that was handed out; value or value_base64 is there.",
    "required": ["receipt", "id", "topic", "queue", "offset", "attempt", "time_ms", "headers"],
    "properties": {
        "receipt": {"type": "string", "description": "By which it is settled."},
        "id": {"type": "string"},
        "topic": {"type": "string"},
        "queue": {"type": "string"},
        "offset": {"type": "integer"},
        "attempt": {"type": "integer", "description": "1 the first time."},
        "time_ms": {"type": "integer", "description": "When it was produced."},
        "key": {"type": "string"},
        "tag": {"type": "string"},
        "keys": {"type": "array", "items": {"type": "string"}},
        "value": {"type": ["string", "null"]},
        "value_base64": {"type": "string"},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "RFC 9457; code is for programs, detail and do are for persons.",
    "required": ["type", "title", "status", "code", "detail", "do"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "do": {"type": "string"},
    },
}


def _list_of(field: str, item: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [field],
        "properties": {field: {"type": "array", "items": item}},
    }


_PRODUCED: Final = _list_of(
    "messages",
    {
        "type": "object",
        "description": "The outcome of a message, in the order of the request.",
        "required": ["id"],
        "properties": {
            "id": {"type": "string"},
            "queue": {"type": "string"},
            "offset": {"type": "integer"},
            "delayed": {"type": "boolean"},
            "problem": {"$ref": _SCHEMAS + "Problem"},
        },
    },
)
_SETTLED: Final = _list_of(
    "receipts",
    {
        "type": "object",
        "required": ["receipt"],
        "properties": {
            "receipt": {"type": "string"},
            "renewed": {"type": "string", "description": "The receipt that is valid by now."},
            "problem": {"$ref": _SCHEMAS + "Problem"},
        },
    },
)


@cache
def document() -> bytes:
    """Return the document as JSON."""
    kinds = (Produce, ReceiveRequest, Receipts, Release, Renew)
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    schemas |= {"Message": _MESSAGE, "Problem": _PROBLEM}
    schemas |= {"Produced": _PRODUCED, "Settled": _SETTLED}
    schemas["Received"] = _list_of("messages", {"$ref": _SCHEMAS + "Message"})
    told = {
        "openapi": "3.1.1",
        "info": {
            "title": "Penstock over HTTP",
            "version": __version__,
            "description": "Produce and consume with a token; docs/operations/http.md has more.",
        },
        "security": [{"token": []}],
        "paths": _paths(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return msgspec.json.format(msgspec.json.encode(told), indent=2)


def _paths() -> dict[str, Any]:
    return {
        _TOPIC + "/messages": _post("produce", "Produce messages", "Produce", "Produced"),
        _GROUP + "/receive": _post("receive", "Receive messages", "ReceiveRequest", "Received"),
        _GROUP + "/ack": _post("ack", "Never hand them out again", "Receipts", "Settled"),
        _GROUP + "/release": _post("release", "Have them come again", "Release", "Settled"),
        _GROUP + "/renew": _post("renew", "Keep them for longer", "Renew", "Settled"),
        _GROUP + "/reject": _post("reject", "Make dead letters of them", "Receipts", "Settled"),
        _GROUP + "/stream": {"get": _stream(), "parameters": _parameters(_GROUP)},
        "/health": _page("health", "Whether a node answers", JSON, is_open=True),
        "/metrics": _page("metrics", "Metrics as Prometheus text", "text/plain"),
        "/openapi.json": _page("openapi", "This document", JSON, is_open=True),
        "/docs": _page("docs", "The same as a page", "text/html", is_open=True),
    }


def _post(name: str, summary: str, body: str, answer: str) -> dict[str, Any]:
    path = _TOPIC if name == "produce" else _GROUP
    content = {JSON: {"schema": {"$ref": _SCHEMAS + answer}}}
    operation = {
        "operationId": name,
        "summary": summary,
        "requestBody": {
            "required": name != "receive",
            "content": {JSON: {"schema": {"$ref": _SCHEMAS + body}}},
        },
        "responses": {
            "200": {"description": "All of it", "content": content},
            **({} if name == "receive" else {"207": {"description": "Some", "content": content}}),
            "default": _refusal(),
        },
    }
    return {"post": operation, "parameters": _parameters(path)}


def _stream() -> dict[str, Any]:
    fields = msgspec.json.schema(StreamRequest)["$defs"]["StreamRequest"]["properties"]
    return {
        "operationId": "stream",
        "summary": "Messages as server-sent events, until the client goes",
        "parameters": [
            {"name": name, "in": "query", "schema": schema} for name, schema in fields.items()
        ],
        "responses": {
            "200": {
                "description": "Events `message`, each with a Message; `problem`; `end`",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            "default": _refusal(),
        },
    }


def _page(name: str, summary: str, media: str, *, is_open: bool = False) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": summary, "content": {media: {}}}},
    }
    if is_open:
        operation["security"] = []
    return {"get": operation}


def _refusal() -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": _SCHEMAS + "Problem"}}}
    return {"description": "A problem, which says what to do", "content": content}


def _parameters(path: str) -> list[dict[str, Any]]:
    names = ["topic", "group"] if "{group}" in path else ["topic"]
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
