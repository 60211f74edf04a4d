"""A topic whose cluster is gone: what its object store has becomes an archive, and a topic."""

import json
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from penstock.archive.copying import RunOptions, copy_topic
from penstock.archive.files import ArchiveFiles
from penstock.archive.ledger import Ledger
from penstock.archive.lost_cluster import StoreSource, look_through
from penstock.archive.verifying import verify
from penstock.runtime.io.object_store import open_directory
from penstock.spark.tier.store import call
from penstock.tier.metadata.manifest import Run
from tests.archive.world import Died, DyingStore, Row, ledger_at, queried
from tests.integration.layouts import run_penstock
from tests.integration.test_tier import is_copied, settings
from tests.live_node import running_node

pytestmark = pytest.mark.process

TOPIC, OTHER = "kept", "other"
PARTITIONS = 2
ROUNDS = 60
ROUND_RECORDS = 40
VALUE_BYTES = 2_000
SMALL = 1_000_000


class Left(NamedTuple):
    """What a lost cluster has left: its store, and what somebody still knows of its topic."""

    store: Path
    config: Path
    topic_id: str
    values: dict[int, list[bytes]]
    """Of committed records, in their order."""


def write(bootstrap: str) -> dict[int, list[bytes]]:
    """Write rounds of committed and of aborted records; return the committed ones."""
    values: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    own = {"bootstrap.servers": bootstrap, "transactional.id": "writer"}
    producer = Producer(own)
    producer.init_transactions()
    for number in range(ROUNDS):
        is_kept = number % 3 != 1
        producer.begin_transaction()
        for at in range(ROUND_RECORDS):
            for partition in values:
                value = b"%d.%d.%d " % (partition, number, at) + b"v" * VALUE_BYTES
                producer.produce(
                    TOPIC, value, key=b"%d" % at, partition=partition, headers={"round": b"r"}
                )
                values[partition] += [value] if is_kept else []
        if is_kept:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    return values


def runs_in(store: Path) -> dict[int, list[Run]]:
    lost = call(look_through(open_directory(store), None))
    return {key.partition: runs for key, runs in lost.runs.items()}


def has_pieces(store: Path, node: NodeProcess) -> bool:
    """Whether each partition has objects before and behind one of them, and all is committed."""
    if not is_copied(node):
        return False
    found = runs_in(store)
    return len(found) == PARTITIONS and all(len(runs) >= 3 for runs in found.values())


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    path = tmp_path_factory.mktemp("lost")
    store = path / "store"
    store.mkdir()
    with NodeProcess(path / "node", settings=settings(f"file://{store}")) as node:
        for topic in (TOPIC, OTHER):
            create_topic(node.bootstrap, topic, PARTITIONS, {"remote.storage.enable": "true"})
        values = write(node.bootstrap)
        assert wait_until(partial(has_pieces, store, node), UNTIL_SECONDS), node.log_tail(50)
        code, told = run_penstock("topic", "describe", TOPIC, "-b", node.bootstrap, "-o", "json")
        assert code == 0, told
        topic_id = json.loads(told)["topic_id"]
        node.kill()
        config = path / "node.toml"
        config.write_bytes(node.config.read_bytes())
    shutil.rmtree(path / "node")
    return Left(store, config, topic_id, values)


@pytest.fixture
def copy(left: Left, tmp_path: Path) -> Left:
    """A store of one's own."""
    store, config = tmp_path / "store", tmp_path / "node.toml"
    shutil.copytree(left.store, store)
    config.write_text(left.config.read_text().replace(str(left.store), str(store)))
    return left._replace(store=store, config=config)


def recover(left: Left, archive: Path, *more: str) -> tuple[int, str]:
    own = ("--config", str(left.config), "--topic-id", left.topic_id)
    return run_penstock("archive", "recover", TOPIC, "--to", str(archive), *own, *more)


def recovered(left: Left, archive: Path, *more: str) -> dict[str, Any]:
    code, told = recover(left, archive, *more, "-o", "json")
    assert code == 0, told
    (row,) = json.loads(told)
    return dict(row)


def values_of(rows: list[Row], partition: int) -> list[bytes | None]:
    return [row.value for row in rows if row.partition == partition]


def read_committed(bootstrap: str) -> dict[int, list[bytes | None]]:
    """Return the values that a stock consumer reads, up to the ends."""
    own = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer, left = Consumer(own), set(range(PARTITIONS))
    found: dict[int, list[bytes | None]] = {number: [] for number in left}
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in left])
    deadline = time.monotonic() + UNTIL_SECONDS
    while left and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        partition = message.partition()
        assert partition is not None
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard(partition)
        else:
            found[partition].append(message.value())
    consumer.close()
    return found


def test_what_was_copied_is_there_once_and_nothing_of_what_was_aborted(
    left: Left, archive: Path
) -> None:
    row = recovered(left, archive)
    rows = queried(archive)
    for partition, values in left.values.items():
        found = values_of(rows, partition)
        assert found == values[: len(found)]
        assert len(found) > len(values) // 2, "little was copied"
    assert {row.headers for row in rows} == {(("round", b"r"),)}
    assert {row.key for row in rows} == {b"%d" % at for at in range(ROUND_RECORDS)}
    assert (row["records"], row["partitions"]) == (len(rows), PARTITIONS)
    assert row["refused_objects"] == 0
    with ledger_at(archive) as ledger:
        assert verify(ledger) == []
        assert ledger.existing().topic_id == left.topic_id


def test_an_archive_is_replayed_into_another_cluster(left: Left, tmp_path: Path) -> None:
    recovered(left, archive := tmp_path / "archive")
    (tmp_path / "new").mkdir()
    with running_node(tmp_path / "new") as node:
        bootstrap = f"127.0.0.1:{node.port}"
        create_topic(bootstrap, TOPIC, PARTITIONS, {"retention.ms": "-1"})
        command = ("replay", str(archive), "--to-topic", TOPIC, "--same-partitions")
        code, told = run_penstock(*command, "-b", bootstrap)
        assert code == 0, told
        found = read_committed(bootstrap)
    rows = queried(archive)
    assert found == {number: values_of(rows, number) for number in range(PARTITIONS)}


def test_a_second_run_finds_nothing_to_do(left: Left, archive: Path) -> None:
    recovered(left, archive)
    entries = len(list(archive.rglob("entries/*.json")))
    assert recovered(left, archive)["records"] == 0
    assert len(list(archive.rglob("entries/*.json"))) == entries


@pytest.mark.parametrize("is_done", [False, True])
def test_a_run_that_dies_at_any_change_loses_and_doubles_nothing(
    left: Left, tmp_path: Path, is_done: bool
) -> None:
    recovered(left, tmp_path / "whole")
    expected = queried(tmp_path / "whole")
    objects_of = open_directory(left.store)
    lost = call(look_through(objects_of, None))
    (topic_id,) = lost.topics()
    options = RunOptions(topic=TOPIC, chunk_bytes=SMALL)
    counted = tmp_path / "counted"
    with ArchiveFiles(
        whole := DyingStore(open_directory(counted), 0, is_done=is_done), counted
    ) as files:
        copy_topic(Ledger(files), StoreSource(objects_of, lost, topic_id), options)
    assert len(list(counted.rglob("entries/*.json"))) > PARTITIONS
    for dies_at in range(1, whole.changes + 1):
        archive = tmp_path / f"{is_done}-{dies_at}"
        dying = DyingStore(open_directory(archive), dies_at, is_done=is_done)
        with ArchiveFiles(dying, archive) as files, pytest.raises(Died):
            copy_topic(Ledger(files), StoreSource(objects_of, lost, topic_id), options)
        shown = queried(archive)
        assert len(shown) == len(set(shown)), "a query in place shows a record twice"
        with ledger_at(archive) as ledger:
            copy_topic(ledger, StoreSource(objects_of, lost, topic_id), options)
        assert queried(archive) == expected, dies_at


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def break_envelope(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("lose", [Path.unlink, break_envelope])
def test_what_is_missing_between_objects_is_told_and_written_down(
    copy: Left, archive: Path, lose: Callable[[Path], None]
) -> None:
    recovered(copy, archive / "whole")
    expected = queried(archive / "whole")
    lose(copy.store / str(runs_in(copy.store)[1][1].name))
    code, told = recover(copy, archive / "rest")
    assert code == 1
    assert "are gone and were never archived: --allow-gap" in told
    row = recovered(copy, archive / "rest", "--allow-gap")
    assert row["refused_objects"] == (lose is break_envelope)
    rows = queried(archive / "rest")
    with ledger_at(archive / "rest") as ledger:
        parts = ledger.existing().parts
    gaps = {number: part.gaps for number, part in parts.items()}
    assert len(gaps[1]) == 1
    missing = {
        (number, offset)
        for number, found in gaps.items()
        for start, end in found
        for offset in range(start, end)
    }
    assert rows == [row for row in expected if (row.partition, row.offset) not in missing]
    offsets = [row.offset for row in rows if row.partition == 1]
    assert min(offsets) < gaps[1][0][0] < max(offsets)


def test_records_that_were_changed_are_refused_by_the_name_of_their_object(
    copy: Left, archive: Path
) -> None:
    damaged = copy.store / str(runs_in(copy.store)[1][1].name)
    flip(damaged)
    code, told = recover(copy, archive)
    assert code == 1
    assert damaged.name in told
    with ledger_at(archive) as ledger:
        parts = ledger.load().parts
    assert 1 not in parts or parts[1].end <= runs_in(copy.store)[1][1].first_offset


def test_what_is_not_in_the_store_is_said_with_what_is(left: Left, archive: Path) -> None:
    code, told = recover(left._replace(topic_id="0" * 32), archive)
    assert code == 1
    assert left.topic_id in told.replace("\n", "")
    code, told = recover(left, archive, "--cluster", "1" * 32)
    assert code == 1
    assert "no object of a cluster " + "1" * 32 in told
    code, told = recover(left._replace(topic_id="kept"), archive)
    assert code == 2
    assert "is no id" in told
    assert list(archive.iterdir()) == []


def test_a_store_of_several_clusters_is_asked_for_one(copy: Left, archive: Path) -> None:
    (own,) = copy.store.iterdir()
    other = copy.store / ("a" * 32) / "sets" / "00000001" / "00000001"
    other.mkdir(parents=True)
    (other / "0000000000000001.extents").write_bytes(b"x")
    code, told = recover(copy, archive)
    assert code == 1
    assert own.name in told.replace("\n", "")
    assert recovered(copy, archive, "--cluster", own.name)["records"] > 0
