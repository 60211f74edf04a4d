"""Members of a set stand on different machines and racks while there are enough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ids import as_brokers
from penstock.base.ids import BrokerId
from penstock.controller.commands.command import ChangeFeatureLevel, RegisterBroker
from penstock.controller.commands.set_plan import plan_sets
from penstock.controller.commands.spread import (
    Place,
    choose_members,
    conflicts,
    shared,
    spread_ring,
)
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.levels import METADATA
from penstock.controller.metadata.record_codec import decode_records
from penstock.controller.metadata.replay import replay
from tests.controller.cluster import Cluster


def at(**places: Place) -> dict[BrokerId, Place]:
    """Return where brokers stand: `b1` is broker 1."""
    return {BrokerId(int(name[1:])): place for name, place in places.items()}


def sets(places, size):
    ring = spread_ring(places, places)
    return [choose_members(leader, ring, size, places) for leader in ring]


def test_without_machines_and_racks_the_ring_is_that_of_ids():
    places = at(b5=Place(), b1=Place(), b3=Place())
    assert spread_ring(as_brokers(5, 1, 3), places) == [1, 3, 5]
    assert sets(places, 2) == [(1, 3), (3, 5), (5, 1)]


def test_two_nodes_on_each_of_two_machines_follow_each_other_across():
    places = at(b1=Place("a"), b2=Place("a"), b3=Place("b"), b4=Place("b"))
    found = sets(places, 2)
    assert found == [(1, 3), (3, 2), (2, 4), (4, 1)]
    assert not [text for members in found for text in conflicts(members, places)]


def test_racks_are_kept_apart_behind_machines():
    places = at(
        b1=Place("a", "r1"),
        b2=Place("b", "r1"),
        b3=Place("c", "r2"),
        b4=Place("d", "r2"),
        b5=Place("e", "r3"),
        b6=Place("f", "r3"),
    )
    for members in sets(places, 3):
        assert {places[member].rack for member in members} == {"r1", "r2", "r3"}


def test_a_rack_is_shared_before_a_machine_is():
    places = at(b1=Place("a", "r1"), b2=Place("a", "r2"), b3=Place("b", "r1"))
    assert choose_members(BrokerId(1), as_brokers(1, 2, 3), 2, places) == (1, 3)


def test_with_too_few_machines_the_set_is_made_and_what_stands_together_is_named():
    places = at(b1=Place("a", "r"), b2=Place("a", "r"), b3=Place("b"))
    members = choose_members(BrokerId(1), spread_ring(places, places), 3, places)
    assert sorted(members) == [1, 2, 3]
    assert list(conflicts(members, places)) == [
        "brokers 1, 2 are on machine a",
        "brokers 1, 2 are on rack r",
    ]


def test_brokers_that_do_not_say_where_they_stand_share_nothing():
    assert shared(BrokerId(1), as_brokers(2, 3), at(b1=Place(), b2=Place(), b3=Place("a"))) == (
        0,
        0,
    )
    assert list(conflicts(as_brokers(1, 2, 7), at(b1=Place(), b2=Place()))) == []


def register(cluster, broker_id, **fields):
    cluster.submit(RegisterBroker(broker_id=broker_id, host="h", port=1, **fields))


def change_level(cluster, level, *, is_lowering):
    cluster.submit(
        ChangeFeatureLevel(
            feature=METADATA,
            level=level,
            is_lowering=is_lowering,
            checked_brokers=tuple(
                (key, broker.broker_epoch) for key, broker in cluster.image.brokers.items()
            ),
        )
    )


def replayed(cluster):
    image = ClusterImage()
    for entry in cluster.log:
        replay(image, decode_records(entry))
    return image


def test_the_sets_of_a_cluster_are_planned_over_machines():
    cluster = Cluster(sets=())
    for broker_id, machine in enumerate(["a", "a", "b", "b"], start=1):
        register(cluster, broker_id, machine=machine)
    assert plan_sets(cluster.image, 2) == ((1, 3), (2, 4), (3, 2), (4, 1))
    assert replayed(cluster).brokers == cluster.image.brokers


def test_a_machine_is_not_written_below_its_level_and_the_same_registration_changes_nothing():
    cluster = Cluster(sets=())
    change_level(cluster, 1, is_lowering=True)
    register(cluster, 1, machine="a")
    register(cluster, 1, machine="a")
    assert (
        cluster.image.brokers[BrokerId(1)].machine,
        cluster.image.brokers[BrokerId(1)].broker_epoch,
    ) == (
        "",
        1,
    )


def test_machines_are_forgotten_with_their_level_and_known_again_with_the_next_registration():
    cluster = Cluster(sets=())
    register(cluster, 1, machine="a", rack="r")
    change_level(cluster, 1, is_lowering=True)
    assert (
        cluster.image.brokers[BrokerId(1)].machine,
        cluster.image.brokers[BrokerId(1)].rack,
    ) == ("", "r")
    assert replayed(cluster).brokers == cluster.image.brokers
    change_level(cluster, 2, is_lowering=False)
    register(cluster, 1, machine="a", rack="r")
    assert cluster.image.brokers[BrokerId(1)].machine == "a"


def test_a_machine_of_another_name_is_a_new_registration():
    cluster = Cluster(sets=())
    register(cluster, 1, machine="a")
    register(cluster, 1, machine="b")
    assert (
        cluster.image.brokers[BrokerId(1)].machine,
        cluster.image.brokers[BrokerId(1)].broker_epoch,
    ) == (
        "b",
        2,
    )


names = st.sampled_from(["", "a", "b", "c", "d"])
placed = st.dictionaries(st.integers(1, 12), st.builds(Place, names, names), min_size=1, max_size=9)


@given(placed, st.data())
def test_every_broker_leads_one_set_of_distinct_members_with_as_few_on_one_machine_as_can_be(
    places, data
):
    size = data.draw(st.integers(1, len(places)))
    found = sets(places, size)
    assert sorted(members[0] for members in found) == sorted(places)
    for members in found:
        assert len(set(members)) == size
        for at, chosen in enumerate(members[1:], start=1):
            others = members[:at]
            best = min(shared(one, others, places) for one in set(places) - set(others))
            assert shared(chosen, others, places) == best


@pytest.mark.parametrize(("machines", "each"), [(2, 2), (3, 2), (2, 3), (4, 4)])
def test_on_machines_of_equal_size_every_broker_follows_as_often_as_any(machines, each):
    places = {
        machine * each + number: Place(f"m{machine}")
        for machine in range(machines)
        for number in range(each)
    }
    followers = [member for members in sets(places, 2) for member in members[1:]]
    assert sorted(followers) == sorted(places)
