"""A disk that is full is told in the log of the node, once, and so is that there is room again."""

import logging

import pytest

from penstock.broker.sets.housekeeping import EXPIRE_EVERY_TICKS, TICK_MS, Housekeeping
from tests.broker.cluster import Cluster

LOOKS_EVERY_MS = EXPIRE_EVERY_TICKS * TICK_MS


def test_a_full_disk_and_room_on_it_are_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.broker.sets.space_watch")
    cluster = Cluster()
    node = cluster.nodes[0]
    housekeeping = Housekeeping(node.broker)
    housekeeping.start()
    (member,) = node.broker.members.values()
    member.log.writer.is_full = True
    cluster.world.advance(5 * LOOKS_EVERY_MS)
    member.log.writer.is_full = False
    cluster.world.advance(5 * LOOKS_EVERY_MS)
    housekeeping.stop()
    full, room = (record.getMessage() for record in caplog.records)
    assert full.startswith(f"set={member.replica_set_id} refuses records: its disk has ")
    assert full.endswith("; free some, or shorten retention")
    assert room == f"set={member.replica_set_id} has room again"
