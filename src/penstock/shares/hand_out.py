"""Handing records out: those that came back first, then those that nobody has had.

    absent ─► DONE    ordered: scanned ─► FREE or HELD    FREE, lowest first ─► ACQUIRED

A record that failed before is handed out with fewer others, each time half as many, and for the
last time alone: so it does not take others with it, whose count would rise for its fault.

Source: Kafka `SharePartition.acquire` (KIP-932), KIP-1206 for strict counts.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from re import compile as compiled

from penstock.shares.cells import CELLS, DONE, FREE, SHIFT, Chunk
from penstock.shares.config import SharePolicy
from penstock.shares.ledger import Ledger
from penstock.shares.members import NOBODY
from penstock.shares.reading import RUNS_MAX
from penstock.shares.records import HASHES_MAX
from penstock.shares.runs import Run, Runs, clipped, joined, parts
from penstock.shares.share import SETTLED, Share
from penstock.shares.state import Acquired, Scanned, Settled
from penstock.shares.updates.compiled import hand_out_new
from penstock.shares.updates.handed import HAND_OUT_MAX, HandOut, Short, Wanted

SCAN_MAX = 4_096
"""Offsets whose keys are looked at for one hand-out."""
SCAN_MIN = 64
NAME_BYTES_MAX = 1_024
"""Of a member."""
COUNT_TOGETHER = 16
"""Records that go with one that has used half of its deliveries; with each further one, half."""
_UTF8_BYTES_MAX = 4
_UNCAPPED = 1 << 62
_FREE = compiled(b"%c+" % FREE)
_OPEN = compiled(b"[^%c%c]+" % SETTLED)


def hand_out(ledger: Ledger, wanted: Wanted, due: int, policy: SharePolicy) -> HandOut:
    """Hand out at most `count_max` records, or whole batches, until the tick `due`."""
    return hand_out_new(ledger, wanted, due, policy) or hand_out_any(ledger, wanted, due, policy)


def hand_out_any(ledger: Ledger, wanted: Wanted, due: int, policy: SharePolicy) -> HandOut:
    """As `hand_out`, in every case."""
    share = ledger.share
    assert is_name(wanted.member), len(wanted.member)
    member = share.members.number_of(wanted.member)
    name = ""
    left, short = wanted.count_max, None
    if not _is_apart(share, wanted, member, policy):
        ledger.close()
        if wanted.absent:
            settle_absent(ledger, wanted.absent, wanted.visible_end, policy)
        left, short = _room(share, wanted, policy)
        if left and member == NOBODY:
            member, name = share.members.vacant(policy.members_max), wanted.member
        if not left or member == NOBODY:
            return HandOut(short=short if not left else Short.MEMBERS)
    limit = min(wanted.visible_end, share.base + policy.window_max)
    if share.is_ordered:
        _scan(ledger, wanted, left, limit)
    runs: list[Run] = []
    taken, is_alone = 0, False
    if share.free:
        runs, taken, is_alone = _free_runs(share, left, wanted.visible_end, policy.deliveries_max)
    is_open = not share.is_ordered and share.end < limit and len(runs) < RUNS_MAX
    if not is_alone and taken < left and is_open:
        room = min(policy.in_flight_max - share.in_flight - taken, limit - share.end)
        end = _whole_end(share.end, left - taken, room, wanted.batch_ends)
        fresh = (share.end, end)
        runs = joined([*runs, fresh]) if runs else [fresh]
        taken += end - share.end
    if taken < wanted.count_max:
        short = short or (Short.NO_MORE if limit == wanted.visible_end else Short.WINDOW)
    short = Short.ALONE if is_alone else short
    if not runs:
        return HandOut(short=short)
    nonce = ledger.nonce_beside()
    ledger.write_beside(Acquired(nonce, member, name, due, runs))
    return HandOut(nonce, runs, _counts(share, runs), short)


def _is_apart(share: Share, wanted: Wanted, number: int, policy: SharePolicy) -> bool:
    """Whether a hand-out is the same before and after what was accepted is settled.

    Until then that counts as in flight and holds the window back. So it is, where no bound is near
    even then, and where the member has its number.
    """
    if share.is_ordered or wanted.absent or number == NOBODY:
        return False
    most = wanted.count_max
    if not 0 < most <= HAND_OUT_MAX:
        return False
    if wanted.batch_ends:
        most += max(wanted.batch_ends[-1] - share.end, 0)
    limit = share.base + policy.window_max
    return (
        share.in_flight + most <= policy.in_flight_max
        and share.members.in_flight[number] + most <= policy.member_in_flight_max
        and (wanted.visible_end <= limit or share.end + most <= limit)
    )


def is_name(member: str) -> bool:
    """Whether a member can have such a name."""
    if 0 < len(member) <= NAME_BYTES_MAX // _UTF8_BYTES_MAX:
        return True
    return 0 < len(member.encode(errors="surrogatepass")) <= NAME_BYTES_MAX


def settle_absent(ledger: Ledger, absent: Runs, visible_end: int, policy: SharePolicy) -> None:
    """Settle records that are not to be handed out, wherever they are in the window or behind it.

    In an ordered share only those in the window: what is behind needs its keys first.
    """
    share = ledger.share
    ledger.close()
    before = -1
    while share.base > before:  # the window moves on with what is settled
        before = share.base
        limit = min(visible_end, share.base + policy.window_max)
        _settle_up_to(ledger, absent, min(share.end, limit) if share.is_ordered else limit)


def _settle_up_to(ledger: Ledger, absent: Runs, end: int) -> None:
    share = ledger.share
    known = clipped(absent, share.base, min(end, share.end))
    inside = [open_run for run in known for open_run in open_runs(share, run)]
    runs = joined([*inside, *clipped(absent, max(share.end, share.base), end)])
    for some in parts(runs, RUNS_MAX):
        ledger.write(Settled(DONE, some))


def open_runs(share: Share, run: Run) -> Iterator[Run]:
    """Yield what of a run in the window is not over."""
    for chunk, i, j, first in share.pieces([run]):
        for found in _OPEN.finditer(chunk.states, i, j):
            yield first + found.start() - i, first + found.end() - i


def _room(share: Share, wanted: Wanted, policy: SharePolicy) -> tuple[int, Short | None]:
    """Return how many records may be handed out, and which bound is below what is wanted."""
    held = share.members.in_flight[share.members.number_of(wanted.member)]
    left, short = min(wanted.count_max, HAND_OUT_MAX), None
    for bound, why in (
        (policy.in_flight_max - share.in_flight, Short.IN_FLIGHT),
        (policy.member_in_flight_max - held, Short.MEMBER),
    ):
        if bound < left:
            left, short = max(bound, 0), why
    return left, short


def _scan(ledger: Ledger, wanted: Wanted, left: int, limit: int) -> None:
    """Bring records into an ordered share until enough of them are the first of their keys."""
    share, hashes = ledger.share, wanted.hashes
    if hashes is None:
        return
    begin = share.end
    budget = min(SCAN_MAX, len(hashes), limit - begin)
    at = 0
    while at < budget and share.free < left:
        count = min(max(left - share.free, SCAN_MIN), budget - at, HASHES_MAX)
        ledger.write(Scanned(begin + at, hashes[at : at + count]))
        absent = clipped(wanted.absent, begin + at, begin + at + count)
        for some in parts(absent, RUNS_MAX):
            ledger.write(Settled(DONE, some))
        at += count


def _free_runs(
    share: Share, left: int, visible_end: int, deliveries_max: int
) -> tuple[list[Run], int, bool]:
    """Return runs of FREE records, lowest first, how many, and whether they go alone."""
    runs: list[Run] = []
    taken, lowest = 0, _UNCAPPED
    number = max(share.first_free, share.base >> SHIFT)
    last = (min(share.end, visible_end) - 1) >> SHIFT
    while taken < left and share.free > taken and number <= last:
        chunk = share.chunks.get(number)
        start = number << SHIFT
        if chunk is not None and chunk.free:
            stop = min(CELLS, min(share.end, visible_end) - start)
            for found in _FREE.finditer(chunk.states, max(share.base - start, 0), stop):
                i, j = found.span()
                j = min(j, i + left - taken)
                count, cap = _careful(chunk, i, j, taken, deliveries_max)
                if count:
                    runs.append((start + i, start + i + count))
                    taken += count
                lowest = min(lowest, cap)
                left = min(left, cap)
                if taken >= left or len(runs) >= RUNS_MAX:
                    return runs, taken, lowest < _UNCAPPED
        elif not taken:
            share.first_free = number + 1
        number += 1
    return runs, taken, lowest < _UNCAPPED


def _careful(chunk: Chunk, i: int, j: int, taken: int, deliveries_max: int) -> tuple[int, int]:
    """Return how many of the FREE places [i, j) go with `taken` others, and how many at most.

    0 at most: nothing goes with what was taken before, or with the one that is taken here.
    """
    risky = max(1, (deliveries_max + 1) // 2)
    if not deliveries_max or max(chunk.counts[i:j]) < risky:
        return j - i, _UNCAPPED
    cap = _UNCAPPED
    for place in range(i, j):
        count = chunk.counts[place]
        if count + 1 >= deliveries_max:
            return (place - i, 0) if taken + place - i else (1, 0)
        if count >= risky:
            cap = min(cap, max(COUNT_TOGETHER >> (count - risky), 1))
        if taken + place - i >= cap:
            return place - i, 0
    return j - i, cap


def _whole_end(first: int, count: int, room: int, batch_ends: Sequence[int]) -> int:
    """Return where new records end: `count` of them, or at the end of the batch if it has room."""
    end = first + min(count, room)
    at = bisect_left(batch_ends, end)
    if at < len(batch_ends) and batch_ends[at] - first <= room:
        return batch_ends[at]
    return end


def _counts(share: Share, runs: Runs) -> bytes:
    found = bytearray()
    for chunk, i, j, _ in share.pieces(runs):
        found += chunk.counts[i:j]
    return bytes(found)
