"""Tests crashes of a log at one operation of its disk, on a copy.

    what happens to the copy                          then
    power     unsynced data is lost, or part of it    start
    kill      the page cache stays                    start, writes or not, loss of power, start
    bad sync  a sync fails, and the node ends by it   start, writes or not, loss of power, start
    twice     power, an interrupted start, power      start

A start must succeed, have everything that was reported as durable, unchanged, and agree with the
log in memory if both have the same end. Then the log is used as by a master, or only confirmed, and
is closed or crashes; the next start must give the same state, and all frames, indexes and snapshots
must be consistent.

Source: docs/adr/0055; the order of operations that recovery.py and pending_change.py rely on.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from random import Random
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import Position, TopicPartition
from penstock.inspection.findings import Severity
from penstock.inspection.verify import LogCheck
from penstock.storage.commit_log.catching_up import note_path
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import LogConfig
from penstock.storage.recover.scan import SegmentScan, find_good_frames
from simulator.kernel.disk import SimDisk
from simulator.trials.still_log import NEW_PARTITION, Facts, StillLog, covering, facts_of

CUT_AFTER_MAX = 40
"""Operations of a start before it is cut off: about as many as it has."""
CHECKED_SHARE = 0.2
"""How often all of a log is read in the end: that costs more than the rest together."""
READS = 4
"""Partitions that are read from, each in two places."""


class Loss(StrEnum):
    """How a node stops."""

    POWER = "a loss of power"
    KILL = "a kill"
    BAD_SYNC = "a failed sync"
    TWICE = "a start that was cut off"


class Known(NamedTuple):
    """What is known of a log at the moment at which its node stops."""

    name: str
    directory: str
    config: LogConfig
    live: SimDisk
    durable: int
    """Everything below it was reported as durable and is not being cut."""
    confirmed: int | None
    """The confirm position by masters; None if unknown."""
    is_same_log: bool
    """Whether bytes at a position are the same on the disk and in the copy, for certain."""
    log: SetLog | None
    """The log in memory if it is idle; else None."""
    has_retention: bool
    has_ended: bool
    """Whether its process has ended in good order, with the log as it is in memory."""


class Cut(BaseException):
    """A start ends between two operations; nothing may catch it."""


class LogTrial:
    """One trial. Iterate `findings` once."""

    def __init__(self, known: Known, disk: SimDisk, draw: Random) -> None:
        """`disk`: the copy, which nothing has happened to yet."""
        self._known = known
        self._disk = disk
        self._random = draw
        self._loss = draw.choice((Loss.POWER, Loss.POWER, Loss.KILL, Loss.BAD_SYNC, Loss.TWICE))

    def findings(self) -> Iterator[str]:
        """Try it, and name what is wrong."""
        where = f"{self._known.name}, after {self._loss}"
        try:
            for text in self._story():
                yield f"{where}: {text}"
        except (PlatformError, OSError) as error:
            yield f"{where}: can not start: {error}"

    def _story(self) -> Iterator[str]:
        yield from self._claims()
        lose(self._loss, self._disk, self._random, self._start)
        first = self._start()
        yield from self._compare(first)
        if self._loss in {Loss.KILL, Loss.BAD_SYNC}:
            if self._random.random() < 0.5:
                first.lead()  # what the start takes for gone must not come back over it
            self._disk.power_loss()
            again = self._start()
            yield from _same(first.facts(), again.facts(), "and a loss of power")
            first = again
        yield from self._tail(first)
        yield from self._reads(first)
        yield from self._use(first)
        if self._random.random() < CHECKED_SHARE:
            yield from self._whole()

    def _start(self) -> StillLog:
        return StillLog(self._disk, self._known.directory, self._known.config)

    def _claims(self) -> Iterator[str]:
        """Name a frame that says of more bytes than were that they were flushed before it."""
        log, directory = self._known.log, self._known.directory
        if log is None or note_path(directory) in self._disk.names:
            return
        flushed = log.flushed_position
        segment = next((one for one in log.parts.store.segments if one.end > flushed), None)
        if segment is None or segment.path not in self._disk.names:
            return
        file = self._disk.open(segment.path)
        for header, _ in SegmentScan(file, segment.base, max(flushed, segment.base), segment.end):
            if header.position < log.written_position and header.flushed_before > flushed:
                claimed = header.flushed_before
                yield f"the frame at {header.position} claims {claimed}, not {flushed}"
                return

    # --- the first start -----------------------------------------------------------------------

    def _compare(self, found: StillLog) -> Iterator[str]:
        known, end = self._known, found.log.end_position
        if end < known.durable:
            yield f"ends at {end}, and {known.durable} was durable"
        if known.confirmed is not None and found.confirmed > known.confirmed:
            yield f"calls {found.confirmed} confirmed, and masters {known.confirmed}"
        if known.is_same_log:
            yield from self._same_bytes(found)
        if known.log is not None and known.log.end_position == end:
            yield from self._like_memory(found, known.log)

    def _same_bytes(self, found: StillLog) -> Iterator[str]:
        """Name a segment that differs below the end from what the node has written."""
        for base in found.segment_bases:
            path = f"{self._known.directory}/log/{base:020}.log"
            live, copy = self._known.live.names.get(path), self._disk.names.get(path)
            if live is None or copy is None:
                continue
            size = min(found.log.end_position - base, len(live.data), len(copy.data))
            if size > 0 and live.data[:size] != copy.data[:size]:
                yield f"the segment at {base} was changed below the end"

    def _like_memory(self, found: StillLog, log: SetLog) -> Iterator[str]:
        copy, live = found.facts(), facts_of(log)
        start = max(log.start_position, found.log.start_position)
        epochs, known = (covering(each.epochs, start) for each in (copy, live))
        if epochs != known:
            yield f"has the masterships {epochs}, and {known} in memory, from {start} on"
        yield from self._partitions_like(copy, live, log.start_position)
        if self._known.has_ended and found.log.recovery.was_clean:
            for key in copy.partitions.keys() - live.partitions.keys():
                yield f"has {key}, which was dropped"
        for producer, state in live.producers.items():
            other_state = copy.producers.get(producer, state)
            if other_state != state:
                yield f"has producer {producer} as {other_state}, and {state} in memory"

    def _partitions_like(self, copy: Facts, live: Facts, start: int) -> Iterator[str]:
        for key, facts in live.partitions.items():
            other = copy.partitions.get(key)
            if other is None:
                if facts[2] > start:
                    yield f"lacks {key}"
            elif other[1:4] != facts[1:4]:
                yield f"has {key} as {other}, and {facts} in memory"
            elif not self._is_start_known(other[0], facts[0]):
                yield f"{key} begins at {other[0]}, and at {facts[0]} in memory"

    def _is_start_known(self, copy: int, live: int) -> bool:
        """Where a log start is raised without a frame, the next snapshot has it."""
        return copy == live or (copy < live and self._known.has_retention)

    # --- what it is then -----------------------------------------------------------------------

    def _tail(self, found: StillLog) -> Iterator[str]:
        """Nothing may lie behind the end: it would come to life when the log grows up to it.

        A start that has nothing to replay leaves the file as it is, and a recycled one has older
        bytes there. They may stay as long as no frame among them names the place that it lies at.
        """
        end, directory = found.log.end_position, self._known.directory
        active = found.segment_bases[-1]
        path = f"{directory}/log/{active:020}.log"
        inode, report = self._disk.names[path], found.log.recovery
        if report.was_clean and not report.replayed_frames:
            behind = find_good_frames(
                self._disk.open(path), active, end, Position(active + len(inode.data))
            )
            yield from (f"a frame is left behind the end, {end}: {one}" for one in behind)
            return
        for content in (inode.data, inode.durable):
            if content.count(0, end - active) != max(0, len(content) - (end - active)):
                yield f"bytes are left behind the end, {end}"
                return

    def _reads(self, found: StillLog) -> Iterator[str]:
        partitions = found.facts().partitions
        keys = [key for key, (start, end, *_) in partitions.items() if start < end]
        for key in self._random.sample(keys, min(READS, len(keys))):
            start, end, *_ = partitions[key]
            for offset in (start, self._random.randrange(start, end)):
                yield from wrong_read(found, key, offset)

    def _use(self, found: StillLog) -> Iterator[str]:
        """Use the log, end the process, and start again."""
        has_written, durable = self._random.random() < 0.5, found.log.end_position
        if has_written:
            durable = Position(found.lead())
            if found.has_number_twice():
                yield "two partitions share a number"
        if self._random.random() < 0.5:
            found.confirm()
        before = found.facts()
        is_closed = self._random.random() < 0.5
        if is_closed:
            found.close()
        self._disk.power_loss()
        again = self._start()
        if durable < before.end or (has_written and NEW_PARTITION not in before.partitions):
            yield f"is durable up to {durable} of {before.end}"
        yield from _same(before, again.facts(), "and another start")

    def _whole(self) -> Iterator[str]:
        for finding in LogCheck(self._disk, self._known.directory).findings():
            if finding.severity is not Severity.NOTE:
                yield f"{finding.path} at {finding.position}: {finding.message}"


def lose(loss: Loss, disk: SimDisk, random: Random, start: Callable[[], object]) -> None:
    """End the process that wrote to `disk` in that way; `start` begins one that is cut off, too."""
    match loss:
        case Loss.POWER:
            disk.power_loss()
        case Loss.BAD_SYNC:
            for inode in disk.names.values():
                if inode.pending:
                    inode.fail_sync(random)
        case Loss.TWICE:
            disk.power_loss()
            cut_off(disk, random, start)
            disk.power_loss()
        case Loss.KILL:
            pass


def cut_off(
    disk: SimDisk, draw: Random, work: Callable[[], object], *, within: int = CUT_AFTER_MAX
) -> None:
    """Let work end, if it is still there then, after fewer than so many operations of its disk."""
    left = draw.randrange(within)

    def count(operation: str, path: str) -> None:
        nonlocal left
        del operation, path
        left -= 1
        if left < 0:
            raise Cut

    disk.on_operation = count
    try:
        work()
    except Cut:
        pass
    finally:
        disk.on_operation = None


def _same(before: Facts, after: Facts, when: str) -> Iterator[str]:
    """Name in what a start differs from the log that ended."""
    if after.end < before.end:
        yield f"{when}: ends at {after.end}, and {before.end} was durable"
    else:
        yield from (f"{when}: {text}" for text in differences(before, after))


def differences(before: Facts, after: Facts) -> Iterator[str]:
    """Name what was known and is not any more, or differs."""
    for name, one, other in zip(Facts._fields, before, after, strict=True):
        if one != other:
            yield f"{name} were {_part(one, other)}, and are {_part(other, one)}"


def _part(one: object, other: object) -> object:
    """Return what one has and the other has not, where they are tables."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: value for key, value in one.items() if other.get(key) != value}
    return one


def wrong_read(found: StillLog, key: TopicPartition, offset: int) -> Iterator[str]:
    """Name what is wrong with a read of an offset that is there."""
    try:
        chunk = found.read(key, offset)
    except PlatformError as error:
        yield f"offset {offset} of {key} can not be read: {error}"
        return
    if not chunk.size:
        yield f"there is nothing at offset {offset} of {key}"
    elif chunk.first_offset > offset and not _may_be_gone(found, key, offset, chunk.first_offset):
        yield f"offset {chunk.first_offset} is read for {offset} of {key}"


def _may_be_gone(found: StillLog, key: TopicPartition, offset: int, following: int) -> bool:
    """Whether all offsets before the batch that follows lie in ranges that were cleaned."""
    extents = found.log.splitting.extents(key)
    ends = [one.end_offset for one in extents if one.is_rewritten]
    return bool(ends) and extents[0].first_offset <= offset and following <= ends[-1]
