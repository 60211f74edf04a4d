"""Any history of a share: what it does is what a plain model does, and no failover loses anything.

Members take, accept, hand back, give up and prolong, also what they do not hold any more; time
passes, logs begin later, groups are reset, masters are lost with the last of what they wrote and
their receipts come to the next one. After each step cells and counts are the model's. At the end
the log is replayed up to each of its records, from snapshots taken anywhere, and with all but the
last record of each key gone.
"""

import random
from array import array
from collections.abc import Iterator

import pytest

from penstock.coordinator.records import JournalRecord
from penstock.shares.answers import Claim, Say, Times, Verdict, accept, hand_back, say
from penstock.shares.cells import ACQUIRED, DYING, FREE, HELD, WAITING
from penstock.shares.cells import DEAD as DEAD_CELL
from penstock.shares.cells import DONE as DONE_CELL
from penstock.shares.config import SharePolicy
from penstock.shares.due import expire
from penstock.shares.find import dying_in, held_by
from penstock.shares.hand_out import hand_out, settle_absent
from penstock.shares.records import decode_update
from penstock.shares.runs import joined
from penstock.shares.share import Share
from penstock.shares.snapshot import snapshot
from penstock.shares.state import Moved, Settled
from penstock.shares.updates.handed import HandOut, Short, Wanted
from tests.shares.bench import (
    KEY,
    cells,
    check,
    flush,
    load,
    new_ledger,
    offsets,
    picture,
    take_over,
)
from tests.shares.model import AVAILABLE, DEAD, HELD_BY, OVER, PAUSED, HandOutMade, Model
from tests.shares.model import DYING as GIVEN

STEPS = 90
MEMBERS = ("a", "b", "c")
STATES = {FREE: AVAILABLE, HELD: AVAILABLE, ACQUIRED: HELD_BY, DONE_CELL: OVER, DEAD_CELL: DEAD,
          WAITING: PAUSED, DYING: GIVEN}  # fmt: skip
VERDICTS = {Verdict.TAKEN: "taken", Verdict.ALREADY: "already", Verdict.LAPSED: "lapsed"}


class History:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.is_ordered = seed % 3 == 0
        self.policy = SharePolicy(
            deliveries_max=self.draw.choice((0, 1, 2, 3, 5)),
            has_dead_letters=self.draw.random() < 0.5,
            in_flight_max=self.draw.choice((6, 20, 100)),
            member_in_flight_max=self.draw.choice((4, 50)),
            window_max=self.draw.choice((10, 40, 300)),
            members_max=self.draw.choice((2, 5)),
            pauses_ms=self.draw.choice(((), (300,), (100, 0, 500))),
        )
        start = self.draw.choice((0, 4_085, 8_192, 1 << 33))
        self.now = 1_000
        self.tenure = 1
        self.visible_end = start
        self.keys: dict[int, int] = {}
        self.absent: set[int] = set()
        self.log: list[JournalRecord] = []
        self.models: list[tuple[int, Model]] = []
        """The model by how much of the log there was then."""
        self.made: list[HandOutMade] = []
        self.number = 0
        self.accepted: dict[int, int] = {}
        """Offsets whose acceptance is confirmed, by the length of the log then."""
        self.ledger = new_ledger(start, is_ordered=self.is_ordered)
        pauses = tuple(ms // 100 for ms in self.policy.pauses_ms)
        has_letters = self.policy.has_dead_letters
        limit = self.policy.deliveries_max
        self.model = Model(start, self.is_ordered, limit, has_letters, pauses)
        self.flush()

    @property
    def share(self) -> Share:
        return self.ledger.share

    def flush(self) -> None:
        self.log += flush(self.ledger)
        self.models.append((len(self.log), self.model.copy()))

    def compare(self) -> None:
        model = self.model
        assert self.share.base == model.base()
        assert self.share.end == model.end
        for cell in cells(self.share):
            offset, state = cell[:2]
            record = model.record(offset)
            assert STATES[state] == record.state, (offset, state, record)
            if state in {DONE_CELL, DEAD_CELL}:
                continue
            assert (state == HELD) == (record.state == AVAILABLE and model.is_blocked(offset))
            assert cell[2] == record.count
            if state in {ACQUIRED, WAITING}:
                assert cell[4] == record.due
            if state == ACQUIRED:
                assert record.last is not None
                assert (cell[3], cell[5]) == (record.last.nonce, record.last.member)
        check(self.share)

    # What happens

    def step(self) -> None:
        names = ("appended", "take", "take", "take", "accepts", "accepts", "accepts", "says",
                 "says", "says", "time", "time", "gap", "log_begins_later", "copies", "leave",
                 "rare")  # fmt: skip
        getattr(self, self.draw.choice(names))()
        self.ledger.close()
        self.compare()
        if self.draw.random() < 0.6:
            self.flush()

    def appended(self) -> None:
        """More data; some of it is nothing to hand out."""
        end = self.visible_end + self.draw.randrange(1, 30)
        for offset in range(self.visible_end, end):
            self.keys[offset] = self.draw.randrange(5)
            if self.draw.random() < 0.1:
                self.absent.add(offset)
        self.visible_end = end

    def take(self) -> None:
        share, model, policy = self.share, self.model, self.policy
        member = self.draw.choice(MEMBERS)
        count = self.draw.choice((1, 2, 5, 32))
        hashes = array("I", [self.keys[at] for at in range(share.end, self.visible_end)])
        ends = sorted(self.draw.sample(range(share.base, share.base + 60), 4))
        is_batched = self.draw.random() < 0.3 and not self.is_ordered
        wanted = Wanted(
            member,
            count,
            self.visible_end,
            30_000,
            joined((offset, offset + 1) for offset in self.absent),
            ends if is_batched else (),
            hashes if self.is_ordered else None,
        )
        due = self.now + self.draw.randrange(1, 40)
        handed = hand_out(self.ledger, wanted, due, policy)
        self._settle_absent()
        model.extend(share.end, self.keys)
        self._settle_absent()
        room = min(count, policy.in_flight_max - model.in_flight(),
                   policy.member_in_flight_max - model.in_flight(member))  # fmt: skip
        holders = {m for m in MEMBERS if model.in_flight(m)}
        found = offsets(handed.runs)
        lowest = model.available(self.visible_end)
        assert not self.absent & set(found)
        assert found == sorted(found) == lowest[: len(found)]
        assert all(offset < self.visible_end for offset in found)
        if not is_batched:
            assert len(found) <= max(room, 0)
        assert model.in_flight() + len(found) <= policy.in_flight_max
        self._check_short(handed, room, count, lowest, len(holders | {member}))
        for offset, times in zip(found, handed.counts, strict=True):
            assert offset not in self.accepted, "an accepted record is handed out"
            made = HandOutMade(self._next(), offset, handed.nonce, member, self.tenure)
            self.made.append(made)
            model.give(made, due)
            assert times == model.record(offset).count
            limit_of = policy.deliveries_max
            assert not limit_of or times <= limit_of
            assert times == 1 or times < limit_of or not limit_of or len(found) == 1

    def _check_short(
        self, handed: HandOut, room: int, count: int, lowest: list[int], members: int
    ) -> None:
        """Fewer are only handed out for a reason."""
        found = offsets(handed.runs)
        if len(found) >= count:
            return
        match handed.short:
            case Short.NO_MORE:
                assert len(found) == len(lowest)
                assert self.share.end >= self.visible_end or self.is_ordered
            case Short.IN_FLIGHT | Short.MEMBER:
                assert len(found) >= min(max(room, 0), len(lowest))
            case Short.MEMBERS:
                assert members > self.policy.members_max
            case Short.WINDOW:
                assert len(found) == len(lowest)
                assert self.share.end - self.share.base >= self.policy.window_max or self.is_ordered
            case Short.ALONE:
                assert found
                limit = self.policy.deliveries_max
                risky = max((limit + 1) // 2, 1)
                near = [*found, *lowest[len(found) : len(found) + 1]]
                assert any(self.model.record(offset).count >= risky for offset in near)
            case None:
                raise AssertionError(handed)

    def _settle_absent(self) -> None:
        model, before = self.model, -1
        while model.base() > before:
            before = model.base()
            limit = min(self.visible_end, before + self.policy.window_max)
            known = {offset for offset in self.absent if before <= offset < limit}
            if not self.is_ordered and known:
                model.extend(max(known) + 1, self.keys)
            for offset in known:
                if offset < model.end and model.record(offset).state not in {OVER, DEAD}:
                    model.record(offset).state = OVER

    def _next(self) -> int:
        self.number += 1
        return self.number

    def accepts(self) -> None:
        """Receipts of now and of long ago, some twice."""
        if not self.made:
            return
        chosen = [self.draw.choice(self.made[-40:]) for _ in range(self.draw.choice((1, 1, 6)))]
        for made in chosen:
            self.ledger.close()
            expected = self.model.may_accept(
                made, self.tenure, self.visible_end, self.policy.window_max
            )
            (found,) = accept(self.ledger, [(made.offset, made.nonce)], self.visible_end,
                              self.policy.window_max)  # fmt: skip
            assert VERDICTS[found] == expected, (made, found, expected)
            if expected == "taken":
                self.model.extend(made.offset + 1, self.keys)
                self.model.record(made.offset).state = OVER

    def says(self) -> None:
        if not self.made:
            return
        what = self.draw.choice([*Say])
        made = self.draw.choice(self.made[-15:])
        mine = [one for one in self.made if one.nonce == made.nonce and one.tenure == made.tenure]
        by_member = self.draw.random() < 0.3
        first = min(one.offset for one in mine)
        end = max(one.offset for one in mine) + 1 if self.draw.random() < 0.5 else first + 1
        pause = self.draw.choice((None, 0, 7))
        held = [
            offset
            for offset in range(max(first, self.model.start), min(end, self.model.end))
            if (
                self.model.in_flight(made.member)
                and self.model.record(offset).state == HELD_BY
                and self.model.record(offset).last.member == made.member  # type: ignore[union-attr]
                if by_member
                else self.model.holds(offset, made.nonce)
            )
        ]
        times = Times(self.now, self.now + 33, pause)
        claim = Claim(first, end, None if by_member else made.nonce)
        verdicts, nonce = say(self.ledger, what, [claim], made.member, times, self.policy)
        assert (verdicts[0] is Verdict.TAKEN) == (len(held) == end - first)
        for offset in held:
            self._said(what, offset, pause, nonce)

    def _said(self, what: Say, offset: int, pause: int | None, nonce: int) -> None:
        record = self.model.record(offset)
        match what:
            case Say.ACCEPT | Say.GAP:
                record.state = OVER
            case Say.RELEASE:
                usual = self.model.usual_pause(offset)
                self.model.back(offset, self.now, usual if pause is None else pause)
            case Say.REJECT:
                self.model.give_up(offset)
            case Say.RENEW:
                assert record.last is not None
                made = replace_nonce(record.last, nonce, self._next(), self.tenure)
                self.made.append(made)
                record.last, record.due = made, self.now + 33

    def time(self) -> None:
        self.now += self.draw.choice((1, 5, 50))
        count_max = self.draw.choice((1, 3, 5_000))
        while expire(self.ledger, self.now, self.policy, count_max) == count_max:
            pass
        self.model.expire(self.now)

    def gap(self) -> None:
        """Records vanish that were there, such as by compaction."""
        base = self.model.base()
        first = base + self.draw.randrange(20)
        end = min(first + self.draw.randrange(1, 8), self.visible_end)
        if first < end:
            self.absent |= set(range(first, end))
            absent = joined((offset, offset + 1) for offset in self.absent)
            settle_absent(self.ledger, absent, self.visible_end, self.policy)
            self._settle_absent()

    def log_begins_later(self) -> None:
        if self.draw.random() < 0.7:
            return
        offset = min(self.model.base() + self.draw.randrange(12), self.visible_end)
        self.ledger.write(Moved(offset, False, self.is_ordered, 0))
        self.model.advance(offset)

    def copies(self) -> None:
        """Copies of some records are confirmed, and of some that were not asked for."""
        base = self.model.base()
        runs = [(base, base + self.draw.randrange(1, 10))]
        found = joined(dying_in(self.share, runs))
        expected = [
            offset
            for offset in range(base, min(runs[0][1], self.model.end))
            if self.model.record(offset).state == GIVEN
        ]
        assert offsets(found) == expected
        if found:
            self.ledger.write(Settled(DEAD_CELL, found))
        for offset in expected:
            self.model.record(offset).state = DEAD

    def leave(self) -> None:
        member = self.draw.choice(MEMBERS)
        number = self.share.members.number_of(member)
        for place in [*self.share.chunks]:
            runs = held_by(self.share, number, place, self.share.nonce) if number else []
            if runs:
                hand_back(self.ledger, runs, Times(self.now, pause_ticks=0), self.policy)
        for offset in range(self.model.start, self.model.end):
            record = self.model.record(offset)
            holder = None if record.last is None else record.last.member
            if record.state == HELD_BY and holder == member:
                self.model.back(offset, self.now, 0)

    def rare(self) -> None:
        choice = self.draw.random()
        if choice < 0.15:
            self.reset()
        elif choice < 0.7:
            self.fail_over()

    def reset(self) -> None:
        offset = self.draw.randrange(self.model.start, self.visible_end + 1)
        nonce = self.ledger.next_nonce()
        self.ledger.write(Moved(offset, True, self.is_ordered, nonce))
        self.model.reset(offset, self._next())
        self.accepted.clear()
        self.flush()

    def fail_over(self) -> None:
        """The next master has the log up to some record behind which nobody was told anything."""
        self.flush()
        confirmed = max(self.accepted.values(), default=0)
        places = [at for at in self.models[-6:] if at[0] >= confirmed]
        length, model = self.draw.choice(places)
        self.models = [one for one in self.models if one[0] <= length]
        del self.log[length:]
        self.model = model.copy()
        self.tenure += self.draw.choice((1, 1, 3))
        self.ledger = take_over(self.log, self.tenure, expires_from=self.now)
        self.compare()

    def confirm(self) -> None:
        """Somebody is told that these are accepted."""
        for offset in range(self.model.start, self.model.end):
            if self.model.record(offset).state == OVER:
                self.accepted.setdefault(offset, len(self.log))


def replace_nonce(made: HandOutMade, nonce: int, number: int, tenure: int) -> HandOutMade:
    return HandOutMade(number, made.offset, nonce, made.member, tenure)


def run(seed: int) -> History:
    history = History(seed)
    for number in range(STEPS):
        history.step()
        if number % 7 == 0:
            history.flush()
            history.confirm()
    history.flush()
    return history


SEEDS = range(60)


@pytest.mark.parametrize("tens", range(len(SEEDS) // 10))
def test_a_share_does_what_the_model_does(tens: int) -> None:
    for seed in SEEDS[tens * 10 : tens * 10 + 10]:
        run(seed)


@pytest.mark.parametrize("seed", range(12))
def test_a_failover_at_every_record_gives_the_state_that_was_then(seed: int) -> None:
    log = run(seed).log
    twin = Share(KEY)
    twin.is_live = True
    for at, record in enumerate(log):
        assert record[1] is not None
        twin.replay(*decode_update(record[1]))
        if twin.has_begun:
            twin_is = picture(twin)
            loaded = load(log[: at + 1])
            assert loaded is not None
            assert picture(loaded) == twin_is
            check(loaded)


@pytest.mark.parametrize("seed", range(12))
def test_a_snapshot_and_what_follows_is_the_whole(seed: int) -> None:
    log = run(seed).log
    draw = random.Random(seed)
    twin = Share(KEY)
    twin.is_live = True
    mixed: list[JournalRecord] = []
    going: Iterator[JournalRecord] | None = None
    first: int | None = None
    begun = 0
    for record in log:
        assert record[1] is not None
        twin.replay(*decode_update(record[1]))
        mixed.append(record)
        if not twin.has_begun:
            continue
        if going is None and draw.random() < 0.1:
            going, begun = snapshot(twin), len(mixed)
        elif going is not None and draw.random() < 0.5:
            part = next(going, None)
            if part is None:
                going, first = None, begun
            else:
                mixed.append(part)
        wanted = picture(twin)
        whole = load(mixed)
        assert whole is not None
        assert picture(whole) == wanted, "an unfinished snapshot changes nothing"
        if first is not None:
            tail = load(mixed[first:])
            assert tail is not None
            assert picture(tail) == wanted
            latest = {key: at for at, (key, *_) in enumerate(mixed)}
            kept = [one for at, one in enumerate(mixed) if latest[one[0]] == at]
            compacted = load(kept)
            assert compacted is not None
            assert picture(compacted) == wanted
