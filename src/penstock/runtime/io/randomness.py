"""The real randomness: the operating system's generator as the port of base.

All random draws of a process use one port, so that a simulation can repeat a run from its seed.
"""

import secrets
from base64 import urlsafe_b64encode
from random import SystemRandom
from uuid import UUID

from penstock.base.ports import Randomness


class SystemRandomness:
    """Cryptographically secure random numbers."""

    token_bytes = staticmethod(secrets.token_bytes)
    below = staticmethod(secrets.randbelow)
    uniform = SystemRandom().uniform


def token_text(randomness: Randomness, byte_count: int) -> str:
    """Return `byte_count` random bytes as URL-safe base64 without padding."""
    return urlsafe_b64encode(randomness.token_bytes(byte_count)).decode("ascii").rstrip("=")


def random_uuid(randomness: Randomness) -> UUID:
    """Return a UUID of version 4."""
    return UUID(bytes=randomness.token_bytes(16), version=4)
