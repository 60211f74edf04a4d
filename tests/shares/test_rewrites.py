"""Rewrites of an internal partition write what the log says, whatever comes between."""

from collections import deque
from collections.abc import Callable

from penstock.coordinator.records import UnreadRecord
from penstock.shares.coordinator import Move
from penstock.shares.messages import Unavailable
from penstock.shares.records import head_key, update_key
from penstock.shares.updates.handed import HandOut, Wanted
from tests.shares.bench import KEY, load, picture
from tests.shares.world import VISIBLE, World


def test_what_is_not_in_the_log_yet_stands_in_front_of_what_has_it() -> None:
    """A hand-out of this turn is in the snapshot; it is written again later and counts once."""
    turns: deque[Callable[[], None]] = deque()
    one = World(later=turns.append)
    one.load()

    def run() -> None:
        while turns:
            turns.popleft()()

    one.coordinator.move(KEY, 0, Move.START, lambda _: None)
    run()
    handed = one.coordinator.acquire(KEY, Wanted("a", 3, VISIBLE, 1_000))
    assert isinstance(handed, HandOut)
    rewriting = iter(one.coordinator.runtime.snapshot(0))
    at = len(one.journal.batches)
    one.journal.append(0, next(rewriting), lambda _: None)
    run()
    for records in rewriting:
        one.journal.append(0, records, lambda _: None)
    one.journal.confirm()
    live = one.coordinator._shard.by_partition[0].ledgers[KEY].share
    written = [record for batch in one.journal.batches[at:] for record in batch.records]
    for log in (written, [*one.journal.records()]):
        loaded = load(log)
        assert loaded is not None
        assert picture(loaded) == picture(live)


def test_a_share_that_a_later_release_wrote_is_left_alone() -> None:
    """It can not be used, nothing of it is rewritten, and others go on."""
    one = World().load()
    one.start()
    other = KEY._replace(group="other")
    one.start(7, key=other)
    later = UnreadRecord(update_key(KEY, 900), b"\x01\x84\x07\x63")
    two = World(one.journal)
    two.epoch = 8
    two.load([*one.journal.records(), later])
    assert two.coordinator.describe(KEY) is Unavailable.UNREADABLE
    assert two.coordinator.acquire(KEY, Wanted("a", 1, 9, 1_000)) is Unavailable.UNREADABLE
    assert two.described(other).start_offset == 7
    assert not two.coordinator.runtime.is_movable(0)


def test_a_head_that_is_gone_is_a_share_that_is_gone() -> None:
    one = World().load()
    one.start()
    gone = UnreadRecord(head_key(KEY), None)
    two = World(one.journal).load([*one.journal.records(), gone])
    assert two.coordinator.describe(KEY) is Unavailable.NOT_STARTED
