"""Damage in any class of bytes is found and repaired; the judge of that sees what is planted."""

import asyncio
from pathlib import Path
from random import Random

import pytest
import uvloop

from penstock.storage.commit_log import durable_mark
from penstock.storage.read import read_check
from reliability.damage.brokers import NodeCluster
from reliability.damage.byte_classes import classes_of
from reliability.damage.metadata_files import damage_identity, damage_raft
from reliability.damage.rounds import REPAIRED, Rounds, Tally


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("work", "count"), [("stopped", 8), ("running", 6)])
def test_damage_anywhere_is_found_repaired_from_a_peer_and_never_served(
    tmp_path: Path, work: str, count: int
) -> None:
    tally = rounds_with(tmp_path, work, count, sets=12)
    assert tally.wrong == []
    assert tally.position_count == 12 * count
    repaired = sum(found for one, found in tally.verdicts.items() if one.outcome == REPAIRED)
    assert repaired > tally.position_count // 3
    assert tally.records_read > 1_000


def test_a_raft_member_starts_with_all_it_knew_or_not_at_all(tmp_path: Path) -> None:
    tally = Tally()
    damage_raft(Random(3), tmp_path, 100, tally)
    assert tally.wrong == []
    assert len(tally.verdicts) > 12


def test_a_directory_is_nobody_elses_after_damage_of_its_identity(tmp_path: Path) -> None:
    tally = Tally()
    damage_identity(Random(4), tmp_path, 200, tally)
    assert tally.wrong == []


def rounds_with(root: Path, work: str, count: int, *, sets: int = 8) -> Tally:
    """Run rounds of one mode over a cluster; what fails outright counts as found wrong."""
    tally = Tally()

    async def live() -> None:
        cluster = NodeCluster(root, sets)
        await cluster.begin()
        rounds = Rounds(cluster, Random(5), tally)
        for _ in range(count):
            await rounds.fill()
            await getattr(rounds, work)()
            if tally.wrong:
                break
        await cluster.end()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(live())
    return tally


@pytest.mark.timeout(600)
def test_reads_that_check_nothing_are_seen_by_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.read.chunk.check_regions", read_check.check_regions)
    monkeypatch.setattr("penstock.storage.read.read_check.check_batch", lambda *_: None)
    tally = rounds_with(tmp_path, "running", 6)
    assert any("a reader got something else" in text for text in tally.wrong)


@pytest.mark.timeout(600)
def test_rot_at_the_end_that_is_taken_for_a_torn_write_is_seen_by_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.recover.recovery.read_mark", lambda *_: 0)
    monkeypatch.setattr("reliability.damage.rounds.classes_of", last_frame_of)
    tally = rounds_with(tmp_path, "stopped", 4)
    assert any("not found" in text for text in tally.wrong)
    assert durable_mark.read_mark is not None


def last_frame_of(directory: Path) -> dict[str, list[object]]:
    """Return only the records of the newest batch."""
    places = classes_of(directory)["batch: records"]
    return {"batch: records": [places[-1]]}
