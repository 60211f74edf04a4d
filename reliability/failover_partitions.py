"""Does a failover take longer with many partitions in a set?

`python -m reliability.failover_partitions --kills 15`: the node that leads is killed again and
again in a cluster whose three sets have 10 partitions each, and in one with 10,000 each
(`--partitions`). Clients and load are the same: they know one topic of three partitions. Goal: the
median gap within 1.2 times.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from harness.cluster import ClusterProcess
from harness.failover import FailoverRun, Failovers, kill, start_again
from harness.results import publish
from harness.workload import Load, create_topic
from penstock.cli.exit_codes import end_with
from reliability import RESULTS

GOAL = "median gap with {:,} partitions in a set within 1.2 times of that with {}"
FEW, MANY = 10, 10_000
SETS = 3
ROOM = {"partitions_per_topic_max": 100_000, "partitions_per_broker_max": 100_000}
RATIO_MAX = 1.2
SLACK_SECONDS = 0.05
"""Differences below this are the machine's noise, not the partitions'."""


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    compare(4 if quick else 15, partitions=1_000 if quick else MANY, seed=1)


def compare(kills: int, *, partitions: int = MANY, seed: int) -> bool:
    """Run both series and publish them; returns whether the goal was reached."""
    few, many = _series(FEW, kills, seed), _series(partitions, kills, seed)
    rows = [
        {"partitions in a set": count, **one.as_row("kill")}
        for count, one in ((FEW, few), (partitions, many))
    ]
    publish(RESULTS, "failover_partitions", rows, goal=GOAL.format(partitions, FEW))
    for problem in few.problems + many.problems:
        print(problem, file=sys.stderr)
    limit = max(few.quantile(0.5) * RATIO_MAX, few.quantile(0.5) + SLACK_SECONDS)
    return not few.problems and not many.problems and many.quantile(0.5) <= limit


def _series(partitions: int, kills: int, seed: int) -> FailoverRun:
    directory = Path(tempfile.mkdtemp(prefix="penstock-failovers-"))
    load = Load(records_per_second=600, seed=seed)
    with ClusterProcess(directory, settings={"controller": ROOM}) as cluster:
        create_topic(cluster.bootstrap, "others", SETS * partitions - load.partitions)
        found = Failovers(
            cluster=cluster, load=load, kind="kill", break_it=kill, mend_it=start_again
        ).repeat(kills)
    if not found.problems:
        shutil.rmtree(directory, ignore_errors=True)
    return found


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m reliability.failover_partitions", description=__doc__
    )
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument(
        "--partitions", type=int, default=MANY, help=f"in each set of the second series ({MANY:,})"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    is_reached = compare(arguments.kills, partitions=arguments.partitions, seed=arguments.seed)
    return 0 if is_reached else 1


if __name__ == "__main__":
    end_with(main)
