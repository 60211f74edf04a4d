"""What consumer groups and share groups say alike: epochs, and what each member is to have.

    value (behind int16 version 0)   of the target's epoch   int32 epoch, tags
                                     of one member           partitions, tags

Source: Kafka, ConsumerGroupTargetAssignment*Value.json, ShareGroupTargetAssignment*Value.json.
"""

import struct
from typing import NamedTuple

from penstock.assignors.partitions import (
    NO_TAGS,
    Partitions,
    compact_partitions,
    read_partitions,
)
from penstock.base.ids import MemberEpoch
from penstock.coordinator import wire

_INT32 = struct.Struct(">i")


class GroupEpoch(NamedTuple):
    """Grows whenever the assignment has to be computed anew; -1 before the first."""

    epoch: MemberEpoch
    topics_hash: int = 0


class TargetEpoch(NamedTuple):
    """The group epoch that the target assignment was computed for."""

    epoch: MemberEpoch


class Target(NamedTuple):
    """What a member is to have."""

    partitions: Partitions


def encode_target_epoch(said: TargetEpoch) -> bytes:
    """Return the value without its version."""
    return _INT32.pack(said.epoch) + NO_TAGS


def decode_target_epoch(reader: wire.Reader) -> TargetEpoch:
    """Read it. Raises MalformedRecord."""
    said = TargetEpoch(MemberEpoch(reader.int32()))
    reader.tags()
    return said


def encode_target(said: Target) -> bytes:
    """Return the value without its version."""
    return compact_partitions(said.partitions) + NO_TAGS


def decode_target(reader: wire.Reader) -> Target:
    """Read it. Raises MalformedRecord."""
    said = Target(read_partitions(reader))
    reader.tags()
    return said
