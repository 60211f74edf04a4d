"""Controllers that are told to stop let another one lead first."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.ports import free_port
from harness.waiting import until
from penstock.node.controller_process import ControllerProcess
from penstock.node.identity import DataDirectory, open_data_directories
from penstock.node.machine import real_machine
from penstock.node.settings.settings import load_settings
from tests.net.serving import run

LOGGER = "penstock.node.hand_over"


class Controllers:
    """Controller processes of one cluster, in this process; numbered from 1."""

    def __init__(self, directory: Path, count: int) -> None:
        self.directory = directory
        ports = {number: free_port() for number in range(1, count + 1)}
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in ports.items())
        (directory / "secret").write_text("0123456789abcdef\n")
        (directory / "secret").chmod(0o600)
        self.directories: dict[int, list[DataDirectory]] = {}
        self.running = {
            number: self._process(number, port, voters) for number, port in ports.items()
        }

    def _process(self, number: int, port: int, voters: str) -> ControllerProcess:
        data = self.directory / f"data-{number}"
        data.mkdir()
        settings = load_settings(
            None,
            environment={},
            overrides=(
                f"node.data_directories={data}",
                f"node.broker_id={number}",
                "node.cluster_id=c",
                "node.metrics_port=0",
                f"cluster.secret_file={self.directory / 'secret'}",
                f"cluster.controller_port={port}",
                f"cluster.voters={voters}",
            ),
        )
        found = open_data_directories([data], broker_id=number, cluster_id="c")
        self.directories[number] = found
        return ControllerProcess(
            settings, found, lambda _: None, real_machine(asyncio.get_running_loop())
        )

    def leader(self) -> int | None:
        for number, process in self.running.items():
            if process.plane.log.leadership.is_leader:
                return number
        return None

    async def stop(self, number: int) -> None:
        assert await self.running.pop(number).stop()
        for directory in self.directories.pop(number):
            directory.close()


@asynccontextmanager
async def controllers(directory: Path, count: int) -> AsyncIterator[Controllers]:
    made = Controllers(directory, count)
    try:
        for process in made.running.values():
            await process.start()
        yield made
    finally:
        for number in list(made.running):
            await made.stop(number)


async def until_led(made: Controllers) -> int:
    await until(lambda: made.leader() is not None)
    leader = made.leader()
    assert leader is not None
    return leader


def test_the_active_controller_stops_when_another_one_leads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with controllers(tmp_path, 3) as made:
            await made.stop(await until_led(made))
            said = [record.getMessage() for record in caplog.records if record.name == LOGGER]
            # The one that stopped may hear of it before its successor's disk has answered.
            assert said == [f"controller={await until_led(made)} leads now"]

    with caplog.at_level(logging.INFO, LOGGER):
        run(scenario())


def test_a_controller_that_does_not_lead_just_stops(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controllers(tmp_path, 3) as made:
            first = await until_led(made)
            term = made.running[first].plane.log.leadership.term
            await made.stop(next(one for one in made.running if one != first))
            assert made.running[first].plane.log.leadership == (first, term, True)

    run(scenario())


def test_the_last_controllers_stop_though_nobody_takes_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controllers(tmp_path, 3) as made:
            await until_led(made)
            async with asyncio.timeout(120):
                await asyncio.gather(*(made.stop(number) for number in list(made.running)))

    run(scenario())
