"""A store that stands still keeps those waiting who look up what it alone has, and nobody else."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from harness import s3_server
from harness.node import NodeProcess
from harness.s3_server import S3Server
from harness.waiting import UNTIL_SECONDS
from harness.workload import create_topic
from tests.integration.test_tier import COUNT, TOPIC, produce
from tests.integration.test_tier import settings as tier_settings
from tests.integration.test_tier_reads import FREED
from tests.integration.test_tier_s3_reads import freed, go_on, stand_still

pytestmark = [pytest.mark.process, pytest.mark.compat]

PLAIN = "plain"
LONG_MS = 300_000
"""No look-up gives up while the store stands still."""
TIMEOUT_SECONDS = 3 * UNTIL_SECONDS


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
    own = tier_settings(
        "s3://tier/of/one",
        endpoint=server.endpoint,
        region=s3_server.REGION,
        access_key_id=s3_server.ACCESS,
        secret_key_file=str(secret),
        read_ms=LONG_MS,
    )
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        create_topic(node.bootstrap, PLAIN, 1)
        yield node


def consumer(node: NodeProcess) -> Consumer:
    return Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})


def found(consumer: Consumer, topic: str) -> int:
    """Return the first offset of any time."""
    (told,) = consumer.offsets_for_times([TopicPartition(topic, 0, 1)], timeout=TIMEOUT_SECONDS)
    assert told.error is None, told.error
    return int(told.offset)


def test_only_who_needs_the_store_waits_for_it(server: S3Server, node: NodeProcess) -> None:
    freed(node)
    produce(node, PLAIN, 0, 1)
    with (
        closing(consumer(node)) as slow,
        closing(consumer(node)) as quick,
        ThreadPoolExecutor(1) as threads,
    ):
        stand_still(server)
        try:
            waiting = threads.submit(found, slow, TOPIC)
            for _ in range(3):
                assert found(quick, PLAIN) == 0
            assert quick.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=60) == (0, COUNT)
            assert not waiting.done()
        finally:
            go_on(server)
        assert waiting.result() == 0
