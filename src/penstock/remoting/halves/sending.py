"""How a message that a producer sends becomes a half message.

Source: RocketMQ `SendMessageProcessor`, which goes by the property TRAN_MSG, and
`MessageSysFlag.TRANSACTION_PREPARED_TYPE`, which clients set with it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.remoting.errors import IllegalMessage
from penstock.remoting.halves.record import OWN_OFFSET, TRAN_MSG, Half
from penstock.remoting.heartbeat import NAME_BYTES_MAX
from penstock.remoting.later.group_topics import retry_group
from penstock.remoting.later.timers import is_late

if TYPE_CHECKING:
    from penstock.remoting.gate import Found
    from penstock.remoting.request import RemotingContext
    from penstock.remoting.wire.command import Command

PREPARED: Final = 4
_KINDS: Final = 4 | 8
_GROUP: Final = "PGROUP"


def is_half(sys_flag: int, properties: Mapping[str, str]) -> bool:
    """Whether a message is a half message. Raises IllegalMessage for one that is decided."""
    kind = sys_flag & _KINDS
    if kind not in {0, PREPARED}:
        raise IllegalMessage("a message that is sent is neither committed nor rolled back")
    return kind == PREPARED or properties.get(TRAN_MSG, "").lower() == "true"


def half_of(
    context: "RemotingContext", command: "Command", found: "Found", properties: Mapping[str, str]
) -> Half:
    """Return a half message, whose due time is counted from now. Raises IllegalMessage."""
    if retry_group(command.fields.get("b", "")) is not None:
        raise IllegalMessage("a retry topic takes no half messages")
    if is_late(properties):
        raise IllegalMessage("a half message has no delay: it is there when it is committed")
    group = properties.get(_GROUP) or command.fields.get("a", "")
    if not 0 < len(group.encode()) <= NAME_BYTES_MAX:
        raise IllegalMessage(f"a half message has a producer group of 1 to {NAME_BYTES_MAX} bytes")
    due_ms = context.front.halves.times.first_check_ms(properties)
    target = found.hosted
    return Half(OWN_OFFSET, due_ms, 0, target.topic.topic_id, target.partition, group)
