"""Many seeds: several processes, one line for each, results added up in a file.

A seed that the file has for the same commit is not run again, so a campaign can be stopped and
resumed, and its figures grow over days. The functions called are kept for each commit.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from simulator.reach import marking
from simulator.run.one_run import run_plan
from simulator.run.planning import make_plan
from simulator.run.report import commit, figures, line, totals

RUNS_PER_PROCESS = 20
"""Then a worker is replaced: what one run leaves behind in memory must not slow the next."""


class Ran(NamedTuple):
    """One seed's figures, its line, and the functions that it came to."""

    seed: int
    figures: dict[str, Any]
    line: str
    reached: list[str]


def run_seed(work: tuple[int, int]) -> Ran:
    """Run one (seed, count of faults)."""
    logging.disable(logging.CRITICAL)
    seed, faults = work
    result = run_plan(make_plan(seed, faults=faults))
    return Ran(seed, figures(result), line(result), marking.reached())


class Campaign:
    """Results by seed, in a file or in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._commit = commit()
        self.runs: dict[str, dict[str, Any]] = {}
        self._reached: dict[str, list[str]] = {}
        if path is not None and path.exists():
            document = json.loads(path.read_text())
            self.runs, self._reached = document["runs"], document.get("reached", {})

    @property
    def reached(self) -> set[str]:
        """The functions that were called in any run of this commit."""
        return set(self._reached.get(self._commit, ()))

    @property
    def seed_count(self) -> int:
        """How many seeds were run with this commit."""
        return sum(run["commit"] == self._commit for run in self.runs.values())

    def left(self, seeds: Iterable[int]) -> list[int]:
        """Return the seeds that were not run with this commit."""
        known = {seed for seed, run in self.runs.items() if run["commit"] == self._commit}
        return [seed for seed in seeds if str(seed) not in known]

    def run(
        self,
        seeds: Sequence[int],
        *,
        faults: int,
        jobs: int,
        show: Callable[[str], None],
        until_broken: bool = False,
    ) -> dict[str, Any]:
        """Run what is left of `seeds`; returns the totals over everything in the file."""
        # Forked workers would share a random state and a loop policy with this process, and have
        # imported what is to be marked. The initializer comes before anything else is imported.
        with get_context("spawn").Pool(
            jobs, marking.install, maxtasksperchild=RUNS_PER_PROCESS
        ) as pool:
            work = [(seed, faults) for seed in self.left(seeds)]
            for ran in pool.imap_unordered(run_seed, work):
                self.runs[str(ran.seed)] = {"commit": self._commit, **ran.figures}
                self._reached[self._commit] = sorted(self.reached.union(ran.reached))
                show(ran.line)
                self.save()
                if until_broken and ran.figures["findings"]:
                    break
        return totals(self.runs.values())

    def save(self) -> None:
        """Write the file."""
        if self._path is None:
            return
        ordered = {seed: self.runs[seed] for seed in sorted(self.runs, key=int)}
        document = {
            "totals": totals(ordered.values()),
            "runs": ordered,
            "reached": self._reached,
        }
        unfinished = self._path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(document, indent=1) + "\n")
        unfinished.replace(self._path)
