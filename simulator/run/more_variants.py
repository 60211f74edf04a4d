"""More variants that some seeds have: metrics of clients, the trace of messages, sizes of merges.

Source: variants.py, which draws them.
"""

import random
from dataclasses import replace

from simulator.run.plan import Plan

PUSHERS_SHARE = 0.1
LIMITED_TOO_SHARE = 0.5
TRACE_SHARE = 0.2
TRACE_PERCENTS = (20.0, 60.0, 100.0)
MERGES = ((1 << 20, 2), (1 << 20, 2), (524_288, 2), (262_144, 2), (1 << 20, 3), (131_072, 2))
"""Bytes of an object, and runs of one generation. A run has what a file of the second level has of
a partition: some KB, or up to 200 KB. What is small is less than half of an object, so that most is
in the first ones, and little in the last."""


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
