"""What a controller's process does for operators beside its brain, as its service is given it.

Source: our own. It decides nothing: the log changes its members, FeatureTable knows levels.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.controller.errors import RefusedCommand
from penstock.runtime.session.messages import (
    ByService,
    ChangeControllers,
    ChangeFeature,
    FeaturesRequest,
)

ChangeMembership = Callable[[ChangeControllers], Coroutine[Any, Any, str]]
"""Change who keeps the log, by the log's own means; returns text, raises MetadataError."""


class Features(Protocol):
    """Who reads which levels (FeatureTable)."""

    async def answer(self, request: FeaturesRequest | ChangeFeature) -> str:
        """Return levels as JSON, or what was changed in words. Raises MetadataError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPorts:
    """None where the process can not do it."""

    change_membership: ChangeMembership | None = None
    quorum: Callable[[], str] = str
    """Returns who keeps the log, as JSON."""
    features: Features | None = None

    async def serve(self, request: ByService) -> str:
        """Do what is asked; returns text for people or JSON. Raises MetadataError."""
        if isinstance(request, ChangeControllers):
            if self.change_membership is None:
                raise RefusedCommand("The controllers of this cluster are not changed this way.")
            return await self.change_membership(request)
        if self.features is None:
            raise RefusedCommand("This controller knows nothing of the levels of others.")
        return await self.features.answer(request)


NO_PORTS = OperatorPorts()
