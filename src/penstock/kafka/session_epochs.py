"""The epoch that a request within a session has: of fetches (KIP-227), and of shares (KIP-932).

0     opens a session
n     the n-th request after that; after 2^31 - 1 comes 1
-1    ends it
"""

from typing import Final

from penstock.base.ids import SessionEpoch

INITIAL_EPOCH: Final = SessionEpoch(0)
FIRST_EPOCH: Final = SessionEpoch(1)
"""Of the first request within a session."""
FINAL_EPOCH: Final = SessionEpoch(-1)
_LAST: Final = 0x7FFF_FFFF


def following(epoch: SessionEpoch) -> SessionEpoch:
    """Return the epoch of the next request."""
    return FIRST_EPOCH if epoch == _LAST else SessionEpoch(epoch + 1)
