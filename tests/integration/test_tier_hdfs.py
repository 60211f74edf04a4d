"""A node that copies into a real HDFS: killed amid a put, and a NameNode that can not be used."""

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from harness import hdfs_server
from harness.hdfs_server import HdfsServer
from harness.node import NodeProcess
from harness.tier import Stored, stored
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from penstock.runtime.io.hdfs_store import PUTTING, HdfsSettings, HdfsStore, open_hdfs
from tests.integration.layouts import run_penstock
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import COUNT, TOPIC, is_copied, numbers_read, produce
from tests.integration.test_tier import settings as tier_settings
from tests.integration.test_tier_reads import FREED, is_freed

pytestmark = [pytest.mark.process, pytest.mark.compat, pytest.mark.timeout(900)]

DIRECTORY = "/warehouse/penstock"
CALL_MS = 120_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HdfsServer]:
    reason = hdfs_server.why_not()
    if reason is not None:
        pytest.skip(reason)
    with HdfsServer(tmp_path / "hdfs") as server:
        yield server


@pytest.fixture
def node(server: HdfsServer, tmp_path: Path) -> Iterator[NodeProcess]:
    url = f"hdfs://{server.address}{DIRECTORY}"
    own = tier_settings(url, user="keeper", upload_ms=60_000)
    asyncio.run(made_for("keeper", server))
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        yield node


def store_of(server: HdfsServer) -> HdfsStore:
    return open_hdfs(HdfsSettings(place=server.place(DIRECTORY), call_ms=CALL_MS))


async def made_for(user: str, server: HdfsServer) -> None:
    """Make the directory above the store's, and give it to a user."""
    client = store_of(server)._opened()
    above = DIRECTORY.rpartition("/")[0]
    await client.mkdirs(above, 0o755, create_parent=True)
    await client.set_owner(above, user)


async def tree(server: HdfsServer) -> list[str]:
    """Return all that is in the store, past it: files and directories."""
    client = store_of(server)._opened()
    return [one.path async for one in client.list_status(DIRECTORY, recursive=True)]


def cluster_of(server: HdfsServer) -> bytes:
    async def name() -> str:
        async for page in store_of(server).pages(""):
            return page[0].name.partition("/")[0]
        raise AssertionError("nothing is in the store")

    return bytes.fromhex(asyncio.run(name()))


def read(server: HdfsServer) -> Stored:
    (found,) = stored(store_of(server), cluster_of(server)).values()
    return found


def putting(server: HdfsServer) -> list[str]:
    return [path for path in asyncio.run(tree(server)) if PUTTING in path]


def until(holds: Callable[[], object], node: NodeProcess, every_seconds: float = 0.1) -> None:
    assert wait_until(holds, UNTIL_SECONDS, every_seconds=every_seconds), node.log_tail(50)


def trouble(node: NodeProcess) -> str:
    """Return what `penstock tier status` tells of the set of the topic."""
    address = f"127.0.0.1:{node.metrics_port}"
    _, text = run_penstock("tier", "status", address, "-o", "json")
    told = json.loads(text[: text.rindex("}") + 1])
    return " ".join(one["trouble"] or "" for one in told["sets"])


def tells(node: NodeProcess, *words: str) -> bool:
    found = trouble(node)
    return all(word in found for word in words)


def check_all_is_there(server: HdfsServer, node: NodeProcess, values: list[bytes]) -> None:
    """The store has what was written without a gap, and stock clients read it from there."""
    until(partial(is_freed, node, len(values)), node)
    found = read(server)
    assert found.records == list(enumerate(values))[: len(found.records)]
    before = metric(node, "penstock_tier_reads_total")
    assert numbers_read(node) == [str(number) for number in range(len(values))]
    assert metric(node, "penstock_tier_reads_total") > before


def test_a_node_that_is_killed_amid_a_put_goes_on_and_leaves_nothing_half_written(
    server: HdfsServer, node: NodeProcess
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
    until(lambda: not putting(server), node, 1.0)
    code, text = run_penstock("tier", "verify", "--config", str(node.config))
    assert (code, "whole" in text) == (0, True), text


def test_safe_mode_and_a_full_directory_are_told_by_name_and_end_by_themselves(
    server: HdfsServer, node: NodeProcess
) -> None:
    values = produce(node, TOPIC, 0, COUNT)
    until(partial(is_copied, node), node)
    server.admin("-safemode", "enter")
    values += produce(node, TOPIC, COUNT, COUNT)
    until(partial(tells, node, "SafeModeException", "safe mode"), node, 1.0)
    server.admin("-safemode", "leave")
    until(partial(is_freed, node, len(values)), node)

    server.admin("-setSpaceQuota", "1m", DIRECTORY)
    values += produce(node, TOPIC, 2 * COUNT, COUNT)
    until(partial(tells, node, "QuotaExceededException"), node, 1.0)
    server.admin("-clrSpaceQuota", DIRECTORY)
    check_all_is_there(server, node, values)


def test_a_name_node_that_stands_still_is_told_and_nothing_is_lost(
    server: HdfsServer, node: NodeProcess
) -> None:
    values = produce(node, TOPIC, 0, COUNT)
    until(partial(is_copied, node), node)
    server.stand_still()
    try:
        values += produce(node, TOPIC, COUNT, COUNT)
        until(partial(tells, node, "no answer within 30000 ms"), node, 1.0)
    finally:
        server.go_on()
    check_all_is_there(server, node, values)


def test_what_was_put_is_there_when_hdfs_was_killed_and_started_again(
    server: HdfsServer, node: NodeProcess
) -> None:
    values = produce(node, TOPIC, 0, COUNT)
    until(partial(is_copied, node), node)
    server.stop()
    values += produce(node, TOPIC, COUNT, COUNT)
    until(partial(tells, node, "refused"), node, 1.0)
    server.start()
    check_all_is_there(server, node, values)
