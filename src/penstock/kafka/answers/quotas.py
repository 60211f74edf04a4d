"""Entities and filters of quotas, as requests and answers have them."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.controller.errors import InvalidMetadataRequest
from penstock.quotas.entities import QuotaEntity, entity_of
from penstock.quotas.errors import InvalidQuota
from penstock.quotas.filters import Component, QuotaFilter, filter_of


def entity_in(asked: Any) -> QuotaEntity:
    """Return the entity of an entry. Raises InvalidMetadataRequest.

    That has no cause: it is kept as an answer, and the cause's traceback would make it a cycle.
    """
    try:
        return entity_of((one.entity_type, one.entity_name) for one in asked.entity)
    except InvalidQuota as error:
        why = str(error)
    raise InvalidMetadataRequest(why)


def values_in(asked: Any) -> dict[str, float | None]:
    """Return the values of an entry, None to take one away. Raises InvalidMetadataRequest."""
    values: dict[str, float | None] = {}
    for one in asked.ops:
        if one.key in values:
            raise InvalidMetadataRequest(f"Duplicate quota key {one.key[:100]}")
        values[one.key] = None if one.remove else float(one.value)
    return values


def filter_in(body: Any) -> QuotaFilter:
    """Return the filter of a request. Raises InvalidMetadataRequest, UnknownEntityKind."""
    components = (Component(one.entity_type, one.match_type, one.match) for one in body.components)
    try:
        return filter_of(components, is_strict=body.strict)
    except InvalidQuota as error:
        raise InvalidMetadataRequest(str(error)) from error


def entity_fields(parts: Iterable[tuple[str, str | None]]) -> list[Mapping[str, object]]:
    """Return an entity for an answer."""
    return [{"entity_type": str(kind), "entity_name": name} for kind, name in parts]
