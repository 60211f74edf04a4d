"""The log that session tests run over keeps the rules of every replicated log."""

import asyncio
from collections.abc import Iterator

import pytest

from penstock.controller.replicated_log import ReplicatedLog
from penstock.runtime.io.clock import LoopScheduler
from tests.controller.replicated_log_contract import LogHarness, ReplicatedLogContract
from tests.runtime.shared_log import LogGroup


class SharedHarness(LogHarness):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._group = LogGroup(LoopScheduler(self._loop))
        self._group.lead(1)

    def open(self) -> ReplicatedLog:
        return self._group.join(1)

    def run(self) -> None:
        async def turn() -> None:
            for _ in range(100):
                await asyncio.sleep(0)

        self._loop.run_until_complete(turn())

    def crash(self) -> None:
        del self._group.members[1]


class TestSharedLog(ReplicatedLogContract):
    @pytest.fixture(autouse=True)
    def _loop(self) -> Iterator[None]:
        """Closed here: a finalizer of the harness may come after that of the loop."""
        self.loop = asyncio.new_event_loop()
        yield
        self.loop.close()

    def make(self) -> LogHarness:
        return SharedHarness(self.loop)
