"""Errors of the telemetry room: why a request of a client is refused.

    TelemetryError
      InvalidInstance           a push without the id of its client instance
      InstanceEnded             a push after the one that said that it is the last
      EarlyRequest              before the interval is over
      UnknownSubscription       a push for what is asked of the client no more
      UnknownCompression        a codec that there is not
      TelemetryTooLarge         more bytes or points than a push may have
      MalformedTelemetry        bytes that are not what they claim to be

Source: KIP-714, the error codes of both requests.
"""

from typing import ClassVar

from penstock.base.errors import PlatformError


class TelemetryError(PlatformError):
    """Root of the errors of this room."""

    RESULT: ClassVar[str]
    """What metrics call it."""


class InvalidInstance(TelemetryError):
    """See the module."""

    RESULT = "invalid_instance"

    def __init__(self) -> None:
        super().__init__("no client instance has this id")


class InstanceEnded(TelemetryError):
    """See the module."""

    RESULT = "ended"

    def __init__(self) -> None:
        super().__init__("the client instance has said that it ends")


class EarlyRequest(TelemetryError):
    """See the module."""

    RESULT = "early"

    def __init__(self, interval_ms: int) -> None:
        super().__init__(f"sooner than {interval_ms} ms after the one before")


class UnknownSubscription(TelemetryError):
    """See the module."""

    RESULT = "unknown_subscription"

    def __init__(self) -> None:
        super().__init__("something else is asked of the client now")


class UnknownCompression(TelemetryError):
    """See the module."""

    RESULT = "unknown_compression"

    def __init__(self, codec: int) -> None:
        super().__init__(f"no codec has the number {codec}")


class TelemetryTooLarge(TelemetryError):
    """See the module."""

    RESULT = "too_large"


class MalformedTelemetry(TelemetryError):
    """See the module."""

    RESULT = "malformed"


RESULTS = tuple(
    one.RESULT
    for one in (
        InvalidInstance,
        InstanceEnded,
        EarlyRequest,
        UnknownSubscription,
        UnknownCompression,
        TelemetryTooLarge,
        MalformedTelemetry,
    )
)
