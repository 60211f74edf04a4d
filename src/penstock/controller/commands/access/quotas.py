"""Quotas of users, client ids and addresses are set and taken away.

All changes of one entity happen or none. What is as it should be is not written again.

Source: Kafka `ClientQuotaControlManager.alterClientQuotas`, KIP-546.
"""

from penstock.base.errors import as_answer
from penstock.controller.commands.access.commands import AlterQuotas, QuotaChange, QuotaOutcome
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.errors import (
    FeatureLevelTooLow,
    InvalidMetadataRequest,
    MetadataPolicyViolation,
    RefusedCommand,
)
from penstock.controller.metadata.config_records import CONFIGURATION_LEVEL, ClientQuotaChanged
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.levels import METADATA
from penstock.quotas.entities import QuotaEntity, entity_of
from penstock.quotas.errors import InvalidQuota
from penstock.quotas.keys import check_value

ENTITIES_MAX = 10_000
"""Entities with quotas: all processes hold them in memory, 400 bytes each, and a broker goes
through all of them after a change, 2 ms."""


def alter_quotas(context: CommandContext, command: AlterQuotas) -> Result[tuple[QuotaOutcome, ...]]:
    """Change what can be changed, entity by entity."""
    image = context.image
    new: set[QuotaEntity] = set()
    outcomes: list[QuotaOutcome] = []
    records: list[ClientQuotaChanged] = []
    for change in command.changes:
        error: RefusedCommand | None = None
        try:
            _check(image, change)
            own = _records(image, change)
            if change.entity not in image.configuration.quotas and own:
                _check_count(len(image.configuration.quotas) + len(new | {change.entity}))
                new.add(change.entity)
            records += own
        except RefusedCommand as refused:
            error = as_answer(refused)
        outcomes.append(QuotaOutcome(error=error))
    return Result(tuple(outcomes), () if command.validate_only else tuple(records))


def _check(image: ClusterImage, change: QuotaChange) -> None:
    if image.metadata_level < CONFIGURATION_LEVEL:
        raise FeatureLevelTooLow(METADATA, CONFIGURATION_LEVEL, image.metadata_level)
    try:
        is_plain = entity_of(change.entity) == change.entity
        for key, value in change.values.items():
            check_value(change.entity, key, value)
    except InvalidQuota as error:
        raise InvalidMetadataRequest(str(error)) from error
    if not is_plain:
        raise InvalidMetadataRequest("An entity has its parts in order")


def _records(image: ClusterImage, change: QuotaChange) -> list[ClientQuotaChanged]:
    now = image.configuration.quotas.get(change.entity, {})
    return [
        ClientQuotaChanged(entity=change.entity, key=key, value=value)
        for key, value in sorted(change.values.items())
        if value != now.get(key)
    ]


def _check_count(count: int) -> None:
    if count > ENTITIES_MAX:
        raise MetadataPolicyViolation(
            f"{ENTITIES_MAX} entities have quotas already: take some away, or use defaults."
        )
