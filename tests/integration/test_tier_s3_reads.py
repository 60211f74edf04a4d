"""Stock consumers read what only a real S3 server has, also one that fails them for a while."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from harness import s3_server
from harness.node import NodeProcess
from harness.s3_server import S3Server
from harness.waiting import UNTIL_SECONDS
from harness.workload import create_topic
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import COUNT, TOPIC, flip, offset_at, produce, until
from tests.integration.test_tier import settings as tier_settings
from tests.integration.test_tier_reads import EARLIEST, EARLIEST_LOCAL, FREED, is_freed, taken

pytestmark = [pytest.mark.process, pytest.mark.compat]

Got = list[tuple[int | None, bytes | None]]
FAILURES = 3


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
        read_ms=2_000,
    )
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        yield node


def freed(node: NodeProcess) -> Got:
    """Have all that is copied in the store alone; return all records."""
    values = produce(node, TOPIC, 0, COUNT)
    until(partial(is_freed, node, COUNT), node)
    return list(enumerate(values))


def consumer_at(node: NodeProcess, offset: int) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    return consumer


def read_until(consumer: Consumer, done: Callable[[Got], bool], node: NodeProcess) -> Got:
    got: Got = []
    deadline = time.monotonic() + UNTIL_SECONDS
    while not done(got):
        assert time.monotonic() < deadline, node.log_tail(50)
        got += taken(consumer)
    return got


def test_records_and_look_ups_by_time_come_from_the_server(node: NodeProcess) -> None:
    values = freed(node)
    assert offset_at(node, EARLIEST) == 0 < offset_at(node, EARLIEST_LOCAL)
    with closing(consumer_at(node, 0)) as consumer:
        got = read_until(consumer, lambda so_far: len(so_far) >= COUNT, node)
        assert got == values
        consumer.seek(TopicPartition(TOPIC, 0, 0))
        first = consumer.poll(UNTIL_SECONDS)
        assert first is not None
        (found,) = consumer.offsets_for_times(
            [TopicPartition(TOPIC, 0, first.timestamp()[1])], timeout=UNTIL_SECONDS
        )
        assert (found.offset, first.leader_epoch()) == (0, 0)
    assert metric(node, "penstock_tier_reads_total") >= 1


def stand_still(server: S3Server) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)


def go_on(server: S3Server) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGCONT)


def refuse_credentials(server: S3Server) -> None:
    server.stop()
    server.start("of-another")


def take_credentials(server: S3Server) -> None:
    server.stop()
    server.start()


def flip_all(server: S3Server) -> None:
    """Change a bit in each object; the second time it is as before."""
    for path in (server.path / "objects" / "tier").rglob("*.extents"):
        flip(path)


@pytest.mark.parametrize(
    ("fail", "mend"),
    [
        (stand_still, go_on),
        (S3Server.stop, S3Server.start),
        (refuse_credentials, take_credentials),
        (flip_all, flip_all),
    ],
    ids=["stands still", "is gone", "refuses credentials", "lies"],
)
def test_a_server_that_fails_readers_gives_no_wrong_record_and_no_other_offset(
    server: S3Server,
    node: NodeProcess,
    fail: Callable[[S3Server], None],
    mend: Callable[[S3Server], None],
) -> None:
    values = freed(node)
    local = offset_at(node, EARLIEST_LOCAL)
    fail(server)
    before = metric(node, "penstock_tier_read_failures_total")
    with closing(consumer_at(node, 0)) as consumer:
        got = read_until(
            consumer,
            lambda _: metric(node, "penstock_tier_read_failures_total") >= before + FAILURES,
            node,
        )
        assert got == values[: len(got)]
        with closing(consumer_at(node, local)) as other:  # what the disk has is served all the same
            rest = read_until(other, lambda so_far: len(so_far) >= COUNT - local, node)
        assert rest == values[local:]
        mend(server)
        left = COUNT - len(got)
        got += read_until(consumer, lambda so_far: len(so_far) >= left, node)
    assert got == values
