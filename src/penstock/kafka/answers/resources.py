"""Configuration of brokers, groups and client metrics, as DescribeConfigs and AlterConfigs see it.

A broker answers for itself and, under the empty name, for all brokers; as in Kafka it does not
answer for another one.

Source: Kafka `ConfigHelper` and `ConfigAdminManager.preprocess`.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from penstock.base.errors import as_answer
from penstock.configs.entry import ConfigEntry
from penstock.configs.read_only import why_read_only
from penstock.controller.errors import InvalidMetadataRequest
from penstock.controller.metadata.kinds import ResourceType
from penstock.controller.resource_config.layers import (
    ALL_BROKERS,
    cluster_entries,
    kept_entries,
)
from penstock.kafka.context import RequestContext

NAMES_LOOKED_AT = 200
"""Of one resource: the controller sees no more of them either (alter.py)."""


def resource_entries(
    context: RequestContext, resource_type: int, name: str
) -> Sequence[ConfigEntry]:
    """Return the configuration of what is no topic. Raises InvalidMetadataRequest."""
    configuration = context.broker.metadata.configuration
    if resource_type == ResourceType.BROKER:
        if name == ALL_BROKERS:
            return cluster_entries(configuration)
        _check_own(context, name)
        return context.front.configs.entries()
    if resource_type not in {ResourceType.GROUP, ResourceType.CLIENT_METRICS}:
        raise InvalidMetadataRequest(
            f"Resources of type {resource_type} have no configuration here."
        )
    if not name:
        raise InvalidMetadataRequest("The name of the resource must not be empty.")
    return kept_entries(configuration, ResourceType(resource_type), name)


def unalterable(context: RequestContext, resource: Any) -> InvalidMetadataRequest | None:
    """Return why this broker does not hand the changes of a resource to the controllers."""
    if resource.resource_type != ResourceType.BROKER:
        return None
    try:
        if resource.resource_name != ALL_BROKERS:
            _check_own(context, resource.resource_name)
        _check_keys(context, (config.name for config in resource.configs))
    except InvalidMetadataRequest as refused:
        return as_answer(refused)
    return None


def _check_own(context: RequestContext, name: str) -> None:
    broker_id = context.broker.broker_id
    if name != str(broker_id):
        raise InvalidMetadataRequest(
            f"Ask broker {name[:100]!r} itself, or the empty name; this is broker {broker_id}."
        )


def _check_keys(context: RequestContext, keys: Iterable[str]) -> None:
    """Raise InvalidMetadataRequest for a setting that does not change while the node runs."""
    read_only = context.front.configs.read_only()
    for key in islice(keys, NAMES_LOOKED_AT):
        if key in read_only:
            raise InvalidMetadataRequest(why_read_only(key, read_only[key]))
