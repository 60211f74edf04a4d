"""What is sent to a node: bytes with the name of their mistake, and how to make them again."""

import random
import struct
from typing import NamedTuple

HEX_BYTES_MAX = 4_096
"""Longer frames are shown up to here: seed and number make them again."""


class BadFrame(NamedTuple):
    """Bytes to send over one connection; `is_slow` asks for one byte at a time."""

    kind: str
    """What is wrong; frames are counted by it."""
    target: str
    """What it is wrong in, such as "METADATA v9"."""
    data: bytes
    is_slow: bool = False
    seed: int = 0
    number: int = 0

    def __str__(self) -> str:
        shown = self.data[:HEX_BYTES_MAX].hex()
        return f"frame {self.number} of seed {self.seed}: {self.kind}, {self.target}: {shown}"


def random_of(seed: int, number: int) -> random.Random:
    """Return the source of randomness of one frame: each can be made without those before it."""
    return random.Random(f"{seed}:{number}")


def framed(frame: bytes | bytearray) -> bytes:
    """The frame with its right size before it."""
    return struct.pack(">i", len(frame)) + frame
