"""Compares retention with an independent model, on a copy of a disk.

    copy ─► loss of power ─► start ─► some settings, often exactly at a limit ─► passes ─► compare
                                └──► a member without a role ─► all is old ─► nothing is appended

The model reads the frames of all segments and judges a partition's segments from the oldest on: one
is out of retention if all its records are too old, or if the bytes to be kept all lie behind it.
The active segment's records are out of retention if everything before them is, and all are too old.
Log starts must be exactly there; exactly those segments must be deleted that have no record behind
a log start, and none if the snapshot with the new log starts can not be written. A partition's size
must be that of its records in segments that no pass has subtracted.

Source: Kafka `UnifiedLog.deleteOldSegments`; docs/adr/0055. Not here: pins by groups, which move;
logs with extent files, whose pieces are not the segments'.
"""

import errno
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from harness.ids import as_brokers
from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, LeaderEpoch, Position, ReplicaSetId, TopicPartition
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.confirm import Membership
from penstock.storage.commit_log.segments import list_segments
from penstock.storage.config import Retention
from penstock.storage.index.rebuild import scan_columns
from simulator.kernel.disk import SimDisk
from simulator.trials.logs import Known, wrong_read
from simulator.trials.still_log import StillLog

KEEP_MS = 5_000
PASSES = 3
"""What lies in the active segment goes when a second pass finds it as it was, and is deleted with
the snapshot that follows."""
UNLED_SHARE = 0.3
MUCH_LATER_MS = 1 << 50
FAILED_SHARE = 0.2
"""How often snapshots can not be written meanwhile."""


class Part(NamedTuple):
    """What a partition has in one segment."""

    segment: int
    first: int
    end: int
    """Offsets, the end exclusive."""
    size: int
    newest_ms: int
    is_active: bool


class RetentionTrial:
    """One trial. Iterate `findings` once."""

    def __init__(self, known: Known, disk: SimDisk, draw: Random) -> None:
        """`disk`: the copy, which nothing has happened to yet."""
        self._known = known
        self._disk = disk
        self._random = draw

    def findings(self) -> Iterator[str]:
        """Try it, and name what is wrong."""
        self._disk.power_loss()
        if self._random.random() < UNLED_SHARE:
            yield from self._unled()
            return
        try:
            still = StillLog(self._disk, self._known.directory, self._known.config)
            still.lead()
            still.confirm()
        except (PlatformError, OSError):
            return  # logs.py says so
        known = still.log.partitions
        if still.log.splitting.file_count:
            return  # the model knows of segments alone
        parts = {
            key: own for key, own in self._parts(still.log.end_position).items() if key in known
        }
        if not parts:
            return
        now_ms, setting = self._setting(parts)
        where = f"{self._known.name}, with {setting}"
        for text in self._story(still, parts, now_ms, setting):
            yield f"{where}: {text}"

    def _unled(self) -> Iterator[str]:
        """Let it pass over a log that nobody leads, or nobody any more: it appends nothing."""
        try:
            still = StillLog(self._disk, self._known.directory, self._known.config)
            log = still.log
            member = ReplicaSetMember(ReplicaSetId(0), BrokerId(1), log, still.later)
            has_led = self._random.random() < 0.5
            if has_led:
                both = as_brokers(1, 2)
                epoch = LeaderEpoch(log.leader_epoch + 1)
                member.become_master(epoch, Membership(replicas=both, committed=both))
                still.run()
                member.resign()
        except (PlatformError, OSError):
            return  # logs.py says so
        log.note_confirmed(log.end_position)
        end = log.end_position
        for _ in range(PASSES):
            still.retain(MUCH_LATER_MS, Retention(-1, KEEP_MS))
        if log.end_position != end:
            grown = log.end_position - end
            yield f"{self._known.name}: retention appends {grown} bytes unled, has led: {has_led}"

    def _story(
        self,
        still: StillLog,
        parts: dict[TopicPartition, list[Part]],
        now_ms: int,
        setting: Retention,
    ) -> Iterator[str]:
        starts = {key: partition[0] for key, partition in still.facts().partitions.items()}
        there = set(self._segments())
        yield from _miscounted(still, parts)
        fails = self._random.random() < FAILED_SHARE
        if fails:
            self._disk.fail("replace", "/snapshot/", errno.EIO, times=None)
        for _ in range(PASSES):
            still.retain(now_ms, setting)
        self._disk.heal()
        wanted = {key: kept_from(own, starts[key], now_ms, setting) for key, own in parts.items()}
        for key, start in wanted.items():
            found = still.log.partitions[key].log_start_offset
            if found != start:
                yield f"{key} begins at {found}, and has to at {start}; it was {starts[key]}"
        needed = {one.segment for key, own in parts.items() for one in own if one.end > wanted[key]}
        gone = there - set(self._segments())
        if fails and gone:
            yield f"segments {sorted(gone)} are gone without a snapshot"
        if gone & needed:
            yield f"segments {sorted(gone & needed)} are gone, and have what is to be kept"
        dead = {one.segment for own in parts.values() for one in own if not one.is_active}
        if not fails and (left := (dead - needed) & set(self._segments())):
            yield f"segments {sorted(left)} are kept for nothing"
        for key in [key for key, start in wanted.items() if start < parts[key][-1].end]:
            yield from wrong_read(still, key, wanted[key])

    def _segments(self) -> list[int]:
        return [segment.base for segment in list_segments(self._disk, self._known.directory)]

    def _parts(self, end: int) -> dict[TopicPartition, list[Part]]:
        """Return what each partition has in each segment, oldest first, by the frames alone."""
        found: dict[TopicPartition, list[Part]] = {}
        for segment in list_segments(self._disk, self._known.directory):
            if segment.base >= end:
                break
            file = self._disk.open(segment.path)
            sealed, _ = scan_columns(
                file, segment.base, segment.base, Position(min(segment.end, end))
            )
            for key, (columns, end_offset, *_) in sealed.items():
                part = Part(
                    segment=segment.base,
                    first=columns.bases[0],
                    end=end_offset,
                    size=sum(columns.sizes),
                    newest_ms=max(columns.timestamps),
                    is_active=segment.end >= end,
                )
                found.setdefault(key, []).append(part)
        return found

    def _setting(self, parts: dict[TopicPartition, list[Part]]) -> tuple[int, Retention]:
        """Return when it is, and what to keep: at the limit of some part, or one beside it."""
        draw = self._random
        own = draw.choice(list(parts.values()))
        at = draw.randrange(len(own))
        now_ms = own[at].newest_ms + KEEP_MS + draw.randint(0, 1)
        if draw.random() < 0.5:
            return now_ms, Retention(-1, KEEP_MS)
        kept = sum(one.size for one in own[at:])
        return now_ms, Retention(max(0, kept + draw.randint(-1, 1)), -1)


def _miscounted(still: StillLog, parts: dict[TopicPartition, list[Part]]) -> Iterator[str]:
    """Name partitions that count other bytes than those of the segments that they still count."""
    for key, own in parts.items():
        found = still.log.partitions[key]
        size = sum(one.size for one in own if one.segment >= found.sized_from)
        if found.size_bytes != size:
            counted = f"{found.size_bytes} bytes from {found.sized_from} on"
            yield f"{key} counts {counted}, and has {size} there"


def kept_from(parts: list[Part], start: int, now_ms: int, setting: Retention) -> int:
    """Return the log start offset of a partition that began at `start`, after retention."""
    alive = [part for part in parts if part.end > start]
    while alive and not alive[0].is_active:
        behind = sum(one.size for one in alive[1:])
        if not (_is_old(alive[0], now_ms, setting) or 0 <= setting.bytes <= behind):
            break
        start = alive.pop(0).end
    if len(alive) == 1 and alive[0].is_active and _is_old(alive[0], now_ms, setting):
        start = alive[0].end
    return start


def _is_old(part: Part, now_ms: int, setting: Retention) -> bool:
    return setting.ms >= 0 and 0 <= part.newest_ms < now_ms - setting.ms
