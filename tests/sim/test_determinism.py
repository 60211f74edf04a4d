"""The same seed gives the same run: in this process, in others, and under any hash seed."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.kernel.simulation import simulate
from tests.sim.determinism_toy import story

SEEDS = 100
ROOT = Path(__file__).parents[2]


def lines(toy: str, *arguments: str) -> list[list[str]]:
    """Run a toy in two processes with different hash seeds, at once; return what they print."""
    command = [sys.executable, "-m", f"tests.sim.{toy}", *arguments]
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


@pytest.mark.timeout(600)
def test_a_hundred_seeds_give_the_same_traces_in_two_processes_with_different_hash_seeds() -> None:
    one, other = lines("determinism_toy", "0", str(SEEDS))
    assert one == other
    assert len({line.split()[1] for line in one}) == SEEDS


def test_an_order_that_follows_from_hashes_is_seen_as_a_different_trace() -> None:
    one, other = lines("determinism_toy", "0", "1", "planted")
    assert one != other


def test_a_run_leaves_nothing_that_changes_the_next() -> None:
    first = simulate(5, story)
    simulate(6, story)
    again = simulate(5, story)
    assert (first.digest, first.steps, first.seconds) == (again.digest, again.steps, again.seconds)
    assert not first.failures


def test_what_was_frozen_before_a_run_stays_so_and_nothing_of_a_run_is_added() -> None:
    gc.freeze()
    simulate(5, story)
    frozen = gc.get_freeze_count()
    for seed in range(5):
        simulate(seed, story)
    assert abs(gc.get_freeze_count() - frozen) < 100 < frozen


@pytest.mark.timeout(600)
def test_aiokafka_lives_through_a_failover_of_a_simulated_cluster_the_same_way_each_time() -> None:
    one, other = lines("stock_toy", "1", "2")
    assert one == other
    for line in one:
        assert "codes=[0, 0] failures=0 read=120/120" in line
