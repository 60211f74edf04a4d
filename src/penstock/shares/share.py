"""The state of one share, which only a replay of its records changes.

    base                   end            visible end
     │  window: [base, end) │  not yet met  │
     ▼                      ▼               ▼
    ─┬──────────────────────┬───────────────┬──►
     everything below `base` is over, everything from `end` on is FREE

A live share and one that is being loaded replay the same records. While it is loaded (`is_live` is
False) only the cells change: records may then meet cells that a later record of a snapshot will
overwrite. `rebuild` derives the rest once all records are read: counters, timers, chains of keys,
and which of a key's records are HELD.

Invariant: `free` and `in_flight` are what counting the cells gives; a chunk exists for each part of
the window; what is settled never becomes anything else.

Source: Kafka `SharePartition` (KIP-932); its persister keeps batches, ours what was done.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from re import compile as compiled
from typing import Any

from penstock.base.ids import CoordinatorEpoch
from penstock.shares.cells import (
    ACQUIRED,
    CELLS,
    CHUNK_BYTES,
    COUNT_MAX,
    DEAD,
    DONE,
    DYING,
    FREE,
    HELD,
    MASK,
    ORDERED_CHUNK_BYTES,
    PLUS_ONE,
    SHIFT,
    WAITING,
    Chunk,
)
from penstock.shares.keys import Chains
from penstock.shares.members import Members
from penstock.shares.runs import Runs, clipped, joined
from penstock.shares.state import (
    NO_EPOCH,
    NO_PAUSE,
    NONCE_MASK,
    TENURE_NONCES,
    Acquired,
    Began,
    Freed,
    Given,
    Moved,
    Renewed,
    Scanned,
    Settled,
    ShareKey,
    Update,
)
from penstock.shares.ticks import Timers
from penstock.shares.updates.compiled import settle_lone

UNSETTLED = compiled(b"[^%c%c]" % (DONE, DEAD))
SETTLED = (DONE, DEAD)
NOT_BEGUN = -1
SHARE_BYTES = 3_072
"""Memory of one that has nothing in its window."""

Piece = tuple[Chunk, int, int, int]
"""A chunk, the places [i, j) in it, and the offset of place i."""


class Share:
    """See the module. Offsets are ints; `end` is exclusive."""

    __slots__ = (
        "base",
        "chains",
        "chunks",
        "dying",
        "end",
        "epoch",
        "first_free",
        "forgiven_from",
        "free",
        "has_written",
        "in_flight",
        "is_live",
        "is_ordered",
        "key",
        "loaded_tick",
        "members",
        "nonce",
        "seq",
        "snapshot_seq",
        "tenure",
        "timers",
    )

    def __init__(self, key: ShareKey) -> None:
        self.key = key
        self.is_live = False
        self.is_ordered = False
        self.base = NOT_BEGUN
        self.end = NOT_BEGUN
        self.seq = 0
        """Of the last record that was replayed."""
        self.snapshot_seq = 0
        """Of the last record before the newest snapshot began."""
        self.epoch = NO_EPOCH
        """Of the mastership that wrote last."""
        self.nonce = 0
        """Number of the next hand-out."""
        self.forgiven_from = 0
        """The oldest hand-out of an earlier mastership whose receipt may still be accepted."""
        self.tenure = (NO_EPOCH, 0)
        """Epoch and first number of this mastership."""
        self.has_written = False
        """Whether this mastership has: its first record is `Began`."""
        self.chunks: dict[int, Chunk] = {}
        self.members = Members()
        self.free = 0
        self.in_flight = 0
        self.first_free = 0
        """Number of a chunk; no chunk before it has a FREE cell."""
        self.timers = Timers()
        self.loaded_tick = -1
        """Until when holders that were found when loading have their records at least."""
        self.chains = Chains()
        self.dying: deque[int] = deque()
        """DYING offsets whose copies were not asked for yet; some may be over since."""

    @property
    def has_begun(self) -> bool:
        """Whether it is decided where the window begins."""
        return self.base != NOT_BEGUN

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of the share."""
        each = ORDERED_CHUNK_BYTES if self.is_ordered else CHUNK_BYTES
        cells, names = each * len(self.chunks), self.members.names_bytes
        return SHARE_BYTES + cells + names + 8 * self.timers.count

    def begin_tenure(self, epoch: CoordinatorEpoch) -> None:
        """Hand out under this leader epoch from now on, with numbers that no other epoch has had.

        Two masters of one epoch do not exist. The log names the last epoch that wrote; each since
        may have handed out up to TENURE_NONCES whose records were lost.
        """
        behind = max(epoch - self.epoch, 1) if self.epoch != NO_EPOCH else 1
        self.tenure = (epoch, (self.nonce + behind * TENURE_NONCES) & NONCE_MASK)
        self.has_written = False

    def is_of_this_tenure(self, nonce: int) -> bool:
        """Whether this mastership has handed out under the number."""
        if not self.has_written:
            return False
        first = self.tenure[1]
        return (nonce - first) & NONCE_MASK < (self.nonce - first) & NONCE_MASK

    def replay(self, seq: int, update: Update) -> None:
        """Change the share as a record says. One that was replayed before changes nothing."""
        if seq <= self.seq:
            return
        self.seq = seq
        _REPLAY[type(update)](self, update)

    def pieces(self, runs: Runs) -> Iterable[Piece]:
        """Return where the offsets are; chunks that are missing are made."""
        if len(runs) == 1:  # the usual case: no generator
            first, end = runs[0]
            place = first & MASK
            if first < end and place + end - first <= CELLS:
                chunk = self.chunks.get(first >> SHIFT) or self._new_chunk(first >> SHIFT)
                return ((chunk, place, place + end - first, first),)
        return self._pieces(runs)

    def _pieces(self, runs: Runs) -> Iterator[Piece]:
        for begin, end in runs:
            first = begin
            while first < end:
                number = first >> SHIFT
                place = first & MASK
                stop = min(CELLS, place + end - first)
                chunk = self.chunks.get(number) or self._new_chunk(number)
                yield chunk, place, stop, first
                first += stop - place

    def _new_chunk(self, number: int) -> Chunk:
        chunk = self.chunks[number] = Chunk(is_ordered=self.is_ordered)
        return chunk

    def state_of(self, offset: int) -> int:
        """Return the state of an offset in the window."""
        assert self.base <= offset < self.end, offset
        return self.chunks[offset >> SHIFT].states[offset & MASK]

    # Replay

    def _began(self, update: Began) -> None:
        self.epoch = update.epoch
        self.nonce = update.nonce

    def _moved(self, update: Moved) -> None:
        if update.is_anew:
            self.base = self.end = update.offset
            self.is_ordered = update.is_ordered
            self.forgiven_from = update.nonce
            self._clear()
            return
        if update.offset <= self.base:
            return
        if self.is_live:
            for chunk, i, j, first in self.pieces([(self.base, min(update.offset, self.end))]):
                self._leave(chunk, i, j, first, DEAD)
        self.base = update.offset
        self.end = max(self.end, self.base)
        kept = self.base >> SHIFT if self.base < self.end else 1 << 62
        for number in [number for number in self.chunks if number < kept]:
            del self.chunks[number]
        if self.is_live:
            self._advance()

    def _scanned(self, update: Scanned) -> None:
        end = update.first + len(update.hashes)
        self._extend(end)
        at = 0
        for chunk, i, j, first in self.pieces([(update.first, end)]):
            chunk.order()
            chunk.hashes[i:j] = update.hashes[at : at + j - i]
            at += j - i
            if self.is_live:
                for place in range(i, j):
                    if self.chains.add(self.chunks, chunk, place, first + place - i):
                        chunk.states[place] = HELD
                        chunk.free -= 1
                        self.free -= 1

    def _acquired(self, update: Acquired) -> None:
        nonce, member, name, due, runs = update
        self.nonce = (nonce + 1) & NONCE_MASK
        if name:
            self.members.put(member, name)
        is_new, is_live = runs[0][0] == self.end, self.is_live
        if is_new and len(runs) == 1:
            self.end = runs[0][1]  # the usual case: it need not be FREE in between
        else:
            is_new = False
            self._extend(runs[-1][1])
        for chunk, i, j, first in self.pieces(runs):
            count = j - i
            if count == 1:
                chunk.states[i] = ACQUIRED
                if chunk.counts[i] < COUNT_MAX:
                    chunk.counts[i] += 1
                chunk.nonces[i] = nonce
                chunk.dues[i] = due
                chunk.members[i] = member
            else:
                chunk.states[i:j] = _ACQUIRED[:count]
                chunk.counts[i:j] = chunk.counts[i:j].translate(PLUS_ONE)
                chunk.nonces[i:j] = array("I", (nonce,)) * count
                chunk.dues[i:j] = array("I", (due,)) * count
                chunk.members[i:j] = array("H", (member,)) * count
            if is_live:
                if not is_new:
                    chunk.free -= count
                    self.free -= count
                self.in_flight += count
                self.members.in_flight[member] += count
                self.timers.add(due, first, count)
        self._thin_timers()

    def _settled(self, update: Settled) -> None:
        state, runs = update
        if runs[-1][1] > self.end:
            self._extend(runs[-1][1])
        left = runs
        if self.is_live and not self.is_ordered:
            left, count = settle_lone(self.chunks, self.members.in_flight, runs, state)
            self.in_flight -= count
        for chunk, i, j, first in self.pieces(left):
            if self.is_live:
                self._leave(chunk, i, j, first, state)
            elif j - i == 1:
                chunk.states[i] = state
            else:
                chunk.states[i:j] = bytes((state,)) * (j - i)
        if self.is_live and runs[0][0] <= self.base:
            self._advance()

    def _freed(self, update: Freed) -> None:
        due, runs = update
        state = FREE if due == NO_PAUSE else WAITING
        for chunk, i, j, first in self.pieces(runs):
            count = j - i
            if self.is_live:
                self._uncount(chunk, i, j)
                if state == FREE:
                    chunk.free += count
                    self.free += count
                    self.first_free = min(self.first_free, first >> SHIFT)
                else:
                    self.timers.add(due, first, count)
            chunk.states[i:j] = bytes((state,)) * count
            chunk.dues[i:j] = array("I", (due,)) * count
        self._thin_timers()

    def _given(self, update: Given) -> None:
        for chunk, i, j, first in self.pieces(update.runs):
            if self.is_live:
                self._uncount(chunk, i, j)
                self.dying.extend(range(first, first + j - i))
            chunk.states[i:j] = bytes((DYING,)) * (j - i)

    def _renewed(self, update: Renewed) -> None:
        nonce, due, runs = update
        self.nonce = (nonce + 1) & NONCE_MASK
        for chunk, i, j, first in self.pieces(runs):
            chunk.nonces[i:j] = array("I", (nonce,)) * (j - i)
            chunk.dues[i:j] = array("I", (due,)) * (j - i)
            if self.is_live:
                self.timers.add(due, first, j - i)
        self._thin_timers()

    # Helpers of replay

    def _clear(self) -> None:
        """Forget all cells, and what is derived from them."""
        self.chunks.clear()
        self.timers.clear()
        self.chains.clear()
        self.dying.clear()
        self.members.let_go()
        self.free = self.in_flight = self.first_free = 0

    def _thin_timers(self) -> None:
        """Keep one timer of each record with a time, once there are many more.

        A member may renew what it holds as often as it likes, and each time adds to the timers.
        """
        if not self.timers.is_crowded:
            return
        kept = Timers()
        for tick, runs in self.timers.entries(self.base):
            is_late = tick == self.loaded_tick  # such have more time than their cells say
            for chunk, i, j, begin in self.pieces(joined(clipped(runs, self.base, self.end))):
                for k, stop in chunk.timed(i, j, tick, is_late=is_late):
                    kept.add(tick, begin + k - i, stop - k)
        kept.thinned()
        self.timers = kept

    def _extend(self, end: int) -> None:
        """Bring offsets up to `end` into the window; they are FREE."""
        if end <= self.end:
            return
        if self.is_live:
            for chunk, i, j, first in self.pieces([(self.end, end)]):
                chunk.free += j - i
                self.free += j - i
                if self.free == j - i:
                    self.first_free = first >> SHIFT
        self.end = end

    def _leave(self, chunk: Chunk, i: int, j: int, first: int, state: int) -> None:
        """Settle cells, each from whatever state it is in; what is settled stays as it is."""
        states, count = chunk.states, j - i
        if count > 1 and not self.is_ordered and self._leave_alike(chunk, i, j):
            states[i:j] = bytes((state,)) * count
            return
        for place in range(i, j):
            before = states[place]
            if before == ACQUIRED:
                self.in_flight -= 1
                self.members.in_flight[chunk.members[place]] -= 1
            elif before == FREE:
                chunk.free -= 1
                self.free -= 1
            elif before in SETTLED:
                continue
            states[place] = state
            if self.is_ordered and before != HELD:
                self._free_next(chunk, place, first + place - i)

    def _leave_alike(self, chunk: Chunk, i: int, j: int) -> bool:
        """Count out cells that are all FREE, or all in one member's hands; return whether so."""
        before, count = chunk.states[i:j], j - i
        if before == _FREE[:count]:
            chunk.free -= count
            self.free -= count
            return True
        member = chunk.members[i]
        if before == _ACQUIRED[:count] and chunk.members[i:j].count(member) == count:
            self.in_flight -= count
            self.members.in_flight[member] -= count
            return True
        return False

    def _free_next(self, chunk: Chunk, place: int, offset: int) -> None:
        """The first record of a key is over: the next one may be handed out."""
        following = self.chains.after(self.chunks, chunk, place, offset)
        if following is None:
            return
        other = self.chunks[following >> SHIFT]
        other.states[following & MASK] = FREE
        other.free += 1
        self.free += 1
        self.first_free = min(self.first_free, following >> SHIFT)

    def _uncount(self, chunk: Chunk, i: int, j: int) -> None:
        """Count cells out that cease to be acquired; others count nowhere."""
        if j - i > 1 and self._leave_alike(chunk, i, j):
            return
        for place in range(i, j):
            if chunk.states[place] == ACQUIRED:
                self.in_flight -= 1
                self.members.in_flight[chunk.members[place]] -= 1

    def _advance(self) -> None:
        """Let the window begin at the first record that is not over."""
        while self.base < self.end:
            number = self.base >> SHIFT
            start = number << SHIFT
            stop = min(CELLS, self.end - start)
            found = UNSETTLED.search(self.chunks[number].states, self.base & MASK, stop)
            if found is not None:
                self.base = start + found.start()
                return
            self.base = start + stop
            # The rest of the last chunk is made anew when it is needed: most shares are idle.
            del self.chunks[number]


_FREE, _ACQUIRED = bytes((FREE,)) * CELLS, bytes((ACQUIRED,)) * CELLS
_REPLAY: Mapping[type[Any], Callable[[Share, Any], None]] = {
    Began: Share._began,  # noqa: SLF001  the table of its own methods
    Moved: Share._moved,  # noqa: SLF001
    Scanned: Share._scanned,  # noqa: SLF001
    Acquired: Share._acquired,  # noqa: SLF001
    Settled: Share._settled,  # noqa: SLF001
    Freed: Share._freed,  # noqa: SLF001
    Given: Share._given,  # noqa: SLF001
    Renewed: Share._renewed,  # noqa: SLF001
}
