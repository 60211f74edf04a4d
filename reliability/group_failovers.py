"""Do groups of stock clients live through the kills of their coordinator and of their members?

`python -m reliability.group_failovers --kills 50`: three members of one library after the other,
each a process, while records are written and acknowledged; kill -9 in turn of the node that
coordinates the group, of a member, and of both together. In the end: every acknowledged record was
read by some member; no partition was owned by two members at a time; no committed position, once
acknowledged, was ever seen lower. Clients that are done are kept in the result and not run again
for the same commit, so a run can be continued; `--fresh` begins anew.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.cluster import ClusterProcess
from harness.failover import WHOLE_SECONDS_MAX, is_whole
from harness.machine import commit as present_commit
from harness.results import publish
from harness.waiting import wait_until
from harness.workload import create_topic
from penstock.cli.exit_codes import end_with
from reliability import RESULTS
from reliability.clients.group_member import CLIENTS

GOAL = "three members of each client, 50 kills: nothing unread, nothing owned twice, nothing back"
QUESTION = "group_failovers"
MEMBERS = 3
PARTITIONS = 6
TOPIC, GROUP = "read-by-a-group", "readers"
BETWEEN_SECONDS = 2.0
DIVIDED_SECONDS_MAX = 120.0
END_SECONDS_MAX = 120.0
KINDS = ("coordinator", "member", "both")


@dataclass(slots=True)
class Member:
    """One member process, and what it said."""

    process: subprocess.Popen[str]
    events: list[dict[str, Any]] = field(default_factory=list)
    ended_ns: int = 0
    """When it was killed or closed; 0 while it runs."""
    listener: threading.Thread | None = None

    def listen(self) -> None:
        """Take its lines until it ends; one that a kill cut off is no line."""
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                if line.endswith("\n") and line.startswith("{"):
                    self.events.append(json.loads(line))

    def end(self) -> None:
        """Wait until it has ended and everything that it said is taken."""
        self.process.wait()
        self.ended_ns = time.monotonic_ns()
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self.listener is not None:
            self.listener.join()

    @property
    def owned(self) -> frozenset[int]:
        last = [each for each in [*self.events] if each["kind"] == "owned"]
        return frozenset(last[-1]["partitions"]) if last and not self.ended_ns else frozenset()


@dataclass(slots=True)
class GroupRun:
    """Members, positions and records of one client's run."""

    client: str
    cluster: ClusterProcess
    members: list[Member] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    written: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    """The highest one that was seen or acknowledged, by partition."""
    position_reads: int = 0

    def start_member(self) -> None:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "reliability.clients.group_member", self.client),
                *(self.cluster.bootstrap, TOPIC, GROUP),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        member = Member(process)
        member.listener = threading.Thread(target=member.listen, daemon=True)
        member.listener.start()
        self.members.append(member)

    def kill_member(self, number: int) -> None:
        member = self.running[number % len(self.running)]
        member.process.kill()
        member.end()

    @property
    def running(self) -> list[Member]:
        return [each for each in self.members if not each.ended_ns]

    @property
    def read_numbers(self) -> set[tuple[int, int]]:
        return {
            (partition, number)
            for member in self.members
            for event in [*member.events]
            if event["kind"] == "read"
            for partition, number in event["records"]
        }

    def is_divided(self) -> bool:
        """Whether every partition has an owner among those that run, and each of them has some."""
        owned = [partition for each in self.running for partition in each.owned]
        return sorted(owned) == [*range(PARTITIONS)] and all(each.owned for each in self.running)

    def _note_written(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.written.append(int(message.value() or b""))

    def write(self) -> None:
        """Write numbered records to all partitions in turn until told to stop."""
        producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        number = 0
        while not self.stop.is_set():
            producer.produce(
                TOPIC,
                str(number).encode(),
                partition=number % PARTITIONS,
                on_delivery=self._note_written,
            )
            number += 1
            producer.poll(0.01)
        producer.flush(END_SECONDS_MAX)

    def watch_positions(self) -> None:
        """Ask for the group's positions again and again: none may ever be lower than before."""
        consumer = Consumer(
            {"bootstrap.servers": self.cluster.bootstrap, "group.id": GROUP, "log_level": 0}
        )
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        while not self.stop.is_set():
            floor = self._acknowledged()
            try:
                found = consumer.committed(partitions, timeout=10)
            except Exception:  # noqa: BLE001  no answer while a node is down is no finding
                continue
            self.position_reads += 1
            for each in found:
                least = max(floor.get(each.partition, -1), self.positions.get(each.partition, -1))
                if each.error is None and max(each.offset, -1) < least:
                    self.problems.append(f"position of {each.partition}: {each.offset} < {least}")
                if each.error is None:
                    self.positions[each.partition] = max(least, each.offset)
            self.stop.wait(0.2)
        consumer.close()

    def _acknowledged(self) -> dict[int, int]:
        """The highest position that a member heard to be committed, by partition."""
        highest: dict[int, int] = {}
        for member in self.members:
            for event in [*member.events]:
                for partition, offset in event.get("offsets", ()):
                    highest[partition] = max(highest.get(partition, -1), offset)
        return highest

    def end(self) -> None:
        """Let everything be read, then end every member in good order."""
        self.stop.set()
        wanted = {(number % PARTITIONS, number) for number in self.written}
        if not wait_until(lambda: wanted <= self.read_numbers, END_SECONDS_MAX):
            self.problems.append(f"{len(wanted - self.read_numbers)} records unread")
        for member in self.running:
            assert member.process.stdin is not None
            member.process.stdin.close()
        for member in self.running:
            try:
                member.process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                member.process.kill()
            member.end()
        self.problems += owned_twice(self.members)


def owned_twice(members: list[Member]) -> list[str]:
    """Return each time that two members had one partition: from its grant to the next word."""
    spans: dict[int, list[tuple[int, int, int]]] = {}
    for number, member in enumerate(members):
        words = [event for event in member.events if event["kind"] == "owned"]
        if not words:
            continue  # it was killed before it had any
        ends = [*(event["at_ns"] for event in words[1:]), member.ended_ns or time.monotonic_ns()]
        for event, end_ns in zip(words, ends, strict=True):
            for partition in event["partitions"]:
                spans.setdefault(partition, []).append((event["at_ns"], end_ns, number))
    found = []
    for partition, of_partition in sorted(spans.items()):
        ordered = sorted(of_partition)
        for (_, end_ns, one), (start_ns, _, other) in pairwise(ordered):
            if start_ns < end_ns and one != other:
                found.append(f"partition {partition} owned by members {one} and {other}")
    return found


def coordinator_of(bootstrap: str, cluster: ClusterProcess) -> int:
    """Return the broker that coordinates the group."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = admin.describe_consumer_groups([GROUP], request_timeout=END_SECONDS_MAX)
    described = asked[GROUP].result(END_SECONDS_MAX)
    broker_id: int = described.coordinator.id
    assert broker_id in cluster.nodes, broker_id
    return broker_id


def run_client(client: str, kills: int) -> dict[str, object]:
    """Take one client's group through so many kills; returns its row."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-groups-"))
    done = dict.fromkeys(KINDS, 0)
    with ClusterProcess(directory) as cluster:
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
        run = GroupRun(client, cluster)
        for _ in range(MEMBERS):
            run.start_member()
        threads = [threading.Thread(target=work) for work in (run.write, run.watch_positions)]
        for thread in threads:
            thread.start()
        for number in range(kills):
            is_ready = wait_until(run.is_divided, DIVIDED_SECONDS_MAX)
            if not is_ready or not wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX):
                run.problems.append(f"not divided or not whole again after {number} kills")
                break
            time.sleep(BETWEEN_SECONDS)
            kind = KINDS[number % len(KINDS)]
            _kill(run, kind, number)
            done[kind] += 1
        wait_until(run.is_divided, DIVIDED_SECONDS_MAX)
        run.end()
        for thread in threads:
            thread.join(2 * END_SECONDS_MAX)
    if not run.problems:
        shutil.rmtree(directory, ignore_errors=True)
    return {
        "client": client,
        "kills": sum(done.values()),
        **{f"of {kind}": count for kind, count in done.items()},
        "written": len(run.written),
        "positions read": run.position_reads,
        "verdict": "; ".join(run.problems[:5]) or "ok",
    }


def _kill(run: GroupRun, kind: str, number: int) -> None:
    """Kill the coordinator's node, a member, or both; start again what was killed."""
    cluster = run.cluster
    victim = coordinator_of(cluster.bootstrap, cluster) if kind != "member" else 0
    if victim:
        cluster.nodes[victim].kill()
    if kind != "coordinator":
        run.kill_member(number)
    time.sleep(BETWEEN_SECONDS)
    if victim:
        cluster.nodes[victim].launch()
    if kind != "coordinator":
        run.start_member()


def series(kills: int, clients: list[str], *, is_fresh: bool) -> bool:
    """Run the clients that have no row of this commit yet; returns whether all did well."""
    commit, path = present_commit(), RESULTS / f"{QUESTION}.json"
    known = json.loads(path.read_text())["rows"] if path.exists() and not is_fresh else []
    rows = [row for row in known if row["commit"] == commit and row["kills"] >= kills]
    for client in clients:
        if client not in [row["client"] for row in rows]:
            rows.append({**run_client(client, kills), "commit": commit})
            publish(RESULTS, QUESTION, rows, goal=GOAL)
    return all(row["verdict"] == "ok" and row["kills"] >= kills for row in rows)


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    series(3 if quick else 9, [*CLIENTS], is_fresh=True)


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m reliability.{QUESTION}", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="of each client's group")
    parser.add_argument("--client", action="append", choices=[*CLIENTS], help="only this one")
    parser.add_argument("--fresh", action="store_true", help="also what is known already")
    arguments = parser.parse_args()
    clients = arguments.client or [*CLIENTS]
    return 0 if series(arguments.kills, clients, is_fresh=arguments.fresh) else 1


if __name__ == "__main__":
    end_with(main)
