"""Looks for planted bugs with the simulator: random seeds first, then directed schedules, as asked.

What is known stays: a bug is tried again when its source has changed, with `--fresh`, or, of those
that nothing found (`--survivors`), once for each commit. Seeds are tried with what no seed has
found, schedules with what neither has found. A search that is bounded (`--seconds`, `--files`)
leaves schedules for the next one, which goes on there.
"""

import argparse
import datetime
import sys
from collections.abc import Callable
from typing import Any

from .choice import finds_beside
from .directed import files_of, kept_schedules, red_schedule
from .mutant import AnchorLost, Mutant
from .results import Detector, Results
from .simulator import clean_seeds, red_seeds
from .tree import Tree

Look = Callable[[Mutant], dict[str, Any]]
"""Returns what is known then, {} where nothing was tried."""


class Search:
    """See the module."""

    def __init__(self, tree: Tree, results: Results, options: argparse.Namespace) -> None:
        self._tree = tree
        self._results = results
        self._options = options
        self._commit = tree.commit[:12]

    def run(self, mutants: list[Mutant]) -> None:
        """Look for all of these. Raises NotGreen."""
        if self._options.seeds:
            self._by_seeds(mutants)
        if self._options.directed:
            self._by_schedules(mutants)

    def _by_seeds(self, mutants: list[Mutant]) -> None:
        seeds = self._options.seeds
        clean = clean_seeds(self._tree, seeds)
        print(f"without a bug: {clean.facts}", flush=True)
        self._look_for(
            mutants, Detector.SEEDS, lambda one: red_seeds(self._tree, one, seeds, clean.reached)
        )
        self._note_run("simulator", seeds=f"{seeds[0]} to {seeds[-1]}")

    def _by_schedules(self, mutants: list[Mutant]) -> None:
        files = files_of(self._tree, self._options.files)
        elsewhere = len(files_of(self._tree)) - len(files)
        schedules = kept_schedules(self._tree, self._results.root, files)
        seconds = sum(schedule.seconds for schedule in schedules.values())
        print(f"without a bug: {len(schedules)} schedules, {seconds:.0f} s", flush=True)

        def look(mutant: Mutant) -> dict[str, Any]:
            green = self._green_before(mutant)
            facts = red_schedule(
                self._tree,
                mutant,
                schedules,
                green=green,
                finds=finds_beside(mutant, self._results),
                seconds_max=self._options.seconds,
            )
            if elsewhere and facts["tried"] == len(green):
                return {}  # another file may have what calls it
            return _with_what_is_left(facts, elsewhere)

        self._look_for(mutants, Detector.DIRECTED, look)
        self._note_run("directed schedules", schedules=len(schedules))

    def _look_for(self, mutants: list[Mutant], detector: Detector, look: Look) -> None:
        for mutant in mutants:
            try:
                fingerprint = mutant.fingerprint(self._tree.path)
            except (AnchorLost, OSError) as error:
                print(f"{mutant.name}: can not be planted: {error}", file=sys.stderr, flush=True)
                continue
            if self._is_done(mutant, fingerprint, detector):
                continue
            looked = look(mutant)
            if not looked:
                continue
            facts = {**looked, "commit": self._commit}
            self._results.note_by(detector, mutant, fingerprint, facts)
            told = f"{facts['red']} of {facts['tried']}" if facts["reached"] else "not reached"
            print(f"{mutant.name:45} {told}  {facts.get('test', '')}", flush=True)

    def _green_before(self, mutant: Mutant) -> list[str]:
        """Return the schedules that a bounded search has tried with the bug in this source."""
        before = self._results.by(Detector.DIRECTED, mutant) or {}
        if self._options.fresh or before.get("fingerprint") != mutant.fingerprint(self._tree.path):
            return []
        green: list[str] = before.get("green", [])
        return green

    def _is_done(self, mutant: Mutant, fingerprint: str, detector: Detector) -> bool:
        """Whether there is nothing to do."""
        before = self._results.by(detector, mutant) or {}
        if not self._options.survivors:
            is_tried = self._results.is_tried_by(detector, mutant, fingerprint)
            return is_tried and not self._options.fresh and not before.get("left")
        others = detector is Detector.DIRECTED and self._results.is_simulated(mutant)
        # What every schedule was tried with in this source is left to a search without bounds.
        is_bounded = bool(self._options.seconds or self._options.files)
        is_same = is_bounded and before.get("fingerprint") == fingerprint
        is_whole = not before.get("left") and (before.get("commit") == self._commit or is_same)
        return bool(before.get("red") or others or is_whole)

    def _note_run(self, kind: str, **facts: object) -> None:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        self._results.note_run(kind, commit=self._commit, date=today, **facts)


def _with_what_is_left(facts: dict[str, Any], elsewhere: int) -> dict[str, Any]:
    """Count a file that was not looked at as one schedule; keep names only for a next search."""
    green, left = facts.pop("green", []), facts.pop("left", 0) + elsewhere
    return {**facts, "left": left, "green": green} if left and not facts["red"] else facts
