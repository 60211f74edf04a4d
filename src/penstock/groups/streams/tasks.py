"""Tasks by role and subtopology, in the form in which other groups have partitions by topic.

    key      1 byte role, then the id of the subtopology in UTF-8
    tasks    numbers of partitions by key: a `Partitions`, so that what is known of partitions of
             members (assigned/reconcile.py, assigned/targets.py) is true of tasks
    record   compact array of (compact string subtopology, compact array of int32, tags) per role

Source: KIP-1071; Kafka, `TaskIds` in StreamsGroup*Value.json.
"""

from collections.abc import Mapping
from enum import IntEnum

from penstock.assignors.partitions import (
    NO_TAGS,
    Partitions,
    compact_numbers,
    read_numbers,
)
from penstock.coordinator import wire

Tasks = Partitions
BySubtopology = Mapping[str, frozenset[int]]
_TASK_IDS_BYTES_MIN = 3


class Role(IntEnum):
    """What a member does with a task: read and write, or keep a copy of its state."""

    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2


def key_of(role: Role, subtopology_id: str) -> bytes:
    """Return the key of the tasks of a subtopology in a role."""
    return bytes((role,)) + subtopology_id.encode()


def role_of(key: bytes) -> Role:
    """Return the role that a key names."""
    return Role(key[0])


def subtopology_of(key: bytes) -> str:
    """Return the subtopology that a key names."""
    return key[1:].decode()


def in_role(key: bytes, role: Role) -> bytes:
    """Return the key of the same subtopology in another role."""
    return bytes((role,)) + key[1:]


def of_role(tasks: Tasks, role: Role) -> dict[str, frozenset[int]]:
    """Return the tasks of one role by subtopology, in the order of ids."""
    return {
        subtopology_of(key): numbers for key, numbers in sorted(tasks.items()) if key[0] == role
    }


def compact_tasks(tasks: Tasks, role: Role) -> bytes:
    """Return the tasks of one role as records have them."""
    found = of_role(tasks, role)
    parts = [wire.varint(len(found) + 1)]
    for subtopology_id, numbers in found.items():
        parts += (wire.compact_string(subtopology_id), compact_numbers(numbers), NO_TAGS)
    return b"".join(parts)


def read_tasks(reader: wire.Reader, roles: tuple[Role, ...] = tuple(Role)) -> Tasks:
    """Read one array for each role. Raises MalformedRecord."""
    found: dict[bytes, frozenset[int]] = {}
    for role in roles:
        for _ in range(reader.compact_count(_TASK_IDS_BYTES_MIN)):
            key = key_of(role, reader.string(compact=True))
            numbers = read_numbers(reader)
            if numbers:
                found[key] = found.get(key, frozenset()) | numbers
            reader.tags()
    return found


def all_roles(tasks: Tasks) -> bytes:
    """Return the arrays of all roles, one behind the other."""
    return b"".join(compact_tasks(tasks, role) for role in Role)
