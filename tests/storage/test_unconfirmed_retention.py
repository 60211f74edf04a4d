"""Retention takes nothing that its set has not confirmed: who reads up to there finds the start."""

import pytest

from harness.log_world import append, partition_number
from penstock.base.ids import LeaderEpoch
from penstock.storage.commit_log.pins import Pin
from penstock.storage.config import Retention
from tests.storage.replicas import asked, member


def test_segments_above_the_confirm_position_stay_whatever_their_partitions_keep():
    world, _, log, partition = member(400)
    segments = log.parts.store.segments
    assert len(segments) > 4
    confirmed = segments[2].base + 700  # it is the third one's that is confirmed in part
    log.note_confirmed(confirmed)
    kept = [segment.base for segment in segments[2:]]
    first = asked(world, log.find_offset_at, partition, kept[0])
    for setting in (Retention(0, -1), Retention(-1, 5000)):
        log.apply_retention(1_000_000_000_000_000, lambda _, setting=setting: setting)
        world.run()
        assert partition.log_start_offset == first > 0
    assert [segment.base for segment in segments[-len(kept) :]] == kept
    pins = {each.base: each.pin for each in log.pins.segments}
    assert (pins[kept[0]], pins[kept[1]]) == (Pin.UNCONFIRMED, Pin.BEHIND)
    log.note_confirmed(log.end_position)
    for _ in range(2):
        log.apply_retention(1_000_000_000_000_000, lambda _: Retention(0, -1))
        world.run()
        log.note_confirmed(log.end_position)
        world.run()
    assert len(segments) == 1


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_old_data_of_the_active_segment_stay_until_they_are_confirmed(is_confirmed):
    world, _, log, partition = member(5)
    if is_confirmed:
        log.note_confirmed(log.end_position)
    for _ in range(3):
        log.apply_retention(1_000_000_000_000_000, lambda _: Retention(-1, 5000))
        world.run()
    assert partition.log_start_offset == (5 if is_confirmed else 0)


def test_a_log_that_confirms_itself_waits_for_nobody():
    world, _, log, partition = member(400)
    log.is_sole_member = True
    log.begin_epoch(LeaderEpoch(2))
    append(log, partition, size=700)
    world.run()
    log.apply_retention(1_000_000_000_000_000, lambda _: Retention(0, -1))
    world.run()
    assert partition.log_start_offset > 0
    assert len(log.parts.store.segments) == 1
    assert log.open_partition(partition_number(0)) is partition
