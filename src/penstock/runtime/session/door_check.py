"""Whether any process listens at a broker's address: checked by a newly active controller.

The new controller may never have had a session of a broker that died together with its predecessor,
and would wait a whole session time-out before it declares the broker dead. A refused connection
says so at once: the host is up and no process listens. Without any answer the time-out has to pass.

Source: RocketMQ issue 5712 (liveness lost with the controller). The check never shows that a broker
is alive: only the broker's own session does.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.base.ids import BrokerId
from penstock.controller.metadata.image import BrokerImage, ClusterImage

INTERVAL_SECONDS = 0.3
ATTEMPTS_MAX = 20
CONNECT_SECONDS_MAX = 1.0

log = logging.getLogger(__name__)


class DoorCheck:
    """Created and used on its event loop."""

    def __init__(
        self,
        image: ClusterImage,
        *,
        is_awaited: Callable[[BrokerId], bool],
        on_refused: Callable[[BrokerId], None],
        spawn: Callable[[str, Coroutine[Any, Any, None]], None],
    ) -> None:
        """`is_awaited(broker id)`: this controller is active and has never heard of it."""
        self._image = image
        self._is_awaited = is_awaited
        self._on_refused = on_refused
        self._spawn = spawn

    def begin(self) -> None:
        """Check every broker that is awaited now."""
        for broker in self._image.brokers.values():
            if broker.ha_port and not broker.is_fenced and self._is_awaited(broker.broker_id):
                self._spawn(f"door-{broker.broker_id}", self._look(broker))

    async def _look(self, broker: BrokerImage) -> None:
        for _ in range(ATTEMPTS_MAX):
            if not self._is_awaited(broker.broker_id):
                return
            if await _is_refused(broker.ha_host, broker.ha_port):
                if self._is_awaited(broker.broker_id):
                    log.info("broker=%d is not there: connection refused", broker.broker_id)
                    self._on_refused(broker.broker_id)
                return
            await asyncio.sleep(INTERVAL_SECONDS)


async def _is_refused(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return False
