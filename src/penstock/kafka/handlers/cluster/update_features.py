"""UpdateFeatures (key 57), versions 0 to 2: raise or lower the level of a cluster feature.

The feature `penstock.metadata` says which records may be written to the metadata log. It is raised
once every process of the cluster reads the level, and lowered only if nothing is lost: an unsafe
downgrade (upgrade type 3) is treated like a safe one. Kafka's features need its level 3, and go
back to their first level with it. All updates are checked before any is made; with `validate_only`
none is, and the answer has the outcome that they would have.

Source: Kafka `FeatureControlManager.updateFeatures`, KIP-584, KIP-778 (upgrade types, trial),
KIP-1022 (v2: no results by feature).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.controller.errors import (
    FeatureLevelRefused,
    InvalidMetadataRequest,
    MetadataError,
    NotActiveController,
)
from penstock.controller.metadata.levels import FIRST_LEVEL, SUPPORTED
from penstock.controller.replicated_log import NO_LEADER
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.UPDATE_FEATURES
VERSIONS = range(3)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
RESULTS_VERSION_MAX = 1


class Update(NamedTuple):
    """A requested change of a feature."""

    feature: str
    level: int
    is_lowering: bool


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Have the active controller change the levels."""
    refused = refusal(context, Operation.ALTER, Resource.CLUSTER)
    if refused is not None:
        return _answer(request, (), refused)
    try:
        updates = _checked(request.body.feature_updates)
        is_trial = getattr(request.body, "validate_only", False)
        if is_trial or len(updates) > 1:
            for update in updates:
                await _change(context, update, is_trial=True)
        if not is_trial:
            for update in updates:
                await _change(context, update, is_trial=False)
    except MetadataError as error:
        return _answer(request, (), error)
    return _answer(request, updates, None)


def _update(asked: Any) -> Update:
    """Decode an update. Raises InvalidMetadataRequest."""
    if hasattr(asked, "allow_downgrade"):
        kind = SAFE_DOWNGRADE if asked.allow_downgrade else UPGRADE
    else:
        kind = asked.upgrade_type
    if kind not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
        raise InvalidMetadataRequest(f"{asked.feature[:100]}: there is no upgrade type {kind}.")
    return Update(asked.feature, asked.max_version_level, kind != UPGRADE)


def _checked(asked: Iterable[Any]) -> list[Update]:
    """Refuse all if one is invalid, before any is made. Raises MetadataError kinds.

    The first invalid one ends the check: a request may have 100,000, and there are few features.
    """
    updates: dict[str, Update] = {}
    for one in asked:
        name, level, _ = update = _update(one)
        if name in updates:
            raise InvalidMetadataRequest("A feature is named twice.")
        if name not in SUPPORTED:
            raise FeatureLevelRefused(name[:100], level, f"there is only {', '.join(SUPPORTED)}")
        if level < FIRST_LEVEL:
            raise FeatureLevelRefused(name, level, f"its levels begin at {FIRST_LEVEL}")
        updates[name] = update
    return list(updates.values())


async def _change(context: RequestContext, update: Update, *, is_trial: bool) -> None:
    operations = context.broker.operations
    if operations is None:
        raise NotActiveController(NO_LEADER)
    async with context.broker.long_places.away():
        await operations.change_feature(
            update.feature, update.level, is_lowering=update.is_lowering, is_trial=is_trial
        )


def _answer(
    request: Request, updates: list[Update] | tuple[()], error: PlatformError | None
) -> Mapping[str, object]:
    told = error_fields(error)
    if request.api_version > RESULTS_VERSION_MAX:
        return told
    return {
        **told,
        "results": [{"feature": update.feature, **error_fields(None)} for update in updates],
    }
