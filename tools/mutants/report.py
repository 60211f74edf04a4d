"""Writes docs/mutation-score.md from the results, and says whether the score is good enough."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .catalogue import MUTANTS
from .excuses import EXCUSES
from .mutant import Mutant
from .results import Results
from .runner import FOUND

PLACE = "docs/mutation-score.md"
SHARE_MIN = 0.95

_HEAD = """# Mutation score: what the tests find when bugs are planted

Each row is a bug that is planted in a copy of the source, and the first test that turns red with
it. The bugs are not random edits: each leaves out one rule that the design rests on (a sync, a
check of an epoch, a rule of truncation, acknowledgement or election), or is a bug that a system of
this kind had.

    make mutants                              plant what was not planted since its files changed
    python -m tools.mutants --only raft-vote  some of them
    python -m tools.mutants --seeds 1..20     look with the simulator instead of the tests

A test counts when it is red twice with the bug; all tests that are tried are green without one, in
the same runner. Tests run in a fixed order with fixed seeds, one process, and those that start real
processes, Spark or other clients take no part. This page is written by `tools/mutants`; the figures
are in `benchmarks/results/mutants.json`.
"""


class Score(NamedTuple):
    """How many of how many are found."""

    found: int
    total: int
    untried: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.found / self.total if self.total else 0.0

    @property
    def is_good(self) -> bool:
        """Whether the aim is reached and nothing was left out."""
        return not self.untried and self.share >= SHARE_MIN


def score_of(results: Results) -> Score:
    """Count."""
    statuses = [(results.of(mutant) or {}).get("status") for mutant in MUTANTS]
    return Score(statuses.count(FOUND), len(MUTANTS), statuses.count(None))


def write(root: Path, results: Results) -> Score:
    """Write the page; return the score."""
    score = score_of(results)
    parts = [_HEAD, _summary(results, score), _survivors(results)]
    kinds = dict.fromkeys(mutant.kind for mutant in MUTANTS)
    parts += [_table(kind, results) for kind in kinds]
    (root / PLACE).write_text("\n".join(part for part in parts if part))
    return score


def _summary(results: Results, score: Score) -> str:
    lines = ["## Score", ""]
    tried = score.total - score.untried
    share = f"{100 * score.found / max(1, tried):.1f} %"
    lines.append(f"**{score.found} of {tried} planted bugs are found by the tests: {share}.**")
    if score.untried:
        lines += ["", f"{score.untried} more were not tried yet in the present source."]
    lines += [""] + [_line_of(kind, facts) for kind, facts in sorted(results.runs.items())]
    seen = [seeds for mutant in MUTANTS if (seeds := _seeds(results, mutant)) is not None]
    if seen:
        by_simulator = sum(one["red"] > 0 for one in seen)
        lines.append(f"- the simulator finds {by_simulator} of {len(seen)} that it was tried on")
    return "\n".join(lines) + "\n"


def _line_of(kind: str, facts: dict[str, Any]) -> str:
    told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items())
    return f"- {kind}: {told}"


def _survivors(results: Results) -> str:
    rows = [
        f"| `{mutant.name}` | {mutant.breaks} | {EXCUSES.get(mutant.name, '**no reason yet**')} |"
        for mutant in MUTANTS
        if (results.of(mutant) or {}).get("status") not in {FOUND, None}
    ]
    if not rows:
        return ""
    head = ["## Not found", "", "| bug | what it breaks | why no test finds it |", "|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def _table(kind: str, results: Results) -> str:
    rows = [_row(mutant, results) for mutant in MUTANTS if mutant.kind == kind]
    head = ["| bug | what it breaks | found by | seconds | seeds |", "|---|---|---|---|---|"]
    return "\n".join([f"## {kind}", "", *head, *rows]) + "\n"


def _row(mutant: Mutant, results: Results) -> str:
    found = results.of(mutant) or {}
    status = found.get("status")
    if status == FOUND:
        cells: Iterable[str] = (f"`{_short(found['test'])}`", f"{found['seconds']:.0f}")
    else:
        cells = ("not tried" if status is None else "**not found**", "")
    seeds = _seeds(results, mutant)
    last = "" if seeds is None else f"{seeds['red']} of {seeds['tried']}"
    return f"| `{mutant.name}` | {mutant.breaks} | {' | '.join(cells)} | {last} |"


def _seeds(results: Results, mutant: Mutant) -> dict[str, Any] | None:
    found: dict[str, Any] | None = (results.of(mutant) or {}).get("simulator")
    return found


def _short(test: str) -> str:
    """Leave out what is the same in every node id."""
    return test.removeprefix("tests/").replace("|", "/")
