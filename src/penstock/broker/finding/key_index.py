"""The index of one log of this node, by its own member of the set, whatever its role.

    confirmed bytes ─► newest piece, in memory ─► full, or over 256 MiB of log ─► table on the disk
    what is missing in front of it, as in a log that was there before ─► older piece ─► table

It is derived from the log, and knows how far: a start reads the tables, and the log behind the
last one; what only the second level has is lacking. A damaged table is let go, and made anew while
the log has its bytes. A log that was cut, as by an unclean election, takes away what no longer
holds; so does the bound of the disk, from the oldest table on, and retention.

One step at a time, which `begin` begins; what takes long in it is done by a thread of the disk.

Source: ours, docs/adr/0175; RocketMQ `IndexService`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ports import Lane
from penstock.broker.fetch.watermarks import knows_the_ends
from penstock.broker.finding.files import IndexFiles, Opened
from penstock.broker.finding.gathering import BoundsOf, Naming, gather
from penstock.finding.coverage import Range, holds, kept_tables, lacking, lacking_bytes
from penstock.finding.errors import DamagedTable
from penstock.finding.piece import ENTRIES_MAX, Gathered, Piece
from penstock.finding.table import Table, encode
from penstock.frames.run import Run
from penstock.replica.replica_set import Role
from penstock.replication.errors import NotMaster
from penstock.storage.errors import NoFrameBegins, PositionOutOfRange

if TYPE_CHECKING:
    from penstock.base.ids import TopicPartition
    from penstock.replica.replica_set import ReplicaSetMember

log = logging.getLogger(__name__)

RUN_BYTES: Final = 256 << 10
SPAN_BYTES: Final = 256 << 20
"""Of a log in one piece: a start reads so much of it again at most."""
TABLES_MAX: Final = 4_096
"""Of one log, whatever their size: a search may look into each."""
RETENTION_MS: Final = 60_000
PAUSE_MS: Final = 1_000
"""After what could not be done: a disk that is full, a log with damage."""
WAITING_MAX: Final = 1_000
ROWS: Final = 500
"""Of a table's partitions that are looked at in one turn."""

Over = Callable[[], None]
IsGone = Callable[["TopicPartition", int], bool]
"""Whether a partition has nothing up to an offset any more."""


class _Waiter(NamedTuple):
    """Who waits until the index has come so far, or until a time."""

    position: int
    until_ms: int
    told: Callable[[], None]


class KeyIndex:
    """See the module. Used on the loop."""

    def __init__(
        self,
        member: ReplicaSetMember,
        naming: Naming,
        bounds_of: BoundsOf,
        is_gone: IsGone,
        bytes_max: int,
    ) -> None:
        place = member.log.place
        self.member = member
        self.files = IndexFiles(place.disk, place.directory, place.offload)
        self.tables: list[Table] = []
        """By position."""
        self.newest: Piece | None = None
        """None until the tables were read."""
        self.older: Piece | None = None
        self._older_end = 0
        self._naming, self._bounds_of, self._is_gone = naming, bounds_of, is_gone
        self._bytes_max = bytes_max
        self._clock = place.clock
        self._floor = 0
        self._is_stale = False
        self._is_at_work = False
        self._older_next = False
        self._waiters: list[_Waiter] = []
        self._pause_until_ms = 0
        self._retention_due_ms = place.clock.monotonic_ms() + RETENTION_MS
        self.entries = self.unreadable = self.damaged = 0
        """Added since the start; batches that could not be read; tables that were let go."""
        member.on_reopened.append(self._on_reopened)

    # What others look at

    @property
    def behind_bytes(self) -> int:
        """Bytes of the log that are confirmed and not in the index yet."""
        return self.lacks(self.member.confirm_position)

    def lacks(self, position: int) -> int:
        """Return how many bytes in front of a position it lacks, with what is not read any more."""
        if self.newest is None or self._is_stale:
            return max(position - self.member.log.start_position, 0)
        own = self.member.log
        covered = [(one.first, one.end) for one in self.tables]
        covered += [(one.first, one.end) for one in self.pieces()]
        gone = lacking_bytes(covered, max(self._floor, own.reach.kept_from), own.start_position)
        gap = self._gap() or Range(0, 0)
        older = 0 if self.older is None else max(self._older_end - self.older.end, 0)
        return gone + gap.end - gap.first + older + max(position - self.newest.end, 0)

    @property
    def bytes_now(self) -> int:
        """Bytes of the tables on the disk."""
        return sum(table.size for table in self.tables)

    @property
    def has_waiters(self) -> bool:
        """Whether somebody waits for a step."""
        return bool(self._waiters)

    @property
    def is_led(self) -> bool:
        """Whether this node is the master of the set, as far as it knows."""
        return self.member.role is Role.MASTER

    def check_led(self) -> None:
        """Raise NotMaster unless the member knows all that its set has confirmed."""
        member = self.member
        if not self.is_led:
            raise NotMaster(f"broker {member.master_id} is master of set {member.replica_set_id}")
        member.check_readable()
        if not knows_the_ends(member):
            raise NotMaster("what earlier masters have confirmed is not known yet")

    def pieces(self) -> list[Piece]:
        """Return the parts that are in memory."""
        return [one for one in (self.newest, self.older) if one is not None]

    def when_reached(self, position: int, until_ms: int, told: Callable[[], None]) -> None:
        """Call `told` once the index has come so far, or at a time; at once if too many wait."""
        if self._has_reached(position) or len(self._waiters) >= WAITING_MAX:
            told()
        else:
            self._waiters.append(_Waiter(position, until_ms, told))

    def let_go(self, table: Table) -> None:
        """Let go of a table that is damaged: what it covered is lacking from now on."""
        if table in self.tables:
            self.tables.remove(table)
            self.damaged += 1
            log.warning(
                "set=%d the table %s of the index of messages is damaged, and made anew",
                self.member.replica_set_id,
                table.name,
            )

    def expire(self, now_ms: int) -> None:
        """Tell those who have waited for long enough."""
        over = [one for one in self._waiters if one.until_ms <= now_ms]
        self._waiters = [one for one in self._waiters if one.until_ms > now_ms]
        for one in over:
            one.told()

    def close(self) -> None:
        """Stop: the member is hosted here no more."""
        if self._on_reopened in self.member.on_reopened:
            self.member.on_reopened.remove(self._on_reopened)
        waiters, self._waiters = self._waiters, []
        for one in waiters:
            one.told()

    # Steps

    def begin(self, over: Over) -> bool:
        """Begin a step if there is something to do; `over` is called at its end, on the loop."""
        now_ms = self._clock.monotonic_ms()
        if self._is_at_work or self.member.log.is_busy or now_ms < self._pause_until_ms:
            return False
        self._is_at_work = True

        def ended() -> None:
            self._is_at_work = False
            self._tell_reached()
            over()

        if not (is_begun := self._begin(now_ms, ended)):
            self._is_at_work = False
            self._tell_reached()
        return is_begun

    def _begin(self, now_ms: int, over: Over) -> bool:
        if self.newest is None:
            self.files.open(partial(self._opened, over))
            return True
        if self._is_stale and (gone := self._cut(self.newest)):
            self.files.remove(gone, partial(self._removed, over))
            return True
        if self._is_over_bounds():
            self._drop_oldest(over)
            return True
        self._older_next = not self._older_next
        steps = [self._step_newest, self._step_older]
        for step in steps[::-1] if self._older_next else steps:
            if step(over):
                return True
        return self._step_retention(now_ms, over)

    def _step_newest(self, over: Over) -> bool:
        piece = self.newest
        assert piece is not None, "the tables were read"
        start = self.member.log.start_position
        if self._is_full(piece) or (piece.count and piece.first < start):
            self._seal(piece, over)
            return True
        if piece.end < start:
            self.newest = piece = Piece(start)
        return piece.end < self.member.confirm_position and self._read(
            piece, self.member.confirm_position, over
        )

    def _step_older(self, over: Over) -> bool:
        piece, start = self.older, self.member.log.start_position
        if piece is not None and piece.end < start:
            piece = self.older = None  # the log has released what was to be read
        if piece is None:
            gap = self._gap()
            if gap is None:
                return False
            piece = self.older = Piece(gap.first)
            self._older_end = gap.end
        if self._is_full(piece) or piece.end >= self._older_end:
            self._seal(piece, over)
            return True
        return self._read(piece, self._older_end, over)

    def _gap(self) -> Range | None:
        assert self.newest is not None, "the tables were read"
        start = max(self._floor, self.member.log.start_position)
        covered = [(one.first, one.end) for one in self.tables]
        if self.older is not None:
            covered.append((self.older.first, self._older_end))
        return lacking(covered, start, self.newest.first)

    def _is_full(self, piece: Piece) -> bool:
        return piece.count >= ENTRIES_MAX or piece.end - piece.first >= SPAN_BYTES

    def _is_over_bounds(self) -> bool:
        return bool(self.tables) and (
            len(self.tables) > TABLES_MAX or self.bytes_now > self._bytes_max
        )

    def _opened(self, over: Over, opened: Opened | None, error: BaseException | None) -> None:
        if opened is None:
            self._pause(error)
            over()
            return
        self._floor, self.damaged = opened.floor, opened.damaged
        gone = self._keep(opened.tables)
        self.newest = self._begun()
        self.files.remove(gone, partial(self._removed, over))

    def _keep(self, tables: list[Table]) -> list[str]:
        """Keep the tables that are of this log; return the names of the others."""
        self.tables = kept_tables(tables, self.member.log.epochs, self.member.log.end_position)
        kept = set(self.tables)
        return [one.name for one in tables if one not in kept]

    def _begun(self) -> Piece:
        """Return the piece behind the last table, or one at the end of what was never read."""
        last = self.tables[-1] if self.tables else None
        start = self.member.log.start_position
        if last is not None and last.end >= start:
            return Piece(last.end, last.epoch)
        confirmed = self.member.confirm_position
        return Piece(confirmed if confirmed - start > SPAN_BYTES else start)

    def _on_reopened(self, _: ReplicaSetMember) -> None:
        self._is_stale = True

    def _cut(self, piece: Piece) -> list[str]:
        """Let go of what a log that was opened anew does not have; return names of tables."""
        self._is_stale = False
        epochs, end = self.member.log.epochs, self.member.log.end_position
        gone = self._keep(self.tables)
        known = [(piece.end, piece.epoch)]
        if self.older is not None:
            known += [(self.older.end, self.older.epoch), (self._older_end, -1)]
        if not all(holds(position, epoch, epochs, end) for position, epoch in known):
            self.newest, self.older = self._begun(), None
        return gone

    def _read(self, piece: Piece, limit: int, over: Over) -> bool:
        """Read the next run into a piece; return whether there is one."""
        member_log = self.member.log
        try:
            found = member_log.read_run(piece.end, RUN_BYTES, limit)  # type: ignore[arg-type]
        except (PositionOutOfRange, NoFrameBegins):
            self._restart(piece)
            return False
        except PlatformError as error:
            self._pause(error)
            return False
        if not isinstance(found, Run):
            found.load(partial(self._loaded, piece, over))
            return True
        if not found.data and found.next_position <= piece.end:
            if piece is self.older:
                piece.end = self._older_end  # the rest of a file, which has no frame
            return False
        self._gather(piece, found, over)
        return True

    def _loaded(
        self, piece: Piece, over: Over, run: Run | None, error: PlatformError | None
    ) -> None:
        if run is None:
            self._pause(error)
            over()
        elif not run.data and run.next_position <= piece.end:
            over()
        else:
            self._gather(piece, run, over)

    def _gather(self, piece: Piece, run: Run, over: Over) -> None:
        work = partial(gather, run.data, piece, self._naming, self._bounds_of)
        done = partial(self._gathered, piece, run, over)
        self.files.offload.submit(work, done, Lane.READ)

    def _gathered(
        self,
        piece: Piece,
        run: Run,
        over: Over,
        gathered: Gathered | None,
        error: BaseException | None,
    ) -> None:
        if gathered is None:
            raise error or AssertionError("a worker has a result or an error")
        if self._is_current(piece):
            piece.add(gathered, run.next_position, run.leader_epoch)
            self.entries += gathered.count
            self.unreadable += gathered.unreadable
        over()

    def _is_current(self, piece: Piece) -> bool:
        """Whether a piece counts, and the log is the one that it was read from."""
        return not self._is_stale and (piece is self.newest or piece is self.older)

    def _restart(self, piece: Piece) -> None:
        """Begin anew at the log's start: the log has no frame where the piece goes on."""
        if piece is self.older:
            self.older = None
            self._floor = self._older_end
        else:
            self.newest = Piece(self.member.log.start_position)

    def _seal(self, piece: Piece, over: Over) -> None:
        self.files.write(partial(encode, piece), partial(self._sealed, piece, over))

    def _sealed(
        self, piece: Piece, over: Over, table: Table | None, error: BaseException | None
    ) -> None:
        if table is None:
            self._pause(error)
        elif not self._is_current(piece):
            self.files.remove([table.name], partial(self._removed, over))
            return
        else:
            self.tables = sorted([*self.tables, table], key=lambda one: one.first)
            if piece is self.newest:
                self.newest = Piece(piece.end, piece.epoch)
            else:
                self.older = None
        over()

    def _step_retention(self, now_ms: int, over: Over) -> bool:
        if now_ms < self._retention_due_ms or not self.tables:
            return False
        self._retention_due_ms = now_ms + RETENTION_MS
        table = self.tables[0]
        self.files.partitions(table, partial(self._judge, table, over))
        return True

    def _judge(
        self,
        table: Table,
        over: Over,
        rows: list[tuple[TopicPartition, int]] | None,
        error: BaseException | None,
    ) -> None:
        if rows is None:
            if isinstance(error, DamagedTable | FileNotFoundError):
                self.let_go(table)
            else:
                self._pause(error)  # it may be read another time
            over()
        else:
            self._judge_rows(table, over, rows, 0)

    def _judge_rows(
        self, table: Table, over: Over, rows: list[tuple[TopicPartition, int]], at: int
    ) -> None:
        """Look at some rows in this turn, and at the others in later ones."""
        some = rows[at : at + ROWS]
        if not all(self._is_gone(partition, last) for partition, last in some):
            over()
        elif at + ROWS < len(rows):
            following = partial(self._judge_rows, table, over, rows, at + ROWS)
            self.member.log.place.scheduler.call_soon(following)
        elif self.tables and self.tables[0] is table:
            self._retention_due_ms = 0
            self._drop_oldest(over)
        else:
            over()

    def _drop_oldest(self, over: Over) -> None:
        table = self.tables.pop(0)
        self._floor = max(self._floor, table.end)
        self.files.drop(table.name, self._floor, partial(self._removed, over))

    def _removed(self, over: Over, _: None, error: BaseException | None) -> None:
        if error is not None:
            self._pause(error)
        over()

    def _pause(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, PlatformError | OSError):
            raise error
        log.info("set=%d index of messages: %s", self.member.replica_set_id, error)
        self._pause_until_ms = self._clock.monotonic_ms() + PAUSE_MS

    def _has_reached(self, position: int) -> bool:
        return not (self.newest is None or self._is_stale) and self.newest.end >= position

    def _tell_reached(self) -> None:
        reached = [one for one in self._waiters if self._has_reached(one.position)]
        self._waiters = [one for one in self._waiters if not self._has_reached(one.position)]
        for one in reached:
            one.told()
