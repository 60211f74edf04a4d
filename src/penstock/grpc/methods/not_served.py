"""Methods of the service that this node has not: each is answered with UNSUPPORTED by its name.

So a client of theirs fails with RocketMQ's own error, and does not take the node for a broken one.

Source: apache.rocketmq.v2 `MessagingService`; each of their answers begins with its status.
"""

from functools import partial
from typing import Final

from penstock.grpc.call import Call, Method
from penstock.grpc.errors import Refused
from penstock.grpc.statuses import Code

NAMES: Final = (
    "GetOffset",
    "PullMessage",
    "QueryOffset",
    "SyncLiteSubscription",
    "UpdateOffset",
)


def _handle(name: str, call: Call, message: bytes) -> None:
    del message
    call.fail(Refused(Code.UNSUPPORTED, f"{name} is not supported by this server"))


METHODS: Final = tuple(Method(name, partial(_handle, name)) for name in NAMES)
