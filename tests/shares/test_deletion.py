"""A share that is deleted is gone for good, however its last records come into the log."""

from collections import deque
from collections.abc import Callable
from itertools import islice

from penstock.coordinator.records import REWRITE_BATCH_BYTES, records_bytes
from penstock.shares.answers import Claim, Say
from penstock.shares.cells import DONE
from penstock.shares.config import SharePolicy
from penstock.shares.coordinator import Move
from penstock.shares.messages import Answer, Unavailable
from penstock.shares.state import Settled
from penstock.shares.updates.handed import HandOut, Wanted
from tests.shares.bench import ALL, KEY, load, new_ledger
from tests.shares.world import VISIBLE, World

ONE = Wanted("a", 1, VISIBLE, 1_000)


def with_turns() -> tuple[World, Callable[[], None]]:
    turns: deque[Callable[[], None]] = deque()
    policy = SharePolicy(in_flight_max=10**6, member_in_flight_max=10**6)
    one = World(later=turns.append, policy=policy)
    one.load()

    def run() -> None:
        while turns:
            turns.popleft()()

    run()
    return one, run


def test_a_batch_that_ends_with_the_last_update_leaves_the_deletion_for_the_next() -> None:
    ledger = new_ledger()
    updates = ledger.records(ALL)
    ledger.delete()
    first = ledger.records(records_bytes(updates))
    assert first == updates
    ledger.written(len(first))
    assert not ledger.is_empty
    rest = ledger.records(ALL)
    ledger.written(len(rest))
    assert (len(rest), ledger.is_empty) == (1, True)
    assert load([*first, *rest]) is None


def test_a_batch_ends_with_the_record_that_fills_it_also_behind_one_that_was_written() -> None:
    ledger = new_ledger()
    for offset in range(5):
        ledger.write(Settled(DONE, [(offset, offset + 1)]))
    records = ledger.records(ALL)
    assert ledger.records(records_bytes(records[:3])) == records[:3]
    assert ledger.records(records_bytes(records[:3]) + 1) == records[:4]
    ledger.written(3)
    assert ledger._bytes == records_bytes(records[3:])
    assert ledger.records(records_bytes(records[3:5])) == records[3:5]
    assert ledger.records(records_bytes(records)) == records[3:]


def test_who_deletes_a_share_with_a_full_batch_is_told_when_the_log_has_it() -> None:
    one, run = with_turns()
    one.coordinator.move(KEY, 0, Move.START, lambda _: None)
    ledger = one.coordinator._shard.by_partition[0].ledgers[KEY]
    size, count = 0, 0
    while size < REWRITE_BATCH_BYTES:
        assert isinstance(one.coordinator.acquire(KEY, ONE), HandOut)
        for record in islice(ledger._records, count, None):
            size += records_bytes([record])
            count += 1
    told: list[Answer] = []
    one.coordinator.delete(KEY, told.append)
    run()
    one.journal.confirm()
    run()
    assert told == [Answer()]
    assert one.elsewhere().coordinator.describe(KEY) is Unavailable.NOT_STARTED


def test_nothing_of_a_deleted_share_is_copied_to_the_dead_letters() -> None:
    one = World(policy=SharePolicy(has_dead_letters=True)).load()
    one.start()
    handed = one.take(1)
    one.is_prompt = False
    claims = [Claim(0, 1, handed.nonce)]
    one.begin(lambda told: one.coordinator.say(KEY, Say.REJECT, claims, "a", told))
    one.begin(lambda told: one.coordinator.delete(KEY, told))
    one.journal.confirm()
    assert one.letters.duties == []
