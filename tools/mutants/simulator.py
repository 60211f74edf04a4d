"""The second detector: in how many seeds of the simulator a planted bug shows.

A seed is red where `python -m penstock.sim --seed SEED` tells of broken promises. What it says of a
bug that the tests find as well is how much of that find is luck: a bug that shows in one seed of
fifty needs the directed schedule that the tests have.

A run that neither keeps nor breaks its promises (it failed itself, or took too long) counts as
neither. Before a bug is planted all seeds must be clean.
"""

import time
from collections.abc import Iterable

from .mutant import Mutant
from .tree import Finished, Tree

SEED_SECONDS = 300.0
_BROKEN = "BROKEN PROMISES"


def seeds_of(text: str) -> range:
    """Return the seeds of "first..last", both inclusive, or of one number."""
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def red_seeds(tree: Tree, mutant: Mutant, seeds: Iterable[int]) -> dict[str, object]:
    """Plant a bug and run the seeds; return what is known then, for the results."""
    with tree.planted(mutant):
        return run_seeds(tree, seeds)


def run_seeds(tree: Tree, seeds: Iterable[int]) -> dict[str, object]:
    """Run the seeds in the tree as it is."""
    started = time.monotonic()
    ends = {seed: _run(tree, seed) for seed in seeds}
    red = [seed for seed, end in ends.items() if _BROKEN in end.output]
    clean = [seed for seed, end in ends.items() if end.code == 0]
    return {
        "tried": len(red) + len(clean),
        "red": len(red),
        "first": red[0] if red else None,
        "unclear": len(ends) - len(red) - len(clean),
        "seconds": round(time.monotonic() - started, 1),
    }


def _run(tree: Tree, seed: int) -> Finished:
    options = ("--seed", str(seed), "--shrink-runs", "0")
    return tree.run("-m", "penstock.sim", *options, seconds_max=SEED_SECONDS)
