"""Transactions of a log as a list of what was appended: what a search in it must find."""

from collections.abc import Iterable
from typing import NamedTuple


class Entry(NamedTuple):
    """One batch. `ends` is None for data, else whether the marker commits."""

    partition: int
    base: int
    end: int
    end_position: int
    producer_id: int
    is_transactional: bool
    ends: bool | None = None


class Transaction(NamedTuple):
    """One transaction of a partition. `marker` is None while it is open."""

    producer_id: int
    batches: tuple[Entry, ...]
    marker: Entry | None

    @property
    def first(self) -> int:
        return self.batches[0].base


def transactions_of(entries: Iterable[Entry], partition: int) -> list[Transaction]:
    """Return all transactions of a partition, ended ones first."""
    ended: list[Transaction] = []
    going: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.partition != partition or not entry.is_transactional:
            continue
        if entry.ends is None:
            going.setdefault(entry.producer_id, []).append(entry)
        elif entry.producer_id in going:
            ended.append(Transaction(entry.producer_id, tuple(going.pop(entry.producer_id)), entry))
    return ended + [Transaction(key, tuple(found), None) for key, found in going.items()]


def unstable(found: Iterable[Transaction], confirmed: int) -> list[Transaction]:
    """Return the transactions that are not decided for certain, by first offset."""
    wanted = [one for one in found if one.marker is None or one.marker.end_position > confirmed]
    return sorted(wanted, key=lambda one: one.first)


def aborted(
    found: Iterable[Transaction], start: int, end: int, read_to: int | None = None
) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of the aborted ones that touch [start, end).

    With `read_to` only those with a batch there that ends at or below this position.
    """
    touching = [
        one
        for one in found
        if one.marker is not None
        and one.marker.ends is False
        and one.first < end
        and one.marker.base >= start
        and (read_to is None or _has_batch(one, start, end, read_to))
    ]
    return sorted(((one.producer_id, one.first) for one in touching), key=lambda one: one[1])


def _has_batch(one: Transaction, start: int, end: int, read_to: int) -> bool:
    return any(
        batch.base < end and batch.end > start and batch.end_position <= read_to
        for batch in one.batches
    )
