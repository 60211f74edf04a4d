"""The steps of the demo in order, each with its own limit of time."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from demo.cluster import Cluster
from demo.errors import DemoError
from demo.landing import Growth, Landing
from demo.report import Screen
from demo.source import Source
from demo.stream import Ledger, Stream

TOPIC = "demo"
STEP_SECONDS = 60.0
SPARK_SECONDS = 300.0
"""A Spark job starts two virtual machines and many modules: minutes where others work too."""
STREAM_SECONDS_MAX = 120.0
CATCH_UP_SECONDS = 60.0
LOOK_SECONDS = 0.25


class Story:
    """The running parts and the steps through which they go. `close` ends all that runs."""

    def __init__(
        self, source: Source, cluster: Cluster, directory: Path, *, screen: Screen, seconds: float
    ) -> None:
        """Make the parts; the cluster must be ready. `seconds` is how long the stream lasts."""
        self.source = source
        self.screen = screen
        self.cluster = cluster
        bootstrap = cluster.bootstrap
        self.stream = Stream(source, bootstrap=bootstrap, topic=TOPIC, seconds=seconds)
        self.landing = Landing(directory, bootstrap=bootstrap, topic=TOPIC, ddl=source.ddl)
        self.growth = Growth(self.landing)

    def close(self) -> None:
        """End producer and Spark job, however far they are."""
        with contextlib.suppress(ProcessLookupError):
            self.landing.kill()
        self.stream.stop()

    def begin(self) -> None:
        """Start the producer and the Spark job, and wait until both have done something."""
        self._open_gate(0.45)
        self.stream.start()
        self._until(lambda: self._ledger.acked > 0, "the first acknowledgement")
        self.screen.step("producer streaming (librdkafka, idempotent, acks=all)")
        self.landing.start()
        self.screen.step("Spark job started (penstock land --stream --format delta)")
        self._until(lambda: self.growth.rows > 0, "the first rows in the table", SPARK_SECONDS)
        self.screen.step(f"first {self.growth.rows:,} rows in the table")

    def kill_node(self) -> tuple[float, float]:
        """Kill the topic's leader in mid-stream. Returns the gaps in acknowledging and landing."""
        self._until(lambda: self._acked_share >= 0.25, "a quarter acknowledged")
        self._flow(to_share=0.6)
        self.growth.begin_gap()
        self._ledger.begin_gap()
        broker_id, old = self.cluster.kill_leader_of(TOPIC)
        self._open_gate(0.75)  # on a slow machine all before it may be acknowledged by now
        self.screen.step(f"[red]kill -9[/red] node {broker_id}, which led the topic, process {old}")
        self._until(self._is_gap_over, "acknowledgements of every partition again")
        gap = self._ledger.end_gap()
        leader = self.cluster.leader_of(TOPIC)
        self.screen.step(f"node {leader} leads: {gap:.1f} s without acknowledgement")
        new = self.cluster.wait_restarted(broker_id, old)
        self.screen.step(f"node {broker_id} is back as process {new}")
        self._until(lambda: self.growth.gap_seconds > 0, "new rows after the node died")
        return gap, self.growth.gap_seconds

    def kill_spark(self) -> float:
        """Kill the Spark job in mid-stream. Returns the gap in landing."""
        self._until(lambda: self._acked_share >= 0.55, "half of it acknowledged")
        self._flow(to_share=1.0)
        self.growth.begin_gap()
        count = self.landing.kill()
        self.screen.step(f"[red]kill -9[/red] Spark job, {count} processes")
        self.landing.start()
        came_back = "new rows after the Spark job came back"
        self._until(lambda: self.growth.gap_seconds > 0, came_back, SPARK_SECONDS)
        gap = self.growth.gap_seconds
        self.screen.step(f"Spark job is back: {gap:.1f} s without new rows")
        return gap

    def finish(self) -> None:
        """Wait until everything is acknowledged and landed, then end the job."""
        self._until(lambda: self.stream.is_done, "the end of the stream", STREAM_SECONDS_MAX)
        self.screen.step(f"stream ended: {self._ledger.acked:,} records acknowledged")
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while self.growth.rows < self._ledger.acked and time.monotonic() < deadline:
            self._look()
        code = self.landing.stop()
        how = f"with exit code {code}" if code is not None else "only when it was killed"
        self.screen.step(f"Spark job ended {how}: {self.growth.look():,} rows in the table")

    @property
    def _ledger(self) -> Ledger:
        return self.stream.ledger

    @property
    def _acked_share(self) -> float:
        return self._ledger.acked / self.source.records

    def _is_gap_over(self) -> bool:
        """The last records of a small input may be of one partition: the others then get none."""
        return self._ledger.is_gap_over() or self._ledger.acked >= self.stream.gate

    def _flow(self, *, to_share: float) -> None:
        """Let the producer go on, and wait until it does: what is killed next is in use."""
        before = self._ledger.acked
        self._open_gate(to_share)
        self._until(lambda: self._ledger.acked > before, "the producer to go on")

    def _open_gate(self, share: float) -> None:
        self.stream.gate = max(1, int(self.source.records * share))

    def _until(
        self, holds: Callable[[], bool], what: str, limit_seconds: float = STEP_SECONDS
    ) -> None:
        """Wait; an input so small that all of it has landed has nothing more to wait for."""
        deadline = time.monotonic() + limit_seconds
        while not holds() and self.growth.rows < self.source.records:
            self._look()
            if self.stream.fatal:
                raise DemoError(f"the producer can not go on: {self.stream.fatal}")
            if self.landing.has_ended:
                raise DemoError(f"the Spark job ended by itself: {self.landing.last_words()}")
            if time.monotonic() > deadline:
                raise DemoError(f"waited {limit_seconds:.0f} s in vain for {what}")

    def _look(self) -> None:
        time.sleep(LOOK_SECONDS)
        self.screen.show(
            total=self.source.records,
            sent=self.stream.sent,
            acked=self._ledger.acked,
            landed=self.growth.look(),
        )
