"""Limits of the disks, and which changes would take what only the object store has."""

import pytest

from penstock.controller.errors import InvalidConfig
from penstock.controller.topic_config.local import LocalLimits, check_local, local_limits

COPIED = {"remote.storage.enable": "true"}
LIMITED = {**COPIED, "local.retention.ms": "5"}


@pytest.mark.parametrize(
    ("overrides", "limits"),
    [
        ({}, None),
        (COPIED, None),
        ({**COPIED, "local.retention.ms": "-2", "local.retention.bytes": "-2"}, None),
        ({"local.retention.ms": "5"}, None),
        ({**LIMITED, "remote.storage.enable": "false"}, None),
        (LIMITED, LocalLimits(5, -2)),
        ({**COPIED, "local.retention.bytes": "0"}, LocalLimits(-2, 0)),
        ({**COPIED, "local.retention.ms": "-1"}, LocalLimits(-1, -2)),
    ],
)
def test_limits_count_for_copied_topics_that_set_one(
    overrides: dict[str, str], limits: LocalLimits | None
) -> None:
    assert local_limits(overrides) == limits


@pytest.mark.parametrize(
    "wanted",
    [{}, COPIED, {"local.retention.ms": "5"}, {**LIMITED, "local.retention.ms": "-2"}],
)
def test_what_only_the_store_has_is_not_given_up_by_a_setting(wanted: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match="in the object store alone"):
        check_local(LIMITED, wanted)


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ({}, LIMITED),
        (COPIED, {}),
        (LIMITED, {**COPIED, "local.retention.ms": "-1"}),
        (LIMITED, {**COPIED, "local.retention.bytes": "7"}),
    ],
)
def test_other_changes_are_free(before: dict[str, str], wanted: dict[str, str]) -> None:
    check_local(before, wanted)


@pytest.mark.parametrize(
    ("local", "whole", "is_right"), [(5, 5, True), (6, 5, False), (6, -1, True)]
)
@pytest.mark.parametrize("kind", ["ms", "bytes"])
def test_disks_can_not_keep_more_than_the_whole(
    local: int, whole: int, kind: str, *, is_right: bool
) -> None:
    wanted = {**COPIED, f"local.retention.{kind}": str(local), f"retention.{kind}": str(whole)}
    if is_right:
        check_local({}, wanted)
        return
    with pytest.raises(InvalidConfig, match=rf"6 is more than retention\.{kind}, 5"):
        check_local({}, wanted)
