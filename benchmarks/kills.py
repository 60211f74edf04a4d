"""Does a node lose, double or reorder anything when it is killed with -9 under load?

`python -m benchmarks.kills --kills 200`: idempotent librdkafka producers write with acks=all while
the node is killed and started again. Exit code 1 when a promise was broken.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.harness.faults import FaultRun, kill_repeatedly
from benchmarks.harness.results import publish
from benchmarks.harness.workload import Load

GOAL = "0 lost, 0 double, 0 out of order"


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    _publish(_kill(8 if quick else 50, seed=1))


def _kill(kills: int, *, seed: int) -> FaultRun:
    directory = Path(tempfile.mkdtemp(prefix="penstock-kills-"))
    outcome = kill_repeatedly(directory, kills=kills, load=Load(seed=seed))
    if outcome.problems:
        print(f"settings and log of the node are kept in {directory}", file=sys.stderr)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return outcome


def _publish(outcome: FaultRun) -> bool:
    publish("kills", [outcome.as_row()], goal=GOAL)
    for problem in outcome.problems:
        print(problem, file=sys.stderr)
    return not outcome.problems


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    return 0 if _publish(_kill(arguments.kills, seed=arguments.seed)) else 1


if __name__ == "__main__":
    sys.exit(main())
