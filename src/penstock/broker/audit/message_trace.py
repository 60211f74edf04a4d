"""Takes what shares have done with their records to the trace's topic, without blocking the loop.

    confirmed in a share's log ─► those of its records that are traced ─► rows, which wait
    ─► written at once, and what comes meanwhile with the next batch (row_log.py)

An event is taken once it is confirmed. What waits, or is under way, when a process is killed is
lost: it is as much as came in the time of one write. What finds no room is dropped and counted;
nobody who delivers or acknowledges waits for it. Shares of internal topics are not traced: a group
that reads the trace would make more of it for ever.

How many of a topic's messages are traced is said by the topic, else by the broker's setting; which
these are, by a hash. A change counts for what happens from then on: of messages that are under way
the first events, or the last ones, may be missing.

Source: docs/requirements.md M-12; bounds are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.audit.row_log import RowLog, Rows, RowTopic
from penstock.finding.traces import (
    TEXT_KEPT_MAX,
    Row,
    encode_row,
    limit_of,
    names_of,
    pieces,
    sampled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedTopic
    from penstock.shares.state import ShareKey
    from penstock.shares.updates.tracing import Event

WAITING_MAX: Final = 10_000
"""Rows that wait to be written: some 5 MB."""
OFFSETS_MAX: Final = 10_000
"""Of one event, as of one hand-out: what is stepped over may be millions."""


class MessageTrace(Rows):
    """See the module; one for each node where messages are traced."""

    def __init__(self, broker: Broker, topic: RowTopic) -> None:
        self._broker = broker
        self._rows: RowLog[Row] = RowLog(broker, topic, encode_row, WAITING_MAX, names_of)
        self._rows.on_written = self._on_written
        self.left_out = 0
        """Offsets of events that had too many, since the start."""

    def wants(self, key: ShareKey) -> bool:
        """Whether events of a share are traced."""
        topic = self._broker.partitions.by_id.get(key.topic_id)
        return topic is not None and not topic.internal and self._percent_of(topic) > 0

    def _percent_of(self, topic: HostedTopic) -> float:
        own = topic.settings.message_trace_percent
        return own if own >= 0 else self._broker.config.message_trace_percent

    def happened(self, key: ShareKey, events: Sequence[Event]) -> None:
        """Take events that are confirmed, in their order."""
        topic = self._broker.partitions.by_id.get(key.topic_id)
        if topic is None:
            return  # deleted meanwhile
        at_ms, node = self._broker.clock.wall_ms(), self._broker.broker_id
        group, limit = key.group[:TEXT_KEPT_MAX], limit_of(self._percent_of(topic))
        for name, runs, member in events:
            looked = self._bounded(runs)
            traced = sampled(key.topic_id, key.partition, looked, limit)
            client = member[:TEXT_KEPT_MAX]
            for some in pieces(traced):
                place = topic.name, key.partition, some
                self._rows.wait(Row(node, at_ms, name, *place, group, client))
        self._rows.write()

    def _bounded(self, runs: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """Return the first OFFSETS_MAX offsets; the others are counted."""
        room, found = OFFSETS_MAX, []
        for first, end in runs:
            stop = min(end, first + room)
            if first < stop:
                found.append((first, stop))
            room -= stop - first
            self.left_out += end - stop
        return found

    def _on_written(self, records: list[tuple[bytes, bytes]]) -> None:
        """Go on with what came meanwhile."""
        del records
        self._broker.scheduler.call_soon(self._rows.write)

    def expire(self, now_ms: int) -> None:
        """Write what could not be written before."""
        del now_ms
        self._rows.write()

    def end(self) -> None:
        """Write what waits, as the process stops; each tick writes some of it."""
        self._rows.write()
