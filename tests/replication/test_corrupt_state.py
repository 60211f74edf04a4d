"""Corrupt state stops the cores of replication."""

import pytest

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaId, SyncStateSetEpoch
from penstock.base.invariant import InvariantViolation
from penstock.replication.config import ReplicationConfig
from penstock.replication.sync_state import Recorded, SyncStateKeeper


def test_a_sync_state_set_that_is_older_than_the_recorded_one_stops_its_keeper() -> None:
    recorded = Recorded(
        as_brokers(1, 2),
        as_brokers(1, 2),
        SyncStateSetEpoch(7),
        AckPolicy(),
        {BrokerId(1): ReplicaId(10), BrokerId(2): ReplicaId(20)},
    )
    keeper = SyncStateKeeper(
        BrokerId(1), recorded, leader_epoch=LeaderEpoch(3), config=ReplicationConfig(), now_ms=0
    )
    keeper.recorded(recorded._replace(sync_state_set_epoch=SyncStateSetEpoch(8)), 0)
    with pytest.raises(InvariantViolation, match="is not older"):
        keeper.recorded(recorded, 0)
