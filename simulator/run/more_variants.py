"""More variants that some seeds have: metrics, the trace, merges, switches, sets of one member.

Source: variants.py, which draws them.
"""

import random
from dataclasses import replace

from simulator.run.plan import DAMAGE, OFF, Fault, FaultKind, Plan

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
SOLE_SHARE = 0.1
_TAKES_THE_COPY = {*DAMAGE, FaultKind.DISK_LOST, FaultKind.POWER_OFF, FaultKind.SYNC_ERROR}
"""Of what is acknowledged from the page cache. A set of one member has promised nothing there."""
_ASKS_FOR_ANOTHER = {FaultKind.REPLACE, FaultKind.DRAIN}
"""Member of a set."""


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


def of_one_member(plan: Plan, draw: random.Random) -> Plan:
    """Have sets of one member in a share of the plans, which acknowledge from the page cache.

    There a transaction's end is answered before its markers are written (ADR 0183). A process that
    is killed loses nothing, so all is promised that is promised elsewhere; what would take the one
    copy away becomes a kill, and what moves it is left out. Extent files and the object store are
    for other plans.
    """
    if draw.random() >= SOLE_SHARE or plan.shape.level0_bytes >= 0:
        return plan
    faults = tuple(
        replace(fault, kind=FaultKind.KILL) if fault.kind in _TAKES_THE_COPY else fault
        for fault in plan.faults
        if fault.kind not in _ASKS_FOR_ANOTHER
    )
    shape = replace(
        plan.shape,
        replication_factor=1,
        policy="all",
        min_insync_replicas=1,
        is_flushed_later=True,
        transactors=plan.shape.transactors or draw.randint(1, 3),
        slave_reads=OFF,
    )
    return replace(plan.with_faults(faults), shape=shape)
