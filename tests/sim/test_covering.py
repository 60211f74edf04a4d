"""The seeds that `make sim` runs again: few, and whatever any plan has is in one of theirs."""

import json
from pathlib import Path

import pytest

from simulator.__main__ import FAULTS_DEFAULT, main
from simulator.run.campaign import Campaign
from simulator.run.covering import covering, parts
from simulator.run.plan import Fault, FaultKind, Plan, Shape
from simulator.run.planning import make_plan

SEEDS = range(1, 26)


def of_all(seeds) -> set[tuple[str, object]]:
    return set().union(*(parts(make_plan(seed)) for seed in seeds))


def trace_of(seed: int) -> dict[str, str]:
    return {"commit": "any", "digest": f"trace {seed}"}


def test_a_few_seeds_leave_out_no_kind_of_fault_and_nothing_of_any_shape() -> None:
    chosen = covering(SEEDS, faults=FAULTS_DEFAULT)
    assert chosen == sorted(set(chosen) & set(SEEDS))
    assert of_all(chosen) == of_all(SEEDS)
    assert 3 * len(chosen) < 2 * len(SEEDS)


def test_parts_are_kinds_of_faults_and_what_sets_a_shape_apart() -> None:
    calm = Plan(seed=1)
    kill = Fault(kind=FaultKind.KILL, at_ms=1, lasting_ms=1, targets=())
    assert parts(Plan(seed=2, faults=(kill, kill))) - parts(calm) == {("fault", FaultKind.KILL)}
    stock = Plan(seed=1, shape=Shape(stock_clients=True))
    assert parts(stock) - parts(calm) == {("stock_clients", True)}


def test_of_equal_plans_one_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.run.covering.make_plan", lambda seed, **_: Plan(seed=seed))
    assert covering(SEEDS, faults=FAULTS_DEFAULT) == [1]


def test_with_covering_no_other_seeds_are_run_and_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps({"runs": {str(seed): trace_of(seed) for seed in SEEDS}}))
    asked: list[int] = []

    def run(campaign, seeds, **_more) -> dict[str, object]:
        asked.extend(seeds)
        campaign.runs.update({str(seed): trace_of(seed) for seed in seeds})
        return {}

    monkeypatch.setattr(Campaign, "run", run)
    words = ["--seeds", "1..25", "--covering", "--faults", "2", "--like", str(earlier)]
    assert main(words) == 0
    assert f"equal traces of {len(asked)} seeds" in capsys.readouterr().out
    assert asked == covering(SEEDS, faults=2) != covering(SEEDS, faults=FAULTS_DEFAULT)


@pytest.mark.parametrize("more", [["--seeds", "1..25", "--twice"], ["--seed", "7"]])
def test_covering_is_refused_where_it_would_choose_nothing(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--covering", *more])
    assert ended.value.code == 2
    assert "--covering chooses among --seeds" in capsys.readouterr().err
