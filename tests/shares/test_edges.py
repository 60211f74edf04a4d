"""Where a tenure, a window and a write end, and who is told while others are."""

from collections import deque
from collections.abc import Callable

from penstock.base.ids import CoordinatorEpoch
from penstock.shares.cells import DONE, FREE, Chunk
from penstock.shares.records import decode_key
from penstock.shares.share import Share
from penstock.shares.snapshot import Head, put_head
from penstock.shares.state import Acquired
from penstock.shares.watchers import Watchers
from tests.shares.bench import KEY, new_ledger
from tests.shares.test_confirmation import accepting, world


def test_the_number_of_the_next_hand_out_is_of_no_receipt_yet() -> None:
    ledger = new_ledger()
    share = ledger.share
    nonce = ledger.next_nonce()
    assert not share.is_of_this_tenure(nonce)
    ledger.write(Acquired(nonce, 1, "m", 10, [(0, 1)]))
    assert share.is_of_this_tenure(nonce)
    assert not share.is_of_this_tenure(ledger.next_nonce())


def test_nothing_stands_behind_the_end_of_a_window_that_was_loaded() -> None:
    """Its chunk may be of an older snapshot, before the window began anew and further in front."""
    share = Share(KEY)
    chunk = share.chunks[0] = Chunk(is_ordered=False)
    chunk.states[:20] = bytes((DONE,)) * 20
    put_head(share, Head(10, 15, 9, 9, CoordinatorEpoch(1), 7, 0, is_ordered=False, names=["m"]))
    share.replay(10, Acquired(7, 1, "m", 10, [(16, 17)]))
    assert [share.state_of(offset) for offset in range(10, 15)] == [DONE] * 5
    assert share.state_of(15) == FREE


def test_a_window_has_moved_as_far_as_the_write_that_is_confirmed_says() -> None:
    one = world()
    handed = one.take(2)
    one.is_prompt = False
    accepting(one, handed.nonce, 0)
    accepting(one, handed.nonce, 1)
    assert len(one.journal.under_way) == 2
    one.journal.confirm(1)
    assert one.described().start_offset == 1
    one.journal.confirm()
    assert one.described().start_offset == 2
    assert all(decode_key(record.key or b"") for record in one.journal.records())


class Again:
    """Watches again when it is told, and has the share change in the same turn."""

    def __init__(self, watchers: Watchers) -> None:
        self.watchers, self.told = watchers, 0

    def on_share(self) -> None:
        self.told += 1
        if self.told == 1:
            self.watchers.watch(KEY, self)
            self.watchers.tell(KEY)


def test_a_change_while_watchers_are_told_is_told_too() -> None:
    turns: deque[Callable[[], None]] = deque()
    watchers = Watchers(turns.append)
    one, other = Again(watchers), Again(watchers)
    watchers.watch(KEY, one)
    watchers.watch(KEY, other)
    watchers.tell(KEY)
    while turns:
        turns.popleft()()
    assert (one.told, other.told) == (2, 2)
