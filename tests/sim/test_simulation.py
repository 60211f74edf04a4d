"""Whole clusters in the simulation: seeds that stay clean, equal traces, bugs that are found."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.replica.followed_set import FollowedSet
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.confirm import ConfirmTracker
from penstock.replication.messages import Acknowledge
from simulator.__main__ import main
from simulator.clients.stock import StockProducer
from simulator.history import Outcome
from simulator.run.equal_traces import differences, traces
from simulator.run.one_run import Run, RunResult, run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape
from simulator.run.planning import make_plan

ROOT = Path(__file__).parents[2]
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
SEEDS_COMPARED = 2

pytestmark = [
    pytest.mark.timeout(900),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    # Processes that are cut off close nothing, and say so when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def clean(result: RunResult) -> RunResult:
    assert not result.findings, "\n".join([*result.findings[:5], result.plan.to_json()])
    assert result.acked > 0
    assert result.read >= result.acked
    return result


def test_a_cluster_without_faults_keeps_every_promise() -> None:
    result = clean(run_plan(Plan(seed=1, settle_ms=1_500)))
    assert result.sent == result.acked + result.refused
    assert result.acked > 100
    assert result.checks > 500


def test_a_cluster_under_faults_keeps_every_promise() -> None:
    """A seed that `make sim` does not run, so that `make test` alone has one."""
    assert clean(run_plan(make_plan(1_001))).fault_count >= 5


@pytest.mark.parametrize("plan", CORPUS, ids=lambda path: path.stem)
def test_what_once_broke_a_promise_does_so_no_more(plan: Path) -> None:
    clean(run_plan(Plan.from_json(plan.read_text())))


def test_equal_seeds_give_equal_traces_in_other_processes_with_other_hash_seeds() -> None:
    """A few; `make sim` compares more, under all faults, with stock clients among them."""
    one, other = traces(range(1, SEEDS_COMPARED + 1), faults=1)
    assert len(one) == SEEDS_COMPARED
    assert differences(one, other) == []


def test_traces_that_differ_and_seeds_that_decide_nothing_are_told() -> None:
    (text,) = differences({"1": "a", "2": "b"}, {"1": "a", "2": "c"})
    assert text == "seed 2: trace b in one process, c in the other"
    (text,) = differences({"1": "a", "2": "a"}, {"1": "a", "2": "a"})
    assert text.startswith("different seeds gave the same trace")
    assert len(differences({"1": "a"}, {"2": "b"})) == 2


def test_seeds_that_make_sim_compares_have_stock_clients_among_them() -> None:
    again = re.search(r"^SIM_AGAIN := (\d+)\.\.(\d+)$", (ROOT / "Makefile").read_text(), re.M)
    assert again is not None
    plans = [make_plan(seed) for seed in range(int(again[1]), int(again[2]) + 1)]
    assert any(plan.shape.stock_clients for plan in plans)


def test_a_run_that_is_not_like_an_earlier_one_is_told_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier, altered = tmp_path / "earlier.json", tmp_path / "altered.json"
    words = ["--seeds", "1..1", "--faults", "1", "--campaign", str(earlier)]
    assert main([*words, "--like", str(earlier)]) == 0
    assert "equal traces of 1 seeds" in capsys.readouterr().out
    document = json.loads(earlier.read_text())
    document["runs"]["1"]["digest"] = "another"
    altered.write_text(json.dumps(document))
    assert main([*words, "--like", str(altered)]) == 1
    assert "seed 1: trace another in one process" in capsys.readouterr().out
    assert main([*words, "--like", str(tmp_path / "missing.json")]) == 1
    assert "seed 1: trace None in one process" in capsys.readouterr().out


# Bugs planted on purpose: a harness that can not fail proves nothing


def fault(kind: FaultKind, at_ms: int, lasting_ms: int, *targets: str, **more: Any) -> Fault:
    return Fault(kind=kind, at_ms=at_ms, lasting_ms=lasting_ms, targets=targets, **more)


def found(*faults: Fault, seeds: int = 5, **shape: Any) -> list[str]:
    """Run the plan under a few seeds; returns what the first one that breaks says."""
    for seed in range(seeds):
        plan = Plan(seed=seed, shape=Shape(partitions=1, **shape), faults=faults)
        result = run_plan(plan)
        if result.findings:
            return result.findings
    return []


MASTER_DIES = fault(FaultKind.KILL, 300, 3_000, "master:0")


def test_a_master_that_confirms_what_it_alone_holds_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def alone(tracker: ConfirmTracker) -> int:
        return max(tracker._acknowledged.values(), default=0)

    monkeypatch.setattr(ConfirmTracker, "reachable", alone)
    slow = fault(FaultKind.LATENCY, 0, 1_000, "master:0", others=("*",), amount=400)
    assert found(slow, MASTER_DIES)


def test_a_slave_that_acknowledges_before_its_sync_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_early(followed: FollowedSet, *, is_repeated: bool = False) -> None:
        del is_repeated
        if followed._send is not None:
            end = followed.member.log.end_position
            followed._send(Acknowledge(followed.replica_set_id, followed.leader_epoch, end))

    monkeypatch.setattr(FollowedSet, "_acknowledge", too_early)
    everybody_else = fault(FaultKind.POWER_OFF, 301, 200, "slaves:0")
    # Not from the start: who is a slave is known only when a master has been elected.
    slow = fault(FaultKind.SLOW_SYNC, 100, 1_000, "slaves:0", amount=200)
    assert found(slow, MASTER_DIES, everybody_else, is_apart=True, seeds=15)


def test_a_master_that_reads_out_after_it_was_replaced_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ReplicaSetMember, "check_readable", lambda _: None)
    cut = fault(FaultKind.PARTITION, 0, 4_000, "master:0", others=("*",))
    assert any("answers reads of set 1 in epoch 0 without a lease" in text for text in found(cut))


def test_a_resumed_master_that_drops_what_it_does_not_know_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ReplicaSetMember, "has_resumed", property(lambda _: False, lambda *_: None))
    assert found(fault(FaultKind.POWER_OFF, 0, 50, "n1", "n2", "n3"), seeds=15)


# Clients that others wrote


def test_stock_clients_take_part_and_find_every_promise_kept() -> None:
    shape = Shape(stock_clients=True, partitions=2, producers=1)
    faults = (
        fault(FaultKind.KILL, 500, 1_000, "master:0"),
        fault(FaultKind.PARTITION, 2_000, 1_500, "master:1", others=("*",)),
    )
    seen: list[int] = []

    async def look(run: Run) -> None:
        producers = [lane for lane in run.clients.lanes if isinstance(lane, StockProducer)]
        seen.extend(
            sum(one.outcome is Outcome.ACKED for one in producer.sent) for producer in producers
        )
        readers = {poll.consumer for poll in run.clients.world.polls if poll.records}
        assert "stock-consumer" in readers

    clean(run_plan(Plan(seed=5, shape=shape, faults=faults), look))
    assert len(seen) == 1
    assert seen[0] > 50
