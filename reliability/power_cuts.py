"""Does a node lose anything it acknowledged when its disk loses power under load? Needs root.

`python -m reliability.power_cuts --cuts 200`: the data lies on ext4 on a loop device; the node is
stopped in its tracks, a cut makes the file system forget whatever was not synced, then the node is
killed, the disk mounted again and the node started. Exit code 1 when a promise was broken.
"""

import argparse
import sys

from harness.loop_disk import why_not
from harness.workload import Load
from penstock.cli.exit_codes import end_with
from reliability.faults.faults import cut_power_repeatedly, judge


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    reason = why_not()
    if reason is not None:
        print(f"power_cuts left out: {reason}")
        return
    _cut(5 if quick else 50, seed=1)


def _cut(cuts: int, *, seed: int) -> bool:
    return judge(
        "power_cuts",
        lambda directory: cut_power_repeatedly(directory, cuts=cuts, load=Load(seed=seed)),
    )


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m reliability.power_cuts", description=__doc__)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    reason = why_not()
    if reason is not None:
        print(f"can not cut power here: {reason}", file=sys.stderr)
        return 2
    return 0 if _cut(arguments.cuts, seed=arguments.seed) else 1


if __name__ == "__main__":
    end_with(main)
