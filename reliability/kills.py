"""Does a node lose, double or reorder anything when it is killed with -9 under load?

`python -m reliability.kills --kills 200`: idempotent librdkafka producers write with acks=all while
the node is killed and started again. Exit code 1 when a promise was broken.
"""

import argparse

from harness.workload import Load
from penstock.cli.exit_codes import end_with
from reliability.faults.faults import judge, kill_repeatedly


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    _kill(8 if quick else 50, seed=1)


def _kill(kills: int, *, seed: int) -> bool:
    return judge(
        "kills", lambda directory: kill_repeatedly(directory, kills=kills, load=Load(seed=seed))
    )


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m reliability.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    return 0 if _kill(arguments.kills, seed=arguments.seed) else 1


if __name__ == "__main__":
    end_with(main)
