"""A compacted topic with stock clients: the last value of each key stays, and the rest goes.

Few keys get many values, some are deleted, and transactions that are aborted write others. Files
are small, so that they close and are cleaned while the test writes.
"""

import os
import signal
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from tests.integration.clients import FLUSH_SECONDS, PATIENT
from tests.integration.test_housekeeper import SETTINGS, has_gone, housekeepers, log_bytes, metric

pytestmark = pytest.mark.process

SEGMENT = SETTINGS["log"]["segment_bytes"]
ALL_MOVED = SETTINGS | {"log": SETTINGS["log"] | {"level0_bytes": 0}}
"""Internal topics are moved too, so that they keep no shared files."""
CLEANED_ALONE = SETTINGS | {"log": SETTINGS["log"] | {"level0_bytes": 1 << 30}}
"""Nothing is moved for its age or size: what moves is moved to be cleaned."""
TOPIC = "map"
CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
KEYS = 100
VALUE_BYTES = 300
BATCH_BYTES = 10_000

Values = dict[bytes, bytes]


class Work:
    """What a reader has to find in the end."""

    def __init__(self, node: NodeProcess, topic: str = TOPIC) -> None:
        self.node = node
        self.topic = topic
        self.random = Random(1)
        self.values: Values = {}
        self.written_bytes = 0
        self.transactions = 0

    def producer(self, **settings: object) -> Producer:
        own = {"bootstrap.servers": self.node.bootstrap, "acks": "all", "batch.size": BATCH_BYTES}
        return Producer({**own, **PATIENT, "log_level": 0, **settings})

    def update(self, count: int) -> None:
        """Write so many records, one in ten a delete; all have to be acknowledged."""
        refused: list[KafkaError] = []
        producer = self.producer()
        for _ in range(count):
            key = b"key-%d" % self.random.randrange(KEYS)
            value = None if self.random.random() < 0.1 else self.random.randbytes(VALUE_BYTES)
            self._put(producer, key, value, refused)
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
        assert producer.flush(FLUSH_SECONDS) == 0
        assert refused == []

    def _put(
        self, producer: Producer, key: bytes, value: bytes | None, refused: list[KafkaError]
    ) -> None:
        def told(error: KafkaError | None, _: object) -> None:
            if error is not None:
                refused.append(error)

        producer.produce(self.topic, value, key, partition=0, on_delivery=told)
        producer.poll(0)
        self.written_bytes += len(value or b"")

    def transaction(self, count: int, *, is_commit: bool) -> None:
        """Write so many values in one transaction; they count if it is committed."""
        self.transactions += 1
        producer = self.producer(
            **{"transactional.id": f"tid-{self.transactions % 3}", "message.timeout.ms": 60_000}
        )
        producer.init_transactions(UNTIL_SECONDS)
        producer.begin_transaction()
        values: Values = {}
        for _ in range(count):
            key = b"key-%d" % self.random.randrange(KEYS)
            values[key] = self.random.randbytes(VALUE_BYTES)
            self._put(producer, key, values[key], [])
        if is_commit:
            producer.commit_transaction(UNTIL_SECONDS)
            self.values |= values
        else:
            producer.flush(FLUSH_SECONDS)
            producer.abort_transaction(UNTIL_SECONDS)

    def round(self) -> None:
        """Write all kinds; the plain updates at the end fill more than one file of the log.

        A transaction that is still open where the last closed file ends is not cleaned, and keeps
        the extent file that has its begin until a later file is closed.
        """
        self.update(1_500)
        self.transaction(50, is_commit=False)
        self.update(500)
        self.transaction(50, is_commit=True)
        self.transaction(50, is_commit=False)
        self.update(1_000)

    def read(self) -> tuple[Values, int]:
        """Read from the beginning; return the last values, and how many records there were."""
        settings = {
            "bootstrap.servers": self.node.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "check.crcs": True,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
        found: Values = {}
        count, offset = 0, -1
        while True:
            message = consumer.poll(UNTIL_SECONDS)
            assert message is not None, "no record and no end of the partition"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                break
            count += 1
            at, key, value = message.offset(), message.key(), message.value()
            assert at is not None
            assert isinstance(key, bytes)
            assert at > offset
            offset = at
            if value is None:
                found.pop(key, None)
            else:
                found[key] = bytes(value)
        consumer.close()
        return found, count


def second_bytes(node: NodeProcess) -> int:
    """Return the bytes of the extent files of all logs."""
    return sum(file.stat().st_size for file in node.data.glob("set-*/second/*.extents"))


def unfinished(node: NodeProcess) -> list[Path]:
    return list(node.data.glob("set-*/second/*.tmp"))


def is_clean(work: Work) -> bool:
    """Whether all closed files were cleaned: each key once, and its batches' overhead."""
    node = work.node
    has_passed = metric(node, "penstock_cleaner_passes_total") > 0
    return has_passed and metric(node, "penstock_cleaner_dirty_bytes") == 0


def is_small(work: Work) -> bool:
    """Whether what is left of the topic is far less than what was written."""
    node = work.node
    return is_clean(work) and second_bytes(node) < 4 * KEYS * VALUE_BYTES


def is_freed(work: Work) -> bool:
    """Whether the shared files went, too."""
    return is_small(work) and log_bytes(work.node) <= 4 * SEGMENT


def state(node: NodeProcess) -> str:
    """Return what a wait that has ended in vain is explained by."""
    url = f"http://127.0.0.1:{node.metrics_port}/metrics"
    with urllib.request.urlopen(url) as page:
        lines = page.read().decode().splitlines()
    told = [one for one in lines if one.startswith(("penstock_cleaner_", "penstock_housekeeper_"))]
    files = [f"{file}: {file.stat().st_size}" for file in node.data.glob("set-*/*/*")]
    return "\n".join([*told, *sorted(files)])


@pytest.fixture
def work(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Work]:
    with NodeProcess(tmp_path, settings=request.param) as node:
        create_topic(node.bootstrap, TOPIC, 1, CONFIG)
        yield Work(node)


@pytest.mark.parametrize("work", [ALL_MOVED], indirect=True)
def test_the_last_value_of_each_key_stays_and_the_disk_is_freed(work: Work) -> None:
    node = work.node
    for _ in range(4):
        work.round()
    assert wait_until(lambda: is_freed(work), UNTIL_SECONDS), state(node)
    assert work.written_bytes > 10 * second_bytes(node)
    found, count = work.read()
    assert found == work.values
    assert count < 2_500, "what is not in the newest file was read once for each key"
    assert metric(node, "penstock_cleaner_failures_total") == 0
    assert metric(node, "penstock_cleaner_dropped_records_total") > 5_000
    node.restart()
    assert work.read()[0] == work.values
    work.round()
    assert wait_until(lambda: is_freed(work), UNTIL_SECONDS), state(node)
    assert work.read()[0] == work.values
    assert node.stop() == 0
    node.start()
    assert work.read()[0] == work.values


@pytest.mark.parametrize("work", [CLEANED_ALONE], indirect=True)
def test_kills_of_the_housekeeper_and_of_the_node_change_nothing(work: Work) -> None:
    node = work.node
    for number in range(4):
        work.update(2_000)
        assert wait_until(lambda: housekeepers(node), UNTIL_SECONDS)
        (child,) = housekeepers(node)
        work.transaction(50, is_commit=bool(number % 2))
        os.kill(child, signal.SIGKILL)
        work.update(1_500)
        if number % 2:
            children = housekeepers(node)
            node.restart()
            for orphan in children:
                assert wait_until(partial(has_gone, orphan), UNTIL_SECONDS)
        assert work.read()[0] == work.values
    assert wait_until(lambda: is_small(work), UNTIL_SECONDS), (log_bytes(node), second_bytes(node))
    assert work.read()[0] == work.values
    assert metric(node, "penstock_cleaner_failing_partitions") == 0
    node.restart()
    assert unfinished(node) == []
    assert work.read()[0] == work.values


def test_a_quiet_node_cleans_what_is_older_than_the_largest_lag(tmp_path: Path) -> None:
    """What is written does not fill a file, so that nothing but the lag can close it."""
    log = CLEANED_ALONE["log"] | {"close_early_ms": 1_000}
    with NodeProcess(tmp_path, settings=CLEANED_ALONE | {"log": log}) as node:
        lag = {"max.compaction.lag.ms": "1000", "min.cleanable.dirty.ratio": "1.0"}
        create_topic(node.bootstrap, TOPIC, 1, CONFIG | lag)
        work = Work(node)
        for _ in range(2):
            passes = metric(node, "penstock_cleaner_passes_total")
            work.update(300)

            def is_done(passes: float = passes) -> bool:
                has_passed = metric(node, "penstock_cleaner_passes_total") > passes
                return has_passed and work.read()[1] <= KEYS + 1

            assert wait_until(is_done, UNTIL_SECONDS), node.log_tail(50)
            assert work.read()[0] == work.values
        assert metric(node, "penstock_log_closed_early_segments_total") >= 2
        node.restart()
        assert work.read()[0] == work.values


def test_a_node_that_moves_nothing_keeps_every_record(tmp_path: Path) -> None:
    log = {name: value for name, value in SETTINGS["log"].items() if name != "level0_bytes"}
    with NodeProcess(tmp_path, settings=SETTINGS | {"log": log}) as node:
        create_topic(node.bootstrap, TOPIC, 1, CONFIG)
        work = Work(node)
        work.update(3_000)
        assert wait_until(lambda: metric(node, "penstock_log_pinned_bytes") > 0, UNTIL_SECONDS)
        assert housekeepers(node) == []
        assert metric(node, "penstock_cleaner_passes_total") == 0
        found, count = work.read()
        assert (found, count) == (work.values, 3_000)
