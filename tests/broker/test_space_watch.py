"""A disk that is full is told in the log of the node, once, and so is that there is room again."""

import errno
import logging

import pytest

from penstock.base.ids import ReplicaSetId
from penstock.broker.sets.housekeeping import EXPIRE_EVERY_TICKS, TICK_MS, Housekeeping
from penstock.broker.sets.space_watch import SpaceWatch
from tests.broker.cluster import Cluster

LOOKS_EVERY_MS = EXPIRE_EVERY_TICKS * TICK_MS


def test_a_full_disk_and_room_on_it_are_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.broker.sets.space_watch")
    cluster = Cluster()
    node = cluster.nodes[0]
    housekeeping = Housekeeping(node.broker)
    housekeeping.start()
    (member,) = node.broker.members.values()
    member.log.writer.space.is_full = True
    cluster.world.advance(5 * LOOKS_EVERY_MS)
    member.log.writer.space.is_full = False
    cluster.world.advance(5 * LOOKS_EVERY_MS)
    housekeeping.stop()
    full, room = (record.getMessage() for record in caplog.records)
    assert full.startswith(f"set={member.replica_set_id} refuses records: its disk has ")
    assert full.endswith("; free some, or shorten retention")
    assert room == f"set={member.replica_set_id} has room again"


def test_a_disk_that_does_not_tell_its_space_ends_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> int:
        raise OSError(errno.EIO, "Input/output error")

    cluster = Cluster()
    (member,) = cluster.nodes[0].broker.members.values()
    monkeypatch.setattr(member.log._disk, "free_bytes", failing)
    member.log.writer.space.is_full = True
    SpaceWatch().look({ReplicaSetId(0): member})
    assert "has an unknown number of bytes free" in caplog.text
