"""Quotas are set and taken away entity by entity, by Kafka's rules, and told to who listens."""

import pytest

from penstock.controller.commands.access import quotas
from penstock.controller.commands.access.commands import AlterQuotas, QuotaChange
from penstock.controller.errors import (
    FeatureLevelTooLow,
    InvalidMetadataRequest,
    MetadataPolicyViolation,
)
from penstock.controller.metadata.image import ClusterDelta, ClusterImage
from penstock.controller.metadata.install import install
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.quotas.entities import QuotaEntity, QuotaKind, QuotaPart, entity_of
from tests.controller.cluster import Cluster

ALICE = entity_of([("user", "alice")])
BOTH = entity_of([("user", None), ("client-id", "c")])
HOST = entity_of([("ip", "10.0.0.1")])


def change(cluster: Cluster, entity: QuotaEntity, **values: float | None) -> object:
    (outcome,) = cluster.submit(AlterQuotas(changes=(QuotaChange(entity=entity, values=values),)))
    return outcome.error


def heard(image: ClusterImage) -> list[tuple[QuotaEntity, ...]]:
    """The entities whose quotas change, from now on."""
    found: list[tuple[QuotaEntity, ...]] = []

    def listen(delta: ClusterDelta) -> None:
        found.append(delta.changed_quotas)

    image.subscribe(listen)
    return found


def test_quotas_are_set_changed_and_taken_away() -> None:
    cluster = Cluster()
    kept, told = cluster.image.configuration.quotas, heard(cluster.image)
    assert change(cluster, ALICE, producer_byte_rate=10, consumer_byte_rate=20) is None
    assert change(cluster, BOTH, request_percentage=0.5) is None
    assert change(cluster, ALICE, producer_byte_rate=None, consumer_byte_rate=30) is None
    assert kept == {ALICE: {"consumer_byte_rate": 30}, BOTH: {"request_percentage": 0.5}}
    assert change(cluster, ALICE, consumer_byte_rate=None) is None
    assert list(kept) == [BOTH]
    assert told == [(ALICE,), (BOTH,), (ALICE,), (ALICE,)]


def test_what_is_as_it_should_be_is_not_written_again() -> None:
    cluster = Cluster()
    change(cluster, ALICE, producer_byte_rate=10)
    told = heard(cluster.image)
    assert change(cluster, ALICE, producer_byte_rate=10) is None
    assert change(cluster, BOTH, producer_byte_rate=None) is None
    assert told == []


def test_a_trial_checks_and_changes_nothing() -> None:
    cluster = Cluster()
    changes = (
        QuotaChange(entity=ALICE, values={"producer_byte_rate": 10}),
        QuotaChange(entity=ALICE, values={"producer_byte_rate": 0}),
    )
    good, bad = cluster.submit(AlterQuotas(changes=changes, validate_only=True))
    assert good.error is None
    assert isinstance(bad.error, InvalidMetadataRequest)
    assert not cluster.image.configuration.quotas


@pytest.mark.parametrize(
    ("entity", "key", "value", "reason"),
    [
        (ALICE, "connection_creation_rate", 5.0, "Invalid configuration key"),
        (HOST, "producer_byte_rate", 5.0, "Invalid configuration key"),
        (ALICE, "SCRAM-SHA-256", 5.0, "Invalid configuration key"),
        (ALICE, "producer_byte_rate", 5.5, "cannot be a fractional value"),
        (ALICE, "consumer_byte_rate", 0.0, "is from 1 to"),
        (ALICE, "request_percentage", -1.0, "is from 0 to"),
        (ALICE, "controller_mutation_rate", float("nan"), "is from 0.001 to"),
        (HOST, "connection_creation_rate", 2.0**31, "is from 0 to"),
        ((), "producer_byte_rate", 5.0, "Invalid empty client quota entity"),
        ((*HOST, *ALICE), "connection_creation_rate", 5.0, "ip stands alone"),
        (tuple(reversed(BOTH)), "producer_byte_rate", 5.0, "in order"),
        ((QuotaPart(QuotaKind.IP, "host"),), "connection_creation_rate", 5.0, "not a valid IP"),
        ((QuotaPart(QuotaKind.USER, ""),), "producer_byte_rate", 5.0, "Empty user not supported"),
    ],
)
def test_what_does_not_fit_is_refused(
    entity: QuotaEntity, key: str, value: float, reason: str
) -> None:
    cluster = Cluster()
    error = change(cluster, entity, **{key: value})
    assert isinstance(error, InvalidMetadataRequest)
    assert reason in str(error)
    assert not cluster.image.configuration.quotas


def test_of_one_entity_all_or_nothing_is_changed() -> None:
    cluster = Cluster()
    error = change(cluster, ALICE, producer_byte_rate=10, unknown=1)
    assert isinstance(error, InvalidMetadataRequest)
    assert not cluster.image.configuration.quotas


def test_there_are_so_many_entities_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "ENTITIES_MAX", 2)
    cluster = Cluster()
    values = {"producer_byte_rate": 1.0}
    names = ("a", "b", "c")
    changes = tuple(
        QuotaChange(entity=entity_of([("user", name)]), values=values) for name in names
    )
    outcomes = cluster.submit(AlterQuotas(changes=changes))
    assert [type(one.error) for one in outcomes] == [type(None)] * 2 + [MetadataPolicyViolation]
    assert change(cluster, entity_of([("user", "a")]), producer_byte_rate=5) is None
    assert isinstance(change(cluster, HOST, connection_creation_rate=5), MetadataPolicyViolation)


def test_below_their_level_there_are_none() -> None:
    cluster = Cluster()
    cluster.image.features.clear()
    assert isinstance(change(cluster, ALICE, producer_byte_rate=10), FeatureLevelTooLow)


def test_a_snapshot_over_an_image_is_told_as_the_difference() -> None:
    older, newer = Cluster(), Cluster()
    told = heard(older.image)
    change(older, ALICE, producer_byte_rate=10)
    change(older, HOST, connection_creation_rate=1)
    change(newer, BOTH, producer_byte_rate=10)
    change(newer, HOST, connection_creation_rate=1)
    older.image.publish(install(older.image, snapshot_records(newer.image)))
    assert set(told[-1]) == {ALICE, BOTH}
    assert set(older.image.configuration.quotas) == {BOTH, HOST}
