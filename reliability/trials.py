"""Does a cluster keep its promises when more than one node breaks, or the network does?

`python -m reliability.trials no-controllers --seconds 60`: all of them killed; 0 failed requests
`python -m reliability.trials last-member --members 5`: one member after the other; the last is left
`python -m reliability.trials power-loss --times 20`: all three nodes at once; needs root
`python -m reliability.trials cut-off --times 10`: a master alone on the wrong side, with clients

Each compares the replicas byte for byte in the end. Exit code 1 for a broken promise.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.loop_disk import why_not
from harness.results import publish
from penstock.cli.exit_codes import end_with
from reliability import RESULTS
from reliability.faults import trials
from reliability.faults.trials import Trial

GOAL = "0 lost, 0 double, 0 out of order, no failed write without controllers, equal replicas"
Run = Callable[[Path], Trial]


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    seconds, times = (15.0, 2) if quick else (60.0, 10)
    runs: list[Run] = [
        lambda directory: trials.no_controllers(directory, seconds=seconds),
        lambda directory: trials.last_member(directory, members=2),
        lambda directory: trials.last_member(directory, members=3),
        lambda directory: trials.last_member(directory, members=5),
        lambda directory: trials.cut_off(directory, cuts=times),
    ]
    if why_not() is None:
        runs.append(lambda directory: trials.power_loss(directory, cuts=times))
    _run_all(runs)


def _run_all(runs: list[Run]) -> int:
    """Run each in a directory of its own, which is kept when a promise was broken."""
    done: list[Trial] = []
    for one in runs:
        directory = Path(tempfile.mkdtemp(prefix="penstock-trial-"))
        done.append(one(directory))
        print(f"{done[-1].name}: {'broken' if done[-1].problems else 'ok'}", flush=True)
        if done[-1].problems:
            print(*done[-1].problems, sep="\n", file=sys.stderr)
            print(f"settings and logs are kept in {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    publish(RESULTS, "trials", [one.as_row() for one in done], goal=GOAL)
    return 1 if any(one.problems for one in done) else 0


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m reliability.trials", description=__doc__)
    parser.add_argument(
        "trial", choices=("no-controllers", "last-member", "power-loss", "cut-off", "all")
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    seed = given.seed
    if given.trial == "all":
        run(quick=False)
        return 0
    reason = why_not()
    if given.trial == "power-loss" and reason is not None:
        print(f"can not cut power here: {reason}", file=sys.stderr)
        return 2
    runs: dict[str, Run] = {
        "no-controllers": lambda at: trials.no_controllers(at, seconds=given.seconds, seed=seed),
        "last-member": lambda at: trials.last_member(at, members=given.members, seed=seed),
        "power-loss": lambda at: trials.power_loss(at, cuts=given.times, seed=seed),
        "cut-off": lambda at: trials.cut_off(at, cuts=given.times, seed=seed),
    }
    return _run_all([runs[given.trial]])


if __name__ == "__main__":
    end_with(main)
