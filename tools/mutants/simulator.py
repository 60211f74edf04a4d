"""The second detector: in how many seeds of the simulator a planted bug shows.

A seed is red where `python -m simulator` tells of broken promises. What it says of a bug that
the tests find as well is how much of that find is luck: a bug that shows in one seed of fifty needs
the directed schedule that the tests have.

The seeds of a bug run in one process until one is red. A run that neither keeps nor breaks its
promises (it failed itself, or took too long) counts as neither. Before a bug is planted all seeds
must be clean; which functions they call says which bugs the simulator can come to at all.
"""

import json
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from .mutant import Mutant
from .runner import NotGreen
from .tree import Tree

SEED_SECONDS = 60.0
"""For each seed of a bug, on a busy machine; a bug may make one hang."""
_LINE = re.compile(r"^(ok  |FAIL) seed +(\d+) ", re.MULTILINE)


class Seeds(NamedTuple):
    """What the seeds of one state of the source came to."""

    facts: dict[str, object]
    reached: frozenset[str]
    """Functions that were called, where that was asked for."""


def seeds_of(text: str) -> range:
    """Return the seeds of "first..last", both inclusive, or of one number."""
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def red_seeds(
    tree: Tree, mutant: Mutant, seeds: Sequence[int], reached: frozenset[str]
) -> dict[str, object]:
    """Plant a bug and run the seeds; return what is known then, for the results."""
    is_reached = bool(mutant.functions(tree.path) & reached)
    if not is_reached:
        return {"tried": 0, "red": 0, "first": None, "unclear": 0, "reached": False}
    with tree.planted(mutant):
        return {**run_seeds(tree, seeds, is_ended_early=True).facts, "reached": True}


def clean_seeds(tree: Tree, seeds: Sequence[int]) -> Seeds:
    """Run the seeds without a bug; what was called is known of compiled functions' twins as well.

    Raises:
        NotGreen: one breaks a promise or does not end, so that no score can be had.
    """
    with tree.without_twins():
        clean = run_seeds(tree, seeds)
    if clean.facts["tried"] != len(seeds) or clean.facts["red"]:
        raise NotGreen("the simulator breaks promises without a bug: find out why first")
    return clean


def run_seeds(tree: Tree, seeds: Sequence[int], *, is_ended_early: bool = False) -> Seeds:
    """Run the seeds in the tree as it is; ended early with the first that is red."""
    started = time.monotonic()
    campaign = tree.path / "campaign.json"
    campaign.unlink(missing_ok=True)
    options = ["--seeds", f"{seeds[0]}..{seeds[-1]}", "--campaign", str(campaign)]
    if is_ended_early:
        options.append("--until-broken")
    seconds_max = SEED_SECONDS * len(seeds)
    finished = tree.run("-m", "simulator", *options, seconds_max=seconds_max)
    ends = {int(seed): end.strip() for end, seed in _LINE.findall(finished.output)}
    red = sorted(seed for seed, end in ends.items() if end == "FAIL")
    facts: dict[str, object] = {
        "tried": len(ends),
        "red": len(red),
        "first": red[0] if red else None,
        "unclear": 0 if red else len(seeds) - len(ends),
        "seconds": round(time.monotonic() - started, 1),
    }
    reached: set[str] = set()
    if campaign.exists():
        reached.update(*json.loads(campaign.read_text())["reached"].values())
    return Seeds(facts, frozenset(reached))
