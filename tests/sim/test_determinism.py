"""The same seed gives the same run: in this process, in others, and under any hash seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.sim.simulation import simulate
from tests.sim.determinism_toy import story

SEEDS = 100
ROOT = Path(__file__).parents[2]


def lines(first: int, count: int, *more: str) -> list[list[str]]:
    """Run the toy in two processes with different hash seeds, at once; return what they print."""
    command = [sys.executable, "-m", "tests.sim.determinism_toy", str(first), str(count), *more]
    processes = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "4242")
    ]
    printed = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return printed


@pytest.mark.timeout(300)
def test_a_hundred_seeds_give_the_same_traces_in_two_processes_with_different_hash_seeds() -> None:
    one, other = lines(0, SEEDS)
    assert one == other
    assert len({line.split()[1] for line in one}) == SEEDS


def test_an_order_that_follows_from_hashes_is_seen_as_a_different_trace() -> None:
    one, other = lines(0, 1, "planted")
    assert one != other


def test_a_run_leaves_nothing_that_changes_the_next() -> None:
    first = simulate(5, story)
    simulate(6, story)
    again = simulate(5, story)
    assert (first.digest, first.steps, first.seconds) == (again.digest, again.steps, again.seconds)
    assert not first.failures
