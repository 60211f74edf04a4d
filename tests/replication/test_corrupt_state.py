"""Corrupt state stops the cores of replication."""

import pytest

from penstock.base.ack_policy import AckPolicy
from penstock.base.invariant import InvariantViolation
from penstock.replication.config import ReplicationConfig
from penstock.replication.sync_state import Recorded, SyncStateKeeper


def test_a_sync_state_set_that_is_older_than_the_recorded_one_stops_its_keeper() -> None:
    recorded = Recorded((1, 2), (1, 2), 7, AckPolicy(), {1: 10, 2: 20})
    keeper = SyncStateKeeper(1, recorded, leader_epoch=3, config=ReplicationConfig(), now_ms=0)
    keeper.recorded(recorded._replace(sync_state_set_epoch=8), 0)
    with pytest.raises(InvariantViolation, match="is not older"):
        keeper.recorded(recorded, 0)
