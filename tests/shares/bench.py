"""One share in a test's hand: its log as bytes, its state as a value, what a loader makes of it."""

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.base.ids import CoordinatorEpoch
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.coordinator.unread import UnreadRecords
from penstock.shares.cells import ACQUIRED, DYING, HELD, MASK, SHIFT, WAITING
from penstock.shares.config import SharePolicy
from penstock.shares.ledger import Ledger, Tally
from penstock.shares.shard import ShareLoader
from penstock.shares.share import SETTLED, Share
from penstock.shares.state import Moved, ShareKey

KEY = ShareKey("group", bytes(range(16)), 3)
ALL = 1 << 30
FAR = 1 << 40
POLICY = SharePolicy()


def new_ledger(start: int = 0, *, is_ordered: bool = False, epoch: int = 1) -> Ledger:
    share = Share(KEY)
    share.is_live = True
    share.begin_tenure(CoordinatorEpoch(epoch))
    ledger = Ledger(share, Tally())
    ledger.write(Moved(start, True, is_ordered, ledger.next_nonce()))
    return ledger


def flush(ledger: Ledger) -> list[JournalRecord]:
    """Return what the log does not have yet, as it goes into it."""
    records = ledger.records(ALL)
    ledger.written(len(records))
    return records


def load(records: Iterable[JournalRecord], *, expires_from: int = 0) -> Share | None:
    """Return the share that a master has which loads these; None if it has none."""
    unread = UnreadRecords(0, 1 << 20)
    loader = ShareLoader(0, unread, lambda: expires_from)
    for record in records:
        loader.load(UnreadRecord(*record))
    making = loader.make()
    while True:
        try:
            next(making)
        except StopIteration as made:
            ledger = made.value.ledgers.get(KEY)
            return None if ledger is None else ledger.share


def take_over(records: Iterable[JournalRecord], epoch: int, *, expires_from: int = 0) -> Ledger:
    """Return the share of the next master."""
    share = load(records, expires_from=expires_from)
    assert share is not None
    share.begin_tenure(CoordinatorEpoch(epoch))
    return Ledger(share, Tally())


def cells(share: Share) -> list[tuple[Any, ...]]:
    """Return what is known of each offset in the window: only what has a meaning in its state."""
    found: list[tuple[Any, ...]] = []
    for offset in range(share.base, share.end):
        chunk, place = share.chunks[offset >> SHIFT], offset & MASK
        state = chunk.states[place]
        if state in SETTLED:
            found.append((offset, state))
            continue
        due = chunk.dues[place] if state in {ACQUIRED, WAITING} else 0
        member = share.members.names[chunk.members[place]] if state == ACQUIRED else ""
        key = chunk.hashes[place] if share.is_ordered else 0
        nonce = chunk.nonces[place]
        found.append((offset, state, chunk.counts[place], nonce, due, member, key))
    return found


def derived(share: Share) -> dict[str, Any]:
    """Return what is kept beside the cells, with timers as what they would find."""
    names = share.members.names
    held = {names[n]: count for n, count in enumerate(share.members.in_flight) if count}
    return {
        "free": share.free,
        "in flight": share.in_flight,
        "held": held,
        "dying": [at for at in sorted(share.dying) if at >= share.base and is_dying(share, at)],
        "chunk free": {n: c.free for n, c in share.chunks.items() if c.free},
        "busy keys": set(share.chains.last) if share.is_ordered else set(),
    }


def is_dying(share: Share, offset: int) -> bool:
    return share.state_of(offset) == DYING


def picture(share: Share) -> dict[str, Any]:
    """Return everything that two masters must agree on."""
    return {
        "window": (share.base, share.end),
        "cells": cells(share),
        "seq": share.seq,
        "nonce": share.nonce,
        "epoch": share.epoch,
        "forgiven from": share.forgiven_from,
        "is ordered": share.is_ordered,
        **derived(share),
    }


def check(share: Share) -> None:
    """Assert what holds of every live share: that its counts are what counting gives."""
    states = [cell[1] for cell in cells(share)]
    assert share.free == states.count(0)
    assert share.in_flight == states.count(ACQUIRED) == sum(share.members.in_flight)
    assert not states or states[0] not in SETTLED
    assert share.is_ordered or HELD not in states
    for offset in range(share.base, share.end):
        if share.state_of(offset) == 0:
            assert share.first_free <= offset >> SHIFT
            break


def offsets(runs: Sequence[tuple[int, int]]) -> list[int]:
    return [offset for run in runs for offset in range(*run)]
