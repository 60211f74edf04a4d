"""A few seeds whose plans have together whatever the plans of many seeds have.

What is looked at again costs as much as the first time, and finds the more the more different the
runs are: each kind of fault, and each value of the shape of a cluster and its clients, is in one of
the chosen at least. Eleven do for 25.
"""

import dataclasses
from collections.abc import Sequence

from simulator.run.plan import Plan
from simulator.run.planning import make_plan


def parts(plan: Plan) -> set[tuple[str, object]]:
    """Return the kinds of faults of a plan, and the values of its shape by their names."""
    shape = {(each.name, getattr(plan.shape, each.name)) for each in dataclasses.fields(plan.shape)}
    return shape | {("fault", fault.kind) for fault in plan.faults}


def covering(seeds: Sequence[int], *, faults: int) -> list[int]:
    """Return, in order, seeds that leave out no part of any plan: each time the one with most."""
    left = {seed: parts(make_plan(seed, faults=faults)) for seed in seeds}
    chosen = []
    while left:
        best = max(left, key=lambda seed: len(left[seed]))  # the first of equals
        known = left[best]
        if not known:
            break
        chosen.append(best)
        left = {seed: rest - known for seed, rest in left.items() if seed != best}
    return sorted(chosen)
