"""What can go wrong between this process and the nodes.

UpstreamError
  NodeLost(address, reason)     no connection, or it broke: a request may have been carried out
  NodeBusy(address)             too many requests of this process wait for a node
  NoMaster(topic, broker)       the route names no master now
  NodeRefused(code, remark)     a node's answer that is no success
  OutOfTime(reason)             retried until no time was left; `reason` is the last error
"""

from penstock.base.errors import PlatformError
from penstock.remoting.wire.codes import ResponseCode


class UpstreamError(PlatformError):
    """Root of the errors of this package."""


class NodeLost(UpstreamError):
    """A node can not be reached, or the connection broke before its answer."""

    def __init__(self, address: str, reason: str, *, is_unsent: bool = False) -> None:
        super().__init__(f"node {address}: {reason}")
        self.is_unsent = is_unsent
        """Whether the request has certainly not been carried out."""


class NodeBusy(UpstreamError):
    """More requests wait for a node than may."""

    def __init__(self, address: str) -> None:
        super().__init__(f"too many requests wait for node {address}")


class NoMaster(UpstreamError):
    """A replica set has no master that can be reached, while one is elected."""

    def __init__(self, topic: str, broker: str) -> None:
        super().__init__(f"{broker} of topic {topic} has no master now")


class NodeRefused(UpstreamError):
    """A node refuses a request."""

    def __init__(self, code: int, remark: str | None) -> None:
        self.code = code
        self.remark = remark or f"code {code}"
        super().__init__(self.remark)

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.code in {ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_BUSY}


class OutOfTime(UpstreamError):
    """What was retried has not succeeded in time."""

    def __init__(self, last: UpstreamError) -> None:
        super().__init__(str(last))
        self.last = last


def may_pass(error: UpstreamError) -> bool:
    """Whether a retry may succeed."""
    if isinstance(error, NodeRefused):
        return error.may_pass
    return isinstance(error, NodeLost | NoMaster | NodeBusy)
