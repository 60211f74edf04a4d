"""Damage in one member's log: found, said, never served, cut away, and copied from the master."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.ha_brain import Brain
from harness.ha_cluster import PARTITION, Broker, HaCluster, ha_cluster
from penstock.base.ids import Offset, ReplicaSetId
from penstock.controller.session import FAILED
from penstock.frames.frames import FRAME_HEADER_BYTES
from penstock.replica.replica_set import Role
from penstock.storage.errors import CorruptFrame, CorruptLog
from tests.runtime.ha_running import run_long

LOG = "set-1/log/00000000000000000000.log"


def flip(broker: Broker, at: int, *, path: str = LOG) -> None:
    """Turn one byte of a file over, as a disk may."""
    with (broker.directory / path).open("r+b") as file:
        file.seek(at)
        (old,) = file.read(1)
        file.seek(at)
        file.write(bytes([old ^ 0x40]))


BATCHES = 40
DAMAGED = BATCHES // 2
"""Offset of the batch in the middle, whose position `filled` returns."""


async def filled(cluster: HaCluster, batches: int = BATCHES) -> tuple[Brain, int, bytes]:
    """Return the controller, the position of a batch in the middle, and all frames."""
    brain = Brain(cluster)
    await cluster.until(lambda: 1 in cluster.controllers.judge.image.replica_sets)
    await cluster.leads(1)
    for _ in range(batches):
        await cluster[1].append_when_ready(size=100, fill=7)
    await cluster.confirmed(1)
    await cluster.equal(1, 2, 3)
    columns = cluster[1].member().log.partitions[PARTITION].columns
    return brain, columns.positions[len(columns.positions) // 2], cluster[1].frames()


async def with_a_frame_behind_the_snapshot(cluster: HaCluster, broker_id: int) -> bytes:
    """Return all frames, of which the broker's next start reads no more than it has to."""
    written: list[bool] = []
    cluster[broker_id].member().log.checkpoint(written.append)
    await cluster.until(lambda: written == [True], "a snapshot of everything")
    await cluster[1].append_when_ready(size=100, fill=7)
    await cluster.confirmed(1)
    await cluster.equal(1, 2, 3)
    return cluster[1].frames()


async def mended(cluster: HaCluster, broker_id: int, log_id: str, frames: bytes) -> None:
    """Wait until the broker follows with another log id, and everything is as it was."""
    driver = cluster[broker_id].manager.drivers[ReplicaSetId(1)]
    await cluster.until(lambda: driver.log_id not in {"", log_id}, "it has a new log")
    await cluster.in_step(1, 2, 3)
    await cluster.equal(1, 2, 3)
    for one in (1, 2, 3):
        assert cluster[one].frames()[: len(frames)] == frames


def test_a_slave_with_damage_behind_its_snapshot_starts_and_is_copied_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain, position, frames = await filled(cluster)
            log_id = cluster[3].manager.drivers[ReplicaSetId(1)].log_id
            await cluster[3].crash()
            flip(cluster[3], position + FRAME_HEADER_BYTES + 70)
            await cluster[3].start(is_registering=False)
            driver, seen = cluster[3].manager.drivers[ReplicaSetId(1)], []

            def has_failed_for_good() -> bool:
                """A node that starts gives up on an error which nobody is about to repair."""
                seen.append(driver.open_error is not None and not driver.mending.is_pending)
                return driver.log_id not in {"", log_id}

            await cluster.until(has_failed_for_good)
            await mended(cluster, 3, log_id, frames)
            stats = cluster[3].manager.damage_stats
            assert (stats.found_at_start, stats.found_in_use, stats.repaired) == (1, 0, 1)
            assert not any(seen)
            brain.stop()

    run_long(scenario())


def test_the_last_acknowledged_frame_damaged_is_no_torn_write(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain, _, frames = await filled(cluster)
            log_id = cluster[2].manager.drivers[ReplicaSetId(1)].log_id
            await cluster[2].crash()
            flip(cluster[2], len(frames) - 3)
            await cluster[2].start(is_registering=False)
            await mended(cluster, 2, log_id, frames)
            assert cluster[2].manager.damage_stats.found_at_start == 1
            brain.stop()

    run_long(scenario())


def test_a_master_that_reads_damage_serves_none_and_lets_another_lead(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain, position, frames = await filled(cluster)
            log_id = cluster[1].manager.drivers[ReplicaSetId(1)].log_id
            member = cluster[1].member()
            partition = member.log.partitions[PARTITION]
            flip(cluster[1], position + FRAME_HEADER_BYTES + 3)
            with pytest.raises(CorruptFrame):
                member.log.read(partition, Offset(DAMAGED), 1 << 20, member.confirm_position)
            await cluster.until(lambda: cluster.controllers.image_of(1).master in {2, 3})
            assert cluster.controllers.image_of(1).last_cause == "log failed"
            await mended(cluster, 1, log_id, frames)
            stats = cluster[1].manager.damage_stats
            assert (stats.found_in_use, stats.repaired) == (1, 1)
            assert cluster[1].member().role is Role.SLAVE
            brain.stop()

    run_long(scenario())


def test_a_closed_file_that_lost_its_unused_end_gets_its_length_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain, _, frames = await filled(cluster, 700)
            path = cluster[3].directory / LOG
            whole = path.read_bytes()
            await cluster[3].crash()
            path.write_bytes(whole.rstrip(b"\0") + bytes(16))  # an end marker ends with zeros
            await cluster[3].start(is_registering=False)
            await cluster.in_step(1, 2, 3)
            await cluster.equal(1, 2, 3)
            assert cluster[3].frames() == frames
            assert path.read_bytes() == whole
            (text,) = cluster[3].member().log.recovery.damaged_files
            assert "cut short behind its frames" in text
            assert cluster[3].manager.damage_stats.found_at_start == 0
            brain.stop()

    run_long(scenario())


def test_the_scrub_finds_what_nobody_reads(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain, position, frames = await filled(cluster)
            log_id = cluster[3].manager.drivers[ReplicaSetId(1)].log_id
            flip(cluster[3], position + 20)
            cluster[3].manager.scrubber.hurry(ReplicaSetId(1))
            await mended(cluster, 3, log_id, frames)
            assert cluster[3].manager.scrubber.stats.damage_found == 1
            assert cluster[3].manager.damage_stats.repaired == 1
            brain.stop()

    run_long(scenario())


def test_after_damage_at_a_start_what_the_start_did_not_read_is_scrubbed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain, _, _ = await filled(cluster, 1_000)
            frames = await with_a_frame_behind_the_snapshot(cluster, 3)
            await cluster[3].crash()
            cluster[3].log_config = replace(cluster[3].log_config, scrub_bytes_per_second=0)
            flip(cluster[3], 1_000)
            files = (cluster[3].directory / LOG).parent.glob("*.log")
            base = max(int(file.stem) for file in files if int(file.stem) < len(frames))
            flip(cluster[3], len(frames) - base - 3, path=f"set-1/log/{base:020}.log")
            await cluster[3].start(is_registering=False)
            stats = cluster[3].manager.damage_stats
            await cluster.until(lambda: stats.repaired == 2, "both places are repaired")
            await mended(cluster, 3, "", frames)
            assert (stats.found_at_start, stats.found_in_use) == (1, 1)
            brain.stop()

    run_long(scenario())


def test_a_master_finds_damage_when_it_has_sent_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain, _, frames = await filled(cluster)
            log_id = cluster[1].manager.drivers[ReplicaSetId(1)].log_id
            await cluster[3].crash()
            await cluster.in_step(1, 2)
            position = cluster[1].member().log.end_position
            for _ in range(5):
                await cluster[1].append_when_ready(size=100, fill=8)
            await cluster.confirmed(1)
            frames = cluster[2].frames()
            flip(cluster[1], position + FRAME_HEADER_BYTES + 66)
            await cluster[3].start(is_registering=False)
            await mended(cluster, 1, log_id, frames)
            assert cluster[1].manager.damage_stats.found_in_use == 1
            brain.stop()

    run_long(scenario())


def test_a_master_that_nobody_could_replace_leads_on_without_what_is_damaged(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain, position, _ = await filled(cluster)
            for one in (2, 3):
                await cluster[one].crash()
            await cluster.in_step(1)
            member = cluster[1].member()
            partition = member.log.partitions[PARTITION]
            flip(cluster[1], position + 30)
            with pytest.raises(CorruptFrame):
                member.log.read(partition, Offset(DAMAGED), 1 << 20, member.confirm_position)
            driver = cluster[1].manager.drivers[ReplicaSetId(1)]
            await cluster.until(lambda: driver.mending.damage is not None)
            assert driver.mending.damage
            assert driver.mending.damage.reason
            assert member.is_master
            chunk = member.log.read(partition, Offset(0), 200, member.confirm_position)
            assert chunk.size
            await cluster[2].start(is_registering=False)
            await cluster[3].start(is_registering=False)
            await cluster.until(lambda: cluster.controllers.image_of(1).master in {2, 3})
            await cluster.in_step(1, 2, 3)
            await cluster.equal(1, 2, 3)
            brain.stop()

    run_long(scenario())


def test_damage_that_is_the_only_copy_is_refused_and_not_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain, position, frames = await filled(cluster)
            for one in (2, 3, 1):
                await cluster[one].crash()
            flip(cluster[1], position + 30)
            before = (cluster[1].directory / LOG).read_bytes()
            await cluster[1].start(is_registering=False)
            driver = cluster[1].manager.drivers[ReplicaSetId(1)]
            await cluster.until(lambda: driver.open_error is not None)
            assert isinstance(driver.open_error, CorruptLog)
            (role,) = [
                report.role for report in cluster[1].manager.reports() if report.replica_set_id == 1
            ]
            assert role == FAILED
            await cluster.pause(0.2)
            assert (cluster[1].directory / LOG).read_bytes() == before
            await cluster[2].start(is_registering=False)
            await cluster[3].start(is_registering=False)
            await cluster.in_step(1, 2, 3)
            await cluster.equal(1, 2, 3)
            assert cluster[1].frames()[: len(frames)] == frames
            brain.stop()

    run_long(scenario())


def test_a_pass_of_the_scrub_over_whole_logs_finds_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain, _, frames = await filled(cluster, 600)
            scrubber = cluster[2].manager.scrubber
            scrubber.hurry(ReplicaSetId(1))
            await cluster.until(lambda: scrubber.stats.read_bytes >= len(frames) - 200)
            assert scrubber.stats.damage_found == scrubber.stats.rebuilt_files == 0
            assert cluster[2].manager.damage_stats.found_in_use == 0
            assert len(frames) > 1 << 16
            brain.stop()

    run_long(scenario())
