"""Variants that some seeds have: groups, async flush, clock drift, damage during other faults.

    plan of planning.py ─► groups ─► flush ─► clocks ─► damage ─► misuse ─► wrong links ─► upkeep
                       ─► machines ─► transactions ─► movers ─► sharers ─► streams ─► mixed
                       ─► inspected ─► levels ─► slave reads ─► access ─► damaged levels
                       ─► quotas ─► audit ─► tokens ─► copy rate ─► tiered ─► local ─► remoting
                       ─► grpc ─► pushers ─► trace ─► merges ─► switches ─► sets of one
                       ─► plan

Each is drawn separately, from the seed and the variant's name: adding a variant changes only the
plans of the seeds that get it. The last five are in more_variants.py.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from simulator.faults.level_damage import CLEANED, COPIED, SECOND_LEVEL
from simulator.faults.newer_records import amount_of
from simulator.faults.store_faults import MOODS
from simulator.run.more_variants import (
    of_one_member,
    switched,
    traced,
    with_merges,
    with_pushers,
)
from simulator.run.plan import DAMAGE, REWRITE_BYTES, Fault, FaultKind, Plan
from simulator.run.topology import PARTITIONS, hosts_of

GROUPLESS_SHARE = 0.5
NO_DOWNGRADE_SHARE = 0.6
DOWNGRADE_MS_MIN = 100
FLUSHED_LATER_SHARE = 0.12
DRIFT_SHARE = 0.15
DRIFTS_PPM = (500, 20_000)
"""Of a poor clock, and of one that is broken."""
DAMAGE_BESIDE_SHARE = 0.4
DAMAGE_MS = (200, 1_500)
BEFORE_MS_MAX = 300
GARBLE_SHARE = 0.2
GARBLE_MS = (300, 2_500)
STALE_SHARE = 0.25
STALE_MS = (300, 3_000)
MISUSE_SHARE = 0.3
MISUSES = (2, 5)
UPKEEP_SHARE = 0.2
UPKEEP_MS = (200, 2_000)
MACHINES_SHARE = 0.15
MACHINES_WITH_RACKS = 2
TRANSACTIONS_SHARE = 0.4
MOVERS_SHARE = 0.45
SHARERS_SHARE = 0.4
STREAMS_SHARE = 0.25
MIXED_SHARE = 0.35
INSPECTED_SHARE = 0.3
LEVELS_SHARE = 0.25
LEVEL0_BYTES = (0, 65_536)
SLAVE_READS_SHARE = 0.2
ACCESS_SHARE = 0.3
COPY_RATE_SHARE = 0.2
COPY_RATES = (100_000, 400_000)
"""Bytes per second: above what clients write, and a copy takes seconds."""
DAMAGED_LEVELS_SHARE = 0.8
QUOTAS_SHARE = 0.25
AUDIT_SHARE = 0.25
TOKENS_SHARE = 0.8
TIERED_SHARE = 0.6
TIERED_RETENTION_BYTES = 120_000
STORE_FAULTS = (2, 4)
STORE_MS = (500, 3_000)
OBJECT_FLIP_SHARE = 0.5
REPAIRED_SHARE = 0.7
FREED_SHARE = 0.7
REMOTING_SHARE = 0.28
GRPC_SHARE = 0.28
LOCAL_BYTES = (0, 10_000, 40_000)
SPLIT_MS = 5_000
"""Some segments are split by then."""
CLEANED_MS = 6_000
"""In a sound cluster all members are in step after so long, and have cleaned."""
HOUSEKEEPER_DEATH_SHARES = (0.0, 0.1, 0.3)
_TAKES_COPIES = {FaultKind.DISK_LOST, FaultKind.REPLACE, FaultKind.POLICY, *DAMAGE}
"""Beside these a copy that is damaged may be the last one."""


def varied(plan: Plan) -> Plan:
    """Return the plan with what its seed has besides."""
    variants: dict[str, Callable[[Plan, random.Random], Plan]] = {
        "groups": _with_groups,
        "flush": _flushed_later,
        "clocks": _with_drift,
        "damage": _damaged_beside,
        "misuse": _misused,
        "garble": _garbled,
        "stale words": _stale_words,
        "upkeep": _kept_up,
        "machines": _on_few_machines,
        "transactions": _with_transactions,
        "movers": _with_movers,
        "sharers": _with_sharers,
        "streams": _with_streams,
        "mixed": _with_both_protocols,
        "inspected": _inspected,
        "levels": _with_levels,
        "slave reads": _with_slave_reads,
        "access": _with_access,
        "damaged levels": _damaged_levels,
        "quotas": _with_quotas,
        "audit": _audited,
        "tokens": _with_tokens,
        "copy rate": _with_copy_rate,
        "tiered": _tiered,
        "local": _freed,
        "remoting": _with_remoting,
        "grpc": _with_grpc,
        "pushers": with_pushers,
        "trace": traced,
        "merges": with_merges,
        "switches": switched,
        "sets of one": of_one_member,
    }
    for name, vary in variants.items():
        draw = random.Random(f"plan-{plan.seed}-{name}")  # noqa: S311  reproducible on purpose
        plan = vary(plan, draw)
    return plan


def _with_groups(plan: Plan, draw: random.Random) -> Plan:
    """Draw consumer groups for half of the plans.

    Positions expire by the time at which they were committed. Where a wall clock is set back they
    are old at once, so that nothing is said of their time there.
    """
    if draw.random() < GROUPLESS_SHARE:
        return plan
    is_clock_wrong = any(fault.kind is FaultKind.CLOCK_STEP for fault in plan.faults)
    kept_ms = draw.choice((-1, 4_000, 8_000))
    shape = replace(
        plan.shape,
        groups=draw.choices((1, 2), (3, 1))[0],
        group_members=draw.choice((2, 3)),
        group_rewrite_bytes=draw.choice((500, 2_000, REWRITE_BYTES)),
        group_kept_ms=-1 if is_clock_wrong else kept_ms,
    )
    plan = replace(plan, shape=shape)
    return plan if draw.random() < NO_DOWNGRADE_SHARE else _with_downgrade(plan, draw)


def _with_transactions(plan: Plan, draw: random.Random) -> Plan:
    """Have some plans' clients write transactions."""
    if draw.random() >= TRANSACTIONS_SHARE:
        return plan
    return replace(plan, shape=replace(plan.shape, transactors=draw.randint(1, 3)))


def _with_movers(plan: Plan, draw: random.Random) -> Plan:
    """Have some plans' clients move records, where the positions of groups do not expire."""
    if draw.random() >= MOVERS_SHARE or plan.shape.group_kept_ms >= 0:
        return plan
    rewrite_bytes = draw.choice((500, 2_000, REWRITE_BYTES))
    shape = replace(plan.shape, movers=draw.choices((1, 2), (2, 1))[0])
    if not shape.groups:
        shape = replace(shape, group_rewrite_bytes=rewrite_bytes)
    return replace(plan, shape=shape)


def _with_sharers(plan: Plan, draw: random.Random) -> Plan:
    """Have some plans' clients share a topic."""
    if draw.random() >= SHARERS_SHARE:
        return plan
    return replace(plan, shape=replace(plan.shape, sharers=draw.randint(1, 3)))


def _with_streams(plan: Plan, draw: random.Random) -> Plan:
    """Have some plans' clients be an application of Kafka Streams."""
    if draw.random() >= STREAMS_SHARE:
        return plan
    return replace(plan, shape=replace(plan.shape, streams=draw.choice((2, 2, 3))))


def _with_both_protocols(plan: Plan, draw: random.Random) -> Plan:
    """Let members of both protocols meet in the groups of some plans."""
    if draw.random() >= MIXED_SHARE or not plan.shape.groups:
        return plan
    return replace(plan, shape=replace(plan.shape, has_mixed_groups=True))


def _inspected(plan: Plan, draw: random.Random) -> Plan:
    """Have an administrator look at everything."""
    if draw.random() >= INSPECTED_SHARE:
        return plan
    return replace(plan, shape=replace(plan.shape, is_inspected=True))


def _with_downgrade(plan: Plan, draw: random.Random) -> Plan:
    """Have a coordinator of a later version end beside another fault, where nothing is damaged."""
    beside = [fault for fault in plan.faults if fault.kind not in DAMAGE]
    if not beside:
        return plan
    other = draw.choice(beside)
    amount = amount_of(draw.randrange(PARTITIONS), is_transaction=draw.random() < 0.25)
    lasting_ms = max(other.lasting_ms, DOWNGRADE_MS_MIN)
    downgrade = Fault(
        kind=FaultKind.DOWNGRADE,
        at_ms=other.at_ms,
        lasting_ms=lasting_ms,
        targets=(),
        amount=amount,
    )
    return plan.with_faults((*plan.faults, downgrade))


def _flushed_later(plan: Plan, draw: random.Random) -> Plan:
    """Acknowledge from the page cache: kill -9 may take nothing, so it comes for a loss of power.

    A sync that lies, or fails, ends in a loss of what was acknowledged there; a bit that turns over
    does not.
    """
    if draw.random() >= FLUSHED_LATER_SHARE:
        return plan
    instead = {
        FaultKind.POWER_OFF: FaultKind.KILL,
        FaultKind.LYING_SYNC: FaultKind.BIT_FLIP,
    }
    faults = tuple(
        replace(fault, kind=instead.get(fault.kind, fault.kind)) for fault in plan.faults
    )
    return replace(plan.with_faults(faults), shape=replace(plan.shape, is_flushed_later=True))


def _with_drift(plan: Plan, draw: random.Random) -> Plan:
    """Let clocks go at rates of their own; positions then expire by different clocks: not here."""
    if draw.random() >= DRIFT_SHARE:
        return plan
    shape = replace(plan.shape, clock_drift_ppm=draw.choice(DRIFTS_PPM), group_kept_ms=-1)
    return replace(plan, shape=shape)


def _damaged_beside(plan: Plan, draw: random.Random) -> Plan:
    """Turn a bit over just before another fault begins, where all others keep their copies."""
    beside = [fault for fault in plan.faults if fault.kind not in _TAKES_COPIES]
    is_apt = plan.shape.policy == "all" and len(beside) == len(plan.faults) > 0
    if draw.random() >= DAMAGE_BESIDE_SHARE or not is_apt:
        return plan
    brokers = _brokers(plan)
    flip = Fault(
        kind=FaultKind.BIT_FLIP,
        at_ms=max(0, draw.choice(beside).at_ms - draw.randint(0, BEFORE_MS_MAX)),
        lasting_ms=draw.randint(*DAMAGE_MS),
        targets=(draw.choice(brokers),),
    )
    return plan.with_faults((*plan.faults, flip))


def _misused(plan: Plan, draw: random.Random) -> Plan:
    """Have operators ask for what can not be, while faults go on: a refusal is a read as well."""
    others = [fault for fault in plan.faults if fault.kind not in DAMAGE]
    if draw.random() >= MISUSE_SHARE or not others:
        return plan
    asked = tuple(
        Fault(
            kind=FaultKind.MISUSE,
            at_ms=beside.at_ms + draw.randint(0, beside.lasting_ms),
            lasting_ms=0,
            targets=(),
            amount=draw.randrange(3),
        )
        for beside in draw.choices(others, k=draw.randint(*MISUSES))
    )
    return plan.with_faults((*plan.faults, *asked))


def _garbled(plan: Plan, draw: random.Random) -> Plan:
    """Let the replication links of one broker change what they carry, beside another fault."""
    others = [fault for fault in plan.faults if fault.kind not in DAMAGE]
    if draw.random() >= GARBLE_SHARE or not others:
        return plan
    garble = Fault(
        kind=FaultKind.GARBLE,
        at_ms=draw.choice(others).at_ms,
        lasting_ms=draw.randint(*GARBLE_MS),
        targets=(draw.choice(("master:0", "slave:0", "master:1")),),
    )
    return plan.with_faults((*plan.faults, garble))


def _stale_words(plan: Plan, draw: random.Random) -> Plan:
    """Let the links of one process say what is not so any more, beside another fault."""
    others = [fault for fault in plan.faults if fault.kind not in DAMAGE]
    if draw.random() >= STALE_SHARE or not others:
        return plan
    stale = Fault(
        kind=FaultKind.STALE_WORDS,
        at_ms=draw.choice(others).at_ms,
        lasting_ms=draw.randint(*STALE_MS),
        targets=(draw.choice(("master:0", "slave:0", "master:1", "active")),),
    )
    return plan.with_faults((*plan.faults, stale))


def _kept_up(plan: Plan, draw: random.Random) -> Plan:
    """Have masterships levelled and the metadata's level taken back, beside other faults."""
    others = [fault for fault in plan.faults if fault.kind not in DAMAGE]
    if draw.random() >= UPKEEP_SHARE or not others:
        return plan
    wishes = tuple(
        Fault(
            kind=kind,
            at_ms=beside.at_ms + draw.randint(0, beside.lasting_ms),
            lasting_ms=draw.randint(*UPKEEP_MS),
            targets=(),
        )
        for kind, beside in zip(
            (FaultKind.SPREAD, FaultKind.LEVEL, FaultKind.TRIAL, FaultKind.SPREAD),
            draw.choices(others, k=4),
            strict=True,
        )
    )
    return plan.with_faults((*plan.faults, *wishes))


def _on_few_machines(plan: Plan, draw: random.Random) -> Plan:
    """Let brokers share computers and racks."""
    if draw.random() >= MACHINES_SHARE:
        return plan
    return replace(plan, shape=replace(plan.shape, machines=draw.choice((1, 2, 2))))


def _with_slave_reads(plan: Plan, draw: random.Random) -> Plan:
    """Send consumers to slaves on a share of the plans: by their rack, where there are several."""
    if draw.random() >= SLAVE_READS_SHARE:
        return plan
    shape = plan.shape
    how = draw.choice(("lag", "rack"))
    if how == "rack" and shape.machines < MACHINES_WITH_RACKS:
        shape = replace(shape, machines=MACHINES_WITH_RACKS)
    return replace(plan, shape=replace(shape, slave_reads=how))


def _with_levels(plan: Plan, draw: random.Random) -> Plan:
    """Let logs of small segments be split on a share of the plans, by housekeepers that may die."""
    if draw.random() >= LEVELS_SHARE:
        return plan
    shape = replace(
        plan.shape,
        level0_bytes=draw.choice(LEVEL0_BYTES),
        segment_bytes=65_536,
        housekeeper_death_share=draw.choice(HOUSEKEEPER_DEATH_SHARES),
    )
    return replace(plan, shape=shape)


def _with_copy_rate(plan: Plan, draw: random.Random) -> Plan:
    """Let a copy take long in some plans, so that faults meet it and members join late."""
    if draw.random() >= COPY_RATE_SHARE:
        return plan
    rate = draw.choice(COPY_RATES)
    return replace(plan, shape=replace(plan.shape, copy_bytes_per_second=rate))


def _with_access(plan: Plan, draw: random.Random) -> Plan:
    """Let rules decide on a share of the plans, and administrators change them."""
    if draw.random() >= ACCESS_SHARE:
        return plan
    return replace(plan, shape=replace(plan.shape, administrators=draw.choice((1, 2))))


def _with_quotas(plan: Plan, draw: random.Random) -> Plan:
    """Have clients with quotas on a share of the plans."""
    if draw.random() >= QUOTAS_SHARE:
        return plan
    return replace(plan, shape=replace(plan.shape, limited=draw.choice((1, 1, 2))))


def _audited(plan: Plan, draw: random.Random) -> Plan:
    """Have brokers fold what clients do on a share of the plans."""
    if draw.random() >= AUDIT_SHARE:
        return plan
    return replace(plan, shape=replace(plan.shape, audited=draw.choice((1, 1, 2))))


def _with_tokens(plan: Plan, draw: random.Random) -> Plan:
    """Have delegation tokens where rules decide, unless a wall clock is wrong: they end by it."""
    is_wrong = any(fault.kind is FaultKind.CLOCK_STEP for fault in plan.faults)
    is_apt = plan.shape.administrators and not plan.shape.clock_drift_ppm and not is_wrong
    if draw.random() >= TOKENS_SHARE or not is_apt:
        return plan
    return replace(plan, shape=replace(plan.shape, token_holders=draw.choice((1, 1, 2))))


def _damaged_levels(plan: Plan, draw: random.Random) -> Plan:
    """Turn a bit of an extent file over, where nothing else is damaged and all keep their copies.

    The scrub at the end finds it, if no start and no reader has, and the file is written anew.
    """
    is_apt = plan.shape.level0_bytes >= 0 and plan.shape.policy == "all"
    is_whole = not any(fault.kind in _TAKES_COPIES for fault in plan.faults)
    if draw.random() >= DAMAGED_LEVELS_SHARE or not (is_apt and is_whole):
        return plan
    target = draw.choice(_brokers(plan))
    flip = _level_flip(plan, draw, (target,), SECOND_LEVEL)
    return plan.with_faults((*plan.faults, flip))


def _tiered(plan: Plan, draw: random.Random) -> Plan:
    """Give a share of the plans with levels an object store, whose ways fail and objects decay.

    At the end a range that was cleaned is damaged on a disk, which the others have, and the same
    batch on all disks, which the store has.
    """
    others = [fault for fault in plan.faults if fault.kind not in DAMAGE]
    if plan.shape.level0_bytes < 0 or draw.random() >= TIERED_SHARE or not others:
        return plan
    faults = [
        Fault(
            kind=FaultKind.STORE,
            at_ms=beside.at_ms + draw.randint(0, beside.lasting_ms),
            lasting_ms=draw.randint(*STORE_MS),
            targets=(draw.choice(("*", "*", "master:0", "master:1", "master:2")),),
            amount=draw.randrange(len(MOODS)),
        )
        for beside in draw.choices(others, k=draw.randint(*STORE_FAULTS))
    ]
    flip = replace(faults[-1], kind=FaultKind.OBJECT_FLIP, targets=(), amount=0)
    faults += [flip] if draw.random() < OBJECT_FLIP_SHARE else []
    shape = replace(
        plan.shape,
        is_tiered=True,
        level0_bytes=0,  # what is split early is copied early
        retention_bytes=TIERED_RETENTION_BYTES if plan.shape.retention_bytes >= 0 else -1,
        is_churning=True,
        copy_bytes_per_second=0,  # retention overtakes a slow copy of so much, again and again
    )
    plan = replace(plan.with_faults((*plan.faults, *faults)), shape=shape)
    brokers = _brokers(plan)
    is_damaged = any(fault.kind in DAMAGE for fault in plan.faults)
    for targets, amount in (((draw.choice(brokers),), CLEANED), (tuple(brokers), COPIED)):
        # One host's disk alone is damaged besides. And where members delete, each by itself, the
        # beginning of a block may be with one alone: nobody else can give the whole block then.
        is_apt = shape.retention_bytes < 0 if amount == COPIED else not is_damaged
        if draw.random() < REPAIRED_SHARE and is_apt:
            flip = _level_flip(plan, draw, targets, amount)
            plan = plan.with_faults((*plan.faults, flip))
    return plan


def _freed(plan: Plan, draw: random.Random) -> Plan:
    """Have a share of the plans with an object store keep little of what is copied on the disks."""
    if not plan.shape.is_tiered or draw.random() >= FREED_SHARE:
        return plan
    size = draw.choice(LOCAL_BYTES)
    return replace(plan, shape=replace(plan.shape, local_retention_bytes=size))


def _with_remoting(plan: Plan, draw: random.Random) -> Plan:
    """Have RocketMQ clients, where wall clocks are right and positions of groups do not expire.

    Delays, and what becomes of half messages, go by the wall clocks of masters.
    """
    if draw.random() >= REMOTING_SHARE or not _suits_rocketmq(plan):
        return plan
    return replace(plan, shape=replace(plan.shape, remoting=draw.choice((1, 1, 2))))


def _with_grpc(plan: Plan, draw: random.Random) -> Plan:
    """Have RocketMQ clients over gRPC, likewise."""
    if draw.random() >= GRPC_SHARE or not _suits_rocketmq(plan):
        return plan
    return replace(plan, shape=replace(plan.shape, grpc=draw.choice((1, 1, 2))))


def _suits_rocketmq(plan: Plan) -> bool:
    is_wrong = any(fault.kind is FaultKind.CLOCK_STEP for fault in plan.faults)
    return not is_wrong and plan.shape.group_kept_ms < 0


def _brokers(plan: Plan) -> list[str]:
    return [host.name for host in hosts_of(plan.shape) if host.is_broker]


def _level_flip(plan: Plan, draw: random.Random, targets: tuple[str, ...], amount: int) -> Fault:
    """Return a flip behind all other faults; a range to be hit has to be cleaned by then."""
    waits_ms = CLEANED_MS if amount == CLEANED else 0
    return Fault(
        kind=FaultKind.BIT_FLIP,
        at_ms=max(plan.end_ms, SPLIT_MS) + waits_ms,
        lasting_ms=draw.randint(*DAMAGE_MS),
        targets=targets,
        amount=amount,
    )
