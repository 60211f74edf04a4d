"""`penstock land` in processes of its own, a numbered stream for it, what must be in the tables.

The stream's records are JSON objects; each hundredth of a partition does not fit any schema.
"""

import contextlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

PARTITIONS = 3
WAIT_SECONDS = 540.0
"""For what hangs: a JVM and Spark's own start take minutes on a machine with much else to do."""


class LandProcess:
    """`penstock land` and all its processes: Python, the JVM, Spark's workers."""

    def __init__(
        self, table: Path, topic: str, bootstrap: str, *more: str, master: str = "local[2]"
    ) -> None:
        command = ["land", topic, "--to", str(table), "--bootstrap", bootstrap]
        settings = ["--master", master, "--trigger", "0.1"]
        self._log_path = table.with_name("land.log")
        self._log = self._log_path.open("ab")
        self._process = subprocess.Popen(
            [str(Path(sys.executable).with_name("penstock")), *command, *settings, *more],
            stdout=self._log,
            stderr=self._log,
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the whole family; one that has ended is fine."""
        if not self.is_running:
            return
        family = psutil.Process(self._process.pid)
        for process in [family, *family.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.wait()

    def end(self) -> None:
        """Ask it to end, as a service manager does; it finishes the batch at hand."""
        self._process.terminate()
        assert self.wait() == 0, self.log()

    def wait(self, seconds: float = WAIT_SECONDS) -> int:
        code = self._process.wait(seconds)
        self._log.close()
        return code

    def log(self) -> str:
        """Return the end of what it printed."""
        return self._log_path.read_text()[-2000:]


class Stream:
    """An idempotent producer of the stock client that numbers its records per partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        self._topic = topic
        self.sent = [0] * PARTITIONS

    @property
    def fitting(self) -> int:
        """How many of the records sent so far fit the schema."""
        return sum(count - count // 100 for count in self.sent)

    def send(self, count: int) -> None:
        for n in range(count):
            partition = n % PARTITIONS
            number = self.sent[partition]
            value = b"broken" if number % 100 == 99 else b'{"n": %d}' % number
            self._producer.produce(self._topic, value, partition=partition)
            self.sent[partition] += 1
        self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(WAIT_SECONDS) == 0


def check_exactly_once(stream: Stream, rows: Any, dead: Any) -> None:
    landed = Counter(zip(*(rows.column(c).to_pylist() for c in ("_partition", "n")), strict=True))
    letters = Counter(
        zip(*(dead.column(c).to_pylist() for c in ("_partition", "_offset")), strict=True)
    )
    sent = {(p, n) for p in range(PARTITIONS) for n in range(stream.sent[p])}
    assert set(landed) == {(p, n) for p, n in sent if n % 100 != 99}
    assert set(letters) == {(p, n) for p, n in sent if n % 100 == 99}
    assert set(landed.values()) | set(letters.values()) == {1}
