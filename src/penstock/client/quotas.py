"""Quotas of users, client ids and addresses, for operators: list, set and take away.

The active controller's broker is asked, so that what was just set is found.

Source: KIP-546. Setting a quota again is no failure, so that a request without an answer is simply
sent again.
"""

from collections.abc import Mapping
from typing import Any

from penstock.client.cluster import Cluster, check_code
from penstock.protocol.api_keys import ApiKey
from penstock.quotas.entities import QuotaEntity, entity_of, text_of
from penstock.quotas.filters import Component


class Quotas:
    """The quotas of a cluster, through a `Cluster` that the caller closes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list(
        self, components: tuple[Component, ...] = (), *, is_strict: bool = False
    ) -> dict[QuotaEntity, Mapping[str, float]]:
        """Return the quotas that a filter finds, by entity. Raises BrokerError."""
        fields = {
            "components": [
                {"entity_type": kind, "match_type": match, "match": name}
                for kind, match, name in components
            ],
            "strict": is_strict,
        }

        def attempt() -> dict[QuotaEntity, Mapping[str, float]]:
            answer = self._ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, fields)
            check_code(answer.error_code, "the quotas", answer.error_message)
            return {
                entity_of((part.entity_type, part.entity_name) for part in one.entity): {
                    value.key: float(value.value) for value in one.values
                }
                for one in answer.entries
            }

        found: dict[QuotaEntity, Mapping[str, float]] = self._cluster.retry("quotas", attempt)
        return found

    def alter(self, entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
        """Set quotas of an entity; None takes one away. Raises BrokerError."""
        ops = [
            {"key": key, "value": 0.0 if value is None else value, "remove": value is None}
            for key, value in values.items()
        ]
        parts = [{"entity_type": str(kind), "entity_name": name} for kind, name in entity]
        fields = {"entries": [{"entity": parts, "ops": ops}], "validate_only": False}

        def attempt() -> None:
            for one in self._ask(ApiKey.ALTER_CLIENT_QUOTAS, fields).entries:
                check_code(one.error_code, f"quota of {text_of(entity)}", one.error_message)

        self._cluster.retry("quotas", attempt)

    def _ask(self, api_key: ApiKey, fields: Mapping[str, Any]) -> Any:
        return self._cluster.controller_connection().call(api_key, fields)
