"""Types of the compiled twin; see `plain.py` for the meaning."""

from penstock.shares.config import SharePolicy
from penstock.shares.updates.handed import HandOut, Wanted

def hand_out_new(
    ledger: object, wanted: Wanted, due: int, policy: SharePolicy
) -> HandOut | None: ...
