"""Truncating, resetting, and replacing a log: durable at any crash, and nothing comes back."""

import errno
from random import Random

import pytest

from penstock.storage.config import Retention
from penstock.storage.errors import (
    BadInstall,
    BaseNotReady,
    ExportEnded,
    LogBusy,
    LogFenced,
    PositionOutOfRange,
)
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import (
    asked,
    check_equal,
    copy_base,
    export_of,
    frames_of,
    open_member,
    replicate,
    settle,
)
from tests.storage.world import (
    SMALL,
    Crashed,
    World,
    append,
    open_log,
    partition_number,
    read_all,
)


def member(batches=0, *, size=700, disk=None, records=1):
    """A member's log with batches; nothing but its empty start is confirmed."""
    world, disk = World(), disk or FaultyDisk()
    log = open_member(world, disk)
    log.begin_epoch(1)
    partition = log.open_partition(partition_number(0))
    for number in range(batches):
        append(log, partition, size=size, fill=number, records=records)
        world.run()
    world.run()
    return world, disk, log, partition


def reopened(disk):
    world = World()
    log = open_member(world, disk)
    return world, log, log.open_partition(partition_number(0))


def snapshots(disk):
    return sorted(int(name[-25:-5]) for name in disk.names if name.endswith(".snap"))


def copy_of(disk):
    """Return another disk with the same durable content."""
    twin = FaultyDisk()
    for name, node in disk.names.items():
        twin.replace(name, bytes(node.data))
    return twin


def test_nothing_above_the_confirmed_position_is_snapshotted():
    world, disk, log, _ = member(200)
    assert snapshots(disk) == [0]
    log.note_confirmed(30_000)
    world.run()
    assert log.confirmed_position == 30_000
    first = snapshots(disk)[-1]
    assert 0 < first <= 30_000
    log.note_confirmed(10_000)
    assert log.confirmed_position == 30_000
    log.note_confirmed(1 << 40)
    assert log.confirmed_position == log.end_position
    world.advance(5000)
    log.checkpoint()
    world.run()
    assert snapshots(disk)[-1] == log.end_position == log.snapshot_position


def test_a_close_is_clean_only_where_everything_is_confirmed():
    _, disk, log, _ = member(50)
    log.note_confirmed(log.end_position - 1)
    log.close()
    _, again, found = reopened(disk)
    assert not again.recovery.was_clean
    assert found.log_end_offset == 50
    assert again.confirmed_position == again.snapshot_position < again.end_position
    again.note_confirmed(again.end_position)
    again.close()
    _, third, found = reopened(disk)
    assert third.recovery.was_clean
    assert third.recovery.replayed_bytes == 0
    assert third.confirmed_position == third.end_position
    assert found.log_end_offset == 50


def test_an_unconfirmed_log_comes_back_whole_and_its_first_snapshot_holds_every_partition():
    world, disk, log, _ = member(100)
    others = [log.open_partition(partition_number(number)) for number in range(1, 5)]
    for partition in others:
        append(log, partition, size=100)
    world.run()
    world, again, _ = reopened(disk)
    again.note_confirmed(again.end_position)
    again.checkpoint()
    world.run()
    world, third, found = reopened(disk)
    assert third.recovery.replayed_frames == 0
    assert found.log_end_offset == 100
    for number in range(1, 5):
        assert third.open_partition(partition_number(number)).log_end_offset == 1


def truncated(world, log, position):
    calls = []
    log.on_reopened = lambda: calls.append("reopened")
    settle(world, log.truncate, position)
    return calls


@pytest.mark.parametrize("kept", [1, 3, 60, 93, 150, 199])
def test_a_truncation_takes_away_what_lies_behind_and_nothing_else(kept):
    world, disk, log, partition = member(200)
    before = read_all(world, log, partition)
    frames = frames_of(disk, log)
    positions = sorted(frames)
    position = [p for p in positions if HEADER_KIND(frames[p]) == 1][kept]
    assert truncated(world, log, position) == ["reopened"]
    after = log.open_partition(partition_number(0))
    assert after is not partition
    assert log.end_position == log.flushed_position == position
    assert after.log_end_offset == kept
    assert read_all(world, log, after) == before[:kept]
    assert frames_of(disk, log) == {p: f for p, f in frames.items() if p < position}
    for number in range(200):
        append(log, after, size=900, fill=number)
        world.run()
    world, again, found = reopened(disk)
    assert found.log_end_offset == kept + 200
    assert again.epochs == [(1, 0)]


def HEADER_KIND(frame):  # noqa: N802  reads like the constant it looks at
    return frame[7]


def test_appends_reads_and_runs_are_refused_while_a_log_is_truncated():
    world, _, log, partition = member(20)
    answers = []
    position = log.end_position
    log.truncate(1268, answers.append)
    assert log.is_busy
    assert not log.is_fenced
    with pytest.raises(LogBusy):
        append(log, partition, size=100)
    with pytest.raises(LogBusy):
        log.read(partition, 0, 100, 1 << 60)
    with pytest.raises(LogBusy):
        log.read_run(0, 100, 1 << 60)
    with pytest.raises(LogBusy):
        log.begin_epoch(7)
    log.truncate(2000, answers.append)
    assert isinstance(answers.pop(), LogBusy)
    world.run()
    assert answers == [None]
    assert not log.is_busy
    assert log.end_position < position


def test_truncating_at_or_above_the_end_does_nothing_and_below_the_log_is_refused():
    world, _, log, partition = member(5)
    settle(world, log.truncate, log.end_position)
    settle(world, log.truncate, 1 << 40)
    assert log.open_partition(partition_number(0)) is partition
    settle(world, log.reset_to, 1 << 20, (1 << 20) + SMALL.segment_bytes)
    log.begin_epoch(2)
    with pytest.raises(PositionOutOfRange):
        settle(world, log.truncate, 1000)


def test_a_truncation_is_complete_after_a_crash_at_any_step():
    world, origin, log, _ = member(150)
    log.note_confirmed(20_000)
    world.run()
    frames = frames_of(origin, log)
    position = [p for p in sorted(frames) if frames[p][7] == 1][30]
    kept = {p: f for p, f in frames.items() if p < position}
    for seed in range(3):
        random = Random(seed)
        state = {}

        def truncate(state=state):
            disk = state["disk"] = copy_of(origin)
            disk.on_operation, hook = None, state.get("hook")
            world, log, _ = reopened(disk)
            disk.on_operation = hook
            settle(world, log.truncate, position)

        for _ in _crashes(truncate, state):
            disk = state["disk"]
            disk.power_loss(random) if seed else disk.kill()
            world, log, partition = reopened(disk)
            found = frames_of(disk, log)
            assert found in (kept, frames), "neither before nor after"
            was_cut = found == kept
            append_many(world, log, partition, 20)
            _, again, partition = reopened(disk)
            expected = (30 if was_cut else 150) + 20
            assert partition.log_end_offset == expected
            assert not any(name.endswith("pending-change") for name in disk.names)
        assert state["steps"] > 8


def _crashes(operation, state):
    """Crash `operation` at each disk operation of its last part; see the callers."""
    step = 0
    while True:
        left = step

        def count(_operation, _path):
            nonlocal left
            left -= 1
            if left < 0:
                raise Crashed

        state["hook"] = count
        try:
            operation()
        except Crashed:
            state["disk"].on_operation = None
            yield step
            step += 1
            state["steps"] = step
            continue
        state["disk"].on_operation = None
        return


def append_many(world, log, partition, count, **batch):
    if log.leader_epoch < 9:
        log.begin_epoch(9)
    for number in range(count):
        append(log, partition, size=batch.get("size", 700), fill=number)
        world.run()


def test_a_cut_tail_does_not_come_back_when_new_frames_grow_up_to_it():
    # The same sizes again, so that a stale frame would lie exactly where a new one ends.
    world, disk, log, _ = member(100)
    frames = frames_of(disk, log)
    position = [p for p in sorted(frames) if frames[p][7] == 1][40]
    settle(world, log.truncate, position)
    partition = log.open_partition(partition_number(0))
    for number in range(60):
        append(log, partition, size=700, fill=number)
        world.run()
        _, again, found = reopened(copy_of(disk))
        assert again.end_position - log.end_position < 48
        assert found.log_end_offset == 41 + number


@pytest.mark.parametrize("kept", [1, 50, 120])
def test_a_truncation_below_the_snapshot_rebuilds_the_log_from_its_segments(kept):
    world, disk, log, partition = member(200)
    for _ in range(2):
        append(log, partition)
        log.note_confirmed(1 << 40)
        log.checkpoint()
        world.run()
        log.note_confirmed(1 << 40)
        world.run()
    before = read_all(world, log, partition)
    frames = frames_of(disk, log)
    position = [p for p in sorted(frames) if frames[p][7] == 1][kept]
    assert position < min(snapshots(disk))
    settle(world, log.truncate, position)
    found = log.open_partition(partition_number(0))
    assert found.log_end_offset == kept
    assert read_all(world, log, found) == before[:kept]
    assert log.end_position == position == log.snapshot_position
    world, again, found = reopened(disk)
    assert again.recovery.replayed_frames == 0
    assert found.log_end_offset == kept


def test_offsets_of_partitions_without_kept_batches_survive_a_rebuild():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    early, both, late = (log.open_partition(partition_number(number)) for number in range(3))
    for _ in range(3):
        append(log, early, records=7, producer=(5, 0, 7 * early.log_end_offset // 7))
        append(log, both, records=2)
    for _ in range(500):
        append(log, late, size=1000)
        world.run()
    log.apply_retention(0, lambda tp: Retention(200_000 if tp.partition == 2 else 0, -1))
    world.run()
    assert log.start_position > 0
    position = log.end_position
    append(log, both, records=5)
    for _ in range(10):
        append(log, late, size=1000)
    log.checkpoint()
    world.run()
    world.advance(5000)
    append(log, late, size=1000)
    log.checkpoint()
    world.run()
    assert min(snapshots(disk)) > position
    start = late.log_start_offset
    settle(world, log.truncate, position)
    found = [log.open_partition(partition_number(number)) for number in range(3)]
    assert [p.log_end_offset for p in found] == [21, 6, 500]
    assert [p.log_start_offset for p in found[:2]] == [21, 6]
    assert found[2].log_start_offset == start
    assert append(log, found[1], records=5) == 6
    world.run()
    _, again, _ = reopened(disk)
    ends = [again.open_partition(partition_number(n)).log_end_offset for n in range(3)]
    assert ends == [21, 11, 500]


def test_a_rebuild_is_complete_after_a_crash_at_any_step():
    world, origin, log, _ = member(150)
    log.note_confirmed(log.end_position)
    log.checkpoint()
    world.run()
    frames = frames_of(origin, log)
    position = [p for p in sorted(frames) if frames[p][7] == 1][30]
    state = {}
    random = Random(1)

    def truncate():
        disk = state["disk"] = copy_of(origin)
        hook, disk.on_operation = state.get("hook"), None
        world, log, _ = reopened(disk)
        disk.on_operation = hook
        settle(world, log.truncate, position)

    for _ in _crashes(truncate, state):
        disk = state["disk"]
        disk.power_loss(random)
        _, log, partition = reopened(disk)
        assert partition.log_end_offset in (30, 150)
        assert len(frames_of(disk, log)) in (len(frames), len([p for p in frames if p < position]))


def test_a_reset_leaves_an_empty_log_at_the_given_place_after_a_crash_at_any_step():
    _, origin, _, _ = member(150)
    state = {}
    random = Random(2)
    base = 5 * SMALL.segment_bytes + 1000

    def reset():
        disk = state["disk"] = copy_of(origin)
        hook, disk.on_operation = state.get("hook"), None
        world, log, _ = reopened(disk)
        disk.on_operation = hook
        settle(world, log.reset_to, base, base + 100_000)

    for _ in _crashes(reset, state):
        disk = state["disk"]
        disk.power_loss(random)
        _, log, partition = reopened(disk)
        if log.end_position == base:
            assert partition.log_end_offset == 0
        else:
            assert partition.log_end_offset == 150
    world, log, partition = reopened(state["disk"])
    assert (log.start_position, log.end_position) == (base, base)
    assert log.epochs == []
    append_many(world, log, partition, 200)
    world, again, partition = reopened(state["disk"])
    assert partition.log_end_offset == 200
    assert again.start_position == base


def test_a_truncation_that_the_disk_refuses_fences_the_log_and_is_complete_after_a_restart():
    world, disk, log, _ = member(50)
    fenced = []
    log.on_fenced = fenced.append
    disk.fail("truncate", ".log", errno.EIO)
    position = sorted(frames_of(disk, log))[11]
    with pytest.raises(LogFenced):
        settle(world, log.truncate, position)
    assert log.is_fenced
    assert len(fenced) == 1
    world, again, partition = reopened(disk)
    assert again.end_position == position
    assert partition.log_end_offset == 10


def replicated(batches=300, **how):
    world = World()
    disks = [FaultyDisk(), FaultyDisk()]
    master = open_log(world, disks[0])
    partition = master.open_partition(partition_number(0))
    other = master.open_partition(partition_number(1))
    for number in range(batches):
        append(master, partition, size=1000, fill=number, producer=(3, 0, number))
        if number < 5:
            append(master, other, size=100, records=2)
        world.run()
    slave = open_member(world, disks[1])
    return world, disks, master, slave


@pytest.mark.parametrize("newest_only", [False, True])
def test_a_base_is_copied_and_streaming_goes_on_from_its_end(newest_only):
    world, disks, master, slave = replicated()
    master.checkpoint()
    world.run()
    export = export_of(world, master, newest_only=newest_only)
    copy_base(world, export, slave)
    export.release()
    assert slave.end_position == slave.confirmed_position == export.image.position
    assert slave.start_position == export.image.start_position
    assert (slave.start_position > 0) == newest_only
    replicate(world, master, slave)
    assert slave.end_position == master.end_position
    check_equal((disks[0], master), (disks[1], slave))
    assert slave.epochs == master.epochs
    partition = master.open_partition(partition_number(0))
    own = slave.open_partition(partition_number(0))
    assert own.log_end_offset == 300
    expected = read_all(world, master, partition)[own.log_start_offset :]
    assert read_all(world, slave, own) == expected
    assert len(expected) == own.log_end_offset - own.log_start_offset
    other = slave.open_partition(partition_number(1))
    assert other.log_end_offset == 10
    assert other.log_start_offset == (10 if newest_only else 0)
    slave.begin_epoch(2)
    for _ in range(100):
        append(slave, own, size=1000)
        world.run()
    slave.close()
    world, again, own = reopened(disks[1])
    assert own.log_end_offset == 400
    assert not again.recovery.damaged_files


def test_a_broken_copy_goes_on_behind_its_last_whole_segment():
    world, disks, master, slave = replicated()
    export = export_of(world, master)
    position = asked(world, slave.begin_install, export.image)
    while position < 2 * SMALL.segment_bytes + 30_000:
        data = []
        export.read(position, 10_000, lambda found, error: data.append(error or found))
        world.run()
        position = asked(world, slave.install, position, data[0])
    assert asked(world, slave.begin_install, export.image) == 2 * SMALL.segment_bytes
    disks[1].power_loss(Random(1))
    world.run()
    master_world = world
    slave_world, slave, _ = reopened(disks[1])
    assert asked(slave_world, slave.begin_install, export.image) == 2 * SMALL.segment_bytes
    with pytest.raises(BadInstall):
        asked(slave_world, slave.install, 5, memoryview(b"x"))
    with pytest.raises(BadInstall):
        settle(slave_world, slave.finish_install)
    both = World()
    slave = open_member(both, disks[1])
    position = asked(both, slave.begin_install, export.image)
    while position != export.image.position:
        data = []
        export.read(position, 10_000, lambda found, error: data.append(error or found))
        master_world.run()
        position = asked(both, slave.install, position, data[0])
    settle(both, slave.finish_install)
    assert slave.end_position == export.image.position


def test_a_copy_of_another_history_is_begun_anew():
    world, _, master, slave = replicated()
    export = export_of(world, master)
    position = asked(world, slave.begin_install, export.image)
    while position < SMALL.segment_bytes:
        data = []
        export.read(position, 10_000, lambda found, error: data.append(error or found))
        world.run()
        position = asked(world, slave.install, position, data[0])
    assert asked(world, slave.begin_install, export.image) == SMALL.segment_bytes
    other = export.image._replace(epochs=[(4, 0)])
    assert asked(world, slave.begin_install, other) == 0


def test_a_damaged_byte_of_a_copy_is_found_before_the_swap_and_copied_again():
    world, disks, master, slave = replicated()
    export = export_of(world, master)
    for at in (1000, SMALL.segment_bytes + 5000, export.image.position - 100):
        disks[1] = FaultyDisk()
        slave = open_member(world, disks[1])
        position = asked(world, slave.begin_install, export.image)
        while position != export.image.position:
            data = []
            export.read(position, 10_000, lambda found, error: data.append(error or found))
            world.run()
            piece = bytearray(data[0])
            if position <= at < position + len(piece):
                piece[at - position] ^= 1
            position = asked(world, slave.install, position, memoryview(piece))
        with pytest.raises(BadInstall):
            settle(world, slave.finish_install)
        assert slave.end_position == 0
    copy_base(world, export, slave)
    assert slave.end_position == export.image.position
    check_equal((disks[0], master), (disks[1], slave))


def test_an_exports_files_stay_until_it_is_released():
    world, disks, master, _ = replicated(500)
    export = export_of(world, master)
    first = f"{master.directory}/log/{0:020d}.log"
    before = bytes(disks[0].names[first].data)
    for _ in range(3):
        master.apply_retention(0, lambda _: Retention(0, -1))
        world.run()
    assert master.start_position > 0
    assert bytes(disks[0].names[first].data) == before
    data = []
    export.read(0, 1000, lambda found, error: data.append(error or found))
    world.run()
    assert bytes(data[0]) == before[:1000]
    world.advance(120_000)
    assert export.is_released
    assert first not in disks[0].names
    export.read(0, 1000, lambda found, error: data.append(error))
    assert isinstance(data[1], ExportEnded)


def test_only_so_many_bases_are_copied_at_once():
    world, _, master, _ = replicated(10)
    exports = [export_of(world, master) for _ in range(8)]
    with pytest.raises(BaseNotReady):
        export_of(world, master)
    exports[0].release()
    export_of(world, master).release()


def test_an_install_is_complete_after_a_crash_at_any_step():
    world, _, master, _ = replicated(150)
    master.checkpoint()
    world.run()
    export = export_of(world, master)
    _, origin, slave_log, _ = member(100, size=500)
    old_frames = frames_of(origin, slave_log)
    state = {}
    random = Random(3)

    def install():
        disk = state["disk"] = copy_of(origin)
        hook, disk.on_operation = state.get("hook"), None
        _, slave, _ = reopened(disk)
        slave_world = slave._place.offload
        position = asked(slave_world, slave.begin_install, export.image)
        while position != export.image.position:
            data = []
            export.read(position, 30_000, lambda found, error: data.append(error or found))
            world.run()
            position = asked(slave_world, slave.install, position, data[0])
        disk.on_operation = hook
        settle(slave_world, slave.finish_install)

    for _ in _crashes(install, state):
        disk = state["disk"]
        disk.power_loss(random)
        _, log, partition = reopened(disk)
        if log.end_position == export.image.position:
            assert partition.log_end_offset == 150
            assert log.open_partition(partition_number(1)).log_end_offset == 10
        else:
            assert partition.log_end_offset == 100
            assert frames_of(disk, log) == old_frames
    assert state["steps"] > 15
    world, log, partition = reopened(state["disk"])
    assert log.end_position == export.image.position
    assert len(read_all(world, log, partition)) == 150


def test_epochs_of_which_nothing_is_kept_are_forgotten_but_the_one_that_covers_the_start():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    for epoch in range(2, 12):
        log.begin_epoch(epoch)
        for _ in range(30):
            append(log, partition, size=1000)
            world.run()
    log.apply_retention(0, lambda _: Retention(100_000, -1))
    world.run()
    log.checkpoint()
    world.run()
    start = log.start_position
    assert start > 0
    assert log.epochs[0][1] <= start < log.epochs[1][1]
    _, again, _ = reopened(disk)
    assert again.epochs == log.epochs
