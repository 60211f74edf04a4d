"""Answers of etcd's v3 JSON gateway as typed objects, and the elements of requests.

The gateway is the protobuf API in JSON: bytes are base64, 64-bit numbers are strings, zero and
empty values are omitted. msgspec handles all three: `bytes` fields are base64, numbers are read
leniently, and every field has a default.

Source: etcd 3.4 rpc.proto and Documentation/dev-guide/api_grpc_gateway.md. Only what the metadata
log needs is here.
"""

from typing import TypeVar

import msgspec

A = TypeVar("A")
Request = dict[str, object]


class Header(msgspec.Struct):
    """`revision` is that of the whole store when the request was served."""

    revision: int = 0


class KeyValue(msgspec.Struct):
    """A key with the revisions at which it was created and last written."""

    key: bytes = b""
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0


class RangeAnswer(msgspec.Struct):
    kvs: list[KeyValue] = []


class OperationAnswer(msgspec.Struct):
    """One operation's answer in a transaction; only reads have keys."""

    response_range: RangeAnswer | None = None

    def first(self) -> KeyValue | None:
        """Return the first key of a read, None if there is none."""
        found = self.response_range
        return found.kvs[0] if found is not None and found.kvs else None


class TxnAnswer(msgspec.Struct):
    header: Header = msgspec.field(default_factory=Header)
    succeeded: bool = False
    responses: list[OperationAnswer] = []


class LeaseAnswer(msgspec.Struct):
    """`ttl` in seconds; 0 for a lease that has ended."""

    id: int = msgspec.field(default=0, name="ID")
    ttl: int = msgspec.field(default=0, name="TTL")


class KeepAliveAnswer(msgspec.Struct):
    result: LeaseAnswer = msgspec.field(default_factory=LeaseAnswer)


class TokenAnswer(msgspec.Struct):
    token: str = ""


class Event(msgspec.Struct):
    """A change of one key; `type` is empty for a write."""

    type: str = ""
    kv: KeyValue = msgspec.field(default_factory=KeyValue)

    @property
    def is_delete(self) -> bool:
        """Whether the key was deleted."""
        return self.type == "DELETE"


class WatchAnswer(msgspec.Struct):
    header: Header = msgspec.field(default_factory=Header)
    canceled: bool = False
    compact_revision: int = 0
    events: list[Event] = []


class GatewayError(msgspec.Struct):
    """An error of the gateway; `code` is gRPC's."""

    message: str = ""
    error: str = ""
    code: int = 2


class WatchMessage(msgspec.Struct):
    """One line of a watch."""

    result: WatchAnswer = msgspec.field(default_factory=WatchAnswer)
    error: object = None


class EmptyAnswer(msgspec.Struct):
    """An answer whose content is not needed."""


def encode(request: Request) -> bytes:
    """Return the request as JSON; bytes become base64."""
    return msgspec.json.encode(request)


def decode(data: bytes | bytearray, kind: type[A]) -> A:
    """Return the answer. Raises msgspec.DecodeError (or its ValidationError) if it is not valid."""
    return msgspec.json.decode(data, type=kind, strict=False)


def put(key: bytes, value: bytes, *, lease: int = 0) -> Request:
    return {"request_put": {"key": key, "value": value, "lease": str(lease)}}


def get(key: bytes) -> Request:
    return {"request_range": {"key": key}}


def get_range(key: bytes, range_end: bytes, *, limit: int) -> Request:
    """Read keys from `key` (inclusive) to `range_end` (exclusive), in order, at most `limit`."""
    return {"request_range": {"key": key, "range_end": range_end, "limit": str(limit)}}


def delete_range(key: bytes, range_end: bytes) -> Request:
    return {"request_delete_range": {"key": key, "range_end": range_end}}


def created_at(key: bytes, revision: int) -> Request:
    """True if the key was created at `revision`; with 0, if there is no such key."""
    return {
        "key": key,
        "target": "CREATE",
        "result": "EQUAL",
        "create_revision": str(revision),
    }


def has_value(key: bytes, value: bytes) -> Request:
    """True if the key exists and has this value."""
    return {"key": key, "target": "VALUE", "result": "EQUAL", "value": value}


def modified_at(key: bytes, revision: int) -> Request:
    """True if the key was last written at `revision`; with 0, if there is no such key."""
    return {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def txn(
    compare: list[Request], success: list[Request], failure: list[Request] | None = None
) -> Request:
    return {"compare": compare, "success": success, "failure": failure or []}
