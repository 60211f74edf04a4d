"""What an assignment needs to know of a topic.

Source: Kafka, TopicImage as its assignors use it; KIP-881 (racks).
"""

from collections.abc import Sequence
from typing import NamedTuple


class TopicFacts(NamedTuple):
    """A topic as an assignment needs it."""

    topic_id: bytes
    partition_count: int
    racks: Sequence[frozenset[str]] = ()
    """The racks of each partition's replicas; empty if no racks are known."""
