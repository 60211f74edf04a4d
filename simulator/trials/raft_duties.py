"""Walks of the production code around a Raft core: proposals, member changes, disk queue.

    proposals that become entries, entries of others at their place   ─► Proposals
    transfers one after the other, whose times run out                ─► MemberChanges
    Readys with entries, terms, votes or none of them, in any rhythm  ─► DiskQueue ─► the files

Each request is answered once, and with success only for its own entry; a transfer has its full
time-out. Each write has the newest term, vote and mark up to it, and the log on disk is that of its
Readys in order.

Source: docs/adr/0064; raft/raft.py (the driver's duties).
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from penstock.base.ids import PeerId
from penstock.base.ports import Lane
from penstock.controller.replicated_log import MachineIndex
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import NO_INDEX, RaftIndex, Term
from penstock.raft.ready import HardState, Ready, Snapshot
from penstock.runtime.raft.disk_queue import DiskEvents, DiskQueue
from penstock.runtime.raft.member_changes import MemberChanges
from penstock.runtime.raft.proposals import Proposals
from penstock.runtime.raft.storage import Found
from simulator.trials.stand_ins import Moment

TRANSFER_MS = 100


def wrong_proposals(draw: Random, steps: int) -> Iterator[str]:
    """Let proposals become entries, and entries of this or another term come to stand there."""
    clock = Moment()
    proposals = Proposals(clock)
    opened: dict[RaftIndex, Term] = {}
    answers: list[tuple[RaftIndex, Term, object]] = []
    term = Term(1)
    for index in map(RaftIndex, range(1, steps)):
        term = Term(term + (draw.random() < 0.2))
        if draw.random() < 0.7:
            opened[index] = term
            proposals.opened(index, term, _noting(answers, index, term))
        due = draw.choice(sorted(opened)) if opened else NO_INDEX
        if not due or draw.random() < 0.5:
            continue
        applied = Term(max(1, opened[due] + draw.choice((0, 0, -1, 1))))
        own = opened.pop(due)
        answers.clear()
        proposals.on_applied(due, applied, MachineIndex(due))
        clock.run()
        if len(answers) != 1:
            yield f"answers the proposal of entry {due} {len(answers)} times"
            return
        is_well = isinstance(answers[0][2], int)
        if is_well is not (applied == own):
            yield f"answers {answers[0]}, and entry {due} is of term {applied}"
            return


def _noting(
    answers: list[tuple[RaftIndex, Term, object]], index: RaftIndex, term: Term
) -> Callable[[object], None]:
    return lambda outcome: answers.append((index, term, outcome))


def wrong_transfers(draw: Random, steps: int) -> Iterator[str]:
    """Let leadership be handed on again and again; some take it over, some do not."""
    clock = Moment()
    changes = MemberChanges(clock, TRANSFER_MS)
    asked: dict[int, tuple[PeerId, int]] = {}
    """Number of a transfer -> (target, deadline)."""
    told: list[tuple[int, object]] = []
    for number in range(steps):
        if draw.random() < 0.5 and not asked:
            to = PeerId(draw.choice((1, 2, 3)))
            asked[number] = to, clock.now_ms + TRANSFER_MS
            changes.transfer(_nothing, to, None, _telling(told, number))
        clock.now_ms += draw.choice((1, 20, 60))
        clock.run()
        leader = PeerId(draw.choice((1, 2, 3, -1)))
        changes.on_leader(leader)
        clock.run()
        for which, outcome in told:
            to, until_ms = asked.pop(which, (PeerId(0), 0))
            if not to:
                yield f"answers transfer {which} twice"
            elif outcome is None and leader != to:
                yield f"says that {to} has taken over, and {leader} leads"
            elif outcome is not None and clock.now_ms < until_ms:
                yield f"ends a transfer to {to} {until_ms - clock.now_ms} ms too early: {outcome}"
        if told and asked.keys() & {which for which, _ in told}:
            return
        told.clear()


def _telling(told: list[tuple[int, object]], number: int) -> Callable[[object], None]:
    return lambda outcome: told.append((number, outcome))


class Written:
    """What has been written, in the place of the files of a member."""

    def __init__(self) -> None:
        self.found = Found(HardState(), Snapshot(configuration=Configuration()), [])
        self.state = HardState()
        self.log: dict[int, Entry] = {}
        self.writes: list[list[int]] = []

    def write(self, state: HardState, entries: Sequence[Entry]) -> None:
        """Replace from the first of them on."""
        self.state = state
        self.writes.append([entry.index for entry in entries])
        _replace(self.log, entries)


class Worker:
    """Work that ends when the walk decides."""

    def __init__(self) -> None:
        self.due: deque[tuple[Callable[[], Any], Callable[..., None]]] = deque()

    def submit(
        self, work: Callable[[], Any], done: Callable[..., None], lane: Lane = Lane.WORK
    ) -> None:
        """Keep it."""
        del lane  # one operation at a time
        self.due.append((work, done))

    def end(self) -> None:
        """Do one."""
        if self.due:
            work, done = self.due.popleft()
            done(work(), None)


class WriteWalk:
    """Readys and the writes that come of them. `run` yields what is wrong."""

    def __init__(self, draw: Random) -> None:
        self._random = draw
        self._files, self._worker = Written(), Worker()
        # The durable index is read when the walk reaches it.
        events = DiskEvents(_nothing, _unexpected, _unexpected)
        self._queue = DiskQueue(self._files, self._worker, Moment(), events)  # type: ignore[arg-type]
        self._states: list[HardState] = [HardState()]
        """Behind each Ready, in order."""
        self._logs: list[dict[int, Entry]] = [{}]
        self._needs_disk: list[bool] = [False]
        self._taken = 0

    def run(self, steps: int) -> Iterator[str]:
        """Go."""
        for _ in range(steps):
            match self._random.randrange(4):
                case 0 | 1:
                    self._put()
                case 2:
                    self._queue.pump()
                case _:
                    self._worker.end()
            while self._queue.take() is not None:
                self._taken += 1
                yield from self._wrong()

    def _put(self) -> None:
        """Hand out a Ready: entries, maybe in the place of others, or a state, or nothing."""
        draw, state, log = self._random, self._states[-1], dict(self._logs[-1])
        entries: tuple[Entry, ...] = ()
        term = Term(state.term + (draw.random() < 0.2))
        if draw.random() < 0.5:
            first = draw.randint(max(1, max(log, default=0) - 2), max(log, default=0) + 1)
            first = max(first, state.commit_index + 1)
            count = draw.choice((1, 1, 3))
            entries = tuple(
                Entry(index=RaftIndex(first + at), term=term, kind=EntryKind.NOOP)
                for at in range(count)
            )
            _replace(log, entries)
        agreed = draw.randint(state.commit_index, max(max(log, default=0), state.commit_index))
        after = HardState(term=term, voted_for=PeerId(term % 3), commit_index=RaftIndex(agreed))
        must_sync = bool(entries) or (term, term % 3) != (state.term, state.voted_for)
        self._queue.put(
            Ready(
                sequence=len(self._states),
                entries=entries,
                hard_state=None if after == state else after,
                must_sync=must_sync,
            )
        )
        self._states.append(after)
        self._logs.append(log)
        self._needs_disk.append(must_sync)

    def _wrong(self) -> Iterator[str]:
        """Look at what is written, once a Ready counts as durable."""
        at, files = self._taken, self._files
        last = max((n for n in range(at + 1) if self._needs_disk[n]), default=0)
        later = range(last, len(self._states))
        if not any(self._states[n] == files.state for n in later) and last:
            yield f"Ready {at} is durable, {files.state} is written, {self._states[last]} was due"
        if not any(self._logs[n] == files.log for n in later):
            yield f"Ready {at} is durable, and of the log {sorted(files.log)} is written"
        for some in files.writes:
            if some != sorted(set(some)):
                yield f"writes the entries {some}"
        files.writes.clear()


def _replace(log: dict[int, Entry], entries: Sequence[Entry]) -> None:
    if entries:
        for index in [one for one in log if one >= entries[0].index]:
            del log[index]
        log.update((entry.index, entry) for entry in entries)


def _unexpected(error: Exception) -> None:
    raise AssertionError(f"a disk without faults: {error}")


def _nothing() -> None:
    """The core has no objection."""
