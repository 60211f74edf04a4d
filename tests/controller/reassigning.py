"""Reassignments in tests: asking for them, members that get in step, records of them."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from harness.ids import as_brokers
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands import command as c
from penstock.controller.commands.reassignment.commands import Reassign, SetTarget
from penstock.controller.metadata import config_records as cr
from penstock.controller.metadata import records as r
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.controller.metadata.reassignment_records import ReassignmentChanged
from tests.controller.joining import joining
from tests.controller.world import World

_set_keys = st.sampled_from(["0", "7"])

of_reassignments = st.one_of(
    st.builds(
        ReassignmentChanged,
        key=_set_keys,
        target=st.sampled_from([as_brokers(1), as_brokers(2, 1)]),
        before=st.sampled_from([(), as_brokers(1, 2)]),
    ),
    st.builds(cr.removal_of, st.just(r.RecordKind.REASSIGNMENT_CHANGED), _set_keys),
    st.builds(
        lambda key: r.CarriedRecord(
            kind=r.RecordKind.REASSIGNMENT_CHANGED,
            version=2,
            key=key,
            body=b'{"key":"%b","x":1}' % key.encode(),
        ),
        _set_keys,
    ),
)
"""Records as this release writes them, and one of a release with a second version."""


def to(members: Sequence[int] | None, set_id: int = 1, **fields: Any) -> Reassign:
    """The set is to have these members; None takes it back."""
    replicas = None if members is None else as_brokers(*members)
    target = SetTarget(replica_set_id=ReplicaSetId(set_id), replicas=replicas, **fields)
    return Reassign(sets=(target,))


def ask(world: World, members: Sequence[int] | None) -> None:
    (outcome,) = world.ask(to(members))
    assert outcome.error is None, outcome.error


def get_in_step(world: World, *members: int) -> None:
    """The master finds that exactly these members are in step."""
    one = world.replica_set()
    command = c.ChangeSyncStateSet(
        replica_set_id=one.replica_set_id,
        master=one.master,
        leader_epoch=one.leader_epoch,
        sync_state_set_epoch=one.sync_state_set_epoch,
        sync_state_set=as_brokers(*members),
        joining=joining(one, world.image.brokers, members),
    )
    world.ask(command)


def target_of(world: World) -> tuple[BrokerId, ...] | None:
    """What the set is on its way to."""
    known = world.image.configuration.reassignments.get(ReplicaSetId(1))
    return None if known is None else known.target


def shape(one: ReplicaSetImage) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    return one.replicas, one.master, one.sync_state_set
