"""What is to be done with a half message, and the batches that this takes.

Source: ours, docs/adr/0132.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.append.preparation import Prepared, needs_preparation, prepare
from penstock.record.batch import BATCH_HEADER_BYTES, read_header
from penstock.record.build import Record, build_batch, record_bytes_max
from penstock.record.errors import RecordError
from penstock.remoting.halves.record import Decided, Outcome
from penstock.remoting.sending import Done

if TYPE_CHECKING:
    from penstock.broker.append.batch_rules import BatchRules
    from penstock.broker.partitions import HostedPartition
    from penstock.remoting.halves.asking import Producer


class Decide(NamedTuple):
    """A half message is to be committed, rolled back or discarded."""

    number: int
    outcome: Outcome
    done: Done
    message_id: str = ""
    """That its client means; empty: it does not say."""
    place: HostedPartition | None = None
    """Where it goes if it is discarded."""


class Check(NamedTuple):
    """A producer is to be asked about it."""

    number: int
    producer: Producer


class Move(NamedTuple):
    """It is to be written again, at the end."""

    number: int


Work = Decide | Check | Move


class Copy(NamedTuple):
    """What is to be in a partition as it is decided."""

    decided: Decided
    """The offset in it is not known yet."""
    record: Record


class Batch(NamedTuple):
    """Copies for one partition."""

    target: HostedPartition
    copies: Sequence[Copy]
    memory: memoryview
    rules: BatchRules

    @property
    def is_changed(self) -> bool:
        """Whether its topic has the records looked at, or compressed."""
        return needs_preparation(read_header(self.memory), self.rules)


def batches_of(target: HostedPartition, copies: Sequence[Copy]) -> Iterator[Batch]:
    """Yield copies as batches that the partition takes, in order."""
    rules = target.topic.rules
    part: list[Copy] = []
    size = BATCH_HEADER_BYTES
    for one in copies:
        grown = record_bytes_max(one.record)
        if part and size + grown > rules.max_message_bytes:
            yield _batch(target, part)
            part, size = [], BATCH_HEADER_BYTES
        part.append(one)
        size += grown
    if part:
        yield _batch(target, part)


def _batch(target: HostedPartition, copies: Sequence[Copy]) -> Batch:
    stored = build_batch([one.record for one in copies])
    return Batch(target, copies, memoryview(bytearray(stored)), target.topic.rules)


def prepare_all(batches: Mapping[int, Batch], now_ms: int) -> Mapping[int, Prepared | RecordError]:
    """Prepare batches on a worker."""
    outcomes: dict[int, Prepared | RecordError] = {}
    for number, batch in batches.items():
        try:
            outcomes[number] = prepare(batch.memory, batch.rules, now_ms)
        except RecordError as error:
            outcomes[number] = error
    return outcomes
