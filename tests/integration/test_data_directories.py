"""Several data directories: a replica set each, and what happens to one stays with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from harness.loop_disk import tiny_tmpfs
from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic, read_all
from tests.integration.clients import acked, send
from tests.integration.test_refusals import assert_one_clear_line, start_with

pytestmark = pytest.mark.process
PARTITIONS = 4


def node_on(directory: Path, *data: Path, **log_settings: int) -> NodeProcess:
    """A node, not started, whose replica sets lie in these directories."""
    for path in data:
        path.mkdir(parents=True, exist_ok=True)
    settings: dict[str, dict[str, object]] = {
        "node": {"data_directories": [str(path) for path in data]},
        "groups": {"partition_count": 2},
        "log": {"segment_bytes": 4 << 20, "reserve_bytes": 0, **log_settings},
    }
    return NodeProcess(directory / "node", settings=settings)


@contextmanager
def with_records(tmp_path: Path) -> Iterator[NodeProcess]:
    """A running node with two directories and ten records in each of four partitions."""
    with node_on(tmp_path, tmp_path / "one", tmp_path / "two") as node:
        create_topic(node.bootstrap, "spread", PARTITIONS)
        for partition in range(PARTITIONS):
            assert len(acked(produce(node, partition))) == 10
        yield node


def produce(node: NodeProcess, partition: int) -> list[tuple[bytes, KafkaError | None]]:
    values = [b"%d-%d." % (partition, n) for n in range(10)]
    return send(node.bootstrap, "spread", values, partition=partition)


def partitions_read(node: NodeProcess) -> list[int]:
    counts = [0] * PARTITIONS
    for poll in read_all(node.bootstrap, "spread", PARTITIONS):
        for _, value in poll.records:
            counts[int(str(value).split("-")[0])] += 1
    return counts


def leaders(node: NodeProcess) -> list[int]:
    topics = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics("spread", 10).topics
    return [topics["spread"].partitions[n].leader for n in range(PARTITIONS)]


def log_bytes(directory: Path) -> int:
    """Bytes written into a directory's commit log: what is not zero."""
    files = directory.glob("set-*/log/*.log")
    return sum(len(file.read_bytes().rstrip(b"\0")) for file in files)


def test_partitions_are_spread_over_both_directories_and_survive_a_kill(tmp_path: Path) -> None:
    with with_records(tmp_path) as node:
        assert {path.name for path in tmp_path.glob("*/set-*")} == {"set-1", "set-2"}
        assert log_bytes(tmp_path / "one") > 200
        assert log_bytes(tmp_path / "two") > 200
        node.restart()
        assert partitions_read(node) == [10] * PARTITIONS
        assert len(acked(produce(node, 0))) == len(acked(produce(node, 1))) == 10


def test_directories_in_another_order_are_refused_unless_metadata_comes_first(
    tmp_path: Path,
) -> None:
    with with_records(tmp_path) as node:
        node.stop()
    done = start_with(node_on(tmp_path / "b", tmp_path / "two", tmp_path / "one").config)
    assert done.returncode == 2
    assert_one_clear_line(done, str(tmp_path / "one"), "first")


def test_a_damaged_log_in_one_directory_is_one_clear_line(tmp_path: Path) -> None:
    with with_records(tmp_path) as node:
        node.stop()
    (segment,) = (tmp_path / "two" / "set-2" / "log").glob("00000000000000000000.log")
    for snapshot in (tmp_path / "two" / "set-2" / "snapshot").iterdir():
        snapshot.unlink()
    content = bytearray(segment.read_bytes())
    content[200] ^= 0xFF
    segment.write_bytes(content)
    done = start_with(node.config)
    assert done.returncode == 1
    assert_one_clear_line(done, "two/set-2", "damaged at position")


def test_without_one_directory_its_partitions_wait_and_the_others_go_on(tmp_path: Path) -> None:
    with with_records(tmp_path) as node:
        node.stop()
    with node_on(tmp_path / "less", tmp_path / "one") as less:
        lost = [n for n, leader in enumerate(leaders(less)) if leader == -1]
        assert len(lost) == PARTITIONS // 2
        kept = next(n for n in range(PARTITIONS) if n not in lost)
        assert len(acked(produce(less, kept))) == 10
        create_topic(less.bootstrap, "new", 2)
        assert len(acked(send(less.bootstrap, "new", [b"a."], partition=1))) == 1
        told = less.log_tail(1000).splitlines()
        assert sum("its 2 partitions are not served" in line for line in told) == 1
        less.stop()
    with node:
        counts = partitions_read(node)
        assert counts[kept] == 20
        assert [counts[n] for n in lost] == [10, 10]


def test_a_fresh_directory_in_place_of_a_lost_one_does_not_pass_for_it(tmp_path: Path) -> None:
    with with_records(tmp_path) as node:
        node.stop()
    with node_on(tmp_path / "exchanged", tmp_path / "one", tmp_path / "three") as exchanged:
        assert leaders(exchanged).count(-1) == PARTITIONS // 2
        assert not (tmp_path / "three" / "set-2").exists()
    with node:
        assert partitions_read(node) == [10] * PARTITIONS


def test_a_missing_directory_is_refused_by_name(tmp_path: Path) -> None:
    with with_records(tmp_path) as node:
        node.stop()
    (tmp_path / "two").rename(tmp_path / "unmounted")
    done = start_with(node.config)
    assert done.returncode == 2
    assert_one_clear_line(done, str(tmp_path / "two"), "does not exist")


@pytest.mark.usefixtures("loop_disks")
def test_a_full_file_system_refuses_only_its_own_partitions(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    with (
        tiny_tmpfs(tmp_path / "two", size_mib=13) as small,
        node_on(tmp_path, tmp_path / "one", small) as node,
    ):
        create_topic(node.bootstrap, "spread", PARTITIONS)
        wanted = 250
        taken = [0] * PARTITIONS

        def write_on(partition: int) -> bool:
            """Write what is missing; a partition on the large disk may wait for a segment."""
            values = [bytes(60_000)] * (wanted - taken[partition])
            answers = send(node.bootstrap, "spread", values, partition=partition)
            taken[partition] += len(acked(answers))
            return taken[partition] == wanted

        def are_two_whole() -> bool:
            return [write_on(one) for one in range(PARTITIONS)].count(True) == PARTITIONS // 2

        assert wait_until(are_two_whole, UNTIL_SECONDS), taken
        full = [one for one in range(PARTITIONS) if taken[one] < wanted]
        assert not any(write_on(one) for one in full), "it holds more than it has room for"
