"""Many seeds: several processes, one line for each, results added up in a file.

The file says what was run; a seed that stands in it with the same commit is not run again. So a
campaign may be broken off and taken up, and its figures grow over days.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from penstock.sim.planning import make_plan
from penstock.sim.report import commit, figures, line, totals
from penstock.sim.run import run_plan

RUNS_PER_PROCESS = 20
"""Then a worker is replaced: what one run leaves behind in memory must not slow the next."""


def run_seed(work: tuple[int, int]) -> tuple[int, dict[str, Any], str]:
    """Run one (seed, count of faults); returns the seed, its figures and its line."""
    seed, faults = work
    result = run_plan(make_plan(seed, faults=faults))
    return seed, figures(result), line(result)


def _quiet() -> None:
    logging.disable(logging.CRITICAL)


class Campaign:
    """Results by seed, in a file or in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._commit = commit()
        self.runs: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self.runs = json.loads(path.read_text())["runs"]

    def left(self, seeds: Iterable[int]) -> list[int]:
        """Return the seeds that were not run with this commit."""
        known = {seed for seed, one in self.runs.items() if one["commit"] == self._commit}
        return [seed for seed in seeds if str(seed) not in known]

    def run(
        self, seeds: Sequence[int], *, faults: int, jobs: int, show: Callable[[str], None]
    ) -> dict[str, Any]:
        """Run what is left of `seeds`; returns the totals over everything in the file."""
        # Forked workers would share a random state and a loop policy with this process.
        with get_context("spawn").Pool(jobs, _quiet, maxtasksperchild=RUNS_PER_PROCESS) as pool:
            work = [(seed, faults) for seed in self.left(seeds)]
            for seed, found, text in pool.imap_unordered(run_seed, work):
                self.runs[str(seed)] = {"commit": self._commit, **found}
                show(text)
                self.save()
        return totals(self.runs.values())

    def save(self) -> None:
        """Write the file."""
        if self._path is None:
            return
        ordered = {seed: self.runs[seed] for seed in sorted(self.runs, key=int)}
        document = {"totals": totals(ordered.values()), "runs": ordered}
        unfinished = self._path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(document, indent=1) + "\n")
        unfinished.replace(self._path)
