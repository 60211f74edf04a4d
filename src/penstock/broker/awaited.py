"""An answer of a coordinator for a task that waits for it, unless the task has given up.

Source: our own. A task is cancelled when its connection closes or the node stops; the coordinator
answers what it was asked all the same.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

A = TypeVar("A")


def awaited() -> "tuple[asyncio.Future[A], Callable[[A], None]]":
    """Return a future, and what sets its result; without effect once nobody waits any more."""
    told: asyncio.Future[A] = asyncio.get_running_loop().create_future()

    def tell(answer: A) -> None:
        if not told.done():
            told.set_result(answer)

    return told, tell
