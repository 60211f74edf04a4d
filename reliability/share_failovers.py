"""Is what a share group has accepted over for good, through the kills of coordinators and masters?

`python -m reliability.share_failovers --kills 50`: records are written to three partitions and
acknowledged; three members of one group accept, release, reject and renew them at random, or leave
them to their locks, while nodes and members are killed with -9 and started again. In the end every
node is killed at once, and some last records are written. What was accepted or rejected is never
handed out again, what was handed out was written, and every acknowledged record is accepted or
rejected by then, or was handed out as often as the group allows. Order is not promised.
"""

import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from harness.cluster import ClusterProcess
from harness.failover import WHOLE_SECONDS_MAX, is_whole
from harness.share_groups import configure_group
from harness.waiting import wait_until
from harness.workload import create_topic
from penstock.cli.exit_codes import end_with
from penstock.client.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from reliability.clients.share_member import ShareReader
from reliability.kill_question import KillQuestion
from simulator.history.events import Rules
from simulator.history.shares import FINAL, Kind, Place, ShareNotes, judge_shares, left_over

GOAL = "nothing accepted comes again, nothing is lost, nothing is handed out that was not written"
TOPIC, GROUP, PARTITIONS, MEMBERS = "shared", "sharers", 3, 3
DELIVERIES_MAX = 5
RECORDS_PER_SECOND = 100
BETWEEN_SECONDS = 1.5
END_SECONDS_MAX = 240.0
LAST_RECORDS = 10
KINDS = ("coordinator", "master", "member", "any")


@dataclass(slots=True)
class Writer:
    """Writes numbered records at a bounded rate."""

    bootstrap: str
    written: dict[Place, str] = field(default_factory=dict)
    """What was acknowledged."""
    _count: int = 0

    def run(self, stop: threading.Event) -> None:
        """Write until told to stop."""
        producer = self._producer()
        while not stop.wait(1 / RECORDS_PER_SECOND):
            self._send(producer)
        producer.flush(END_SECONDS_MAX)

    def write(self, count: int) -> None:
        """Write so many to each partition; all are acknowledged then."""
        producer = self._producer()
        for _ in range(count * PARTITIONS):
            self._send(producer)
        assert producer.flush(END_SECONDS_MAX) == 0, "the last records were not taken"

    def _producer(self) -> Producer:
        return Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0}
        )

    def _send(self, producer: Producer) -> None:
        value = str(self._count).encode()
        place = self._count % PARTITIONS
        producer.produce(TOPIC, value, partition=place, on_delivery=self._note)
        self._count += 1
        producer.poll(0)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            place = message.partition() or 0, message.offset() or 0
            self.written[place] = (message.value() or b"").decode()


@dataclass(slots=True)
class ShareRun:
    """One cluster, what is written to it, and who reads."""

    cluster: ClusterProcess
    draw: random.Random
    notes: ShareNotes = field(default_factory=ShareNotes)
    readers: list[ShareReader] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """Create the topic, configure the group, start the members."""
        create_topic(self.cluster.bootstrap, TOPIC, PARTITIONS)
        configure_group(self.cluster.bootstrap, GROUP)
        for number in range(MEMBERS):
            self._add_reader(number)

    def _add_reader(self, number: int) -> None:
        reader = ShareReader(self.cluster.bootstrap, GROUP, TOPIC, number, self.notes)
        self.readers.append(reader)
        reader.start()

    def kill(self, kind: str) -> None:
        """Kill one of this kind, and start it again."""
        self.done[kind] += 1
        if kind == "member":
            self.draw.choice(self.readers).kill()
            return
        victim = self.draw.choice(sorted(self.cluster.nodes))
        if kind == "coordinator":
            victim = coordinator_of(self.cluster.bootstrap, otherwise=victim)
        elif kind == "master":
            victim = self.cluster.wait_for_leader(TOPIC, self.draw.randrange(PARTITIONS))
        self.cluster.nodes[victim].kill()
        time.sleep(BETWEEN_SECONDS * self.draw.random())
        self.cluster.nodes[victim].launch()

    def is_whole(self) -> bool:
        """Wait until every replica is in step."""
        return wait_until(lambda: is_whole(self.cluster), WHOLE_SECONDS_MAX)

    def end(self, writer: Writer) -> None:
        """Let everything be settled; then kill all nodes, and see what comes after that."""
        for reader in self.readers:
            reader.drain()
        self._settle(writer)
        for node in self.cluster.nodes.values():
            node.kill()
        for node in self.cluster.nodes.values():
            node.launch()
        if not self.is_whole():
            self.problems.append("not whole again after the last kill")
        writer.write(LAST_RECORDS)
        self._settle(writer)
        for reader in self.readers:
            reader.stop()
            self.problems += reader.problems
        self.problems += judge_shares(self.notes, writer.written, Rules())

    def _settle(self, writer: Writer) -> None:
        written = dict(writer.written)
        if not wait_until(
            lambda: not left_over(self.notes, written, DELIVERIES_MAX),
            END_SECONDS_MAX,
            every_seconds=0.5,
        ):
            left = left_over(self.notes, written, DELIVERIES_MAX)
            said = {reader.last_error for reader in self.readers}
            self.problems.append(f"{len(left)} records are not over: {left[0]} ({said})")


def coordinator_of(bootstrap: str, *, otherwise: int) -> int:
    """Return the node that coordinates the group; while there is none, another one."""
    try:
        with Cluster(ClientSettings(bootstrap=bootstrap)) as cluster:
            asked = {"key": GROUP, "key_type": 0}
            answer = cluster.any_connection().call(ApiKey.FIND_COORDINATOR, asked)
    except ClientError:
        return otherwise
    return int(answer.node_id) if answer.error_code == ErrorCode.NONE else otherwise


def run_kills(kills: int, seed: int = 1) -> dict[str, object]:
    """Take a cluster of three through so many kills; returns the row."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-shares-"))
    stop = threading.Event()
    with ClusterProcess(directory) as cluster:
        run = ShareRun(cluster, random.Random(seed))
        run.begin()
        writer = Writer(cluster.bootstrap)
        thread = threading.Thread(target=writer.run, args=(stop,))
        thread.start()
        for number in range(kills):
            time.sleep(BETWEEN_SECONDS)
            if not run.is_whole():
                run.problems.append(f"not whole again after {number} kills")
                break
            run.kill(KINDS[number % len(KINDS)])
        if not run.is_whole():
            run.problems.append("not whole again after the kills")
        stop.set()
        thread.join(2 * END_SECONDS_MAX)
        run.end(writer)
    if not run.problems:
        shutil.rmtree(directory, ignore_errors=True)
    return {
        "kills": run.done.total(),
        **{f"of a {kind}" if kind != "any" else "of any": run.done[kind] for kind in KINDS},
        "records": len(writer.written),
        **_counts(run.notes),
        "verdict": "; ".join(run.problems[:5]) or "ok",
    }


def _counts(notes: ShareNotes) -> dict[str, int]:
    settled = Counter((one.kind, one.is_taken) for one in notes.settled)
    return {
        "handed out": len(notes.handed),
        "again": sum(one.deliveries > 1 for one in notes.handed),
        **{
            kind.name.lower(): settled[kind, True]
            for kind in (Kind.ACCEPT, Kind.RELEASE, Kind.REJECT, Kind.RENEW)
        },
        "refused": sum(count for (_, is_taken), count in settled.items() if not is_taken),
        "unknown": sum(one.told_ns is None and one.kind in FINAL for one in notes.settled),
    }


KILLS = KillQuestion("share_failovers", GOAL, run_kills)
run = KILLS.run


if __name__ == "__main__":
    end_with(lambda: KILLS.main(__doc__))
