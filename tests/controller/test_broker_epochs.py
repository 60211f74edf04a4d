"""A broker epoch is given out once, also when the brokers that had it are removed."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import BrokerId
from penstock.controller.commands.command import ChangeFeatureLevel, RegisterBroker, RemoveBroker
from penstock.controller.metadata.levels import METADATA
from penstock.controller.metadata.snapshot import snapshot_records
from tests.controller.cluster import Cluster


def register(cluster: Cluster, broker_id: int, run: int) -> int:
    return cluster.submit(
        RegisterBroker(
            broker_id=BrokerId(broker_id), host="h", port=1, identity="disk", incarnation=f"{run}"
        )
    )


def remove(cluster: Cluster, broker_id: int) -> None:
    cluster.submit(RemoveBroker(broker_id=BrokerId(broker_id)))


def over_a_snapshot(cluster: Cluster) -> None:
    """Go on with what a snapshot says."""
    cluster.controller.install(snapshot_records(cluster.image))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from([register, remove]), st.integers(0, 3)),
            st.just((over_a_snapshot, 0)),
        )
    )
)
def test_no_registration_has_the_epoch_of_an_earlier_one(steps: list[tuple[object, int]]) -> None:
    cluster, given_out = Cluster(sets=()), [0]
    for run, (step, broker_id) in enumerate(steps):
        if step is register:
            given_out.append(register(cluster, broker_id, run))
            assert given_out[-1] > given_out[-2]
        elif step is over_a_snapshot:
            over_a_snapshot(cluster)
        elif broker_id in cluster.image.brokers:
            remove(cluster, broker_id)


def test_a_registration_that_is_repeated_has_the_same_epoch() -> None:
    cluster = Cluster(sets=())
    assert register(cluster, 1, run=1) == register(cluster, 1, run=1)


def test_the_first_level_of_the_metadata_keeps_no_epoch_of_removed_brokers() -> None:
    cluster = Cluster(sets=())
    register(cluster, 1, run=1)
    register(cluster, 2, run=1)
    remove(cluster, 2)
    assert [one.broker_epoch for one in cluster.image.configuration.reached_epochs.values()] == [2]
    checked = tuple((key, one.broker_epoch) for key, one in cluster.image.brokers.items())
    cluster.submit(
        ChangeFeatureLevel(feature=METADATA, level=1, is_lowering=True, checked_brokers=checked)
    )
    assert not cluster.image.configuration.reached_epochs
    register(cluster, 3, run=1)
    remove(cluster, 3)
    assert not cluster.image.configuration.reached_epochs
