"""What the answer to a change of the sync-state set means: a lost one may still be recorded."""

import pytest

from harness.ids import as_brokers
from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PeerId,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
)
from penstock.controller.commands.command import JoiningReplica
from penstock.controller.errors import (
    InvalidMetadataRequest,
    MetadataLogFenced,
    MetadataQueueFull,
    MetadataTimeout,
    MetadataUnavailable,
    NotActiveController,
    StaleLeaderEpoch,
    StaleSyncStateSet,
)
from penstock.replica.change_request import ask_for, change_command
from penstock.replication.sync_state import Change, Joining, Outcome
from tests.net.serving import run

JOINING = Joining(BrokerId(1), ReplicaId(3), BrokerEpoch(4))
COMMAND = change_command(
    ReplicaSetId(1),
    BrokerId(2),
    Change(LeaderEpoch(5), SyncStateSetEpoch(7), as_brokers(1, 2), (JOINING,)),
)


def outcome_of(error: Exception | None) -> list[Outcome]:
    outcomes: list[Outcome] = []

    async def submit(command: object) -> None:
        assert command is COMMAND
        if error is not None:
            raise error

    run(ask_for(COMMAND, submit, outcomes.append))
    return outcomes


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome.RECORDED),
        (StaleLeaderEpoch(5, 6), Outcome.STALE),
        (StaleSyncStateSet(7, 8), Outcome.STALE),
        (InvalidMetadataRequest("no member"), Outcome.REFUSED),
        (MetadataQueueFull(3), Outcome.NOT_TAKEN),
        (MetadataTimeout(7), Outcome.UNKNOWN),
        (NotActiveController(PeerId(3)), Outcome.UNKNOWN),
        (MetadataLogFenced("its entry may be another one's by now"), Outcome.UNKNOWN),
        (MetadataUnavailable("as a newer release says it"), Outcome.UNKNOWN),
    ],
)
def test_each_end_of_a_question_is_one_outcome(error: Exception | None, outcome: Outcome) -> None:
    assert outcome_of(error) == [outcome]


def test_the_command_carries_the_epochs_that_the_master_went_by() -> None:
    assert (COMMAND.replica_set_id, COMMAND.master) == (1, 2)
    assert (COMMAND.leader_epoch, COMMAND.sync_state_set_epoch) == (5, 7)
    assert COMMAND.sync_state_set == (1, 2)
    assert COMMAND.joining == (
        JoiningReplica(broker_id=BrokerId(1), replica_id=ReplicaId(3), broker_epoch=BrokerEpoch(4)),
    )
