"""Requests of RocketMQ's tools that have no counterpart here, each with what there is instead.

They are answered REQUEST_CODE_NOT_SUPPORTED, as every code that is not served, with a remark that
says so. The page docs/operations/rocketmq.md lists them.

Source: RocketMQ 5.3.3 `RequestCode`.
"""

from collections.abc import Mapping
from typing import Final

_KV: Final = "a name server keeps nothing of its own here"
_PERMISSION: Final = "a broker is always writable; rules of access say who may write"
_USERS: Final = (
    "users and rules of access are changed by penstock user, penstock acl, Kafka's tools"
)

REFUSALS: Final[Mapping[int, str]] = {
    100: f"PUT_KV_CONFIG: {_KV}",
    101: f"GET_KV_CONFIG: {_KV}",
    205: f"WIPE_WRITE_PERM_OF_BROKER: {_PERMISSION}",
    315: "VIEW_BROKER_STATS_DATA: rates are on the page of metrics",
    318: "UPDATE_NAMESRV_CONFIG: the node is the name server, updateBrokerConfig changes it",
    327: f"ADD_WRITE_PERM_OF_BROKER: {_PERMISSION}",
    **{code: f"users and rules ({code}): {_USERS}" for code in range(3001, 3011)},
}


def why_not_served(code: int) -> str:
    """Return what is told of a request that is not served."""
    why = REFUSALS.get(code)
    return f"request code {code} is not supported" + (f": {why}" if why else "")
