"""A node that copies into a real S3 server, which stands still, and whose bytes are damaged."""

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harness import s3_server
from harness.node import NodeProcess
from harness.s3_server import S3Server
from harness.tier import Stored, stored
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from penstock.runtime.io.object_store import open_s3
from tests.integration.layouts import run_penstock
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import COUNT, TOPIC, flip, is_copied, numbers_read, produce
from tests.integration.test_tier import settings as tier_settings
from tests.tier.test_stores import settings_of

pytestmark = [pytest.mark.process, pytest.mark.compat]

PREFIX = "of/one"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    program = s3_server.binary()
    if isinstance(program, str):
        pytest.skip(program)
    with S3Server(program, tmp_path / "s3") as server:
        yield server


@pytest.fixture
def node(server: S3Server, tmp_path: Path) -> Iterator[NodeProcess]:
    secret = tmp_path / "secret"
    secret.write_text(f"{s3_server.SECRET}\n")
    more = {
        "endpoint": server.endpoint,
        "region": s3_server.REGION,
        "access_key_id": s3_server.ACCESS,
        "secret_key_file": str(secret),
    }
    own = tier_settings(f"s3://tier/{PREFIX}", **more)
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
        yield node


def objects(server: S3Server) -> list[Path]:
    return sorted((server.path / "objects" / "tier").rglob("*.extents"))


def read(server: S3Server) -> Stored:
    cluster = objects(server)[0].relative_to(server.path / "objects" / "tier" / PREFIX).parts[0]
    store = open_s3(settings_of(server.endpoint, PREFIX))
    (found,) = stored(store, bytes.fromhex(cluster)).values()
    return found


def has_failed(node: NodeProcess) -> bool:
    return metric(node, "penstock_tier_failures_total") > 0


def test_what_is_written_while_the_store_stands_still_is_copied_when_it_goes_on(
    server: S3Server, node: NodeProcess
) -> None:
    assert server.process is not None
    values = produce(node, TOPIC, 0, COUNT)
    assert wait_until(partial(is_copied, node), UNTIL_SECONDS), node.log_tail(50)
    server.process.send_signal(signal.SIGSTOP)
    try:
        values += produce(node, TOPIC, COUNT, COUNT)
        assert wait_until(partial(has_failed, node), UNTIL_SECONDS), node.log_tail(50)
        assert numbers_read(node) == [str(number) for number in range(len(values))]
        assert node.stop() == 0, "with uploads under way"
        node.start()
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert wait_until(partial(_ends_behind, server, COUNT), UNTIL_SECONDS), node.log_tail(50)
    found = read(server)
    assert found.records == list(enumerate(values))[: len(found.records)]


def _ends_behind(server: S3Server, offset: int) -> bool:
    return read(server).end_offset > offset


def test_a_damaged_object_is_named_by_the_command(server: S3Server, node: NodeProcess) -> None:
    produce(node, TOPIC, 0, COUNT)
    assert wait_until(partial(is_copied, node), UNTIL_SECONDS), node.log_tail(50)
    code, text = run_penstock("tier", "verify", "--config", str(node.config))
    assert (code, "whole" in text) == (0, True), text
    flip(objects(server)[0])
    code, text = run_penstock("tier", "verify", "--config", str(node.config))
    assert code == 1
    assert "damaged at byte" in text
