"""Fault plans: what a seed orders, and that a plan survives being written down."""

from itertools import pairwise

import pytest

from penstock.base.errors import ConfigError
from simulator.faults.level_damage import COPIED
from simulator.run import more_variants
from simulator.run.more_variants import MERGES
from simulator.run.plan import DAMAGE, OFF, Fault, FaultKind, Plan, Shape
from simulator.run.planning import make_plan

SEEDS = range(300)
OF_STORE = {FaultKind.STORE, FaultKind.OBJECT_FLIP}
"""They take no copy of a member."""


def damage_of(plan: Plan) -> list[Fault]:
    """Return the damage, but for that of a batch that the object store has."""
    damage = [fault for fault in plan.faults if fault.kind in DAMAGE]
    return [fault for fault in damage if fault.amount != COPIED]


def test_a_seed_always_gives_the_same_plan_and_another_seed_another() -> None:
    assert make_plan(7) == make_plan(7)
    assert len({make_plan(seed).to_json() for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_plan_is_the_same_after_it_was_written_and_read(seed: int) -> None:
    plan = make_plan(seed)
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"seed": 1, "faults": [{"kind": "earthquake"}]}', '{"seed": 1, "shape": {"x": 1}}'],
)
def test_what_is_no_plan_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ConfigError, match="no fault plan"):
        Plan.from_json(text)


def test_a_plan_of_a_later_format_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="newer Penstock"):
        Plan.from_json('{"format_version": 99, "seed": 1}')


def test_every_kind_that_is_on_the_menu_is_ordered_by_some_seed() -> None:
    ordered = {fault.kind for seed in SEEDS for fault in make_plan(seed).faults}
    assert ordered == set(FaultKind) - {FaultKind.SETTING}  # at the end alone


def test_the_disks_of_one_host_at_most_are_damaged_and_a_lie_has_nothing_beside_it() -> None:
    for seed in SEEDS:
        plan = make_plan(seed)
        faults = [fault for fault in plan.faults if fault.kind not in OF_STORE]
        damage = damage_of(plan)
        assert len({one.targets for one in damage}) <= 1
        for one in damage:
            others = [other for other in faults if other is not one]
            is_alone = not any(o.at_ms < one.end_ms and one.at_ms < o.end_ms for o in others)
            assert is_alone or one.kind is FaultKind.BIT_FLIP


def test_where_damage_has_company_every_other_copy_stays() -> None:
    besides = 0
    for seed in SEEDS:
        plan = make_plan(seed)
        damage = damage_of(plan)
        others = [fault for fault in plan.faults if fault.kind not in OF_STORE.union(DAMAGE)]
        if any(o.at_ms < d.end_ms and d.at_ms < o.end_ms for o in others for d in damage):
            besides += 1
            assert plan.shape.policy == "all"
            assert not {other.kind for other in others} & {FaultKind.DISK_LOST, FaultKind.REPLACE}
    assert besides > 5


def test_nobody_loses_power_where_logs_are_flushed_later() -> None:
    plans = [make_plan(seed) for seed in SEEDS]
    later = [plan for plan in plans if plan.shape.is_flushed_later]
    assert len(later) > 10
    lossy = {FaultKind.POWER_OFF, FaultKind.LYING_SYNC}
    assert not any(fault.kind in lossy for plan in later for fault in plan.faults)


def test_every_layout_and_policy_is_ordered_by_some_seed() -> None:
    shapes = [make_plan(seed).shape for seed in SEEDS]
    assert {shape.is_apart for shape in shapes} == {False, True}
    assert {shape.replication_factor for shape in shapes} == {1, 2, 3}
    assert {shape.policy for shape in shapes} == {"all", "quorum", "k-of-n", "adaptive"}


def test_some_seeds_have_movers_and_their_positions_never_expire() -> None:
    shapes = [make_plan(seed).shape for seed in SEEDS]
    movers = [shape for shape in shapes if shape.movers]
    assert len(SEEDS) // 4 < len(movers) < len(SEEDS) // 2
    assert {shape.group_kept_ms for shape in movers} == {-1}
    assert len({shape.group_rewrite_bytes for shape in movers}) > 1


def test_faults_begin_in_order_and_overlap() -> None:
    overlaps = 0
    for seed in SEEDS:
        faults = make_plan(seed).faults
        assert list(faults) == sorted(faults, key=lambda one: one.at_ms)
        overlaps += sum(one.end_ms > other.at_ms for one, other in pairwise(faults))
    assert overlaps > len(SEEDS)


def test_a_fault_reads_as_a_sentence() -> None:
    fault = Fault(
        kind=FaultKind.LOSS, at_ms=5, lasting_ms=20, targets=("a",), others=("b",), amount=80
    )
    assert " ".join(str(fault).split()) == "5 ms loss 80 a | b for 20 ms"


def test_some_seeds_have_an_application_mixed_groups_and_an_inspector() -> None:
    shapes = [make_plan(seed).shape for seed in SEEDS]
    assert {shape.streams for shape in shapes} == {0, 2, 3}
    mixed = [shape for shape in shapes if shape.has_mixed_groups]
    assert len(mixed) > len(SEEDS) // 10
    assert all(shape.groups for shape in mixed)
    assert len(SEEDS) // 5 < sum(shape.is_inspected for shape in shapes) < len(SEEDS) // 2


def test_some_seeds_have_remoting_clients_where_clocks_are_right_and_positions_stay() -> None:
    plans = [make_plan(seed) for seed in SEEDS]
    having = [plan for plan in plans if plan.shape.remoting]
    assert len(SEEDS) // 8 < len(having) < len(SEEDS) // 3
    assert {plan.shape.remoting for plan in having} == {1, 2}
    for plan in having:
        assert plan.shape.group_kept_ms < 0
        assert not any(fault.kind is FaultKind.CLOCK_STEP for fault in plan.faults)


def test_some_seeds_have_grpc_clients_beside_remoting_ones_and_without_them() -> None:
    plans = [make_plan(seed) for seed in SEEDS]
    having = [plan for plan in plans if plan.shape.grpc]
    assert len(SEEDS) // 8 < len(having) < len(SEEDS) // 3
    assert {plan.shape.grpc for plan in having} == {1, 2}
    assert {plan.shape.remoting > 0 for plan in having} == {True, False}
    for plan in having:
        assert plan.shape.group_kept_ms < 0
        assert not any(fault.kind is FaultKind.CLOCK_STEP for fault in plan.faults)


def test_some_seeds_have_sharers() -> None:
    sharers = [make_plan(seed).shape.sharers for seed in SEEDS]
    assert len(SEEDS) // 4 < sum(count > 0 for count in sharers) < len(SEEDS) // 2
    assert {*sharers} == {0, 1, 2, 3}


def test_some_seeds_have_clients_that_push_metrics_beside_quotas_and_without_them() -> None:
    having = [one for one in (make_plan(seed).shape for seed in SEEDS) if one.pushers]
    assert len(SEEDS) // 20 < len(having) < len(SEEDS) // 5
    assert {shape.pushers for shape in having} == {1, 2}
    assert {shape.limited > 0 for shape in having} == {False, True}


def test_messages_are_traced_by_some_of_the_seeds_with_a_share_group() -> None:
    shapes = [make_plan(seed).shape for seed in SEEDS]
    traced = [shape for shape in shapes if shape.trace_percent]
    with_sharers = sum(shape.sharers > 0 for shape in shapes)
    assert with_sharers // 10 < len(traced) < with_sharers // 3
    assert {shape.trace_percent for shape in traced} == {20.0, 60.0, 100.0}
    assert all(shape.sharers for shape in traced)


def test_objects_are_merged_by_sizes_that_seeds_draw_where_there_is_a_store() -> None:
    shapes = [make_plan(seed).shape for seed in SEEDS]
    merged = {(shape.merge_bytes, shape.merge_runs) for shape in shapes if shape.is_tiered}
    others = {(shape.merge_bytes, shape.merge_runs) for shape in shapes if not shape.is_tiered}
    usual = Shape()
    assert merged == set(MERGES)
    assert others == {(usual.merge_bytes, usual.merge_runs)}


def test_the_store_is_switched_in_some_plans_with_one_where_give_ups_are_counted() -> None:
    kinds = {FaultKind.GIVE_UP, FaultKind.NO_COPIES}
    plans = [make_plan(seed) for seed in SEEDS]
    switched = [plan for plan in plans if any(fault.kind in kinds for fault in plan.faults)]
    tiered = sum(plan.shape.is_tiered for plan in plans)
    assert tiered // 3 < len(switched) < tiered
    for plan in switched:
        assert plan.shape.is_tiered
        assert not any(fault.kind is FaultKind.LEVEL for fault in plan.faults)
        wishes = [fault for fault in plan.faults if fault.kind in kinds]
        assert 1 <= len(wishes) <= 3
        assert all(fault.lasting_ms <= 2_000 for fault in wishes)


def test_where_sets_have_one_member_nothing_takes_or_moves_the_only_copy() -> None:
    plans = [plan for plan in map(make_plan, SEEDS) if plan.shape.replication_factor == 1]
    assert len(SEEDS) // 20 < len(plans) < len(SEEDS) // 8
    takes = {FaultKind.DISK_LOST, FaultKind.POWER_OFF, FaultKind.SYNC_ERROR, *DAMAGE}
    moves = {FaultKind.REPLACE, FaultKind.DRAIN}
    for plan in plans:
        shape = plan.shape
        assert not (takes | moves) & {fault.kind for fault in plan.faults}
        assert (shape.policy, shape.min_insync_replicas, shape.slave_reads) == ("all", 1, OFF)
        assert shape.is_flushed_later
        assert shape.transactors
        assert shape.level0_bytes < 0
    assert {plan.shape.is_apart for plan in plans} == {False, True}
    assert all(
        any(fault.kind is FaultKind.KILL and fault.targets for fault in plan.faults)
        for plan in plans
    )


def test_a_draw_of_one_variant_changes_no_plan_that_is_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = {seed: make_plan(seed) for seed in SEEDS}
    for share in ("PUSHERS_SHARE", "TRACE_SHARE", "SWITCHED_SHARE", "SOLE_SHARE"):
        monkeypatch.setattr(more_variants, share, 0.0)
    without = [
        seed
        for seed, plan in now.items()
        if not (plan.shape.pushers or plan.shape.trace_percent or plan.shape.is_tiered)
        and plan.shape.replication_factor > 1
    ]
    assert len(without) > len(SEEDS) // 2
    assert all(make_plan(seed) == now[seed] for seed in without)
