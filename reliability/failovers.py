"""Does a cluster lose, double or reorder anything when a master dies, and how long is the gap?

`python -m reliability.failovers --kills 300`: three nodes with controllers inside, idempotent
librdkafka producers with acks=all at 1,200 records/s; the node that leads a partition is killed
with -9, stopped with SIGSTOP (`--stops`), or relieved by an operator (`--transfers`), again and
again. Exit code 1 for a broken promise.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from harness.cluster import ClusterProcess
from harness.failover import (
    Break,
    Failovers,
    Mend,
    kill,
    leave_be,
    pause,
    resume,
    start_again,
)
from harness.operators import transfer_all
from harness.results import publish
from harness.workload import Load
from penstock.cli.exit_codes import end_with
from reliability import RESULTS
from reliability.faults.trials import CLIENT_TIMEOUT_MS, QUICK_SESSIONS

GOAL = (
    "0 lost, 0 double, 0 out of order; gap after a kill p50 <= 0.8 s, p99 <= 2 s, max <= 3 s, after"
    " a stop p99 <= 2.5 s beyond the session timeout of 1.5 s, at a transfer p99 <= 0.2 s"
)
ACTIONS: dict[str, tuple[Break, Mend]] = {
    "kill": (kill, start_again),
    "stop": (pause, resume),
    "transfer": (transfer_all, leave_be),
}


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    series("kill", faults=6 if quick else 40, seed=1)


def series(kind: str, *, faults: int, seed: int) -> bool:
    """Run one series in a fresh cluster and publish it; returns whether all promises were kept."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-failovers-"))
    is_stop = kind == "stop"
    break_it, mend_it = ACTIONS[kind]
    load = Load(
        partitions=3,
        producers=2,
        records_per_second=600,
        seed=seed,
        socket_timeout_ms=CLIENT_TIMEOUT_MS if is_stop else 10_000,
    )
    with ClusterProcess(directory, settings=QUICK_SESSIONS if is_stop else None) as cluster:
        found = Failovers(
            cluster=cluster,
            load=load,
            kind=kind,
            break_it=break_it,
            mend_it=mend_it,
        ).repeat(faults)
    publish(RESULTS, f"failovers_{kind}", [found.as_row(kind)], goal=GOAL)
    for problem in found.problems:
        print(problem, file=sys.stderr)
    if found.problems:
        print(f"settings and logs are kept in {directory}", file=sys.stderr)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return not found.problems


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m reliability.failovers", description=__doc__)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--stops", type=int, default=0)
    parser.add_argument("--transfers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    wanted = {
        "kill": arguments.kills,
        "stop": arguments.stops,
        "transfer": arguments.transfers,
    }
    if not any(wanted.values()):
        parser.error("say how many: --kills N, --stops N, --transfers N")
    kept = [
        series(kind, faults=faults, seed=arguments.seed)
        for kind, faults in wanted.items()
        if faults
    ]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    end_with(main)
