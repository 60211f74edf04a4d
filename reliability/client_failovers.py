"""Do the clients that others wrote live through failovers, without a loss and without a double?

`python -m reliability.client_failovers --kills 50`: librdkafka, kafka-python, aiokafka, the Java
client and Spark's own connector, each with an idempotent producer on a topic of its own; the node
that leads a partition is killed again and again, each client's in turn. In the end each reads its
topic: once each, in order, nothing missing. The last two need Java and Maven, and are left out
with the reason where these are missing.
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster import ClusterProcess
from harness.failover import WHOLE_SECONDS_MAX, is_whole
from harness.results import publish
from harness.waiting import wait_until
from harness.workload import create_topic
from penstock.cli.exit_codes import end_with
from reliability import RESULTS
from reliability.clients.java_clients import java_clients
from reliability.clients.stock_clients import STOCK_CLIENTS, StockClient

GOAL = "every stock client through ten failovers: 0 lost, 0 double, 0 out of order"
BETWEEN_SECONDS = 2.0
STOP_SECONDS = 90.0


@dataclass(slots=True)
class _Run:
    """One client at work."""

    client: StockClient
    acked: list[int] = field(default_factory=list)
    error: str = ""

    @property
    def topic(self) -> str:
        return f"of-{self.client.name}"

    def write(self, bootstrap: str, stop: threading.Event) -> None:
        try:
            self.client.write(bootstrap, self.topic, stop, self.acked)
        except Exception as error:  # noqa: BLE001  whatever ends a client is a finding
            self.error = f"{type(error).__name__}: {error}"

    def as_row(self, bootstrap: str, failovers: int) -> dict[str, object]:
        found = self.client.read(bootstrap, self.topic, len(self.acked))
        lost, doubled = len(set(self.acked) - set(found)), len(found) - len(set(found))
        is_ordered = found == sorted(found)
        is_well = self.acked and not (lost or doubled or self.error) and is_ordered
        return {
            "client": self.client.name,
            "failovers": failovers,
            "acknowledged": len(self.acked),
            "read": len(found),
            "lost": lost,
            "double": doubled,
            "in order": is_ordered,
            "verdict": "ok" if is_well else self.error or "broken",
        }


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    series(5 if quick else 10)


def clients() -> tuple[StockClient, ...]:
    """Return all that this machine can run."""
    more = java_clients()
    if isinstance(more, str):
        print(f"without the Java client and Spark's connector: {more}", file=sys.stderr)
        return STOCK_CLIENTS
    return STOCK_CLIENTS + more


def series(kills: int) -> bool:
    """Run all clients through so many kills; returns whether all did well."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-failovers-"))
    stop = threading.Event()
    runs = [_Run(client) for client in clients()]
    with ClusterProcess(directory) as cluster:
        for one in runs:
            create_topic(cluster.bootstrap, one.topic, 1)
        threads = [
            threading.Thread(target=one.write, args=(cluster.bootstrap, stop)) for one in runs
        ]
        for thread in threads:
            thread.start()
        done = 0
        while done < kills and wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX):
            time.sleep(BETWEEN_SECONDS)
            # Each client's leader in turn, so that all of them are hit.
            victim = cluster.wait_for_leader(runs[done % len(runs)].topic)
            cluster.nodes[victim].kill()
            time.sleep(BETWEEN_SECONDS)
            cluster.nodes[victim].launch()
            done += 1
        wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX)
        stop.set()
        for thread in threads:
            thread.join(STOP_SECONDS)
        rows = [one.as_row(cluster.bootstrap, done) for one in runs]
    publish(RESULTS, "client_failovers", rows, goal=GOAL)
    is_well = done == kills and all(row["verdict"] == "ok" for row in rows)
    if is_well:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"settings and logs are kept in {directory}", file=sys.stderr)
    return is_well


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m reliability.client_failovers", description=__doc__
    )
    parser.add_argument("--kills", type=int, default=50, help="shared by the clients in turn")
    arguments = parser.parse_args()
    return 0 if series(arguments.kills) else 1


if __name__ == "__main__":
    end_with(main)
