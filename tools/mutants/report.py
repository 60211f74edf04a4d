"""Writes docs/mutation-score.md from the results, and says whether the score is good enough."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .catalogue import MUTANTS
from .excuses import EXCUSES
from .mutant import Kind, Mutant
from .results import Detector, Results
from .runner import FOUND

PLACE = "docs/mutation-score.md"
SHARE_MIN = 0.95
_TOLD = {
    Detector.SEEDS: "random seeds of the simulator",
    Detector.DIRECTED: "directed schedules of the simulator",
}

_HEAD = """# Mutation score: what the tests find when bugs are planted

Each row is a bug that is planted in a copy of the source, and the first test that turns red with
it. The bugs are not random edits: each breaks one rule that the design rests on (a sync, a check of
an epoch, a rule of truncation, acknowledgement or election), or is a bug that a system of this kind
had. The kind says which sort of mistake it is; `tools/mutants/mutant.py` defines them.

    make mutants                              plant what was not planted since its files changed
    python -m tools.mutants --only raft-vote  some of them
    python -m tools.mutants --kind order      those of one kind
    python -m tools.mutants --seeds 1..20     look with random seeds of the simulator instead
    python -m tools.mutants --directed        look with its directed schedules (tests/sim)
    python -m tools.mutants --seeds 1..20 --directed --survivors    only what it did not find yet
    python -m tools.mutants --directed --survivors --seconds 20     a slice of them; the next call
                                                                    goes on with the schedules left
    python -m tools.mutants --directed --survivors --files groups   schedules of some files only

A test counts when it is red twice with the bug; all tests that are tried are green without one, in
the same runner. Tests run in a fixed order with fixed seeds, one process, and those that start real
processes, Spark or other clients take no part. This page is written by `tools/mutants`; the figures
are in `reliability/results/mutants.json`.
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
    parts = [_HEAD, _summary(results, score), _by_kind(results), _survivors(results)]
    subjects = dict.fromkeys(mutant.subject for mutant in MUTANTS)
    parts += [_table(subject, results) for subject in subjects]
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
    return "\n".join([*lines, *_by_simulator(results)]) + "\n"


def _by_simulator(results: Results) -> list[str]:
    """Tell the simulator's scores, each detector by itself and both together."""
    lines = []
    for detector, told in _TOLD.items():
        seen = [one for mutant in MUTANTS if (one := results.by(detector, mutant)) is not None]
        if seen:
            there = [one for one in seen if one.get("reached", True)]
            found = sum(bool(one["red"]) for one in there)
            lines.append(
                f"- {told} find {found} of {len(there)} that they come to and were tried with;"
                f" {len(seen) - len(there)} more stand in functions that they never call"
            )
    directed = [results.by(Detector.DIRECTED, mutant) or {} for mutant in MUTANTS]
    if any(directed):
        promises = sum(one.get("by") == "promise" for one in directed)
        found, total = _either(results, MUTANTS)
        lines.append(
            f"- of what the schedules find, {promises} by a promise that the run breaks, the others"
            " because the run does not come to where it comes without the bug"
        )
        lines.append(f"- **the simulator finds {_share(found, total)} by one or the other**")
    return lines


def _either(results: Results, mutants: Iterable[Mutant]) -> tuple[int, int]:
    """Return how many one of the simulator's detectors finds, of those that one comes to."""
    known = [
        [one for detector in Detector if (one := results.by(detector, mutant)) is not None]
        for mutant in mutants
    ]
    there = [some for some in known if any(one.get("reached", True) for one in some)]
    return sum(any(one["red"] for one in some) for some in there), len(there)


def _by_kind(results: Results) -> str:
    """Return the table of all scores for each kind; what was not tried counts in none."""
    lines = [
        "## By kind of mistake",
        "",
        "Of what the simulator finds: of those that it comes to. Schedules may be tried only with"
        " what no seed has found. Where some are left to be tried the bug counts as not found.",
        "",
        "| kind | planted | tests find | seeds find | schedules find | seeds or schedules |",
    ]
    lines.append("|---|---|---|---|---|---|")
    for kind in Kind:
        mutants = [mutant for mutant in MUTANTS if mutant.kind is kind]
        known = [results.of(mutant) or {} for mutant in mutants]
        tried = [one["status"] for one in known if "status" in one]
        cells = [_share(tried.count(FOUND), len(tried))]
        for detector in Detector:
            seen = [one for each in mutants if (one := results.by(detector, each)) is not None]
            red = [one["red"] for one in seen if one.get("reached", True)]
            cells.append(_share(sum(count > 0 for count in red), len(red)))
        cells.append(_share(*_either(results, mutants)))
        lines.append(f"| {kind} | {len(mutants)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _share(found: int, tried: int) -> str:
    return f"{found} of {tried} ({100 * found / tried:.0f} %)" if tried else "not tried"


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


def _table(subject: str, results: Results) -> str:
    rows = [_row(mutant, results) for mutant in MUTANTS if mutant.subject == subject]
    head = [
        "| bug | what it breaks | kind | found by | seconds | seeds | schedule |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([f"## {subject}", "", *head, *rows]) + "\n"


def _row(mutant: Mutant, results: Results) -> str:
    found = results.of(mutant) or {}
    status = found.get("status")
    if status == FOUND:
        cells: Iterable[str] = (f"`{_short(found['test'])}`", f"{found['seconds']:.0f}")
    else:
        cells = ("not tried" if status is None else "**not found**", "")
    cells = (mutant.kind, *cells, *(_simulated(results.by(one, mutant)) for one in Detector))
    return f"| `{mutant.name}` | {mutant.breaks} | {' | '.join(cells)} |"


def _simulated(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return ""
    if not facts.get("reached", True):
        return "not reached"
    if "test" in facts:
        return f"`{_short(facts['test']).removeprefix('sim/')}`"
    left = f", {facts['left']} left" if facts.get("left") else ""
    return f"{facts['red']} of {facts['tried']}{left}"


def _short(test: str) -> str:
    """Leave out what is the same in every node id."""
    return test.removeprefix("tests/").replace("|", "/")
