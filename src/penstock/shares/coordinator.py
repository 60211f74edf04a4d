"""The coordinator of shares: requests in, updates out, at the end of each turn in one batch.

    acquire ─► replayed ─► answered at once, written soon; lost with its master: made once more
    accept and others ─► replayed ─► journal ─► confirmed ─► answered
                                     refused ─► answered with the reason, written again later

A share is where its data is: its records are in an internal partition of the data's own replica
set, so that both have one master and one log. What is answered as done is confirmed, also where it
was done before: an answer waits for all that is replayed by then. A master that may have been
replaced hands nothing out and answers nothing, since its successor may know more.

Single owner, as the runtime: all calls come from one thread and nothing blocks.

Source: Kafka `SharePartitionManager`, `ShareCoordinatorService` (KIP-932); ours has no remote
persister.
"""

from collections.abc import Callable, Sequence
from enum import Enum

from penstock.base.ports import Clock
from penstock.coordinator.journal import Journal
from penstock.coordinator.masterships import Masterships
from penstock.coordinator.outbox import Later
from penstock.coordinator.portions import Steps
from penstock.coordinator.runtime import CoordinatorConfig, CoordinatorRuntime, Foundation
from penstock.shares.answers import CLAIM_MAX, Claim, Say, Times, accept, are_few, hand_back, say
from penstock.shares.cells import CELLS, DEAD, SHIFT
from penstock.shares.config import ShareConfig
from penstock.shares.counters import ShareCounters
from penstock.shares.due import DUE_MAX, expire
from penstock.shares.find import delivered, dying_in, first_free, held_by
from penstock.shares.flushing import LETTERS_MAX, After, Flushing
from penstock.shares.hand_out import hand_out, is_name, settle_absent
from penstock.shares.here import SharesHere
from penstock.shares.ledger import Ledger
from penstock.shares.members import NOBODY
from penstock.shares.messages import (
    Answer,
    DeadLetters,
    Described,
    Groups,
    Outlook,
    Told,
    Unavailable,
)
from penstock.shares.reading import OFFSET_MAX, RUNS_MAX
from penstock.shares.runs import Runs, joined, parts
from penstock.shares.shard import TOGETHER, ShareShard
from penstock.shares.state import Moved, Settled, ShareKey
from penstock.shares.table import Part, Shares
from penstock.shares.ticks import FIRST_MS, TICK_MS, tick_of, ticks_in
from penstock.shares.updates.handed import HandOut, Wanted
from penstock.shares.updates.tracing import Traces
from penstock.shares.watchers import Watchers

OFFSETS_OF_A_UNIT = 15
"""Offsets that are looked at in 10 us, the unit of portions."""
CHUNKS_TOGETHER = 4
"""Chunks that the start of a log passes in one step: 16,384 records, 2 ms."""


class Move(Enum):
    """Why a window begins elsewhere."""

    START = "the group has not begun yet; a share that has stays as it is"
    START_ORDERED = "the same, with order by key"
    RESET = "somebody has asked for it: nothing of what was is true any more"
    ADVANCE = "the log begins there now; what is in hand from there on stays"


class ShareCoordinator:
    """All shares that one broker coordinates."""

    def __init__(  # noqa: PLR0913  its ports
        self,
        clock: Clock,
        journal: Journal,
        *,
        config: ShareConfig,
        groups: Groups,
        letters: DeadLetters,
        masterships: Masterships,
        later: Later | None = None,
        after: After | None = None,
        traces: Traces | None = None,
    ) -> None:
        self.config = config
        self.counters = ShareCounters()
        self._clock = clock
        self._groups = groups
        self._letters = letters
        self._masterships = masterships
        self.watchers = Watchers(later)
        """Who waits until something of a share changes."""
        kind = CoordinatorConfig(
            kind="shares",
            partition_count=1,
            grows=True,
            writes_in_flight_max=config.writes_in_flight_max,
            rewrite_after_bytes=config.rewrite_after_bytes,
            rewrite_after_pinned_bytes=config.rewrite_after_pinned_bytes,
            unread_bytes_max=config.unread_bytes_max,
        )
        self._base: Foundation[ShareKey | int] = Foundation(kind, journal, later)
        self._shard = ShareShard(
            shown=self._shown,
            begun=self._watch,
            ended=self._let_go,
            due=self._on_due,
            expires_from=lambda: tick_of(max(clock.wall_ms(), FIRST_MS) + config.grace_ms),
        )
        self.here = SharesHere(config, groups, self._base.partitions, self._shard, masterships)
        """The shares that are coordinated here."""
        confirmed, refused = self._confirmed, self._retry_later
        self._flushing = Flushing(
            self._base, later, self.here.shows, confirmed, refused, after=after, traces=traces
        )
        self.runtime = CoordinatorRuntime(self._base, self._shard)

    # Requests

    def move(self, key: ShareKey, offset: int, why: Move, reply: Told) -> None:
        """Let the share of a group begin at an offset, for one of four reasons."""
        told = self._base.outbox.wrap(reply)
        with self._base.outbox.holding():
            if not 0 <= offset <= OFFSET_MAX:
                told(Answer(Unavailable.INVALID))
                return
            is_start = why in {Move.START, Move.START_ORDERED}
            found = self.here.found(key, makes=is_start)
            if isinstance(found, Unavailable):
                told(Answer(found))
                return
            shares, ledger = found
            if why is Move.ADVANCE:
                self._base.portions.begin(self._advance(shares, ledger, offset, told))
                return
            if why is Move.RESET or not ledger.share.has_begun:
                is_ordered = why is Move.START_ORDERED or ledger.share.is_ordered
                nonce = ledger.next_nonce()
                ledger.write(Moved(offset, True, is_ordered, nonce))
            self._settle(shares, ledger, Answer(), told)

    def acquire(self, key: ShareKey, wanted: Wanted) -> HandOut | Unavailable:
        """Hand records out, at once."""
        with self._base.outbox.holding():
            found = self.here.found(key)
            if isinstance(found, Unavailable):
                return found
            if not is_name(wanted.member):
                return Unavailable.INVALID
            shares, ledger = found
            lock_ms = min(max(wanted.lock_ms, TICK_MS), self.config.lock_max_ms)
            due = self._now(shares) + ticks_in(lock_ms)
            handed = hand_out(ledger, wanted, due, self.here.policy_of(ledger))
            self.counters.note(handed)
            self._note(shares, ledger)
            self._flushing.with_others(shares, ledger)
            return handed

    def accept(
        self,
        key: ShareKey,
        receipts: Sequence[tuple[int, int]],
        visible_end: int,
        reply: Told,
        *,
        is_unwanted: bool = False,
    ) -> None:
        """Records are processed: offsets with numbers of hand-outs, CLAIM_MAX at most.

        `is_unwanted`: who got them in this turn passes over them; a trace says so.
        """
        told = self._base.outbox.wrap(reply)
        with self._base.outbox.holding():
            found = self.here.found(key) if len(receipts) <= CLAIM_MAX else Unavailable.INVALID
            if isinstance(found, Unavailable):
                told(Answer(found))
                return
            shares, ledger = found
            window_max = self._groups.policy_of(key).window_max
            verdicts = accept(ledger, receipts, visible_end, window_max)
            if is_unwanted:
                self._flushing.pass_over(ledger, receipts)
            self._settle(shares, ledger, Answer(None, verdicts), told)

    def say(  # noqa: PLR0917  what a member says of what
        self,
        key: ShareKey,
        what: Say,
        claims: Sequence[Claim],
        member: str,
        reply: Told,
        during_ms: int | None = None,
    ) -> None:
        """A member says what becomes of its records, CLAIM_MAX offsets at most.

        `during_ms`: to renew, from now on; to release, a pause other than the policy's.
        """
        told = self._base.outbox.wrap(reply)
        with self._base.outbox.holding():
            found = self.here.found(key) if are_few(claims) else Unavailable.INVALID
            if isinstance(found, Unavailable):
                told(Answer(found))
                return
            shares, ledger = found
            now = self._now(shares)
            ticks = None if during_ms is None else ticks_in(min(during_ms, self.config.lock_max_ms))
            times = Times(now, now + (ticks or 1), ticks)
            verdicts, nonce = say(ledger, what, claims, member, times, self._groups.policy_of(key))
            self._settle(shares, ledger, Answer(None, verdicts, nonce), told)

    def absent(self, key: ShareKey, runs: Runs, visible_end: int, reply: Told) -> None:
        """Offsets will never be handed out: they do not exist, or are not for this group."""
        told = self._base.outbox.wrap(reply)
        with self._base.outbox.holding():
            found = self.here.found(key)
            if isinstance(found, Unavailable):
                told(Answer(found))
                return
            shares, ledger = found
            settle_absent(ledger, joined(runs), visible_end, self._groups.policy_of(key))
            self._settle(shares, ledger, Answer(), told)

    def leave(self, key: ShareKey, member: str, reply: Told) -> None:
        """A member is gone: what it holds may be handed out at once, some chunks a step."""
        told = self._base.outbox.wrap(reply)
        with self._base.outbox.holding():
            found = self.here.found(key)
            if isinstance(found, Unavailable):
                told(Answer(found))
                return
            shares, ledger = found
            before = ledger.share.nonce
            self._base.portions.begin(self._leave(shares, ledger, member, before, told))

    def delete(self, key: ShareKey, reply: Told) -> None:
        """Forget a share."""
        told = self._base.outbox.wrap(reply)
        with self._base.outbox.holding():
            found = self.here.found(key)
            if isinstance(found, Unavailable):
                told(Answer(found))
                return
            shares, ledger = found
            self._drop(shares, ledger)
            self._settle(shares, ledger, Answer(), told)

    def dead_lettered(self, key: ShareKey, runs: Runs) -> None:
        """Copies of these records are confirmed: they are over. May be told twice."""
        with self._base.outbox.holding():
            found = self.here.found(key, is_own=True)
            if isinstance(found, Unavailable):
                return
            shares, ledger = found
            ledger.close()
            for some in parts(joined(dying_in(ledger.share, runs)), RUNS_MAX):
                ledger.write(Settled(DEAD, some))
            self._touched(shares, ledger)

    def describe(self, key: ShareKey) -> Described | Unavailable:
        """Return what is confirmed of a share, and counts of the present."""
        found = self.here.found(key, is_question=True)
        if isinstance(found, Unavailable):
            return found
        _, ledger = found
        share = ledger.share
        return Described(
            ledger.confirmed_base,
            share.end,
            share.in_flight,
            share.free,
            share.is_ordered,
            share.tenure[0],
            delivered(share),
        )

    def outlook(self, key: ShareKey) -> Outlook | Unavailable:
        """Return what may be handed out next, so that it can be read."""
        found = self.here.found(key)
        if isinstance(found, Unavailable):
            return found
        ledger = found[1]
        share, policy = ledger.share, self.here.policy_of(ledger)
        if share.is_ordered:
            ledger.close()  # what was accepted lets the next ones of their keys go
        free = first_free(share)
        window = policy.window_max - (share.end - share.base)
        room = policy.in_flight_max - share.in_flight
        return Outlook(
            share.base,
            share.end if free is None else free,
            max(room, 0) if free is not None or window > 0 else 0,
            share.end,
            share.is_ordered,
        )

    def forget(self, is_gone: Callable[[ShareKey], bool]) -> None:
        """Forget shares whose data is gone, some at a time; nobody is told."""
        with self._base.outbox.holding():
            for shares in [*self._shard.by_partition.values()]:
                self._base.portions.begin(self._forget(shares, is_gone))

    # After a request

    def _settle(self, shares: Shares, ledger: Ledger, answer: Answer, told: Told) -> None:
        """Answer once everything that is replayed by now is confirmed."""
        self._note(shares, ledger)
        shares.wait(lambda why: told(answer if why is None else Answer(why)))
        self._flushing.soon(shares)

    def _touched(self, shares: Shares, ledger: Ledger) -> None:
        """Have what was replayed written; nobody waits for it."""
        self._note(shares, ledger)
        self._flushing.soon(shares)

    def _note(self, shares: Shares, ledger: Ledger) -> None:
        if not ledger.is_empty:
            shares.dirty[ledger] = None
            self.watchers.tell(ledger.share.key)
        ledger.weigh()
        if not ledger.is_gone:
            self._set_deadline(shares, ledger)

    def _set_deadline(self, shares: Shares, ledger: Ledger) -> None:
        tick = ledger.share.timers.next_tick()
        if tick is not None:
            at_ms = FIRST_MS + tick * TICK_MS - shares.wall_ahead_ms
            if self._base.deadlines.at(ledger.share.key) != at_ms:
                self._base.deadlines.set(ledger.share.key, at_ms)

    def _confirmed(self, shares: Shares, part: Part) -> None:
        if part.letters and self.here.has(shares, part.ledger):
            self._letters.send(shares.partition, part.ledger.share.key, part.letters)

    # Time, and long work

    def _on_due(self, key: ShareKey | int) -> None:
        if isinstance(key, int):
            if (shares := self._shard.by_partition.get(key)) is not None:
                self._flushing.soon(shares)
            return
        if not isinstance(found := self.here.found(key, is_own=True), Unavailable):
            self._base.portions.begin(self._expire(*found))
        elif self._groups.internal_partition_of(key) in self._shard.by_partition:
            self._base.deadlines.set(key, self._clock.monotonic_ms() + self.config.retry_ms)

    def _expire(self, shares: Shares, ledger: Ledger) -> Steps:
        """End what is due, DUE_MAX offsets a step."""
        key = ledger.share.key
        while self.here.has(shares, ledger):
            looked = expire(ledger, self._now(shares), self._groups.policy_of(key))
            self.counters.ended += looked
            self._touched(shares, ledger)
            yield 1 + looked // OFFSETS_OF_A_UNIT
            if looked < DUE_MAX:
                return

    def _advance(self, shares: Shares, ledger: Ledger, offset: int, told: Told) -> Steps:
        """Let the window begin at the start of the log, some chunks a step."""
        share = ledger.share
        while self.here.has(shares, ledger) and share.base < offset:
            ledger.close()
            reach = ((share.base >> SHIFT) + CHUNKS_TOGETHER) << SHIFT
            to = offset if reach >= share.end else min(offset, reach)
            ledger.write(Moved(to, False, share.is_ordered, 0))
            self._touched(shares, ledger)
            yield CHUNKS_TOGETHER * CELLS // OFFSETS_OF_A_UNIT
        self._end_work(shares, ledger, told)

    def _leave(self, shares: Shares, ledger: Ledger, member: str, before: int, told: Told) -> Steps:
        """Free what a member holds by hand-outs before a number: it may be back by now."""
        share = ledger.share
        number, place = share.members.number_of(member), share.base >> SHIFT
        while self.here.has(shares, ledger) and number != NOBODY:
            ledger.close()
            if not share.members.in_flight[number]:
                break
            place = max(place, share.base >> SHIFT)
            if place << SHIFT >= share.end:
                break
            runs = held_by(share, number, place, before)
            if runs:
                times = Times(self._now(shares), pause_ticks=0)
                hand_back(ledger, runs, times, self._groups.policy_of(share.key))
                self._touched(shares, ledger)
            place += 1
            yield 1 + CELLS // OFFSETS_OF_A_UNIT
        self._end_work(shares, ledger, told)

    def _end_work(self, shares: Shares, ledger: Ledger, told: Told) -> None:
        if self.here.has(shares, ledger):
            self._settle(shares, ledger, Answer(), told)
        else:
            told(Answer(Unavailable.NOT_HERE))

    def _forget(self, shares: Shares, is_gone: Callable[[ShareKey], bool]) -> Steps:
        for number, ledger in enumerate([*shares.ledgers.values()]):
            key = ledger.share.key
            if self.here.has(shares, ledger) and is_gone(key):
                self._drop(shares, ledger)
                self._touched(shares, ledger)
            if number % TOGETHER == 0:
                yield 1

    def _drop(self, shares: Shares, ledger: Ledger) -> None:
        key = ledger.share.key
        del shares.ledgers[key]
        self._base.deadlines.cancel(key)
        ledger.delete()
        self.watchers.tell(key)

    def _retry_later(self, shares: Shares) -> None:
        self.counters.refused_writes += 1
        at_ms = self._clock.monotonic_ms() + self.config.retry_ms
        self._base.deadlines.set(shares.partition, at_ms)

    # Partitions

    def _shown(self, shares: Shares) -> None:
        shares.epoch = self._masterships.epoch_of(shares.partition)
        self.watchers.tell_all()
        # A clock before the first tick stands at it now, and goes on: or no lock would ever end.
        wall_ms = max(self._clock.wall_ms(), FIRST_MS)
        shares.wall_ahead_ms = wall_ms - self._clock.monotonic_ms()

    def _watch(self, shares: Shares, ledger: Ledger) -> Steps:
        """Go on with what is handed out, and with what has to be copied, some of it a step."""
        self._set_deadline(shares, ledger)
        while self.here.has(shares, ledger) and ledger.share.dying:
            letters = self._flushing.letters_of(ledger)
            self._letters.send(shares.partition, ledger.share.key, letters)
            yield LETTERS_MAX // OFFSETS_OF_A_UNIT

    def _now(self, shares: Shares) -> int:
        return tick_of(shares.wall_ahead_ms + self._clock.monotonic_ms())

    def _let_go(self, shares: Shares) -> Steps:
        """Answer who waits, and end what belongs to a partition that is not coordinated here."""
        self._letters.cancel(shares.partition)
        self.watchers.tell_all()
        self._base.deadlines.cancel(shares.partition)
        for told in shares.given_up():
            told(Unavailable.NOT_HERE)
            yield 1
        for number, key in enumerate([*shares.ledgers]):
            self._base.deadlines.cancel(key)
            if number % TOGETHER == 0:
                yield 1
