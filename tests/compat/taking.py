"""Records that a test takes while it waits: what is looked at again and again judges nothing.

An error that a consumer tells ends the wait, and fails the test behind it.
"""

from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer

from harness.waiting import LOOK_SECONDS, UNTIL_SECONDS, wait_until


class Taken(NamedTuple):
    """A record as a consumer of librdkafka has it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Taking:
    """What one consumer takes."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.errors: list[str] = []

    def take(self, count: int, seconds: float) -> list[Taken]:
        """Return what comes in this time, up to so many records; keep errors for `wait`."""
        taken = []
        for message in self._consumer.consume(count, seconds):
            if (error := message.error()) is not None:
                self.errors.append(str(error))
                continue
            partition, offset = message.partition(), message.offset()
            key, value = message.key(), message.value()
            taken.append(Taken(_number(partition), _number(offset), _bytes(key), _bytes(value)))
        return taken

    def is_over(self, holds: Callable[[], object]) -> bool:
        """Say whether it holds now, or never will because of an error."""
        return bool(holds()) or bool(self.errors)

    def wait(
        self,
        holds: Callable[[], object],
        *,
        told: Callable[[], object],
        timeout_seconds: float = UNTIL_SECONDS,
        every_seconds: float = LOOK_SECONDS,
    ) -> None:
        """Wait until it holds, without an error; `told` says what there is instead."""
        is_so = wait_until(
            lambda: self.is_over(holds), timeout_seconds, every_seconds=every_seconds
        )
        self.check()
        assert is_so, told()

    def check(self) -> None:
        """Check that nothing but records came."""
        assert not self.errors, self.errors


def _number(value: int | None) -> int:
    """Return the number of a record; one that has none is nowhere."""
    return -1 if value is None else value


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
