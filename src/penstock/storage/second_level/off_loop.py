"""How the parts of a second level have work done off the loop.

Source: docs/adr/0103. It runs nothing itself: store.py does.
"""

from collections.abc import Callable
from typing import Any, Protocol

from penstock.base.ports import Lane


class OffLoop(Protocol):
    """Runs work off the loop; no file is removed before it has ended."""

    def __call__(
        self,
        work: Callable[[], Any],
        done: Callable[[Any, BaseException | None], None],
        lane: Lane,
        /,
    ) -> None: ...
