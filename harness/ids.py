"""Ids from plain numbers, for tests and trials that name brokers by number."""

from penstock.base.ids import BrokerId


def as_brokers(*numbers: int) -> tuple[BrokerId, ...]:
    """Return these broker ids, in this order."""
    return tuple(BrokerId(number) for number in numbers)
