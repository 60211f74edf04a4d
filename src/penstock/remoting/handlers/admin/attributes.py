"""Attributes of a topic, as those who operate a cluster write them: its message type alone.

    +message.type=FIFO     it takes messages of gRPC clients of that kind
    -message.type          it takes all
    nothing                it stays as it is

Source: RocketMQ `TopicAttributes`, `AttributeParser`. Departure: a topic that says nothing takes
all, where RocketMQ's proxy has NORMAL for it.
"""

from typing import Final

from penstock.configs.message_types import KEY, MESSAGE_TYPES
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
)
from penstock.controller.metadata.kinds import ResourceType
from penstock.remoting.errors import InvalidParameter

ATTRIBUTE: Final = "message.type"
_SET: Final = f"+{ATTRIBUTE}="
_UNSET: Final = f"-{ATTRIBUTE}"


def read_attributes(text: str) -> ConfigEdit | None:
    """Return the change that attributes ask for; None: they ask for none.

    Raises InvalidParameter.
    """
    if not text:
        return None
    if text == _UNSET:
        return ConfigEdit(key=KEY, operation=ConfigOperation.DELETE, value=None)
    wanted = text.removeprefix(_SET)
    if wanted == text or wanted not in MESSAGE_TYPES:
        raise InvalidParameter(
            f"attributes={text[:100]}: topics have {_SET}TYPE alone, with one of"
            f" {', '.join(MESSAGE_TYPES)}"
        )
    return ConfigEdit(key=KEY, operation=ConfigOperation.SET, value=wanted)


def change_of(topic: str, edit: ConfigEdit) -> AlterConfigs:
    """Return the command that changes a topic."""
    edits = ResourceEdits(resource_type=ResourceType.TOPIC, resource_name=topic, edits=(edit,))
    return AlterConfigs(resources=(edits,))
