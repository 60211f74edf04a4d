"""Limits of the disks, and which changes would take what only the object store has."""

import pytest

from penstock.controller.errors import InvalidConfig
from penstock.controller.topic_config.local import (
    LocalLimits,
    check_local,
    is_copied,
    is_deleted_from_store,
    local_limits,
)
from penstock.controller.topic_config.table import TopicSettings

WHOLE = TopicSettings()
COPIED = {"remote.storage.enable": "true"}
LIMITED = {**COPIED, "local.retention.ms": "5"}
NO_COPIES = {**COPIED, "remote.log.copy.disable": "true"}
OFF = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}


@pytest.mark.parametrize(
    ("overrides", "limits"),
    [
        ({}, None),
        (COPIED, None),
        (
            {**COPIED, "local.retention.ms": "-2", "local.retention.bytes": "-2"},
            LocalLimits(-2, -2),
        ),
        ({**COPIED, "remote.log.copy.disable": "false"}, None),
        (NO_COPIES, LocalLimits(-2, -2, is_copied=False)),
        ({**NO_COPIES, "remote.storage.enable": "false"}, None),
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


@pytest.mark.parametrize("before", [COPIED, LIMITED, NO_COPIES])
@pytest.mark.parametrize("off", [{}, {"remote.storage.enable": "false"}])
def test_copies_are_not_given_up_without_a_word(
    before: dict[str, str], off: dict[str, str]
) -> None:
    with pytest.raises(InvalidConfig, match="invalid to disable remote storage without deleting"):
        check_local(before, dict(off), WHOLE)
    wanted = {**off, "remote.log.delete.on.disable": "true"}
    check_local(before, wanted, WHOLE)
    assert is_deleted_from_store(wanted)
    assert local_limits(wanted) is None


def test_what_was_off_before_may_stay_so() -> None:
    check_local(OFF, {"remote.storage.enable": "false"}, WHOLE)
    check_local({}, {}, WHOLE)


@pytest.mark.parametrize("wanted", [{**COPIED}, {**OFF, **COPIED}])
@pytest.mark.parametrize("before", [LIMITED, NO_COPIES])
def test_a_topic_of_which_the_store_may_have_records_alone_goes_on_saying_so(
    before: dict[str, str], wanted: dict[str, str]
) -> None:
    kept = dict(wanted)
    check_local(before, kept, WHOLE)
    assert kept == {**wanted, "local.retention.ms": "-2"}
    assert local_limits(kept) == LocalLimits(-2, -2)


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ({}, LIMITED),
        (COPIED, COPIED),
        (LIMITED, {**COPIED, "local.retention.ms": "-1"}),
        (LIMITED, {**COPIED, "local.retention.bytes": "7"}),
        (LIMITED, NO_COPIES),
        (NO_COPIES, LIMITED),
    ],
)
def test_other_changes_are_taken_as_they_are(
    before: dict[str, str], wanted: dict[str, str]
) -> None:
    kept = dict(wanted)
    check_local(before, kept, WHOLE)
    assert kept == wanted


@pytest.mark.parametrize(
    ("kind", "whole"),
    [("ms", TopicSettings(retention_ms=7)), ("bytes", TopicSettings(retention_bytes=7))],
)
def test_disks_keep_all_that_is_kept_while_nothing_is_copied(
    kind: str, whole: TopicSettings
) -> None:
    key = f"local.retention.{kind}"
    for local in ("-2", "7"):
        check_local(COPIED, {**NO_COPIES, key: local}, whole)
    for local in ("-1", "6", "0"):
        text = (
            f"When `remote.log.copy.disable` is set to true, the `{key}` and `retention.{kind}`"
            " must be set to the identical value because there will be no more logs copied to the"
            r" remote storage\."
        )
        with pytest.raises(InvalidConfig, match=text):
            check_local(COPIED, {**NO_COPIES, key: local}, whole)
        check_local({}, {**OFF, "remote.log.copy.disable": "true", key: local}, whole)


@pytest.mark.parametrize(
    ("overrides", "copied", "deleted"),
    [
        ({}, False, False),
        (COPIED, True, False),
        (NO_COPIES, False, False),
        ({**COPIED, "remote.log.delete.on.disable": "true"}, True, False),
        ({**NO_COPIES, "remote.log.delete.on.disable": "true"}, False, False),
        (OFF, False, True),
        ({"remote.log.delete.on.disable": "true"}, False, True),
        ({"remote.storage.enable": "false"}, False, False),
    ],
)
def test_what_the_store_is_to_have(
    overrides: dict[str, str], *, copied: bool, deleted: bool
) -> None:
    assert (is_copied(overrides), is_deleted_from_store(overrides)) == (copied, deleted)


@pytest.mark.parametrize(
    ("local", "whole", "is_right"), [(5, 5, True), (6, 5, False), (6, -1, True)]
)
@pytest.mark.parametrize("kind", ["ms", "bytes"])
def test_disks_can_not_keep_more_than_the_whole(
    local: int, whole: int, kind: str, *, is_right: bool
) -> None:
    wanted = {**COPIED, f"local.retention.{kind}": str(local), f"retention.{kind}": str(whole)}
    if is_right:
        check_local({}, wanted, WHOLE)
        return
    with pytest.raises(InvalidConfig, match=rf"6 is more than retention\.{kind}, 5"):
        check_local({}, wanted, WHOLE)
