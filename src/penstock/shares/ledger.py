"""What has been replayed on a share and is not in the log yet.

    write(update) ─► replayed at once, and made a record ─► records() ─► the journal
    accept(offsets) ─► collected ─► close() ─► one update for all

A share runs ahead of its log: what was decided is so for whoever comes next, and it is written in
its order at the end of the turn of the event loop. Records that the log refuses are written again
later, before any other. So nothing has to be undone; a share whose mastership ends is dropped with
its ledger. What a client is told of waits for the log where it must (coordinator.py).

Accepted records are collected, since clients accept them one by one. Until `close` they are still
ACQUIRED, so that whatever else looks at the cells must close first; a write does. Only a hand-out
of other records may be written beside them (hand_out.py): then all that a turn has accepted is one
update, whatever was handed out in between.

Source: none.
"""

from collections import deque
from collections.abc import Iterable

from penstock.coordinator.records import RECORD_OVERHEAD_BYTES, JournalRecord
from penstock.shares.cells import DONE
from penstock.shares.reading import RUNS_MAX
from penstock.shares.records import (
    SLOTS,
    UPDATE,
    decode_update,
    encode_update,
    head_key,
    key_prefix,
)
from penstock.shares.runs import parts
from penstock.shares.share import Share
from penstock.shares.state import NO_EPOCH, Acquired, Began, Settled, Update
from penstock.shares.updates.compiled import runs_of

NONE_UNWANTED: frozenset[int] = frozenset()
ACCEPTED_MAX = 5_000
"""Accepted records that are collected: 2 ms to close."""


class Tally:
    """How many updates of an internal partition are not confirmed, and the memory of its shares."""

    __slots__ = ("count", "memory_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.memory_bytes = 0


class Ledger:
    """Of one share."""

    __slots__ = ("_accepted", "_bytes", "_memory_bytes", "_prefix", "_records", "_tally",
                 "confirmed_base", "is_gone", "share", "unwanted")  # fmt: skip

    def __init__(self, share: Share, tally: Tally) -> None:
        self.share = share
        self.is_gone = False
        """Whether the share is deleted, which is written behind its updates."""
        self.confirmed_base = share.base
        """Where the window begins by what is confirmed."""
        self.unwanted = NONE_UNWANTED
        """Records that are not in the log as accepted, and were passed over; for a trace."""
        self._accepted: list[int] = []
        self._records: deque[tuple[bytes, bytes]] = deque()
        self._bytes = 0
        """Of the records, with what the log needs for each."""
        self._prefix = key_prefix(share.key, UPDATE)
        self._tally = tally
        self._memory_bytes = 0
        self.weigh()

    @property
    def is_empty(self) -> bool:
        """Whether the log has everything."""
        return not self._records and not self._accepted and not self.is_gone

    @property
    def has_room(self) -> bool:
        """Whether updates can be told apart until the next snapshot."""
        return self.share.seq - self.share.snapshot_seq < SLOTS // 2

    @property
    def pending_count(self) -> int:
        """Records that the log does not have, once what was accepted is settled."""
        return len(self._records) + self.is_gone

    def weigh(self) -> None:
        """Count what the share takes in memory now; nothing once it is deleted."""
        now = 0 if self.is_gone else self.share.memory_bytes
        self._tally.memory_bytes += now - self._memory_bytes
        self._memory_bytes = now

    def accept(self, offsets: Iterable[int]) -> None:
        """Note that records, which are not settled, are accepted.

        Whoever accepts one that is not ACQUIRED closes at once, or it would be handed out.
        """
        self._accepted += offsets
        if len(self._accepted) >= ACCEPTED_MAX:
            self.close()

    def close(self) -> None:
        """Settle what was accepted."""
        if self._accepted:
            accepted, self._accepted = self._accepted, []
            accepted.sort()
            for runs in parts(runs_of(accepted), RUNS_MAX):
                self._replay(Settled(DONE, runs))

    def next_nonce(self) -> int:
        """Return the number for a hand-out that is written next."""
        self.close()
        self._begin()
        return self.share.nonce

    def write(self, update: Update) -> None:
        """Replay an update behind what was accepted, and keep it for the log."""
        self.close()
        self._replay(update)

    def nonce_beside(self) -> int:
        """Return the number for a hand-out that is written beside what was accepted."""
        self._begin()
        return self.share.nonce

    def write_beside(self, update: Acquired) -> None:
        """Replay a hand-out of none of the records that were accepted.

        The log has it before they are settled, which gives the same cells as the other order.
        """
        self._replay(update)

    def unwritten(self) -> list[Update]:
        """Return the updates that the log does not have, in order."""
        return [decode_update(value)[1] for _, value in self._records]

    def records(self, bytes_max: int) -> list[JournalRecord]:
        """Return what the log does not have, from the first on, in order.

        They are about `bytes_max` or a little more, and stay until `written`.
        """
        self.close()
        if self._bytes >= bytes_max:
            return self._first_records(bytes_max)
        found: list[JournalRecord] = [*self._records]
        if self.is_gone:
            found.append((head_key(self.share.key), None))
        return found

    def _first_records(self, bytes_max: int) -> list[JournalRecord]:
        """Return the records up to the one with which they are `bytes_max` or more."""
        found: list[JournalRecord] = []
        for record in self._records:
            found.append(record)
            bytes_max -= _bytes_of(record)
            if bytes_max <= 0:
                break
        return found

    def written(self, count: int) -> None:
        """Forget the first records: the log has them."""
        updates = min(count, len(self._records))
        if updates == len(self._records):  # nearly always
            self._records.clear()
            self._bytes = 0
        else:
            for _ in range(updates):
                self._bytes -= _bytes_of(self._records.popleft())
        self.is_gone &= count == updates  # one more was the deletion

    def delete(self) -> None:
        """Have the log forget the share."""
        self.close()
        self.is_gone = True
        self._tally.count += 1
        self.weigh()

    def _begin(self) -> None:
        """Let the first update of a mastership say whose it is."""
        if not self.share.has_written:
            epoch, nonce = self.share.tenure
            assert epoch != NO_EPOCH, "a mastership has an epoch"
            self.share.has_written = True
            self._replay(Began(epoch, nonce))

    def _replay(self, update: Update) -> None:
        self._begin()
        seq = self.share.seq + 1
        self.share.replay(seq, update)
        key = self._prefix + (seq % SLOTS).to_bytes(4, "big")
        record = key, encode_update(seq, update)
        self._records.append(record)
        self._bytes += _bytes_of(record)
        self._tally.count += 1


def _bytes_of(record: tuple[bytes, bytes]) -> int:
    """Return about how many bytes a record takes in the log."""
    return len(record[0]) + len(record[1]) + RECORD_OVERHEAD_BYTES
