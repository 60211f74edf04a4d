"""Who has the largest share of the receive memory, and ends when others need some of it.

    an address with most of it ─► its connection with most ─► ended

A connection whose frame needs a buffer ends those that hold far more, at once: twice of what it
will hold then, or by an address that holds twice of what its own address does. So who holds about
the same as others ends nobody, and a normal frame does not wait for a few huge ones without end.

Source: our own attacks; ADR 0086.
Not here: frames that are too slow for their own sake (`overdue`), and answers (`AnswerRoom`).
"""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol, TypeVar

from penstock.net.context import ConnectionContext
from penstock.net.errors import CloseKind

FAR_MORE = 2


class Holder(Protocol):
    """A connection with a part of a frame."""

    client_host: str

    @property
    def received_bytes(self) -> int:
        """Memory that it holds for what has arrived."""


class Ended(Holder, Protocol):
    """A holder that can be ended when others need its memory."""

    def end(self, kind: CloseKind) -> None:
        """End the connection."""


HolderT = TypeVar("HolderT", bound=Holder)
EndedT = TypeVar("EndedT", bound=Ended)


def by_share(holders: Iterable[HolderT]) -> list[HolderT]:
    """Return them, those last that belong to the largest share and have most of it."""
    every = list(holders)
    of_address = _of_addresses(every)
    return sorted(every, key=lambda one: (of_address[one.client_host], one.received_bytes))


def far_larger(asker: HolderT, size: int, holders: Iterable[HolderT]) -> HolderT | None:
    """Return who is to end so that `asker` may hold `size` bytes, None if nobody has far more."""
    others = [one for one in holders if one is not asker]
    if not others:
        return None
    of_address = _of_addresses(others)
    worst = max(others, key=lambda one: (of_address[one.client_host], one.received_bytes))
    most = max(others, key=lambda one: one.received_bytes)
    if of_address[worst.client_host] >= FAR_MORE * (of_address[asker.client_host] + size):
        return worst
    return most if most.received_bytes >= FAR_MORE * size else None


def makes_room(asker: EndedT, size: int, context: ConnectionContext[EndedT]) -> bool:
    """Find room for a normal frame, if need be in place of large ones that do not end."""
    budget = context.buffers.budget
    while not budget.has_room(size):
        worst = far_larger(asker, size, context.holders)
        if worst is None:
            return False
        worst.end(CloseKind.MEMORY)
    return True


def _of_addresses(holders: Iterable[Holder]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in holders:
        found[one.client_host] += one.received_bytes
    return found
