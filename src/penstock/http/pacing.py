"""How fast bodies are read: so many parts in a turn of the loop, whoever sends them.

A part has up to 256 KiB, and behind TLS each costs half a millisecond. With two hundred bodies that
come at full speed, a turn without this bound takes a tenth of a second.

    first part ─► read at once
    more       ─► in a row ─► PARTS_A_TURN of them go on ─► the next turn

Who goes on reads when its client has sent something: slow clients hold nobody up.

Source: ours.
"""

import asyncio
from collections import deque
from typing import Final

PARTS_A_TURN: Final = 4


class Pace:
    """See the module."""

    def __init__(self, parts: int = PARTS_A_TURN) -> None:
        self._parts = parts
        self._row: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait until the next part may be read."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        self._row.append(mine)
        if len(self._row) == 1:
            loop.call_soon(self._go_on, loop)
        await mine

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        left = self._parts
        while self._row and left:
            one = self._row.popleft()
            if not one.done():  # else its client has gone
                one.set_result(None)
                left -= 1
        if self._row:
            loop.call_soon(self._go_on, loop)
