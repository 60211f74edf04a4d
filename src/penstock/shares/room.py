"""Whether a share may take more memory: those that take most wait first.

    all shares take    less than half │ less than the bound │ more
    a large one            grows      │ goes on in the cells that it has
    another one            grows      │ grows               │ goes on in the cells that it has

A share that does not grow hands out what came back, and new records as far as its last cells go;
members without records give their numbers to new ones. It grows again when others have less.

Source: none; Kafka bounds the number of shares and of records in flight, not their memory.
"""

from dataclasses import replace

from penstock.shares.cells import CELLS
from penstock.shares.config import SharePolicy
from penstock.shares.share import Share

SMALL_CHUNKS = 2
"""Most chunks of a share that is not large: a window of 4,096 offsets may touch two."""


def within(policy: SharePolicy, share: Share, used_bytes: int, bytes_max: int) -> SharePolicy:
    """Return what a share may do while all shares together take so much memory."""
    is_large = len(share.chunks) > SMALL_CHUNKS
    if used_bytes < (bytes_max // 2 if is_large else bytes_max):
        return policy
    has_cells = share.base < share.end
    stop = -(-share.end // CELLS) * CELLS if has_cells else share.base
    return replace(
        policy,
        window_max=min(policy.window_max, stop - share.base),
        members_max=min(policy.members_max, len(share.members.names) - 1),
    )
