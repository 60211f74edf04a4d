"""Starts that are tried on copies of disks: what a loss of power would bring to light is told."""

import asyncio
from random import Random

import pytest

from harness.ids import as_epochs
from penstock.storage.commit_log.writer import LogWriter
from simulator.kernel.disk import SimDisk
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from simulator.trials.shadow_starts import ShadowStarts
from tests.sim.test_talk import members

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PLAN = Plan(seed=3, shape=Shape(partitions=1, producers=1), settle_ms=300)


async def a_while(_: Run) -> None:
    await asyncio.sleep(1.5)


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShadowStarts, "is_due", lambda _: True)


def test_starts_of_sound_logs_find_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    assert run_plan(PLAN, a_while).findings == []


def test_a_log_that_calls_durable_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    durable = property(lambda self: self.written_position)
    monkeypatch.setattr(LogWriter, "durable_position", durable)
    told = run_plan(PLAN, a_while).findings
    assert any("after a loss of power now, ends at" in one for one in told)


def test_a_log_that_can_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)

    async def damage(run: Run) -> None:
        await asyncio.sleep(0.3)
        server, member = members(run)[0]
        log = f"set-{member.replica_set_id}/log/"
        path = next(name for name in server.disk.names if name.startswith(log))
        content = server.disk.names[path].durable
        content[90] ^= 1
        await asyncio.sleep(0.04)
        content[90] ^= 1

    told = run_plan(PLAN, damage).findings
    assert any("after a loss of power now, can not start" in one for one in told)


def test_a_snapshot_that_calls_confirmed_what_no_master_has() -> None:
    told: list[str] = []

    async def know_of_none(run: Run) -> None:
        await asyncio.sleep(0.5)
        server, member = members(run)[0]
        told.extend(ShadowStarts().of_member(server, member, -1))

    assert run_plan(PLAN, know_of_none).findings == []
    assert told
    assert all("confirmed, and masters -1" in one for one in told)


def test_a_member_that_knows_another_mastership_than_its_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    always(monkeypatch)

    async def forget(run: Run) -> None:
        await asyncio.sleep(0.3)
        _, member = members(run)[0]
        member.log.epochs.extend(as_epochs((7, 0)))
        await asyncio.sleep(0.1)
        member.log.epochs.pop()

    told = run_plan(PLAN, forget).findings
    assert any("has the masterships" in one and "(7, 0)" in one for one in told)


def test_a_metadata_log_that_can_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)

    async def damage(run: Run) -> None:
        server = run.cluster.servers["n1"]
        inode = server.disk.files.durable["metadata/raft.log"]
        inode.durable[3] ^= 1
        await asyncio.sleep(0.04)
        inode.durable[3] ^= 1

    told = run_plan(PLAN, damage).findings
    assert any("n1: controller, after a loss of power now, can not start" in one for one in told)


def test_a_copy_of_a_disk_goes_its_own_way() -> None:
    disk = SimDisk(Random(1))
    for name in ("set-1/a", "set-2/a"):
        disk.make_directory(name[:5])
        file = disk.open(name, create=True)
        file.write(0, [b"synced"])
        file.sync()
        disk.sync_directory(name[:5])
        file.write(0, [b"cached"])
    copied = disk.duplicate("set-1/", Random(2))
    assert sorted(copied.names) == ["set-1/a"]
    assert bytes(copied.names["set-1/a"].data) == b"cached"
    assert bytes(copied.names["set-1/a"].durable) == b"synced"
    copied.open("set-1/a").write(0, [b"other!"])
    copied.power_loss()
    assert bytes(disk.names["set-1/a"].data) == b"cached"
    assert bytes(disk.names["set-1/a"].durable) == b"synced"
    assert len(disk.names) == 2
