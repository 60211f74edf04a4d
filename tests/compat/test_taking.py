"""What is taken while a test waits, with a consumer that is played."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest

from tests.compat.taking import Taken, Taking


@dataclass(frozen=True)
class Message:
    """As librdkafka's, whose messages can not be made."""

    at: int
    content: bytes | None = b"value"
    trouble: str | None = None

    def error(self) -> str | None:
        return self.trouble

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return self.at

    def key(self) -> str:
        return "key"

    def value(self) -> bytes | None:
        return self.content


class Played:
    """Gives what it was made with, one message at a time."""

    def __init__(self, *messages: Message) -> None:
        self._left = deque(messages)

    def consume(self, count: int, seconds: float) -> list[Message]:
        assert (count, seconds) == (10, 0.5)
        return [self._left.popleft()] if self._left else []


def taking(*messages: Message) -> Taking:
    played: Any = Played(*messages)
    return Taking(played)


def wait(one: Taking, wanted: int, timeout_seconds: float = 60.0) -> list[Taken]:
    found: list[Taken] = []

    def is_enough() -> bool:
        found.extend(one.take(10, 0.5))
        return len(found) >= wanted

    one.wait(is_enough, told=lambda: f"only {len(found)}", timeout_seconds=timeout_seconds)
    return found


def test_records_are_taken_until_there_are_enough() -> None:
    found = wait(taking(Message(4), Message(5, None), Message(6)), 2)
    assert found == [Taken(1, 4, b"key", b"value"), Taken(1, 5, b"key", None)]


def test_an_error_ends_the_wait_and_fails_behind_it() -> None:
    one = taking(Message(4), Message(-1, trouble="the broker is gone"), Message(5))
    with pytest.raises(AssertionError, match="the broker is gone"):
        wait(one, 3)
    assert one.take(10, 0.5) == [Taken(1, 5, b"key", b"value")], "nothing was taken behind it"


def test_an_error_beside_the_last_record_fails_too() -> None:
    one = taking(Message(-1, trouble="the broker is gone"))
    with pytest.raises(AssertionError, match="the broker is gone"):
        wait(one, 0)


def test_what_does_not_come_is_told() -> None:
    with pytest.raises(AssertionError, match="only 1"):
        wait(taking(Message(4)), 2, timeout_seconds=0.0)
