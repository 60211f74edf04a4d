"""A node that copies into Azurite is killed amid a put; stock clients read what is there alone."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from harness import azure_server
from harness.azure_server import AzureServer
from harness.node import NodeProcess
from harness.tier import Stored, stored
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from penstock.runtime.io.azure_store import AzureContainer, open_azure
from tests.integration.layouts import run_penstock
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import COUNT, TOPIC, is_copied, numbers_read, produce
from tests.integration.test_tier import settings as tier_settings
from tests.integration.test_tier_reads import FREED, is_freed
from tests.tier.test_azure import of_azure

pytestmark = [pytest.mark.process, pytest.mark.compat]

PREFIX = "of/one"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AzureServer]:
    program = azure_server.program()
    if isinstance(program, str):
        pytest.skip(program)
    with AzureServer(program, tmp_path / "azure") as server:
        yield server


@pytest.fixture
def node(server: AzureServer, tmp_path: Path) -> Iterator[NodeProcess]:
    key = tmp_path / "key"
    key.write_text(f"{azure_server.KEY}\n")
    own = tier_settings(
        f"az://tier/{PREFIX}",
        endpoint=server.endpoint,
        access_key_id=azure_server.ACCOUNT,
        secret_key_file=str(key),
    )
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        yield node


def store_of(server: AzureServer) -> AzureContainer:
    return open_azure(of_azure(server, PREFIX))


def read(server: AzureServer) -> Stored:
    async def cluster() -> str:
        async for page in store_of(server).pages(""):
            return page[0].name.partition("/")[0]
        raise AssertionError("nothing is in the store")

    (found,) = stored(store_of(server), bytes.fromhex(asyncio.run(cluster()))).values()
    return found


def until(holds: Callable[[], object], node: NodeProcess) -> None:
    assert wait_until(holds, UNTIL_SECONDS), node.log_tail(50)


def check_all_is_there(server: AzureServer, node: NodeProcess, values: list[bytes]) -> None:
    """The store has what was written without a gap, and stock clients read it from there."""
    until(partial(is_freed, node, len(values)), node)
    found = read(server)
    assert found.records == list(enumerate(values))[: len(found.records)]
    before = metric(node, "penstock_tier_reads_total")
    assert numbers_read(node) == [str(number) for number in range(len(values))]
    assert metric(node, "penstock_tier_reads_total") > before


def test_a_node_that_is_killed_amid_a_put_goes_on_and_leaves_nothing_behind(
    server: AzureServer, node: NodeProcess
) -> None:
    values = produce(node, TOPIC, 0, COUNT)
    until(partial(is_copied, node), node)
    server.stand_still()
    try:
        values += produce(node, TOPIC, COUNT, COUNT)
        until(lambda: metric(node, "penstock_tier_waiting_bytes") > 0, node)
        node.kill()
        node.start()
    finally:
        server.go_on()
    values += produce(node, TOPIC, 2 * COUNT, COUNT)
    check_all_is_there(server, node, values)
    until(lambda: metric(node, "penstock_tier_leaving_objects") == 0, node)
    code, text = run_penstock("tier", "verify", "--config", str(node.config))
    assert (code, "whole" in text) == (0, True), text
