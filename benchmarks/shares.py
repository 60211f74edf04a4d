"""What does a share cost: processor time for a record, and memory for one in flight?

One share in memory on one core, from request to the bytes for the log, without a log: hand-outs and
acknowledgements as the coordinator does them, a ledger written out every 32 records or every 1,000.
An operation is one record that is handed out and accepted, unless the row says otherwise. Memory is
what Python has allocated for the share, measured in a run of its own.
"""

import gc
import random
import time
import tracemalloc
from array import array
from collections.abc import Callable

from benchmarks import RESULTS
from harness.results import median, publish
from penstock.base.ids import CoordinatorEpoch
from penstock.shares.answers import accept
from penstock.shares.config import SharePolicy
from penstock.shares.due import DUE_MAX, expire
from penstock.shares.hand_out import hand_out
from penstock.shares.ledger import Ledger, Tally
from penstock.shares.share import Share
from penstock.shares.state import Moved, ShareKey
from penstock.shares.updates.handed import HandOut, Wanted

GOAL = ">= 500,000 hand-outs with acknowledgement a second; <= 30 MB for a million in flight"
MILLION = 1_000_000
HUGE = 1 << 40
LOG_BYTES = 1 << 18
POLICY = SharePolicy(
    in_flight_max=2 * MILLION, member_in_flight_max=2 * MILLION, window_max=2 * MILLION
)
DUE, LATER = 600, 601
KEYS = 1_000


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    count, rounds = (200_000, 1) if quick else (MILLION, 3)
    rows: list[dict[str, object]] = []
    for name, case in CASES.items():
        rates = [_rate(case, count) for _ in range(rounds)]
        rows.append({"what": name, "value": median(rates), "unit": "operations/s"})
    slices = sorted(_slices(count))
    rows.append(
        {"what": f"expiry, longest slice of {DUE_MAX:,}", "value": slices[-1], "unit": "ms"}
    )
    for name, size, is_ordered in (
        ("memory, handed out by 32", 32, False),
        ("memory, handed out by 1", 1, False),
        ("memory, handed out by 32, ordered, a key each", 32, True),
    ):
        bytes_each = _memory(count, size, is_ordered=is_ordered)
        rows.append({"what": name, "value": bytes_each, "unit": "MB for a million in flight"})
    publish(RESULTS, "shares", rows, goal=GOAL)


def new_ledger(*, is_ordered: bool = False) -> Ledger:
    """Return an empty share that begins at offset 0."""
    share = Share(ShareKey("group", bytes(16), 0))
    share.is_live = True
    share.begin_tenure(CoordinatorEpoch(1))
    ledger = Ledger(share, Tally())
    ledger.write(Moved(0, True, is_ordered, 0))
    return ledger


def log(ledger: Ledger) -> None:
    """Make the bytes for the log, as at the end of a turn of the event loop."""
    while not ledger.is_empty:
        ledger.written(len(ledger.records(LOG_BYTES)))


def take(ledger: Ledger, count: int, hashes: "array[int] | None" = None) -> HandOut:
    wanted = Wanted("member", count, HUGE, 30_000, hashes=hashes)
    return hand_out(ledger, wanted, DUE, POLICY)


def _one_by_one(count: int, size: int) -> Callable[[], int]:
    """Hand out `size`, accept each by a request of its own."""
    ledger = new_ledger()

    def work() -> int:
        for _ in range(0, count, size):
            handed = take(ledger, size)
            nonce = handed.nonce
            for first, end in handed.runs:
                for offset in range(first, end):
                    accept(ledger, ((offset, nonce),), HUGE, MILLION * 2)
            if size > 1 or handed.runs[0][0] % 1_000 == 0:
                log(ledger)
        log(ledger)
        assert ledger.share.base == count, ledger.share.base
        return count

    return work


def _by_ones(count: int) -> Callable[[], int]:
    return _one_by_one(count // 5, 1)


def _by_32(count: int) -> Callable[[], int]:
    return _one_by_one(count - count % 32, 32)


def _random(count: int) -> Callable[[], int]:
    """Accept in random order what is all in flight, by one record a request."""
    ledger = new_ledger()
    receipts = _fill(ledger, count, 32)
    random.Random(7).shuffle(receipts)

    def work() -> int:
        for number, receipt in enumerate(receipts):
            accept(ledger, (receipt,), HUGE, MILLION * 2)
            if number % 1_000 == 0:
                log(ledger)
        log(ledger)
        assert ledger.share.in_flight == 0
        return count

    return work


def _expiry(count: int) -> Callable[[], int]:
    ledger = new_ledger()
    _fill(ledger, count, 32)

    def work() -> int:
        while expire(ledger, LATER, POLICY) == DUE_MAX:
            log(ledger)
        log(ledger)
        assert ledger.share.free == count
        return count

    return work


def _ordered(count: int) -> Callable[[], int]:
    """Keys in random order; what is handed out is accepted before the next hand-out."""
    ledger = new_ledger(is_ordered=True)
    draw = random.Random(7)
    keys = array("I", [draw.randrange(KEYS) for _ in range(count)])

    def work() -> int:
        done = 0
        while done < count:
            end = ledger.share.end
            handed = take(ledger, 32, keys[end : end + 4_096])
            for first, stop in handed.runs:
                for offset in range(first, stop):
                    accept(ledger, ((offset, handed.nonce),), HUGE, MILLION * 2)
                    done += 1
            log(ledger)
        assert ledger.share.base == count
        return count

    return work


def _fill(ledger: Ledger, count: int, size: int) -> list[tuple[int, int]]:
    receipts = []
    for _ in range(0, count, size):
        handed = take(ledger, min(size, count - ledger.share.end))
        receipts += [(offset, handed.nonce) for run in handed.runs for offset in range(*run)]
        log(ledger)
    return receipts


CASES: dict[str, Callable[[int], Callable[[], int]]] = {
    "hand out 32, accept one by one": _by_32,
    "accept one by one, at random among all in flight": _random,
    "hand out 1, accept it": _by_ones,
    "expiry (of hand-outs of 32)": _expiry,
    f"ordered, {KEYS:,} keys: hand out 32, accept one by one": _ordered,
}


def _rate(case: Callable[[int], Callable[[], int]], count: int) -> float:
    work = case(count)
    gc.collect()
    begun = time.process_time()
    done = work()
    return done / (time.process_time() - begun)


def _slices(count: int) -> list[float]:
    """Return the milliseconds of each slice of an expiry, with the bytes for the log."""
    ledger = new_ledger()
    _fill(ledger, count, 1)
    found, looked = [], DUE_MAX
    while looked == DUE_MAX:
        begun = time.process_time()
        looked = expire(ledger, LATER, POLICY)
        log(ledger)
        found.append((time.process_time() - begun) * 1e3)
    return found


def _memory(count: int, size: int, *, is_ordered: bool) -> float:
    hashes = array("I", range(count)) if is_ordered else None
    gc.collect()
    tracemalloc.start()
    ledger = new_ledger(is_ordered=is_ordered)
    while ledger.share.in_flight < count:
        end = ledger.share.end
        take(ledger, size, None if hashes is None else hashes[end : end + 4_096])
        log(ledger)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / count
