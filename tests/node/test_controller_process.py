"""A controller alone: what it asks for, leads and shows."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.ports import free_port
from harness.waiting import until
from penstock.base.errors import ConfigError
from penstock.node.controller_process import ControllerProcess
from penstock.node.identity import open_data_directories
from penstock.node.machine import real_machine
from penstock.node.pages.status import status_page
from penstock.node.settings.settings import NodeSettings, load_settings
from tests.net.serving import run
from tests.node.test_metrics_page import documented, families


def settings_in(directory: Path, *overrides: str) -> NodeSettings:
    (directory / "secret").write_text("0123456789abcdef\n")
    (directory / "secret").chmod(0o600)
    (directory / "data").mkdir(exist_ok=True)
    given = (
        f"node.data_directories={directory / 'data'}",
        "node.broker_id=5",
        "node.cluster_id=c",
        "node.metrics_port=0",
        f"cluster.secret_file={directory / 'secret'}",
    )
    return load_settings(None, environment={}, overrides=(*given, *overrides))


@asynccontextmanager
async def controller(settings: NodeSettings) -> AsyncIterator[ControllerProcess]:
    failures: list[str] = []
    paths = [Path(path) for path in settings.node.data_directories]
    directories = open_data_directories(paths, broker_id=5, cluster_id="c")
    process = ControllerProcess(
        settings, directories, failures.append, real_machine(asyncio.get_running_loop())
    )
    try:
        await process.start()
        yield process
    finally:
        assert await process.stop()
        for directory in directories:
            directory.close()
    assert failures == []


async def until_active(process: ControllerProcess) -> None:
    await until(lambda: process._plane.log.leadership.is_leader)


@pytest.mark.parametrize("missing", ["port", "voters"])
def test_controller_that_nobody_could_reach_is_refused(tmp_path: Path, missing: str) -> None:
    port = free_port()
    overrides = {
        "voters": f"cluster.controller_port={port}",
        "port": f"cluster.voters=5@127.0.0.1:{port}",
    }

    async def scenario() -> None:
        with pytest.raises(ConfigError, match=r"needs cluster\.voters and cluster\.controller_"):
            async with controller(settings_in(tmp_path, overrides[missing])):
                pass

    run(scenario())


def test_only_voter_leads_and_shows_what_it_knows(tmp_path: Path) -> None:
    port = free_port()
    settings = settings_in(
        tmp_path, f"cluster.controller_port={port}", f"cluster.voters=5@127.0.0.1:{port}"
    )

    async def scenario() -> None:
        async with controller(settings) as process:
            assert process.address == f"controller=127.0.0.1:{port}"
            await until_active(process)
            page = process.metrics_page().body.decode()
            assert families(page) <= documented()
            assert "penstock_controller_active 1.0" in page
            assert "penstock_brokers 0.0" in page
            assert "penstock_log_end" not in page
            status = json.loads(status_page(process._plane).body)
            assert (status["controller"]["active_id"], status["brokers"]) == (5, [])
        assert status_page(process._plane).status == 503

    run(scenario())
