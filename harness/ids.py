"""Ids from plain numbers, for tests and trials that name brokers by number."""

from penstock.base.ids import BrokerId, LeaderEpoch, Position


def as_brokers(*numbers: int) -> tuple[BrokerId, ...]:
    """Return these broker ids, in this order."""
    return tuple(BrokerId(number) for number in numbers)


def as_epochs(*starts: tuple[int, int]) -> list[tuple[LeaderEpoch, Position]]:
    """Return these masterships, each a leader epoch and the position at which it starts."""
    return [(LeaderEpoch(epoch), Position(start)) for epoch, start in starts]
