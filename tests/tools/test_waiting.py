"""Waiting ends when the condition holds, and when the time is over."""

import asyncio
import itertools

import pytest

from harness.waiting import until, wait_until


def test_waiting_ends_when_the_condition_holds() -> None:
    looks = itertools.count()
    assert wait_until(lambda: next(looks) == 3, 30, every_seconds=0)
    assert next(looks) == 4


def test_waiting_in_vain_is_said() -> None:
    looks = itertools.count()
    assert not wait_until(lambda: next(looks) < 0, 0.02, every_seconds=0)
    assert next(looks) > 1


def test_a_loop_goes_on_while_somebody_waits() -> None:
    async def story() -> None:
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, done.set_result, None)
        await until(done.done)

    asyncio.run(story())


def test_a_condition_that_never_holds_is_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        asyncio.run(until(lambda: False, 0.02))
