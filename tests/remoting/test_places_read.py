"""The message at a place of the index is that of the very offset, or there is none."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.errors import PlatformError
from penstock.remoting.finding import reading
from penstock.remoting.finding.reading import read_message


class Lost(PlatformError):
    """Of this test."""


def context_of(answer: object) -> Any:
    """Return a request of which a batch is filtered to this answer."""

    def read(_: int, __: object, done: Callable[[object], None]) -> None:
        done(answer)

    filtering = SimpleNamespace(read=read, left_out=None)
    return SimpleNamespace(front=SimpleNamespace(filtering=filtering))


@pytest.fixture(autouse=True)
def of_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is always a batch; a message's bytes are its offset."""

    async def batch(*_: object) -> object:
        return object()

    def decoded(data: memoryview) -> Sequence[object]:
        return [SimpleNamespace(queue_offset=int(bytes(data)))]

    monkeypatch.setattr(reading, "_read_batch", batch)
    monkeypatch.setattr(reading, "read_messages", lambda *_: None)
    monkeypatch.setattr(reading, "decode_messages", decoded)


@pytest.mark.parametrize(("offset", "found"), [(6, None), (7, b"7"), (8, None), (9, b"9")])
def test_a_message_of_another_offset_is_not_told(offset: int, found: bytes | None) -> None:
    context = context_of(SimpleNamespace(encoded=[b"7", b"9"]))
    wanted: Any = SimpleNamespace(offset=offset)
    told = asyncio.run(read_message(context, wanted))
    assert (told and told[1]) == found


def test_what_can_not_be_read_is_an_error() -> None:
    wanted: Any = SimpleNamespace(offset=7)
    with pytest.raises(Lost):
        asyncio.run(read_message(context_of(Lost("gone")), wanted))
