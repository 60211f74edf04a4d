"""Errors of the grpc room: what a client should not have sent.

    GrpcError
      CallFault(status, reason)       the call ends with a status of gRPC
      Refused(code, reason)           the call is answered with a code of RocketMQ's

Source: gRPC's statuses and RocketMQ's codes (statuses.py).
"""

from penstock.base.errors import PlatformError
from penstock.grpc.statuses import Code, GrpcStatus


class GrpcError(PlatformError):
    """Root of the errors of this room."""

    def __init__(self, reason: str) -> None:
        """`reason` is one short phrase, for the client and for logs."""
        super().__init__(reason)
        self.reason = reason


class CallFault(GrpcError):
    """Not a call of gRPC, or one that this node does not take."""

    def __init__(self, status: GrpcStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Refused(GrpcError):
    """A call that RocketMQ refuses, too, or that has no place here."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code
