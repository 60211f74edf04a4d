"""Whether this broker may speak for a partition of an internal topic: a port of two questions.

A master that was cut off does not know of its successor yet. What it would say by itself, without a
record that is confirmed, may be wrong by then: `is_certain` is asked first.

Source: Kafka, `CoordinatorRuntime`; the lease of a mastership is ours.
"""

from typing import Protocol

from penstock.base.ids import CoordinatorEpoch


class Masterships(Protocol):
    """The masterships of the partitions of one internal topic on this broker."""

    def epoch_of(self, partition: int) -> CoordinatorEpoch:
        """Return the leader epoch, which no other mastership has; -1 if it is not led here."""

    def is_certain(self, partition: int) -> bool:
        """Whether nobody else can coordinate the partition by now."""
