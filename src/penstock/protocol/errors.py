"""Errors of the protocol room: bytes that do not follow the Kafka protocol.

    WireError
      MalformedRequest(reason)            a peer's request does not follow its schema
      MalformedResponse(reason)           a server's answer does not follow its schema
      UnsupportedVersion(key, version)    no schema for this API key and version

After a malformed frame the rest of the connection cannot be trusted, so it is closed.
Source: Kafka's protocol guide; Apache Kafka closes the channel on InvalidRequestException too.
"""

from penstock.base.errors import PlatformError


class WireError(PlatformError):
    """Bytes or messages that do not fit the Kafka protocol."""


class MalformedRequest(WireError):
    """The request does not follow its schema; `reason` is one short phrase for logs."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"malformed request: {reason}")
        self.reason = reason


class MalformedResponse(WireError):
    """The response does not follow its schema; `reason` is one short phrase for logs."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"malformed response: {reason}")
        self.reason = reason


class UnsupportedVersion(WireError):
    """There is no schema for this API key and version."""

    def __init__(self, api_key: int, api_version: int) -> None:
        super().__init__(f"API key {api_key} version {api_version} is not supported")
        self.api_key = api_key
        self.api_version = api_version
