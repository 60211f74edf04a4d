"""What a controller's process does for operators beside ActiveController.

Source: our own. It decides nothing: the log changes its members, FeatureTable has the levels.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.runtime.session.messages import (
    ByService,
    ChangeControllers,
    ChangeFeature,
    FeaturesRequest,
)

ChangeMembership = Callable[[ChangeControllers], Coroutine[Any, Any, str]]
"""Changes voters or leader by the log's own means; returns text, raises MetadataError."""


class Features(Protocol):
    """The levels that each process reads (FeatureTable)."""

    async def answer(self, request: FeaturesRequest | ChangeFeature) -> str:
        """Return levels as JSON, or what was changed in words. Raises MetadataError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPorts:
    """The operations of this process."""

    change_membership: ChangeMembership
    quorum: Callable[[], str]
    """Returns the voters of the metadata log and how far each is, as JSON."""
    features: Features

    async def serve(self, request: ByService) -> str:
        """Carry out the request; return text for people or JSON. Raises MetadataError."""
        if isinstance(request, ChangeControllers):
            return await self.change_membership(request)
        return await self.features.answer(request)
