"""The simulator's compacted topic: it is cleaned on every member, and a wrong map is found.

A cleaned range that is damaged on one member is taken whole from another one (ADR 0114).
"""

import asyncio
from typing import Any

import pytest

from penstock.broker.sets.range_repairs import RangeRepairs
from penstock.compaction.key_map import PythonKeyMap
from penstock.node.node import Node
from penstock.storage.second_level.pieces import Marks
from penstock.storage.second_level.range_rebuild import RangeRebuild
from simulator.checks.final_maps import ReadLog, judge_maps
from simulator.faults.level_damage import CLEANED
from simulator.run.one_run import NotReached, Run, run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape
from simulator.run.server import Server

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("quiet")]

PLAN = Plan(seed=3, shape=Shape(level0_bytes=1 << 30))


def passes(server: Server) -> int:
    node = server.node
    splits = node.housekeeping.splits if isinstance(node, Node) else None
    cleanings = None if splits is None else splits.cleanings
    return 0 if cleanings is None else cleanings.stats.passes


async def _until_all_have_cleaned(run: Run) -> None:
    brokers = [one for one in run.cluster.servers.values() if isinstance(one.node, Node)]
    await run.until(lambda: all(passes(one) >= 2 for one in brokers), 60)
    await asyncio.sleep(1)


def test_every_member_cleans_and_ends_in_the_same_map() -> None:
    result = run_plan(PLAN, _until_all_have_cleaned)
    assert result.findings == []


def test_a_cleaner_that_drops_the_newest_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(PythonKeyMap):
        def _newest(self, key: memoryview) -> int:
            """Say one more than it is, so that the newest record itself seems to be old."""
            return super()._newest(key) + 1

    monkeypatch.setattr("penstock.storage.second_level.cleaning.new_key_map", Wrong)
    result = run_plan(PLAN, _until_all_have_cleaned)
    assert any("another value was written" in finding for finding in result.findings)


async def _damage_what_was_cleaned(run: Run) -> None:
    """Turn a bit over in a cleaned range of one member; the scrub at the end finds it."""
    await _until_all_have_cleaned(run)
    host = next(name for name, one in run.cluster.servers.items() if passes(one))
    flip = Fault(kind=FaultKind.BIT_FLIP, at_ms=0, lasting_ms=0, targets=(host,), amount=CLEANED)
    heal = run.faults.begin(flip)
    if heal is None:
        raise NotReached("no member has a cleaned range")
    await asyncio.sleep(1)
    heal()


@pytest.fixture
def repaired(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes came with each range that was taken over."""
    found: list[int] = []
    repair = RangeRepairs.repair

    async def counted(repairs: RangeRepairs, *asked: Any) -> int:
        found.append(await repair(repairs, *asked))
        return found[-1]

    monkeypatch.setattr(RangeRepairs, "repair", counted)
    return found


def test_a_cleaned_range_that_is_damaged_is_taken_from_another_member(repaired: list[int]) -> None:
    result = run_plan(PLAN, _damage_what_was_cleaned)
    assert result.findings == []
    assert sum(repaired) > 0


def test_a_repair_that_loses_batches_of_a_range_is_found(
    repaired: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = RangeRebuild._begin

    class Forgetful:
        """Writes every other batch."""

        def __init__(self, writer: Any) -> None:
            self._writer, self._count = writer, 0

        def add(self, batch: memoryview) -> None:
            self._count += 1
            if self._count % 2:
                self._writer.add(batch)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._writer, name)

    def begin_forgetful(rebuild: RangeRebuild, marks: Marks) -> None:
        begin(rebuild, marks)
        rebuild._writer = Forgetful(rebuild._writer)  # type: ignore[assignment]

    monkeypatch.setattr(RangeRebuild, "_begin", begin_forgetful)
    result = run_plan(PLAN, _damage_what_was_cleaned)
    assert sum(repaired) > 0
    assert any("another value was written" in finding for finding in result.findings)


def test_damage_of_a_range_that_nobody_repairs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any) -> int:
        return 0

    monkeypatch.setattr(RangeRepairs, "repair", never)
    result = run_plan(PLAN, _damage_what_was_cleaned)
    assert any(finding.startswith("not repaired: ") for finding in result.findings)


def test_what_is_missing_and_what_has_come_back_are_both_told() -> None:
    wanted = {b"a": b"1", b"b": b"2"}
    read = [
        ReadLog("b1", dict(wanted), 2),
        ReadLog("b2", {b"a": b"1"}, 1),
        ReadLog("b3", wanted | {b"c": b"3"}, 3),
        ReadLog("b4", {}, 0, "offset 7 can not be read"),
    ]
    told = list(judge_maps(read, wanted))
    assert [one.split(":")[0] for one in told] == ["b2", "b3", "b4"]
    assert "nothing" in told[0]
    assert "b'3'" in told[1]
