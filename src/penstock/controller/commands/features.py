"""Levels of features: one command raises or lowers them, and commands are checked against them.

The caller has checked that every process reads the level (runtime/session/service_features); this
module checks that no broker has registered meanwhile, and that lowering loses nothing.

Source: KIP-584 (UpdateFeatures: upgrades and downgrades are separate requests); ADR 0067.
"""

from collections.abc import Iterable, Mapping

from penstock.controller.commands.command import ChangeFeatureLevel
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.errors import FeatureLevelRefused, FeatureLevelTooLow
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.levels import FEATURES_LEVEL, FIRST_LEVEL, METADATA, SUPPORTED
from penstock.controller.metadata.record_codec import level_of
from penstock.controller.metadata.records import FeatureLevelChanged, MetadataRecord
from penstock.controller.topic_config.table import OVERRIDES_LEVEL, needs_level_2

TOPICS_NAMED = 5


def change_feature_level(context: CommandContext, command: ChangeFeatureLevel) -> Result[int]:
    """Raise or lower a feature's level; answers the level in force. Idempotent."""
    image, feature, level = context.image, command.feature, command.level
    supported = SUPPORTED.get(feature)
    if supported is None:
        raise FeatureLevelRefused(feature, level, f"this release knows {', '.join(SUPPORTED)}")
    now = image.features.get(feature, FIRST_LEVEL)
    if level == now:
        return Result(now)
    if not supported.has(level):
        raise FeatureLevelRefused(feature, level, f"the active controller reads {supported}")
    if (level < now) is not command.is_lowering:
        wanted = "a downgrade" if level < now else "an upgrade"
        raise FeatureLevelRefused(feature, level, f"it is at {now}: ask for {wanted}")
    if feature != METADATA and image.metadata_level < FEATURES_LEVEL:
        raise FeatureLevelRefused(
            feature, level, f"it needs {METADATA} at level {FEATURES_LEVEL}, and the cluster is at"
            f" {image.metadata_level}: raise that first (penstock cluster upgrade)"
        )  # fmt: skip
    checked = dict(command.checked_brokers)
    unchecked = sorted(
        key for key, broker in image.brokers.items() if checked.get(key) != broker.broker_epoch
    )
    if unchecked:
        raise FeatureLevelRefused(
            feature, level, f"brokers {unchecked} have registered meanwhile: ask again"
        )
    if feature == METADATA and command.is_lowering and (above := _above(image, level)):
        raise FeatureLevelRefused(
            feature, level, f"it can not hold {', '.join(above)}: take them away first"
        )
    levels = {}
    if feature == METADATA and level < FEATURES_LEVEL:
        # The level can not hold those of other features: they go back to their first before it.
        levels = dict.fromkeys(sorted(image.features.keys() - {METADATA}), FIRST_LEVEL)
    return Result(level, feature_levels(context, {**levels, feature: level}))


def _above(image: ClusterImage, level: int) -> list[str]:
    """Return, for people, the contents of the metadata that the level cannot hold."""
    found = sorted(
        topic.name
        for topic in image.topics_by_name.values()
        if level < OVERRIDES_LEVEL
        and any(needs_level_2(key, text) for key, text in topic.configs.items())
    )
    more = f" and {len(found) - TOPICS_NAMED} more" if len(found) > TOPICS_NAMED else ""
    topics = [f"overrides of topics {', '.join(found[:TOPICS_NAMED])}{more}"] if found else []
    return [*image.configuration.above(level), *topics]


def feature_levels(
    context: CommandContext, levels: Mapping[str, int]
) -> tuple[FeatureLevelChanged, ...]:
    """Return the records that set levels, in this order, with an epoch that no client has seen."""
    # No epoch is stored at the first level: wall time is above any that was used before.
    epoch = max(context.image.features_epoch + 1, context.wall_ms())
    return tuple(
        FeatureLevelChanged(feature=feature, level=level, epoch=epoch)
        for feature, level in levels.items()
    )


def check_level(image: ClusterImage, records: Iterable[MetadataRecord]) -> None:
    """Raise FeatureLevelTooLow unless the level allows all of a command's records."""
    level = image.metadata_level
    for record in records:
        needed = level_of(record)
        if needed > level:
            raise FeatureLevelTooLow(METADATA, needed, level)
        if isinstance(record, FeatureLevelChanged) and record.feature == METADATA:
            level = record.level
