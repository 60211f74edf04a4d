"""Features in ApiVersions, and UpdateFeatures, against a real node alone."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.controller.errors import FeatureLevelRefused
from penstock.controller.metadata.levels import METADATA
from penstock.kafka.handlers.cluster.update_features import _checked
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.live_node import RawClient

UPGRADE, SAFE, UNSAFE = 1, 2, 3


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


def level(client: RawClient) -> tuple[int, int]:
    """The level and the epoch that ApiVersions tells; -1 where it tells none."""
    answer = versions(client, 3)
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return levels.get(METADATA, -1), answer.finalized_features_epoch


@pytest.mark.parametrize("version", [3, 4])
def test_the_feature_is_told_with_its_range_and_its_level(client: RawClient, version: int) -> None:
    answer = versions(client, version)
    (supported,) = answer.supported_features
    assert (supported.name, supported.min_version, supported.max_version) == (METADATA, 1, 2)
    (finalised,) = answer.finalized_features
    assert (finalised.name, finalised.max_version_level) == (METADATA, 2)
    assert answer.finalized_features_epoch > 0


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


def test_what_is_only_tried_changes_nothing(client: RawClient) -> None:
    before = level(client)
    assert update(client, (METADATA, 1, SAFE), is_trial=True).error_code == Code.NONE
    assert update(client, (METADATA, 3, UPGRADE), is_trial=True).error_code == (
        Code.INVALID_UPDATE_VERSION
    )
    assert level(client) == before


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ([(METADATA, 3, UPGRADE)], Code.INVALID_UPDATE_VERSION),
        ([(METADATA, 1, UPGRADE)], Code.INVALID_UPDATE_VERSION),
        ([(METADATA, 0, SAFE)], Code.INVALID_UPDATE_VERSION),
        ([(METADATA, -1, UNSAFE)], Code.INVALID_UPDATE_VERSION),
        ([("metadata.version", 29, UPGRADE)], Code.INVALID_UPDATE_VERSION),
        ([(METADATA, 1, SAFE), ("group.version", 1, UPGRADE)], Code.INVALID_UPDATE_VERSION),
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
    answer = update(client, (METADATA, 2, UPGRADE), version=version)
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
