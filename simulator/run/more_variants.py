"""More variants that some seeds have: metrics of clients, the trace of messages, merges, switches.

Source: variants.py, which draws them.
"""

import random
from dataclasses import replace

from simulator.run.plan import DAMAGE, Fault, FaultKind, Plan

PUSHERS_SHARE = 0.1
LIMITED_TOO_SHARE = 0.5
TRACE_SHARE = 0.2
TRACE_PERCENTS = (20.0, 60.0, 100.0)
MERGES = ((1 << 20, 2), (1 << 20, 2), (524_288, 2), (262_144, 2), (1 << 20, 3), (131_072, 2))
"""Bytes of an object, and runs of one generation. A run has what a file of the second level has of
a partition: some KB, or up to 200 KB. What is small is less than half of an object, so that most is
in the first ones, and little in the last."""
SWITCHED_SHARE = 0.6
SWITCHES = (1, 3)
SWITCHED_MS = (20, 2_000)
SWITCH_KINDS = (FaultKind.GIVE_UP, FaultKind.GIVE_UP, FaultKind.NO_COPIES)


def with_pushers(plan: Plan, draw: random.Random) -> Plan:
    """Have clients push metrics of themselves in a share of the plans, half of them with quotas."""
    if draw.random() >= PUSHERS_SHARE:
        return plan
    limited = plan.shape.limited or int(draw.random() < LIMITED_TOO_SHARE)
    shape = replace(plan.shape, pushers=draw.choice((1, 2, 2)), limited=limited)
    return replace(plan, shape=shape)


def traced(plan: Plan, draw: random.Random) -> Plan:
    """Have brokers trace messages in a share of the plans with a share group."""
    if not plan.shape.sharers or draw.random() >= TRACE_SHARE:
        return plan
    percent = draw.choice(TRACE_PERCENTS)
    return replace(plan, shape=replace(plan.shape, trace_percent=percent))


def with_merges(plan: Plan, draw: random.Random) -> Plan:
    """Have objects of the tier merged by other sizes and numbers."""
    if not plan.shape.is_tiered:
        return plan
    size, runs = draw.choice(MERGES)
    return replace(plan, shape=replace(plan.shape, merge_bytes=size, merge_runs=runs))


def switched(plan: Plan, draw: random.Random) -> Plan:
    """Have operators switch copying off and on where there is a store: store_switches.py.

    Give-ups are counted from a level of the metadata on: where that is taken back, nothing is.
    """
    others = [fault for fault in plan.faults if fault.kind not in DAMAGE]
    has_level = any(fault.kind is FaultKind.LEVEL for fault in plan.faults)
    is_drawn = draw.random() < SWITCHED_SHARE
    if not plan.shape.is_tiered or not is_drawn or has_level or not others:
        return plan
    faults = [
        Fault(
            kind=draw.choice(SWITCH_KINDS),
            at_ms=beside.at_ms + draw.randint(0, beside.lasting_ms),
            lasting_ms=draw.randint(*SWITCHED_MS),
            targets=(),
        )
        for beside in draw.choices(others, k=draw.randint(*SWITCHES))
    ]
    return plan.with_faults((*plan.faults, *faults))
