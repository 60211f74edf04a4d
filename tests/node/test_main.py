"""What an exception that nobody catches does to the process: on uvloop, as in a node."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.base.invariant import InvariantViolation
from penstock.net.connection import Connection
from penstock.node.main import EXIT_FAILED, Stopping
from penstock.runtime.io.clock import LoopScheduler
from penstock.runtime.io.disk import ThreadOffload
from tests.net.serving import frame, run, serving

Break = Callable[[], None]


def broken() -> None:
    raise InvariantViolation("two and two are five")


def mistaken() -> None:
    raise KeyError("a bug")


async def exit_code_after(cause: Callable[[Break], None], failure: Break) -> int:
    loop = asyncio.get_running_loop()
    stopping = Stopping(loop)
    loop.set_exception_handler(stopping.on_loop_error)
    cause(failure)
    return await stopping.exit_code


def in_a_callback(failure: Break) -> None:
    LoopScheduler(asyncio.get_running_loop()).call_soon(failure)


def in_a_timer(failure: Break) -> None:
    LoopScheduler(asyncio.get_running_loop()).call_later(1, failure)


def in_a_disk_callback(failure: Break) -> None:
    workers = ThreadOffload(asyncio.get_running_loop(), name="disk", threads=1)

    def done(_: Any, __: Any) -> None:
        workers.close()
        failure()

    workers.submit(lambda: 1, done)


@pytest.mark.parametrize("failure", [broken, mistaken])
@pytest.mark.parametrize("cause", [in_a_callback, in_a_timer, in_a_disk_callback])
def test_an_exception_in_a_callback_ends_the_process_with_exit_code_1(
    cause: Callable[[Break], None], failure: Break, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        assert await exit_code_after(cause, failure) == EXIT_FAILED

    run(scenario())
    assert any(record.exc_info for record in caplog.records)


def test_a_broken_invariant_in_a_request_ends_the_process_with_exit_code_1() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        stopping = Stopping(loop)
        loop.set_exception_handler(stopping.on_loop_error)

        def on_frame(_: Connection, __: memoryview) -> None:
            broken()

        async with serving(on_frame) as server:
            peer = await server.connect()
            peer.send(frame(b"x"))
            assert await stopping.exit_code == EXIT_FAILED

    run(scenario())


def test_a_bug_in_one_connections_bytes_ends_that_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        stopping = Stopping(loop)
        loop.set_exception_handler(stopping.on_loop_error)

        def on_frame(_: Connection, __: memoryview) -> None:
            mistaken()

        async with serving(on_frame) as server:
            peer = await server.connect()
            peer.send(frame(b"x"))
            assert await peer.is_ended()
        assert not stopping.exit_code.done()

    run(scenario())
    assert any(record.exc_info for record in caplog.records)
