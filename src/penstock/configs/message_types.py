"""Which messages of RocketMQ's clients a topic takes: its message type.

    MIXED     all of them; what a topic has that says nothing
    others    those of that kind alone, sent by gRPC clients

Source: RocketMQ `TopicMessageType` and its attribute `message.type`; RIP-43.
"""

from typing import Final, Literal

MessageTypeName = Literal["MIXED", "NORMAL", "FIFO", "DELAY", "TRANSACTION"]
MIXED: Final = "MIXED"
MESSAGE_TYPES: Final = (MIXED, "NORMAL", "FIFO", "DELAY", "TRANSACTION")
KEY: Final = "penstock.message.type"
"""Of a topic's configuration."""
