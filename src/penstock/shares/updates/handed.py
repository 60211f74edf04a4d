"""What a member asks a share for, and what it is handed.

Source: Kafka `SharePartition.acquire` (KIP-932).
"""

from array import array
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from penstock.shares.runs import Runs

HAND_OUT_MAX = 10_000
"""Records of one hand-out."""


class Short(Enum):
    """Why fewer records were handed out than wanted."""

    NO_MORE = "there are no more"
    IN_FLIGHT = "so many are handed out already"
    MEMBER = "the member has so many already"
    MEMBERS = "so many members have some already"
    WINDOW = "the oldest record that is not over is too far behind"
    ALONE = "one that failed often goes alone, or with few others"


class Wanted(NamedTuple):
    """What a member asks for."""

    member: str
    count_max: int
    visible_end: int
    """Offsets from here on are not handed out: high watermark, or last stable offset."""
    lock_ms: int
    """How long it has the records."""
    absent: Runs = ()
    """Offsets that are not to be handed out: never written, control records, of aborted
    transactions, removed by compaction, filtered out. They ascend."""
    batch_ends: Sequence[int] = ()
    """Ends of batches, ascending: new records are handed out to such an end, if bounds allow."""
    hashes: "array[int] | None" = None
    """Ordered shares: of the keys of the offsets from the window's end on."""


class HandOut(NamedTuple):
    """Records that were handed out, in order, with how often that was so far."""

    nonce: int = 0
    runs: Runs = ()
    counts: Sequence[int] = ()
    """By record."""
    short: Short | None = None
