"""Drawing one damage: a class of bytes first, then a byte of it, then what becomes of it."""

from pathlib import Path
from random import Random
from typing import NamedTuple

from reliability.damage.byte_classes import Classes

BYTES_MAX = 8
"""Longest run of bytes that one damage changes."""


class Damage(NamedTuple):
    """What was done to a file."""

    set_id: int
    broker_id: int
    name: str
    """The class of the bytes."""
    path: Path
    at: int
    length: int
    """Bytes that were changed; 0 where the file was cut at `at`."""
    before: bytes
    """The whole file as it was."""
    after: bytes


def draw(rng: Random, classes: Classes, *, set_id: int, broker_id: int) -> Damage:
    """Choose a class, each as likely as the others, and a place in it; change the file."""
    name = rng.choice(sorted(classes))
    place = rng.choice(classes[name])
    at = place.at + rng.randrange(place.length)
    before = place.path.read_bytes()
    if name.startswith("cut: "):
        length, after = 0, before[:at]
    else:
        length = min(rng.choice((1, 1, 1, 2, BYTES_MAX)), place.at + place.length - at)
        changed = bytes(one ^ rng.randint(1, 255) for one in before[at : at + length])
        after = before[:at] + changed + before[at + length :]
    with place.path.open("r+b") as file:  # in place, as a disk does it, also under a process
        if length:
            file.seek(at)
            file.write(after[at : at + length])
        else:
            file.truncate(at)
    return Damage(set_id, broker_id, name, place.path, at, length, before, after)
