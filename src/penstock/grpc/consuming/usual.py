"""What the compiled twins do with usual messages, where there are none: nothing.

In Python a second way would cost what the first one does. The twins are in `_delivered.pyx`;
`compiled.py` chooses.

Source: ours, docs/adr/0021, 0194.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.remoting.pop.records import Seen


def usual_messages(  # noqa: PLR0917  as the twin has them
    messages: Sequence[tuple[Seen, int]],
    topic: bytes,
    same: bytes,
    place: tuple[int, int],
    topic_crc: int,
    host_text: Callable[[bytes], bytes],
) -> list[bytes | None]:
    """Return None for each: none of them is encoded."""
    return [None] * len(messages)


def read_acks(data: bytes, ok: bytes) -> tuple[str, str, int, int, list[int], bytes] | None:
    """Return None: no request is read."""
    return None
