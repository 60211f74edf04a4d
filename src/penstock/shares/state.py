"""Names and rules of a share, and what its records say.

Each record is one change of one share. What it says is complete: a replay needs no clock, no
settings and no data. Offsets are those of the data partition.

Source: Kafka `SharePartition`, `ShareGroupOffset` (KIP-932); KIP-1222 for `Renewed`.
"""

from array import array
from typing import NamedTuple, TypeAlias

from penstock.base.ids import NO_COORDINATOR_EPOCH, CoordinatorEpoch
from penstock.shares.runs import Runs


class ShareKey(NamedTuple):
    """One group and one partition of a topic."""

    group: str
    topic_id: bytes
    """16 bytes."""
    partition: int


class Began(NamedTuple):
    """A mastership begins to write; its hand-outs have numbers from `nonce` on."""

    epoch: CoordinatorEpoch
    nonce: int


class Moved(NamedTuple):
    """The window begins at `offset`: anew, with nothing in it, or with what it has from there."""

    offset: int
    is_anew: bool
    is_ordered: bool
    nonce: int
    """Anew: receipts with older numbers are not accepted any more."""


class Scanned(NamedTuple):
    """Ordered shares: the hashes of the keys of the next offsets."""

    first: int
    hashes: "array[int]"


class Acquired(NamedTuple):
    """Records are handed out; those behind the window come into it."""

    nonce: int
    member: int
    name: str
    """Of the member, if the number is new; otherwise empty."""
    due: int
    runs: Runs


class Settled(NamedTuple):
    """Records are over: DONE or DEAD."""

    state: int
    runs: Runs


class Freed(NamedTuple):
    """Records may be handed out: at once, or after a pause until the tick `due`."""

    due: int
    runs: Runs


class Given(NamedTuple):
    """Records are given up: a copy of each goes to the dead letters."""

    runs: Runs


class Renewed(NamedTuple):
    """The holder has longer; from now on the hand-out has another number."""

    nonce: int
    due: int
    runs: Runs


Update: TypeAlias = Began | Moved | Scanned | Acquired | Settled | Freed | Given | Renewed

NO_PAUSE = 0
NO_EPOCH = NO_COORDINATOR_EPOCH
NONCE_MASK = 0xFFFF_FFFF
NONCE_HALF = 1 << 31
"""Numbers go round: one that is up to so many behind another one was given before it."""
TENURE_NONCES = 1 << 17
"""Numbers that each mastership has before the next one's begin, so that a receipt of a hand-out
that was lost with its master never looks like one of its successor."""
