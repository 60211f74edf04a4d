"""What a record still has to be when it is read: its time and its bytes, for the judge."""

import time
import zlib

from confluent_kafka import Message

from simulator.history import Content


def content_now(value: str) -> Content:
    """Return what a record of that value has to be that is stamped with the present time."""
    return time.time_ns() // 1_000_000, zlib.crc32(value.encode())


def content_of(message: Message) -> Content:
    """Return what was read."""
    return message.timestamp()[1], zlib.crc32(message.value() or b"")
