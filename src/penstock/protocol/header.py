"""Request and response headers.

    request v1   api_key i16 | api_version i16 | correlation_id i32 | client_id string16?
    request v2   the same, then tagged fields; client_id keeps its 16-bit length
    response v0  correlation_id i32
    response v1  correlation_id i32 | tagged fields

A message of a flexible version has request header v2 and response header v1, with one exception:
ApiVersions always answers with response header v0, since a client that asks with a version we do
not know must be able to read the answer. For the same reason the tags of an ApiVersions request
with a version above ours are not read.

Source: Kafka's RequestHeader.json, ResponseHeader.json, ApiKeys.responseHeaderVersion; KIP-482,
KIP-511. Request header v0 belonged to ControlledShutdown v0 alone and is not here.
"""

import struct
from typing import NamedTuple

from penstock.protocol.api_keys import FLEXIBLE_SINCE, NEVER_FLEXIBLE, ApiKey, is_flexible
from penstock.protocol.errors import MalformedRequest
from penstock.protocol.varint import read_uvarint

TAGS_MAX = 64
"""Tagged fields in one place; Kafka's own messages have at most a handful (Kafka 4.4: 10,000)."""

_API_VERSIONS = int(ApiKey.API_VERSIONS)
"""A plain int: an enum member costs a look-up at every use, and every request needs this one."""
_API_VERSIONS_KNOWN_MAX = 4
_TAGGED_ANSWER_SINCE = {**FLEXIBLE_SINCE, ApiKey.API_VERSIONS: NEVER_FLEXIBLE}
_REQUEST = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The fields before the body; `body_at` is the position of the body in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


_make = tuple.__new__


def parse_request_header(frame: memoryview) -> RequestHeader:
    """Parse the header of a frame (without its 4-byte size). Raises MalformedRequest.

    Key and version are not checked: the header of an unknown key is read as v1.
    """
    try:
        key, version, correlation_id, client_id_bytes = _REQUEST.unpack_from(frame)
    except struct.error:
        raise MalformedRequest("the frame is shorter than a request header") from None
    at = _REQUEST.size
    client_id = None
    if client_id_bytes >= 0:
        at += client_id_bytes
        if at > len(frame):
            raise MalformedRequest("the client id is longer than the frame")
        try:
            client_id = str(frame[_REQUEST.size : at], "utf-8")
        except UnicodeDecodeError:
            raise MalformedRequest("the client id is not UTF-8") from None
    elif client_id_bytes != -1:
        raise MalformedRequest("the client id has a negative length")
    if is_flexible(key, version) and not _is_future_api_versions(key, version):
        at = skip_tags(frame, at)
    return _make(RequestHeader, (key, version, correlation_id, client_id, at))


def _is_future_api_versions(key: int, version: int) -> bool:
    return key == _API_VERSIONS and version > _API_VERSIONS_KNOWN_MAX


def skip_tags(frame: memoryview, at: int) -> int:
    """Return the position after a tagged-field section, checking its lengths."""
    if at < len(frame) and frame[at] == 0:
        return at + 1
    count, at = read_uvarint(frame, at)
    if count > TAGS_MAX:
        raise MalformedRequest(f"more than {TAGS_MAX} tagged fields")
    for _ in range(count):
        _, at = read_uvarint(frame, at)
        size, at = read_uvarint(frame, at)
        at += size
        if at > len(frame):
            raise MalformedRequest("a tagged field is longer than the frame")
    return at


def has_tagged_response_header(api_key: int, api_version: int) -> bool:
    """Whether the answer's header is v1, that is one byte (no tags) longer than v0."""
    return api_version >= _TAGGED_ANSWER_SINCE.get(api_key, NEVER_FLEXIBLE)


def request_header(
    api_key: int, api_version: int, *, correlation_id: int, client_id: str | None
) -> bytes:
    """The header of a request of our own client, without the 4-byte size."""
    name = b"" if client_id is None else client_id.encode()
    header = _REQUEST.pack(
        api_key, api_version, correlation_id, -1 if client_id is None else len(name)
    )
    return header + name + (b"\0" if is_flexible(api_key, api_version) else b"")


def parse_response_header(frame: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """Return (correlation id, position of the body) of an answer to such a request."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    except struct.error:
        raise MalformedRequest("the frame is shorter than a response header") from None
    at = _CORRELATION_ID.size
    if has_tagged_response_header(api_key, api_version):
        at = skip_tags(frame, at)
    return correlation_id, at
