"""The simulator's compacted topic: it is cleaned on every member, and a wrong map is found."""

import asyncio

import pytest

from penstock.compaction.key_map import PythonKeyMap
from penstock.node.node import Node
from simulator.checks.final_maps import ReadLog, judge_maps
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
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
