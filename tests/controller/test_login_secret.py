"""The secret by which unknown users look like known ones: chosen once, kept by snapshots."""

import pytest

from penstock.controller.commands.access.commands import AlterScram, ScramRemoval, ScramUpsert
from penstock.controller.commands.command import ChangeFeatureLevel
from penstock.controller.commands.delegation.commands import CreateToken
from penstock.controller.metadata.config_records import ScramMechanism
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.levels import METADATA
from penstock.controller.metadata.login_records import LOGIN_SECRET_BYTES, UNKNOWN_USERS
from penstock.controller.metadata.replay import replay
from penstock.controller.metadata.snapshot import snapshot_records
from tests.controller.cluster import Cluster


def user(name: str) -> ScramUpsert:
    keys = {"salt": b"s", "stored_key": bytes(32), "server_key": bytes(32)}
    return ScramUpsert(user=name, mechanism=ScramMechanism.SHA_256, iterations=4_096, **keys)


def secret_of(image: ClusterImage) -> bytes | None:
    found = image.configuration.login_secrets
    assert found.keys() <= {UNKNOWN_USERS}
    return found[UNKNOWN_USERS].secret if found else None


def test_the_first_user_chooses_the_secret_and_no_later_one_changes_it() -> None:
    cluster = Cluster()
    assert secret_of(cluster.image) is None
    cluster.submit(AlterScram(upserts=(user("a"),)))
    chosen = secret_of(cluster.image)
    assert chosen is not None
    assert len(chosen) == LOGIN_SECRET_BYTES
    assert len({chosen[:16], chosen[16:]}) == 2
    removal = ScramRemoval(user="a", mechanism=ScramMechanism.SHA_256)
    for change in (
        AlterScram(upserts=(user("b"),)),
        AlterScram(removals=(removal,)),
        AlterScram(upserts=(user("a"),)),
        CreateToken(owner="User:a", requester="User:a", tag="1a2b3c"),
    ):
        cluster.submit(change)
        assert secret_of(cluster.image) == chosen


def test_a_token_chooses_it_as_well() -> None:
    cluster = Cluster()
    cluster.submit(CreateToken(owner="User:a", requester="User:a", tag="1a2b3c"))
    assert secret_of(cluster.image) is not None


@pytest.mark.parametrize(
    "change",
    [
        AlterScram(removals=(ScramRemoval(user="a", mechanism=ScramMechanism.SHA_256),)),
        AlterScram(upserts=(user(""),)),
    ],
)
def test_where_nobody_gets_a_credential_nothing_is_chosen(change: AlterScram) -> None:
    cluster = Cluster()
    cluster.submit(change)
    assert secret_of(cluster.image) is None


def test_a_snapshot_keeps_it_and_who_knows_the_records_does_not_show_it() -> None:
    cluster = Cluster()
    cluster.submit(AlterScram(upserts=(user("a"),)))
    again = ClusterImage()
    records = snapshot_records(cluster.image)
    replay(again, records)
    chosen = secret_of(again)
    assert chosen == secret_of(cluster.image)
    assert chosen is not None
    assert chosen.hex() not in repr(records)
    assert repr(chosen) not in repr(records)


def test_the_first_level_of_the_metadata_forgets_it() -> None:
    cluster = Cluster()
    cluster.submit(AlterScram(upserts=(user("a"),)))
    removal = ScramRemoval(user="a", mechanism=ScramMechanism.SHA_256)
    cluster.submit(AlterScram(removals=(removal,)))
    checked = tuple((key, one.broker_epoch) for key, one in cluster.image.brokers.items())
    cluster.submit(
        ChangeFeatureLevel(feature=METADATA, level=1, is_lowering=True, checked_brokers=checked)
    )
    assert secret_of(cluster.image) is None
