"""Shares as a shard of the coordinator runtime: loading, unloading, rewrites.

Source: Kafka `ShareCoordinatorShard` (replay); docs/adding.md.
"""

from collections.abc import Callable, Generator, Iterator

from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.pending import Writer
from penstock.coordinator.plain_loader import PlainLoader
from penstock.coordinator.portions import Steps
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.coordinator.unread import UnreadRecords
from penstock.coordinator.writes import Change, NoChange
from penstock.shares.ledger import Ledger
from penstock.shares.rebuild import rebuild
from penstock.shares.records import CHUNK, UPDATE, decode_key, decode_update
from penstock.shares.share import Share
from penstock.shares.snapshot import decode_chunk, decode_head, put_chunk, put_head, snapshot
from penstock.shares.state import ShareKey
from penstock.shares.table import Shares

TOGETHER = 50
"""Shares that are begun in one step."""
EVERYTHING = 1 << 40
"""Bytes of updates that are not in the log: few, unless the log refuses them."""


class ShareLoader(PlainLoader):
    """Builds the shares of one partition from its records."""

    __slots__ = ("_expires_from", "_found", "_partition", "_unreadable")

    def __init__(
        self, partition: int, unread: UnreadRecords, expires_from: Callable[[], int]
    ) -> None:
        """`expires_from()` is the tick until which every holder has its records at least."""
        self._partition = partition
        super().__init__(unread)
        self._expires_from = expires_from
        self._found: dict[ShareKey, Share] = {}
        self._unreadable: set[ShareKey] = set()

    def load(self, record: UnreadRecord) -> None:
        """As in Loader. A share of which a record can not be read is left in the log as it is."""
        try:
            kind, key, number = decode_key(record.key or b"")
        except MalformedRecord:
            self._unread.put(record)
            return
        if record.value is None:
            self._forget(kind, key, number)
            return
        share = self._found.get(key)
        if share is None:
            share = self._found[key] = Share(key)
        try:
            _load(share, kind, number, record.value)
        except MalformedRecord as error:
            self._unreadable.add(key)
            self._unread.leave_in_log(f"group={key.group}: {error}")

    def make(self) -> Generator[int, None, Shares]:
        """As in Loader."""
        shares = Shares(self._partition)
        shares.unreadable = self._unreadable
        expires_from = self._expires_from()
        for key, share in self._found.items():
            if key not in self._unreadable and share.has_begun:
                yield from rebuild(share, expires_from)
                shares.ledgers[key] = Ledger(share, shares.tally)
            yield 1
        return shares

    def discard(self) -> Steps:
        """As in Loader."""
        self._found.clear()
        yield 1

    def _forget(self, kind: int, key: ShareKey, number: int) -> None:
        """A tombstone: of a share, or of what a snapshot has put elsewhere."""
        if kind == UPDATE:
            return
        share = self._found.get(key)
        if kind == CHUNK and share is not None:
            share.chunks.pop(number, None)
        elif kind != CHUNK:
            self._found.pop(key, None)


def _load(share: Share, kind: int, number: int, value: bytes) -> None:
    if kind == UPDATE:
        share.replay(*decode_update(value))
    elif kind == CHUNK:
        put_chunk(share, number, decode_chunk(value))
    else:
        put_head(share, decode_head(value))


class ShareShard:
    """The shares of one coordinator; `begun` and `ended` are told of each shown state."""

    __slots__ = ("_begun", "_due", "_ended", "_expires_from", "_shown", "by_partition")

    def __init__(
        self,
        *,
        shown: Callable[[Shares], None],
        begun: Callable[[Shares, Ledger], Steps],
        ended: Callable[[Shares], Steps],
        due: Callable[[ShareKey | int], None],
        expires_from: Callable[[], int],
    ) -> None:
        self._shown = shown
        self._begun = begun
        self._ended = ended
        self._due = due
        self._expires_from = expires_from
        self.by_partition: dict[int, Shares] = {}

    def new_loader(self, partition: int, unread: UnreadRecords) -> ShareLoader:
        """As in Shard."""
        return ShareLoader(partition, unread, self._expires_from)

    def show(self, partition: int, state: Shares) -> None:
        """As in Shard."""
        self._shown(state)
        self.by_partition[partition] = state

    def begin(self, partition: int, state: Shares) -> Steps:
        """Watch what is handed out, and go on with what has to be copied."""
        for number, ledger in enumerate([*state.ledgers.values()]):
            if self.by_partition.get(partition) is not state:
                return
            if state.ledgers.get(ledger.share.key) is ledger:
                yield from self._begun(state, ledger)
            if number % TOGETHER == 0:
                yield 1

    def hide(self, partition: int) -> Shares | None:
        """As in Shard."""
        return self.by_partition.pop(partition, None)

    def let_go(self, state: Shares) -> Steps:
        """As in Shard."""
        yield from self._ended(state)

    def live_records(self, partition: int) -> Iterator[list[JournalRecord]]:
        """As in Shard: a snapshot of each share.

        What is not in the log yet goes in front of each of its records, so that these say what the
        log says up to them. It is written once more later; then its sequence numbers are known.
        """
        state = self.by_partition[partition]
        for key, ledger in [*state.ledgers.items()]:
            records = snapshot(ledger.share)
            # A share that was deleted meanwhile would be there again behind its deletion.
            while self.by_partition.get(partition) is state and state.ledgers.get(key) is ledger:
                first = [record for each in state.dirty for record in each.records(EVERYTHING)]
                record = next(records, None)
                if record is None:
                    break
                yield [*first, record]

    def ending(self, partition: int, writer: Writer, *, is_commit: bool) -> Change:
        """As in Shard: it ends nothing here."""
        return NoChange()

    def on_due(self, key: ShareKey | int) -> None:
        """As in Shard."""
        self._due(key)
