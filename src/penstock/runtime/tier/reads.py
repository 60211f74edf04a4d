"""Reads what only the tier has for clients, within bounds that local reads do not share.

    fetch ─► ready? ─► its records                        search ─► one at a time
         └─► under way? ─► woken with those who wait          └─► first batch that answers
         └─► room? ─► a place ─► manifest, blocks, aborted ─► ready, and whoever waits is woken

A read is tried again until its time is over: a store that fails, hangs or lies gives an error after
which clients ask again, and never other bytes. What was read stays ready for a while: no fetch is
held by it, so that records from the disk are answered meanwhile, and the next one has it at once.

Bounds: reads in progress, reads of a client, reads that wait, bytes that are asked for, time, what
is ready. Checks are done on a thread of their own: the loop and the disk's threads have no part.

Source: docs/adr/0124; docs/requirements.md T-6; Kafka `RemoteLogReader`, `DelayedRemoteFetch`.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

from penstock.base.errors import PlatformError, as_answer
from penstock.base.ids import LeaderEpoch, Offset, ReplicaSetId, TopicPartition
from penstock.broker.errors import TierUnavailable, UnknownPartition
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.reach import NOT_KNOWN
from penstock.broker.tier.view import Done, TierChunk, TierClient
from penstock.record.batch import BatchHeader, read_header
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.errors import NotMaster
from penstock.runtime.tier.byte_room import ByteRoom
from penstock.runtime.tier.fair_places import FairPlaces, Tickets
from penstock.runtime.tier.told import FRESH_MS, Known, ToldRuns
from penstock.storage.errors import OffsetOutOfRange
from penstock.storage.stores.port import Examine, TimestampHit
from penstock.tier.config import TierConfig
from penstock.tier.errors import LostObject, TierError
from penstock.tier.metadata.manifest import Manifest
from penstock.tier.port import ObjectStore
from penstock.tier.read.counters import ReadCounters
from penstock.tier.read.describe import WINDOW_BYTES
from penstock.tier.read.reader import SUMMARIES_BYTES_MAX, TierReader
from penstock.tier.retention import first_offset

WAITING_PER_PLACE = 16
"""Reads that wait for each one that may be in progress; more are put off."""
READY_BYTES_MAX = 32 << 20
"""Of answers that are ready: some of the largest that are read at once."""
READY_COSTS = 1 << 10
"""Bytes that each of them counts for besides, so that their number has a bound, too."""
PAUSE_MS, PAUSE_MS_MAX = 100, 2_000
"""Between two tries; each is twice as long as the one before."""
SEARCHES_MAX = 1
"""Look-ups that need the store have a queue of their own (broker/look_ups.py), with one at a time;
one that began in the other queue, and needs the store by then, is refused meanwhile."""
TICKETS_MAX = 256
"""Addresses whose turn it is next to search; further ones have none."""
TICKET_SECONDS = 3.0
"""An address that does not come again by then has given up: stock clients do within a second."""
FAILURES_MAX = 1_000
"""Places for which it is remembered that a read has failed."""

T = TypeVar("T")
ManifestOf = Callable[[ReplicaSetMember, TopicPartition], Manifest | None]
Spawn = Callable[[str, Coroutine[Any, Any, None]], None]
RaiseStart = Callable[[HostedPartition, Offset], Awaitable[bool]]
"""Tries to raise the start of a partition in the tier; returns whether it has risen."""


class _Place(NamedTuple):
    """What is read: the bytes at an offset never change within a mastership."""

    set_id: ReplicaSetId
    leader_epoch: LeaderEpoch
    topic_partition: TopicPartition
    offset: Offset


class _Failures:
    """What reads have ended with, for those who asked for them and come back."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Place, tuple[PlatformError, int]] = OrderedDict()

    def put(self, place: _Place, error: PlatformError, count: int) -> None:
        """Keep an error for so many."""
        self._kept[place] = as_answer(error), count
        self._kept.move_to_end(place)
        if len(self._kept) > FAILURES_MAX:
            self._kept.popitem(last=False)

    def take(self, place: _Place) -> PlatformError | None:
        """Return what a read has ended with, once for each who is to know."""
        if place not in self._kept:
            return None
        error, count = self._kept.pop(place)
        if count > 1:
            self._kept[place] = error, count - 1
        return error


class RemoteReads:
    """Implements TierReads over one store."""

    def __init__(
        self,
        store: ObjectStore,
        manifest_of: ManifestOf,
        config: TierConfig,
        *,
        raise_start: RaiseStart,
        spawn: Spawn,
        told: ToldRuns,
    ) -> None:
        """`told`: of partitions whose slave this node is; `manifest_of` knows those it leads."""
        self._told = told
        self._manifest_of = manifest_of
        self._config = config
        self._raise_start = raise_start
        self._spawn = spawn
        self._room = ByteRoom(config.read_bytes)
        limit = WAITING_PER_PLACE * config.reads_at_once
        self._places = FairPlaces(config.reads_at_once, limit)
        self._flights: dict[_Place, dict[Callable[[], object], None]] = {}
        """What is being read, and whom to wake."""
        self._failures = _Failures()
        self._of_client: Counter[int] = Counter()
        self._ready: OrderedDict[_Place, tuple[TierChunk, int]] = OrderedDict()
        """Until when a slave gives it out: what was deleted meanwhile only its master knows."""
        self._ready_bytes = 0
        self._search_count = 0
        self._tickets = Tickets(TICKETS_MAX, TICKET_SECONDS)
        self._threads = ThreadPoolExecutor(1, "tier-checks")
        self.counters = ReadCounters()
        self.reader = TierReader(
            store,
            SUMMARIES_BYTES_MAX,
            blocks_bytes_max=config.cache_bytes,
            room=self._room.room,
            work=self._work,
        )

    async def _work(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @property
    def open_count(self) -> int:
        """Reads that are in progress, or wait."""
        return len(self._flights)

    def fetch(
        self, client: TierClient, hosted: HostedPartition, offset: Offset, bytes_max: int
    ) -> TierChunk | None:
        """As in TierReads."""
        member, key = hosted.member, hosted.log.topic_partition
        place = _Place(member.replica_set_id, member.leader_epoch, key, offset)
        ready, until_ms = self._ready.get(place, (None, 0))
        is_led = member.role is Role.MASTER  # a master knows what was deleted meanwhile
        if ready is not None and (is_led or self._told.now_ms() < until_ms):
            self._ready.move_to_end(place)
            return ready.beginning(bytes_max)
        if (failed := self._failures.take(place)) is not None:
            raise failed
        most = min(max(bytes_max, 1), WINDOW_BYTES)
        if place in self._flights or self._begin(place, hosted, client, most):
            self._flights[place][client.wake] = None
        return None

    def _begin(self, place: _Place, hosted: HostedPartition, client: TierClient, most: int) -> bool:
        """Begin to read, if the bounds permit it."""
        connection = id(client.connection)
        is_greedy = self._of_client[connection] >= self._config.reads_of_client
        if is_greedy or not self._places.take(client.host):
            self.counters.reads_refused += 1
            return False
        self._flights[place] = {}
        self._of_client[connection] += 1
        self._spawn("tier read", self._fly(place, hosted, (connection, client.host), most))
        return True

    async def _fly(
        self, place: _Place, hosted: HostedPartition, client: tuple[int, str], most: int
    ) -> None:
        waiting: dict[Callable[[], object], None] = {}
        connection, host = client
        try:
            chunk = await self._in_time(partial(self._in_turn, host, place, hosted, most))
            self.counters.reads += 1
            self.counters.read_bytes += chunk.size
            self._keep_ready(place, chunk)
        except PlatformError as error:
            self._failures.put(place, error, max(len(self._flights[place]), 1))
        finally:
            waiting = self._flights.pop(place)
            self._places.give_back(host)
            self._of_client[connection] -= 1
            if not self._of_client[connection]:
                del self._of_client[connection]
        for wake in waiting:
            wake()

    async def _in_turn(
        self, host: str, place: _Place, hosted: HostedPartition, most: int
    ) -> TierChunk:
        async with self._places.work(host):
            try:
                return await self._read(place, hosted, most)
            except LostObject:  # what a master told may be old by now
                self._told.forget(place.topic_partition)
                raise

    def _keep_ready(self, place: _Place, chunk: TierChunk) -> None:
        """Keep an answer for who asks next; the newest one always, however large it is."""
        self._drop_ready(place)
        self._ready[place] = chunk, self._told.now_ms() + FRESH_MS
        self._ready_bytes += chunk.size + READY_COSTS
        while self._ready_bytes > READY_BYTES_MAX and len(self._ready) > 1:
            self._drop_ready(next(iter(self._ready)))

    def _drop_ready(self, place: _Place) -> None:
        if place in self._ready:
            self._ready_bytes -= self._ready.pop(place)[0].size + READY_COSTS

    async def _in_time(self, make: Callable[[], Awaitable[T]]) -> T:
        """Try until it works or the time is over. Raises TierUnavailable, and what is final."""
        reason, pause_ms = "no answer", PAUSE_MS
        try:
            async with asyncio.timeout(self._config.read_ms / 1000):
                while True:
                    try:
                        return await make()
                    except TierError as error:
                        self.counters.read_failures += 1
                        reason = str(error)
                    except TierUnavailable as error:
                        reason = str(error)
                    await asyncio.sleep(pause_ms / 1000)
                    pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
        except TimeoutError:
            if reason == "no answer":
                self.counters.read_failures += 1
            raise TierUnavailable(f"not read within {self._config.read_ms} ms: {reason}") from None

    def _manifest(self, hosted: HostedPartition, leader_epoch: LeaderEpoch) -> Manifest:
        """Return what the tier has now.

        Raises NotMaster, UnknownPartition, and TierUnavailable while that is not known.
        """
        member = hosted.member
        if hosted.is_dropped:
            raise UnknownPartition
        if member.role is not Role.MASTER or member.leader_epoch != leader_epoch:
            raise NotMaster("another mastership has begun")
        manifest = self._manifest_of(member, hosted.log.topic_partition)
        if manifest is None:
            raise TierUnavailable(NOT_KNOWN)
        return manifest.copy()

    async def _known(self, hosted: HostedPartition, place: _Place) -> Known:
        """Return where a partition begins, and what the tier has at an offset and behind it.

        Raises as `_manifest`.
        """
        if hosted.member.role is Role.SLAVE and hosted.member.leader_epoch == place.leader_epoch:
            if hosted.is_dropped:
                raise UnknownPartition
            return await self._told.of(hosted, place.leader_epoch, place.offset)
        manifest = self._manifest(hosted, place.leader_epoch)
        return Known(first_offset(manifest, hosted.log.log_start_offset), manifest)

    async def _read(self, place: _Place, hosted: HostedPartition, most: int) -> TierChunk:
        key, offset, log = place.topic_partition, place.offset, hosted.log
        start, manifest = await self._known(hosted, place)
        if offset < start:
            raise OffsetOutOfRange(offset, Offset(start), log.log_end_offset)
        found = await self.reader.read(manifest, key, offset, most)
        if not found.batches:  # a gap up to the tier's end: what comes next is on the disk
            return TierChunk([], (offset, found.next_offset), [])
        first = read_header(found.batches[0]).base_offset
        aborted = await self.reader.aborted(manifest, offset, found.next_offset)
        if aborted is None and hosted.member.role is not Role.MASTER:
            raise NotMaster(f"the master knows more runs, and what was aborted at offset {offset}")
        if aborted is None:
            raise TierUnavailable(f"what was aborted at offset {offset} is not copied yet")
        return TierChunk(found.batches, (first, found.next_offset), aborted)

    def told_start(self, hosted: HostedPartition) -> Offset | None:
        """As in TierReads."""
        start = self._told.start_of(hosted)
        return None if start is None else Offset(start)

    def search(
        self,
        host: str,
        hosted: HostedPartition,
        offsets: tuple[int, int],
        timestamp_ms: int,
        examine: Examine[T],
        *,
        done: Done[T],
    ) -> None:
        """As in TierReads."""
        is_free = self._search_count < SEARCHES_MAX
        now = self._told.now_ms() / 1_000
        if not self._tickets.may_begin(host, now, is_free=is_free):
            self.counters.reads_refused += 1
            done(None, TierUnavailable("another client's look-up in the tier is in progress"))
            return
        self._search_count += 1
        epoch = hosted.member.leader_epoch

        def hit(header: BatchHeader, batch: memoryview) -> T | None:
            return examine(TimestampHit(Offset(header.base_offset), header.max_timestamp, batch))

        async def look() -> T | None:
            manifest = self._manifest(hosted, epoch)
            return await self.reader.first_at(manifest, offsets, timestamp_ms, hit)

        async def run() -> None:
            found: T | None = None
            error: PlatformError | None = None
            try:
                found = await self._in_time(look)
            except PlatformError as failed:
                error = failed
            finally:
                self._search_count -= 1
            done(found, error)

        self._spawn("tier search", run())

    def raise_start(
        self, hosted: HostedPartition, offset: Offset, done: Callable[[PlatformError | None], None]
    ) -> None:
        """As in TierReads."""
        epoch = hosted.member.leader_epoch

        async def look() -> None:
            self._manifest(hosted, epoch)
            if not await self._raise_start(hosted, offset):
                raise TierUnavailable("the tier's start has not risen yet")

        async def run() -> None:
            error: PlatformError | None = None
            try:
                await self._in_time(look)
            except PlatformError as failed:
                error = failed
            done(error)

        self._spawn("tier start", run())
