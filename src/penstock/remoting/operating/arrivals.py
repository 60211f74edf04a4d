"""Topics that another broker's client has made, and that this one's metadata has not yet.

    wait_for(name) ─► the metadata has it ─► True
                  └─► WAIT_MS             ─► False

Source: ours. A tool that changes a topic at one broker after the other is faster than metadata.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.broker.awaited import awaited

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.controller.metadata.image import ClusterDelta, ClusterImage

WAIT_MS: Final = 2_000
"""Metadata of a broker that hears the controller is some ms behind."""


class Arrivals:
    """See the module; one for each front. Who waits is a request, and counted as such."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._waiting: dict[str, list[Callable[[bool], None]]] = {}
        image.subscribe(self._on_delta)

    async def wait_for(self, name: str) -> bool:
        """Wait until the metadata has a topic; returns whether it has."""
        if name in self._image.topics_by_name:
            return True
        told: asyncio.Future[bool]
        told, tell = awaited()
        waiting = self._waiting.setdefault(name, [])
        waiting.append(tell)
        try:
            async with asyncio.timeout(WAIT_MS / 1_000):
                return await told
        except TimeoutError:
            return False
        finally:
            waiting.remove(tell)
            if not waiting:
                self._waiting.pop(name, None)

    def _on_delta(self, _: ClusterDelta) -> None:
        for name in [one for one in self._waiting if one in self._image.topics_by_name]:
            for tell in self._waiting[name]:
                tell(True)
