"""Tests crashes of a controller's metadata log at one operation of its disk, on a copy.

    the same crashes as in logs.py ─► start ─► write, rewrite or install a snapshot,
        perhaps interrupted ─► loss of power ─► start

Terms, votes and entries that were durable before must be unchanged, except entries that a write
under way was to replace. Terms never fall from one frame of the log to the next, and a vote never
changes within a term. An interrupted operation has taken effect completely or not at all.

Source: Raft paper, figure 2 (persistent state); docs/formats/raft-log.md, "Reading after a crash";
docs/adr/0055.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId
from penstock.node.layout import METADATA_DIRECTORY
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import DirectoryId, RaftIndex, Term
from penstock.raft.ready import NO_PEER, HardState, Snapshot
from penstock.runtime.raft.log_file import LogFile, read_file, read_frame, read_head
from penstock.runtime.raft.snapshot_file import read_snapshot
from penstock.runtime.raft.storage import FirstStart, RaftStorage
from simulator.kernel.disk import SimDisk
from simulator.kernel.inode import Inode
from simulator.trials.logs import Loss, cut_off, lose

LOG = f"{METADATA_DIRECTORY}/raft.log"
SNAPSHOT = f"{METADATA_DIRECTORY}/raft.snapshot"
STEPS = ("write", "compact", "install", "install", "mark")
"""What the copy is used for; an install has the most places to be cut off at."""
CUT_SHARE = 0.75
CUT_WITHIN = 18
"""Operations: about as many as an install has."""


class View(NamedTuple):
    """The state of a metadata log on a disk."""

    directory_id: str
    state: HardState
    snapshot: Snapshot
    entries: dict[RaftIndex, Entry]
    """By index, those behind the snapshot."""

    @property
    def last(self) -> RaftIndex:
        """The last index."""
        return max(self.entries, default=self.snapshot.index)


class RaftTrial:
    """One trial. Iterate `findings` once."""

    def __init__(self, name: str, own_id: PeerId, disk: SimDisk, draw: Random) -> None:
        """`disk`: the copy, which nothing has happened to yet."""
        self._name = name
        self._own_id = own_id
        self._disk = disk
        self._random = draw
        self._loss = draw.choice((Loss.POWER, Loss.POWER, Loss.KILL, Loss.BAD_SYNC, Loss.TWICE))
        self.configurations: list[tuple[RaftIndex, Term, Configuration]] = []
        """(index, term, voters) of the snapshots that were seen."""

    def findings(self) -> Iterator[str]:
        """Try it, and name what is wrong."""
        where = f"{self._name}, after {self._loss}"
        try:
            for text in self._story():
                yield f"{where}: {text}"
        except (PlatformError, OSError) as error:
            yield f"{where}: can not start: {error}"

    def _story(self) -> Iterator[str]:
        files = self._disk.files
        durable = _view({path: bytes(one.durable) for path, one in files.durable.items()})
        cached = _view({path: bytes(file.data) for path, file in files.files.items()})
        if durable is None:
            return
        yield from _wrong_history(files.durable[LOG])
        lose(self._loss, self._disk, self._random, self._start)
        found = self._start()
        yield from self._compare(durable, cached or durable, found)
        if self._loss in {Loss.KILL, Loss.BAD_SYNC}:
            self._disk.power_loss()
            again = self._start()
            yield from _same(found, again, "and a loss of power")
        yield from self._use()

    def _open(self) -> RaftStorage:
        return open_raft(self._disk, self._own_id)

    def _start(self) -> View:
        storage = self._open()
        storage.close()
        return view_of(storage)

    # --- the first start -----------------------------------------------------------------------

    def _compare(self, durable: View, cached: View, found: View) -> Iterator[str]:
        if found.directory_id != durable.directory_id:
            yield f"is {found.directory_id}, and was {durable.directory_id}"
        yield from _fallen(durable.state, found.state)
        if found.snapshot.index < durable.snapshot.index:
            yield f"has a snapshot at {found.snapshot.index}, after {durable.snapshot.index}"
        overruled = min(
            (one for one in durable.entries if _differ(durable, cached, one)),
            default=RaftIndex(durable.last + 1),
        )
        for index, entry in durable.entries.items():
            if found.snapshot.index < index < overruled and found.entries.get(index) != entry:
                yield f"has lost entry {index} of term {entry.term}"
        for index, entry in found.entries.items():
            if entry not in (durable.entries.get(index), cached.entries.get(index)):
                yield f"has another entry {index}, of term {entry.term}"
        self.configurations = [
            (one.snapshot.index, one.snapshot.term, one.snapshot.configuration)
            for one in (durable, cached, found)
        ]

    # --- what it is then -----------------------------------------------------------------------

    def _use(self) -> Iterator[str]:
        """Do one operation on the log, perhaps interrupted; lose power, and start again."""
        storage = self._open()
        before, step = view_of(storage), self._random.choice(STEPS)
        after = self._expected(before, step)
        if after is None:
            return
        is_cut = self._random.random() < CUT_SHARE
        if is_cut:
            cut_off(
                self._disk, self._random, lambda: _take(storage, after, step), within=CUT_WITHIN
            )
        else:
            _take(storage, after, step)
        self._disk.power_loss()
        found = self._start()
        if step == "mark":
            if found.state.commit_index >= before.last > before.state.commit_index:
                yield "calls agreed what a mark of another term names"
            return
        possible = [after]
        if is_cut:
            # The snapshot is durable before the vote: it has raised the term, and nobody has voted.
            between = HardState(term=after.state.term)
            possible += [before, after._replace(state=between)]
        if not any(is_alike(found, one) for one in possible):
            yield f"{step}{', cut off,' if is_cut else ''} of {_short(before)} left {_short(found)}"

    def _expected(self, before: View, step: str) -> View | None:
        """Return what the log is to be; None where there is nothing that can be done so."""
        term = Term(max(before.state.term, before.snapshot.term) + 1)
        state = HardState(term=term, voted_for=self._own_id)
        if step == "install":
            index = RaftIndex(self._random.randint(before.snapshot.index + 1, before.last + 2))
            snapshot = _snapshot(before, index, term)
            return before._replace(state=state, snapshot=snapshot, entries={})
        if step == "write":
            first = RaftIndex(self._random.randint(before.snapshot.index + 1, before.last + 1))
            kept = {index: entry for index, entry in before.entries.items() if index < first}
            added = Entry(index=first, term=term, kind=EntryKind.NOOP)
            return before._replace(state=state, entries={**kept, first: added})
        if not before.entries:
            return None
        if step == "mark":
            return before
        index = self._random.choice(list(before.entries))
        behind = {at: entry for at, entry in before.entries.items() if at > index}
        snapshot = _snapshot(before, index, before.entries[index].term)
        return before._replace(snapshot=snapshot, entries=behind)


def open_raft(disk: SimDisk, own_id: PeerId) -> RaftStorage:
    """Open the metadata log of a copied disk. Raises PlatformError, OSError."""
    first = FirstStart(
        members=Configuration(), new_directory_id=lambda: DirectoryId("tried on a copy")
    )
    return RaftStorage(disk, METADATA_DIRECTORY, own_id=own_id, first=first)


def view_of(storage: RaftStorage) -> View:
    """Return what a start has found."""
    state, snapshot, entries = storage.found
    return View(storage.directory_id, state, snapshot, {entry.index: entry for entry in entries})


def _view(files: dict[str, bytes]) -> View | None:
    """Return the log of these files; None where there is none, or one that is being begun."""
    if LOG not in files or SNAPSHOT not in files:
        return None
    try:
        log, snapshot = read_file(files[LOG]), read_snapshot(files[SNAPSHOT])
    except PlatformError:
        return None
    return View(log.head.directory_id, log.state, snapshot, _behind(log, snapshot))


def _behind(log: LogFile, snapshot: Snapshot) -> dict[RaftIndex, Entry]:
    """Return the entries behind a snapshot, none where they do not lead up to it."""
    known = {entry.index: entry for entry in log.entries}
    at = known.get(snapshot.index)
    if snapshot.index > log.head.base_index and (at is None or at.term != snapshot.term):
        return {}
    return {index: one for index, one in known.items() if index > snapshot.index}


def _wrong_history(log: Inode) -> Iterator[str]:
    """Name a term that fell, or a vote that was changed, from one write to a later one."""
    view = memoryview(bytes(log.durable))
    at, before = read_head(view).bytes_count, HardState()
    while (frame := read_frame(view, at)) is not None:
        yield from _fallen(before, frame.state)
        if frame.entries and frame.entries[-1].term > frame.state.term:
            yield f"entry {frame.entries[-1].index} is of a later term than {frame.state.term}"
        at, before = frame.end_position, frame.state


def _fallen(before: HardState, after: HardState) -> Iterator[str]:
    if after.term < before.term:
        yield f"is in term {after.term}, and was in {before.term}"
    elif after.term == before.term and before.voted_for not in {NO_PEER, after.voted_for}:
        yield f"has voted for {after.voted_for} in term {after.term}, and for {before.voted_for}"


def _differ(durable: View, cached: View, index: RaftIndex) -> bool:
    """Whether a write under way has put another entry in the place of a durable one."""
    return index > cached.snapshot.index and cached.entries.get(index) != durable.entries[index]


def _same(before: View, after: View, when: str) -> Iterator[str]:
    if not is_alike(before, after):
        yield f"{when}: was {_short(before)}, and is {_short(after)}"


def is_alike(view: View, other: View) -> bool:
    """Whether both say the same; what is agreed may be told less of, until it is told again."""
    least = max(view.snapshot.index, other.snapshot.index)
    behind, others = (
        {index: entry for index, entry in each.entries.items() if index > least}
        for each in (view, other)
    )
    votes = [(each.state.term, each.state.voted_for) for each in (view, other)]
    return behind == others and votes[0] == votes[1] and view.directory_id == other.directory_id


def _snapshot(view: View, index: RaftIndex, term: Term) -> Snapshot:
    return Snapshot(index=index, term=term, configuration=view.snapshot.configuration, data=b"...")


def _take(storage: RaftStorage, wanted: View, step: str) -> None:
    """Let the log become what is wanted."""
    entries = list(wanted.entries.values())
    if step == "install":
        storage.install(wanted.snapshot, wanted.state, [])
    elif step == "compact":
        storage.compact(wanted.snapshot)
    elif step == "mark":
        storage.mark_commit(wanted.last, Term(wanted.entries[wanted.last].term + 1))
    else:
        storage.write(wanted.state, entries[-1:])


def _short(view: View) -> str:
    state = view.state
    return (
        f"(term {state.term}, vote {state.voted_for}, snapshot of {view.snapshot.index}, "
        f"entries to {view.last})"
    )
