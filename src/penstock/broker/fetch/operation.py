"""One fetch from its first read of the logs to its answer.

    room ──► read ──► enough bytes, or an error, or no waiting allowed ──► answer
              │ ├──► some bytes are not in the page cache: load them off the loop ──► answer
              │ ├──► a high watermark is not in memory: find it off the loop ──► ask for room again
              └────► park: on each partition (woken when it becomes readable) and on a deadline;
                        what only the tier has (served.py) wakes it, too, when it has been read
                        └──► woken: ask for room again

A parked fetch is answered at once when one of its partitions gets another master or is deleted. A
slave serves it like the master, up to the slave's own confirm position, if that is enabled
(slave_reads.py).

Each read first needs room for what it may find (net/answers/answer_room.py): a fetch that waits for
room holds no records. A parked fetch costs nothing while nothing happens. Each read goes through
the partitions in order until the answer is full; it takes whole batches only, and nothing above the
high watermark. Only the first batch found may be larger than the limit of the answer, which clients
rely on.

Source: Kafka `DelayedFetch`, `ReplicaManager.readFromLog`; KIP-74 (at least one batch), KIP-320
(leader epochs of consumers), KIP-392 (slaves).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, Position
from penstock.base.ports import Cancellable
from penstock.broker.fetch.committed import find_aborted, stable_end, stable_position
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.epoch_ends import EpochEnd, find_epoch_end
from penstock.broker.fetch.next_fetch import upcoming, was_expected
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.broker.fetch.served import find_records, has_ended, has_records, served
from penstock.broker.fetch.wakes import CHECKED, TO_ANSWER, TO_WAIT_ON
from penstock.broker.fetch.watermarks import End, confirm_position, find_high_watermark
from penstock.broker.tier.view import TierClient
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.commit_log.set_log import NO_MORE, Chunk, NeedsDisk
from penstock.storage.index.aborted import AbortedTransaction
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.regions import PIECES_MAX

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


ABORTED_MAX = 20_000
"""Aborted transactions that an answer tells of, at 17 bytes each, unless one partition needs more.
That is never more than began in what it gets, and half of the producers that a log remembers."""

BATCHES_MAX = 2 * PIECES_MAX
"""Batches of an answer, and those of one partition more: each takes time, however small it is."""

ABORTED_BYTES = 144
"""Memory of one of them until the answer is encoded: a tuple and two integers."""


class FetchOperation:
    """A fetch request in progress; `on_done(reads)` is called exactly once."""

    __slots__ = (
        "_broker",
        "_cold",
        "_deadline",
        "_found",
        "_has_left_out",
        "_has_more",
        "_has_session",
        "_hosted_bytes",
        "_is_asking",
        "_is_committed",
        "_is_over",
        "_is_parked",
        "_kept",
        "_knows_aborted",
        "_loads_open",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_most_bytes",
        "_on_done",
        "_readable",
        "_room",
        "_selector",
        "_tier_client",
        "_told_aborted",
        "_turn",
        "is_done",
        "on_end",
        "reads",
    )

    def __init__(
        self,
        broker: Broker,
        reads: list[PartitionRead],
        *,
        min_bytes: int,
        max_bytes: int,
        on_done: Callable[[list[PartitionRead]], None],
        consumer: Consumer,
    ) -> None:
        self._broker = broker
        self._min_bytes = min_bytes
        self._most_bytes = self._max_bytes = max_bytes
        self._room = consumer.room
        self._turn = consumer.turn
        self._tier_client = consumer.tier
        self._is_committed = consumer.is_committed
        self._knows_aborted = not consumer.is_committed
        """Whether no aborted transactions are to be found any more."""
        self._cold: list[PartitionRead] = []
        """Partitions whose high watermark is not in memory."""
        self._kept = 0
        """Bytes of records that are counted while others are still being loaded."""
        self._is_asking = self._is_over = False
        self._on_done = on_done
        self._readable: ReplicaSetMember | None = None
        """The last member found readable in this read; saves the check for its other partitions."""
        self._selector = consumer.selector
        self._deadline: Cancellable | None = None
        self._found = 0
        self._has_left_out = False
        self._has_more = False
        """Whether a partition that got records has more after them."""
        self._told_aborted = 0
        self._has_session = consumer.has_session
        self._hosted_bytes = 0
        self.is_done = False
        self.on_end: Callable[[], None] | None = None
        """Called once, before the answer or after the client has disconnected."""
        self._is_parked = False
        self._loads_open = 0
        self.reads = reads

    def start(self, max_wait_ms: int) -> None:
        """Read once; answer, load or park. Ends of old epochs are looked up before that."""
        self._max_wait_ms = max_wait_ms
        self._loads_open = 1
        for read in self.reads:
            hosted, epoch = read.hosted, read.wanted.last_fetched_epoch
            if epoch >= 0 and hosted is not None and has_ended(hosted.member, epoch):
                self._loads_open += 1
                told = partial(self._on_epoch_end, read)
                find_epoch_end(hosted, epoch, told, self._turn, self._broker.tier)
        self._begin()

    def _on_epoch_end(
        self, read: PartitionRead, end: EpochEnd | None, _: PlatformError | None
    ) -> None:
        read.epoch_end = end
        self._begin()

    def _begin(self) -> None:
        self._loads_open -= 1
        if not self._loads_open:
            self._is_over = self._max_wait_ms <= 0
            self._ask()

    def on_readable(self) -> int:
        """A partition's end has moved. Returns the cost in units of wakes.py."""
        if not self._is_busy and not self._may_have_enough():
            self._watch()
            return TO_WAIT_ON + len(self.reads) // CHECKED
        return self.on_changed()

    def on_changed(self) -> int:
        """A partition was deleted, or has another master or log, or the wait is over: read,
        whatever its size is. Returns the cost.
        """
        if self._is_busy:
            return 1
        self._ask()
        return TO_ANSWER + len(self.reads)

    @property
    def _is_busy(self) -> bool:
        """Whether it is about to read anyway, or has read for the last time."""
        return self.is_done or self._is_asking or self._loads_open > 0

    def _on_deadline(self) -> None:
        self._deadline = None
        self._is_over = True
        if not self._is_busy:
            self._broker.wakes.begin((self,), is_changed=True)

    def _ask(self) -> None:
        if self._room is None:
            self._look_now(self._most_bytes)
        else:
            self._is_asking = True
            self._room.ask_room(self._most_bytes, self._on_room)

    def _on_room(self, most: int) -> int:
        """Read, as there is room for `most` bytes; 0: the client has disconnected."""
        self._is_asking = False
        if most:
            return self._look_now(most)
        self._end()
        self._leave()
        return 0

    def _look_now(self, most: int) -> int:
        """Answer with at most so many bytes, or park; return how many were found."""
        self._max_bytes = most
        is_ready = self._look() or self._is_over
        if self._cold:
            self._find_ends()
            return 0
        found = self._found
        if is_ready:
            self._finish_when_loaded()
        else:
            self._park()
        return found

    def _find_ends(self) -> None:
        """Ask the disk for high watermarks, then read anew; nothing that was read is kept."""
        cold, self._cold = self._cold, []
        self._loads_open += len(cold)
        for read in self.reads:
            read.clear()
        for read in cold:
            hosted = read.hosted
            assert hosted is not None
            told = partial(self._on_end, read, hosted.log, hosted.member.confirm_position)
            find_high_watermark(hosted, told, self._turn)

    def _on_end(
        self,
        read: PartitionRead,
        log: PartitionLog,
        confirmed: Position,
        end: Offset | None,
        error: PlatformError | None,
    ) -> None:
        found = error if end is None else End(end, confirmed)
        assert found is not None
        read.found_end = (log, found)
        self._loads_open -= 1
        if not self._loads_open:
            self._ask()

    def _park(self) -> None:
        self._park_looked()
        if not self._is_parked:
            self._is_parked = True
            self._broker.stats.fetches_parked += 1
            after = self._max_wait_ms
            self._deadline = self._broker.scheduler.call_later(after, self._on_deadline)
        self._watch()

    def _may_have_enough(self) -> bool:
        """Whether another read is worth its cost, judging by the size of the logs.

        Retention may make the partitions smaller meanwhile; then the deadline ends the wait.
        """
        if self._min_bytes <= 1:
            return True
        grown = self._size_of_logs() - self._hosted_bytes
        return self._found + grown >= min(self._min_bytes, self._max_bytes)

    def _size_of_logs(self) -> int:
        return sum(read.hosted.log.size_bytes for read in self.reads if read.hosted is not None)

    def _park_looked(self) -> None:
        """Release what was read, and note the readable size of the logs."""
        is_committed = self._is_committed
        self._hosted_bytes = sum(one.settled(is_committed=is_committed) for one in self.reads)
        for read in self.reads:
            read.found_end = None
            if read.size:
                read.clear()

    def _watch(self) -> None:
        for read in self.reads:
            hosted = read.hosted
            if hosted is not None and self not in hosted.waiters:
                hosted.park(self, read.high_watermark)

    def _look(self) -> bool:
        """Read every partition; return whether the answer can be sent."""
        left, batches = self._max_bytes, 0
        self._readable = None
        self._has_left_out = self._has_more = has_error = is_full = False
        pending: list[tuple[PartitionRead, NeedsDisk, bool]] = []
        for read in self.reads:
            read.clear()
            try:
                found = self._read(read, left if batches < BATCHES_MAX else 0)
            except PlatformError as error:
                read.fail(error)
                has_error = True
                continue
            if found is not None and (found.size <= left or left == self._max_bytes):
                if isinstance(found, NeedsDisk):
                    pending.append((read, found, left == self._max_bytes))
                else:
                    self._take(read, found)
                    batches += found.count
                    is_full = is_full or found.is_cut or batches >= BATCHES_MAX
                left -= found.size
            elif found is not None:
                self._has_left_out = True
                left = 0  # full: do not read what would be left out
            if read.is_told:
                has_error = True
        self._found = self._max_bytes - left
        if self._cold:
            return False
        if pending:
            self._keep(self._found)
        for read, needs_disk, may_exceed in pending:
            self._load(read, needs_disk, may_exceed)
        is_full = is_full or self._found >= min(self._min_bytes, self._max_bytes)
        return has_error or bool(pending) or is_full

    def _read(self, read: PartitionRead, max_bytes: int) -> Chunk | NeedsDisk | None:
        """Read one partition; None if there is nothing to read, or no room left for it."""
        hosted = served(read, self._selector)
        member = hosted.member
        if member is not self._readable:
            member.check_readable()
            self._readable = member
        end = read.end_of(hosted)
        if end is None:
            self._cold.append(read)
            return None
        stable = stable_end(hosted, end)
        read.stable_offset = stable.offset
        readable = stable if self._is_committed else end
        tier, ends = self._broker.tier, (end.offset, readable.offset)
        if not has_records(read, hosted, self._selector, ends, tier):
            return None
        if max_bytes <= 0:
            self._has_left_out = True
            return None
        read.log = hosted.log
        limit = min(max_bytes, max(read.wanted.max_bytes, 0))
        client = self._tier_client or TierClient(self._room, self.on_changed)
        return find_records(self._broker, read, limit, readable.position, client)

    def _take(self, read: PartitionRead, chunk: Chunk) -> None:
        read.take(chunk)
        self._has_more = self._has_more or chunk.next_offset != NO_MORE

    def _load(self, read: PartitionRead, needs_disk: NeedsDisk, may_exceed: bool) -> None:
        self._loads_open += 1

        def loaded(result: Chunk | None, error: PlatformError | None) -> None:
            self._loads_open -= 1
            if error is not None:
                read.fail(error)
            elif result is not None and (may_exceed or result.size <= needs_disk.size):
                self._take(read, result)
            self._finish_when_loaded()

        needs_disk.load(loaded)

    def _finish_when_loaded(self) -> None:
        if self._loads_open or self.is_done:
            return
        if not self._knows_aborted and not self._has_aborted():
            return
        self._end()
        if self._is_parked:
            self._leave()
        if self._kept and self._room is not None:
            self._room.let_go(self._kept)  # the answer itself is counted once it is queued
        self._on_done(self.reads)
        if self._has_more or self._has_left_out:
            is_likely = was_expected(self.reads)
            coming = upcoming(
                self.reads, has_left_out=self._has_left_out, has_session=self._has_session
            )
            end_of = stable_position if self._is_committed else confirm_position
            self._broker.read_ahead.expect(coming, self._max_bytes, end_of, is_likely=is_likely)

    def _has_aborted(self) -> bool:
        """Begin to find the aborted transactions; return whether all of them are known already."""
        self._knows_aborted = True
        self._loads_open = 1
        are_records_kept = self._kept > 0
        for read in self.reads:
            if read.error is None:
                read.aborted = read.known_aborted or []
            if read.size and read.hosted is not None and read.known_aborted is None:
                self._loads_open += 1
                end = read.found_end_offset()
                told = partial(self._on_aborted, read)
                find_aborted(read.hosted, read.begins_at, end, told, self._turn)
        self._loads_open -= 1
        if self._loads_open and not are_records_kept:
            self._keep(self._found)
        return not self._loads_open

    def _keep(self, size: int) -> None:
        """Count so many bytes until the answer is there, which is counted itself."""
        if self._room is not None:
            self._kept += size
            self._room.keep(size)

    def _on_aborted(
        self,
        read: PartitionRead,
        found: list[AbortedTransaction] | None,
        error: PlatformError | None,
    ) -> None:
        failed = error or read.why_gone()
        if failed is None:
            self._take_aborted(read, found or [])
        else:
            read.fail(failed)
        self._loads_open -= 1
        self._finish_when_loaded()

    def _take_aborted(self, read: PartitionRead, found: list[AbortedTransaction]) -> None:
        """Tell what was aborted; a partition for which the answer would tell too much comes later.

        The first one is told whatever it needs, so that the consumer goes on.
        """
        told = self._told_aborted + len(found)
        if self._told_aborted and told > ABORTED_MAX:
            read.leave_out()
            self._has_left_out = True
            return
        read.aborted, self._told_aborted = found, told
        self._keep(len(found) * ABORTED_BYTES)

    def _end(self) -> None:
        self.is_done = True
        if self.on_end is not None:
            self.on_end()

    def _leave(self) -> None:
        """Cancel the deadline, and stop waiting on partitions that have not woken the fetch."""
        if self._deadline is not None:
            self._deadline.cancel()
        for read in self.reads:
            if read.hosted is not None:
                read.hosted.leave(self)
