"""ACLs are added once, removed by id, and told to who listens."""

from dataclasses import replace

import pytest

from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.controller.commands.access import acls
from penstock.controller.commands.access.commands import AddAcls, RemoveAcls
from penstock.controller.errors import (
    FeatureLevelTooLow,
    InvalidMetadataRequest,
    MetadataPolicyViolation,
)
from penstock.controller.metadata.image import ClusterDelta, ClusterImage
from penstock.controller.metadata.install import install
from penstock.controller.metadata.snapshot import snapshot_records
from tests.controller.cluster import Cluster

RULE = Rule(
    resource_type=AclResource.TOPIC,
    resource_name="t",
    pattern=AclPattern.LITERAL,
    principal="User:a",
    host="*",
    operation=AclOperation.READ,
    permission=AclPermission.ALLOW,
)
OTHER = replace(RULE, principal="User:b")


def heard(image: ClusterImage) -> list[tuple[list[Rule], list[Rule]]]:
    """What listeners are told of ACLs, from now on."""
    found: list[tuple[list[Rule], list[Rule]]] = []

    def listen(delta: ClusterDelta) -> None:
        found.append(
            ([one.rule for one in delta.added_acls], [one.rule for one in delta.removed_acls])
        )

    image.subscribe(listen)
    return found


def test_a_rule_is_added_once_and_each_change_is_told() -> None:
    cluster = Cluster()
    told = heard(cluster.image)
    outcomes = cluster.submit(AddAcls(acls=(RULE, OTHER, RULE)))
    assert [one.error for one in outcomes] == [None] * 3
    cluster.submit(AddAcls(acls=(RULE,)))
    kept = cluster.image.configuration
    assert list(kept.acl_ids) == [RULE, OTHER]
    acl_id = kept.acl_ids[RULE]
    assert cluster.submit(RemoveAcls(acl_ids=(acl_id, bytes(16), acl_id))) == (acl_id,)
    assert cluster.submit(RemoveAcls(acl_ids=(acl_id,))) == ()
    assert (list(kept.acl_ids), [one.rule for one in kept.acls.values()]) == ([OTHER], [OTHER])
    assert told == [([RULE, OTHER], []), ([], [RULE])]


def test_a_snapshot_over_an_image_is_told_as_the_difference() -> None:
    ahead, behind = Cluster(), Cluster()
    for cluster in (ahead, behind):
        cluster.submit(AddAcls(acls=(RULE,)))
    told = heard(behind.image)
    ahead.submit(AddAcls(acls=(OTHER,)))
    ahead.submit(RemoveAcls(acl_ids=(ahead.image.configuration.acl_ids[RULE],)))
    behind.image.publish(install(behind.image, snapshot_records(ahead.image)))
    assert told == [([OTHER], [RULE])]
    assert behind.image.configuration == ahead.image.configuration


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "ACLS_MAX", 1)
    cluster = Cluster()
    first, second, again = cluster.submit(AddAcls(acls=(RULE, OTHER, RULE)))
    assert isinstance(second.error, MetadataPolicyViolation)
    assert (first.error, again.error) == (None, None)


@pytest.mark.parametrize("name", ["", "x" * 1_025])
def test_what_is_wrong_is_refused_alone(name: str) -> None:
    cluster = Cluster()
    wrong, right = cluster.submit(AddAcls(acls=(replace(RULE, resource_name=name), OTHER)))
    assert isinstance(wrong.error, InvalidMetadataRequest)
    assert right.error is None
    assert list(cluster.image.configuration.acl_ids) == [OTHER]


def test_below_the_level_each_rule_is_refused_with_what_to_do() -> None:
    cluster = Cluster()
    cluster.image.features.clear()
    (outcome,) = cluster.submit(AddAcls(acls=(RULE,)))
    assert isinstance(outcome.error, FeatureLevelTooLow)
