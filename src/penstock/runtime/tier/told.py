"""What a slave knows of partitions in the tier: told by its master, some runs at a time.

    read at an offset ─► a window with it, told lately ─► used
                     └─► the master is asked ─► known, and used until its lease ends
                                            └─► not answered: an older window is used till then

A window is of one mastership. What a master told stays in the store for longer than the lease, so
that a slave whose master has died goes on. Where a partition begins is asked anew every few
seconds: what was deleted is not given for longer than that.

Source: docs/adr/0162; KIP-392 and KIP-405, where followers read the topic of all segments' states.
"""

from collections import OrderedDict
from typing import NamedTuple

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.base.ports import Clock
from penstock.broker.errors import TierUnavailable
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.calls.asking import Caller, CallError, CallNotServed
from penstock.coordinator.calls.tier import RUNS_MAX, TierRunsRequest, TierRunsResponse
from penstock.replication.errors import NotMaster
from penstock.tier.metadata.manifest import Manifest, Run, Snapshot
from penstock.tier.metadata.run_bytes import are_in_sequence, decode_run

FRESH_MS = 3_000
"""For how long a window is used before the master is asked again."""
ASK_MS = 1_000
"""How long an answer is waited for."""
WINDOWS_MAX = 4
"""Of one partition: as many consumers at places far from each other get on without asking."""
PARTITIONS_MAX = 64
"""Of which windows are kept: 110 KB each, so 28 MB."""


class Known(NamedTuple):
    """What is known of a partition in the tier around an offset."""

    start_offset: int
    """Of the partition, inclusive."""
    manifest: Manifest


class _Window:
    """Some runs in a row."""

    def __init__(self, manifest: Manifest, asked_ms: int, lease_ms: int) -> None:
        self.manifest = manifest
        self.checked_ms = asked_ms
        """When the master was last asked for it, with or without an answer."""
        self.until_ms = asked_ms + lease_ms


class _Partition:
    """What was told of one partition in one mastership."""

    def __init__(self, leader_epoch: LeaderEpoch) -> None:
        self.leader_epoch = leader_epoch
        self.start_offset = -1
        self.windows: list[_Window] = []
        """Those that were used last stand at the end."""

    def window_at(self, offset: int, now_ms: int) -> _Window | None:
        """Return the window with an offset, if its lease has not ended."""
        self.windows = [one for one in self.windows if now_ms < one.until_ms]
        found = next((one for one in self.windows if one.manifest.run_at(offset)), None)
        if found is not None:
            self.windows.remove(found)
            self.windows.append(found)
        return found

    def put(self, window: _Window) -> None:
        """Keep a window, in the place of those of which it tells the beginning."""
        at = window.manifest.start_offset
        self.windows = [one for one in self.windows if not one.manifest.run_at(at)]
        self.windows = [*self.windows[1 - WINDOWS_MAX :], window]


class ToldRuns:
    """What the masters of this node's slaves have told. Used on the loop."""

    def __init__(self, caller: Caller, clock: Clock, cluster_id: bytes) -> None:
        self._caller = caller
        self._clock = clock
        self._cluster_id = cluster_id
        self._partitions: OrderedDict[TopicPartition, _Partition] = OrderedDict()

    def start_of(self, hosted: HostedPartition) -> int | None:
        """Return where the partition begins, as its present master has told; None: not known."""
        told = self._partitions.get(hosted.log.topic_partition)
        if told is None or told.leader_epoch != hosted.member.leader_epoch:
            return None
        return told.start_offset if told.start_offset >= 0 else None

    def now_ms(self) -> int:
        """Return the time by which all of this goes."""
        return self._clock.monotonic_ms()

    def forget(self, key: TopicPartition) -> None:
        """Ask anew about a partition: an object that was told of is not there."""
        self._partitions.pop(key, None)

    async def of(self, hosted: HostedPartition, leader_epoch: LeaderEpoch, offset: int) -> Known:
        """Return what the tier has at an offset and behind it.

        Raises TierUnavailable: the master does not tell it now; NotMaster: it never will.
        """
        key = hosted.log.topic_partition
        told = self._told(key, leader_epoch)
        now_ms = self.now_ms()
        window = told.window_at(offset, now_ms)
        if window is None or now_ms - window.checked_ms >= FRESH_MS:
            window = await self._asked(hosted, told, offset, window)
        return Known(told.start_offset, window.manifest)

    def _told(self, key: TopicPartition, leader_epoch: LeaderEpoch) -> _Partition:
        told = self._partitions.get(key)
        if told is None or told.leader_epoch != leader_epoch:
            told = self._partitions[key] = _Partition(leader_epoch)
        self._partitions.move_to_end(key)
        if len(self._partitions) > PARTITIONS_MAX:
            self._partitions.popitem(last=False)
        return told

    async def _asked(
        self, hosted: HostedPartition, told: _Partition, offset: int, older: _Window | None
    ) -> _Window:
        """Ask the master; without an answer the older window counts, as long as its lease lasts."""
        asked_ms = self.now_ms()
        try:
            answer = await self._ask(hosted, told.leader_epoch, offset)
        except TierUnavailable:
            if older is None:
                raise
            older.checked_ms = asked_ms
            return older
        runs = self._runs(hosted.log.topic_partition, answer)
        told.start_offset = max(told.start_offset, answer.start_offset)
        bounds = (runs[0].first_offset, runs[-1].end_offset) if runs else (offset, offset)
        window = _Window(Manifest(Snapshot(0, *bounds, runs)), asked_ms, answer.lease_ms)
        if runs:
            told.put(window)
        return window

    async def _ask(
        self, hosted: HostedPartition, leader_epoch: LeaderEpoch, offset: int
    ) -> TierRunsResponse:
        key, member = hosted.log.topic_partition, hosted.member
        question = TierRunsRequest(
            replica_set_id=int(member.replica_set_id),
            leader_epoch=leader_epoch,
            topic_id=key.topic_id,
            partition=key.partition,
            offset=offset,
        )
        try:
            answer = await self._caller.ask(member.master_id, question, timeout_ms=ASK_MS)
        except CallNotServed as error:
            raise NotMaster("the master does not tell slaves what the store has") from error
        except CallError as error:
            raise TierUnavailable(
                f"the master does not tell what the store has: {error}"
            ) from error
        if not answer.is_known:
            raise TierUnavailable("the master does not know yet what the store has")
        return answer

    def _runs(self, key: TopicPartition, answer: TierRunsResponse) -> tuple[Run, ...]:
        """Return the runs of an answer. Raises TierUnavailable: they can not be so."""
        try:
            runs = tuple(decode_run(self._cluster_id, one) for one in answer.runs)
        except ValueError as error:
            raise TierUnavailable(f"the master tells of a run that is none: {error}") from error
        if runs and runs[0].entry.topic_partition != key:
            raise TierUnavailable("the master tells of another partition")
        if len(runs) > RUNS_MAX or answer.start_offset < 0 or not are_in_sequence(runs):
            raise TierUnavailable("the master tells of runs that do not follow each other")
        return runs
