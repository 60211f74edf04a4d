"""Features in ApiVersions, and UpdateFeatures, against a real node alone."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.controller.errors import FeatureLevelRefused
from penstock.controller.metadata.levels import (
    GROUPS,
    METADATA,
    METADATA_LEVELS,
    SHARES,
    STREAMS,
    SUPPORTED,
    TRANSACTIONS,
)
from penstock.kafka.handlers.cluster.update_features import _checked
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.live_node import RawClient

UPGRADE, SAFE, UNSAFE = 1, 2, 3
NEWEST = METADATA_LEVELS.highest


def versions(client: RawClient, version: int) -> Any:
    software = {"client_software_name": "t", "client_software_version": "1"}
    return client.ask(ApiKey.API_VERSIONS, version, software if version >= 3 else {})


def update(
    client: RawClient, *wanted: tuple[str, int, int], version: int = 2, is_trial: bool = False
) -> Any:
    updates = [
        {"feature": name, "max_version_level": level}
        | ({"upgrade_type": kind} if version else {"allow_downgrade": kind != UPGRADE})
        for name, level, kind in wanted
    ]
    fields: dict[str, Any] = {"feature_updates": updates, "timeout": 5_000}
    return client.ask(
        ApiKey.UPDATE_FEATURES, version, fields | ({"validate_only": is_trial} if version else {})
    )


def levels(client: RawClient) -> dict[str, int]:
    """The levels that ApiVersions tells."""
    answer = versions(client, 3)
    return {feature.name: feature.max_version_level for feature in answer.finalized_features}


def level(client: RawClient) -> tuple[int, int]:
    """The metadata's level and the epoch that ApiVersions tells; -1 where it tells none."""
    return levels(client).get(METADATA, -1), versions(client, 3).finalized_features_epoch


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_told_with_their_ranges_and_levels(client: RawClient, version: int) -> None:
    answer = versions(client, version)
    assert {one.name: (one.min_version, one.max_version) for one in answer.supported_features} == {
        METADATA: (1, NEWEST),
        TRANSACTIONS: (1, 2),
        GROUPS: (1, 1),
        SHARES: (1, 1),
        STREAMS: (1, 1),
    }
    others = {GROUPS: 1, SHARES: 1, STREAMS: 1}
    assert levels(client) == {METADATA: NEWEST, TRANSACTIONS: 2, **others}
    assert answer.finalized_features_epoch > 0


def test_the_first_protocol_of_transactions_can_be_chosen_and_left(client: RawClient) -> None:
    _, before = level(client)
    assert update(client, (TRANSACTIONS, 1, SAFE)).error_code == Code.NONE
    others = {GROUPS: 1, SHARES: 1, STREAMS: 1}
    assert levels(client) == {METADATA: NEWEST, TRANSACTIONS: 1, **others}
    _, lowered = level(client)
    assert update(client, (TRANSACTIONS, 2, UPGRADE)).error_code == Code.NONE
    assert levels(client)[TRANSACTIONS] == 2
    _, raised = level(client)
    assert before < lowered < raised


def test_the_features_of_kafka_are_gone_below_the_level_that_they_need(client: RawClient) -> None:
    assert update(client, (METADATA, 2, SAFE)).error_code == Code.NONE
    assert levels(client) == {METADATA: 2}
    refused = update(client, (TRANSACTIONS, 2, UPGRADE))
    assert refused.error_code == Code.INVALID_UPDATE_VERSION
    assert "penstock cluster upgrade" in refused.error_message
    assert update(client, (METADATA, NEWEST, UPGRADE)).error_code == Code.NONE
    assert levels(client)[TRANSACTIONS] == 1, "nobody has raised it again"
    assert update(client, (TRANSACTIONS, 2, UPGRADE)).error_code == Code.NONE


@pytest.mark.parametrize("version", range(3))
def test_versions_before_features_are_as_before(client: RawClient, version: int) -> None:
    assert versions(client, version).api_keys


def test_a_level_goes_down_and_up_and_its_epoch_grows(client: RawClient) -> None:
    _, before = level(client)
    assert update(client, (METADATA, 1, SAFE)).error_code == Code.NONE
    assert level(client) == (-1, -1)
    assert update(client, (METADATA, 2, UPGRADE)).error_code == Code.NONE
    after, epoch = level(client)
    assert (after, epoch > before) == (2, True)
    for feature, (_, highest) in SUPPORTED.items():
        assert update(client, (feature, highest, UPGRADE)).error_code == Code.NONE


def test_what_is_only_tried_changes_nothing(client: RawClient) -> None:
    before = level(client)
    assert update(client, (METADATA, 1, SAFE), is_trial=True).error_code == Code.NONE
    assert update(client, (METADATA, NEWEST + 1, UPGRADE), is_trial=True).error_code == (
        Code.INVALID_UPDATE_VERSION
    )
    assert level(client) == before


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ([(METADATA, NEWEST + 1, UPGRADE)], Code.INVALID_UPDATE_VERSION),
        ([(METADATA, 1, UPGRADE)], Code.INVALID_UPDATE_VERSION),
        ([(METADATA, 0, SAFE)], Code.INVALID_UPDATE_VERSION),
        ([(METADATA, -1, UNSAFE)], Code.INVALID_UPDATE_VERSION),
        ([("metadata.version", 29, UPGRADE)], Code.INVALID_UPDATE_VERSION),
        ([(METADATA, 1, SAFE), ("kraft.version", 1, UPGRADE)], Code.INVALID_UPDATE_VERSION),
        ([(TRANSACTIONS, 1, SAFE), (METADATA, 1, UPGRADE)], Code.INVALID_UPDATE_VERSION),
        ([(TRANSACTIONS, 3, UPGRADE)], Code.INVALID_UPDATE_VERSION),
        ([(GROUPS, 2, UPGRADE)], Code.INVALID_UPDATE_VERSION),
        ([(METADATA, 2, UPGRADE), (METADATA, 1, SAFE)], Code.INVALID_REQUEST),
        ([(METADATA, 2, 9)], Code.INVALID_REQUEST),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_is_changed(
    client: RawClient, wanted: list[tuple[str, int, int]], code: Code
) -> None:
    before = level(client)
    answer = update(client, *wanted)
    assert answer.error_code == code
    assert answer.error_message
    assert level(client) == before


@pytest.mark.parametrize("version", [0, 1])
def test_older_versions_have_a_result_for_each_feature(client: RawClient, version: int) -> None:
    answer = update(client, (METADATA, NEWEST, UPGRADE), version=version)
    assert answer.error_code == Code.NONE
    assert [(result.feature, result.error_code) for result in answer.results] == [
        (METADATA, Code.NONE)
    ]
    refused = update(client, (METADATA, 1, UPGRADE), version=version)
    assert (refused.error_code, refused.results) == (Code.INVALID_UPDATE_VERSION, ())


def test_the_first_update_that_can_not_be_ends_the_look_at_them(client: RawClient) -> None:
    """100,000 may be named: to read them all first held the loop for 115 ms."""
    looked_at: list[int] = []

    def many() -> Iterator[SimpleNamespace]:
        for number in range(1_000):
            looked_at.append(number)
            yield SimpleNamespace(feature=f"f{number}", max_version_level=1, upgrade_type=UPGRADE)

    with pytest.raises(FeatureLevelRefused):
        _checked(many())
    assert looked_at == [0]
    assert update(client, *((f"f{one}", 1, UPGRADE) for one in range(1_000))).error_code != 0
