"""Who can be asked what has become of a transaction, in the words of no protocol.

Each front knows its producers, and is an Asker: it names one that lives, takes what it is sent and
may write to the topic, since it is sent the message.

Source: ours, docs/adr/0151.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition, HostedTopic
    from penstock.record.build import Record
    from penstock.remoting.halves.state import OpenHalf


class Question(NamedTuple):
    """What a producer is asked about."""

    place: HostedPartition
    """Where the half message is."""
    topic: HostedTopic
    """Where its message is to go."""
    found: OpenHalf
    record: Record


class Producer(Protocol):
    """A producer that can be asked."""

    @property
    def is_gone(self) -> bool:
        """Whether nobody would hear the question."""

    def ask(self, question: Question, /) -> None:
        """Send the question. Its answer is a decision, or none."""


class Asker(Protocol):
    """Knows the producers of one protocol."""

    def producer_of(self, group: str, topic: HostedTopic, /) -> Producer | None:
        """Return a producer of a group, another one each time; None if there is none."""
