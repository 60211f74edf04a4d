"""Following the log in etcd: catch up page by page, then watch for changes.

    view the small keys ─► snapshot, if entries are missing ─► pages of entries ─► watch ─┐
          ▲───────────── gap, compaction, lost connection, other endpoint ────────────────┘

The watch starts at the revision after the view, so that no change is missed. A silent watch may be
cut off without notice; a linearizable read shows that, and changes that it finds are processed like
any others.

The local copy must be a prefix of the log in etcd. If it is not (etcd was restored from an older
backup, or is another one), nothing is applied and the log is fenced.

Source: etcd's watch contract (Documentation/learning/api.md, "Watch API": ordered, atomic, and
resumable unless compacted).
"""

import logging
from collections.abc import Callable

from penstock.controller.errors import CorruptMetadata, MetadataUnavailable
from penstock.runtime.etcd.backoff import Backoff
from penstock.runtime.etcd.client import EtcdRefused, EtcdUnavailable
from penstock.runtime.etcd.entry import EntryId, decode_entry, decode_snapshot_head
from penstock.runtime.etcd.feed import Feed
from penstock.runtime.etcd.store import LeaderKey, Store, View, read_leader
from penstock.runtime.etcd.wire import Event, WatchAnswer

log = logging.getLogger(__name__)


class Follower:
    """See the module."""

    def __init__(self, store: Store, feed: Feed, *, idle_ms: int) -> None:
        self._store = store
        self._feed = feed
        self._idle_ms = idle_ms
        self._is_connected = True
        self.snapshot_index = 0
        """Index of the newest snapshot in etcd."""
        self.on_leader: Callable[[LeaderKey | None, int], None] = lambda leader, revision: None
        """Called with the leader key and the revision at which it was read."""
        self.on_unreachable: Callable[[], None] = lambda: None
        """Called at each attempt that etcd did not answer."""

    async def run(self) -> None:
        """Follow until cancelled. Raises CorruptMetadata if etcd has another history."""
        backoff = Backoff()
        while True:
            try:
                await self._follow(backoff)
            except (EtcdUnavailable, EtcdRefused, MetadataUnavailable) as error:
                self._note_failure(error)
            await backoff.wait()

    def _note_failure(self, error: Exception) -> None:
        level = logging.WARNING if self._is_connected else logging.DEBUG
        log.log(level, "metadata in etcd cannot be reached: %s", error)
        self._is_connected = False
        self.on_unreachable()

    async def _follow(self, backoff: Backoff) -> None:
        view = await self._look(is_first=True)
        await self._catch_up(view)
        self._is_connected = True
        backoff.reset()
        watch = self._store.client.watch(
            *self._store.watched, start_revision=view.revision + 1, idle_ms=self._idle_ms
        )
        try:
            async for answer in watch:
                if answer is None:
                    if (await self._look()).head > self._feed.offered_index:
                        return
                elif answer.canceled or not await self._take(answer):
                    return
                await self._feed.drained()
        finally:
            await watch.aclose()

    async def _look(self, *, is_first: bool = False) -> View:
        """Read the small keys, as a majority of etcd has them."""
        known_index, known_id = self._feed.applied_index, self._feed.applied_id
        view = await self._store.view()
        if view.head < known_index:
            raise _another_history(f"ends at entry {view.head}, this process has {known_index}")
        if is_first and known_index:
            await self._check_history(view, known_index, known_id)
        if not self._is_connected:
            log.info("metadata in etcd is reached again head=%d", view.head)
            self._is_connected = True
        self.snapshot_index = view.snapshot.last_index if view.snapshot else 0
        self.on_leader(view.leader, view.revision)
        return view

    async def _check_history(self, view: View, index: int, known_id: EntryId) -> None:
        snapshot_index = view.snapshot.last_index if view.snapshot else 0
        if view.snapshot is not None and index == snapshot_index:
            found: EntryId | None = view.snapshot.entry_id
        elif index > snapshot_index:
            found = await self._store.entry_id(index)
        else:
            return  # trimmed in etcd: its snapshot replaces the own copy
        if found is not None and found != known_id:
            raise _another_history(f"has another entry {index} than this process")

    async def _catch_up(self, view: View) -> None:
        snapshot = view.snapshot
        if snapshot is not None and snapshot.last_index > self._feed.offered_index:
            data = await self._store.snapshot(snapshot)
            if data is None:
                raise EtcdUnavailable("the metadata snapshot was replaced while it was read")
            await self._feed.install(snapshot.last_index, snapshot.entry_id, data)
        while (first := self._feed.offered_index + 1) <= view.head:
            entries = await self._store.entries(first, view.head)
            if not entries and self._feed.offered_index < first:
                raise EtcdUnavailable(f"metadata entry {first} was trimmed while it was read")
            for index, entry in enumerate(entries, first):
                self._feed.offer(index, entry)
            await self._feed.drained()

    async def _take(self, answer: WatchAnswer) -> bool:
        """Process all events of a message; return False if entries before them are missing."""
        for event in answer.events:
            if not await self._take_event(event):
                return False
        return True

    async def _take_event(self, event: Event) -> bool:
        pair = event.kv
        if pair.key == self._store.leader_key:
            leader = None if event.is_delete else read_leader(pair)
            self.on_leader(leader, pair.mod_revision)
        elif pair.key == self._store.snapshot_key and not event.is_delete:
            self.snapshot_index = decode_snapshot_head(pair.value).last_index
        elif (index := self._store.index_of(pair.key)) is not None and not event.is_delete:
            return await self._take_entry(index, pair.value)
        return True

    async def _take_entry(self, index: int, value: bytes) -> bool:
        if index <= self._feed.offered_index:
            return True
        entry = await self._store.whole(index, decode_entry(value))
        return entry is not None and self._feed.offer(index, entry)


def _another_history(what: str) -> CorruptMetadata:
    return CorruptMetadata(
        f"the metadata log in etcd {what}: etcd was emptied or restored from an older copy, or"
        " another cluster uses the same keys; restore the etcd this node knows. Removing the"
        " node's copy of the metadata makes it take what etcd has now"
    )
