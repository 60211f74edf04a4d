"""The steps of a group walk that are not requests of members: time, journal, operators, loads.

time      to the next deadline, or less; retention exactly at its end
journal   confirms a write, in any order, late; refuses one; is rewritten and cut; is reloaded
operators delete positions, groups, topics
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.classic.group import Group
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.records import TopicKey
from penstock.protocol.error_codes import ErrorCode
from simulator.checks.groups.log import Entry, Position, Reading, read_log
from simulator.checks.groups.rewrite_times import RewriteTimes
from simulator.checks.groups.rules import DEAD, EMPTY
from simulator.run.topology import TOPIC
from simulator.trials.group.desk import OK, PARTITION, Desk
from simulator.trials.paper_journal import size_of

Do = Callable[[], Iterator[str]]
Steps = Iterator[tuple[str, Do]]
PLACES = [TopicKey(topic, partition) for topic in (TOPIC, "other") for partition in range(2)]


class Upkeep:
    """See the module."""

    def __init__(self, desk: Desk, draw: Random) -> None:
        self._desk = desk
        self._random = draw
        self._times = RewriteTimes(desk.config.rewrite_after_bytes)
        self._is_in_log_only = False
        """Whether the partition has what its owner does not keep in memory."""

    def opening(self) -> Steps:
        """What a walk begins with."""
        yield "load", self._load

    def ways(self) -> list[tuple[float, Callable[[], Steps]]]:
        """What may be done, and how often beside the rest."""
        one = self._one
        return [
            (2, partial(one, self._some_time)),
            (3, self.to_next_deadline),
            (1, partial(one, self._slow)),
            (4, partial(one, self._confirm)),
            (0.5, partial(one, self._confirm_late)),
            (1.5, partial(one, self._refuse)),
            (1.5, partial(one, self._delete_positions)),
            (1, partial(one, self._delete_group)),
            (0.5, partial(one, self._delete_topic)),
            (1, partial(one, self._expire)),
            (1.5, partial(one, self._rewrite)),
            (2, partial(one, self._due)),
            (0.7, self._give_up_and_load),
        ]

    def _one(self, do: Do) -> Steps:
        yield do.__name__[1:], do

    # Time

    def to_next_deadline(self) -> Steps:
        """Let time pass to the next deadline."""
        yield "deadline", self._deadline

    def _deadline(self) -> Iterator[str]:
        desk = self._desk
        due = desk.coordinator.runtime.next_deadline_ms()
        if due is not None and due < 1 << 39:
            desk.clock.now_ms = max(due, desk.clock.now_ms)
        yield from self._tick()

    def _some_time(self) -> Iterator[str]:
        desk = self._desk
        due = desk.coordinator.runtime.next_deadline_ms() or 1 << 40
        desk.clock.now_ms += self._random.randint(0, max(0, min(due - desk.clock.now_ms, 400)))
        yield from self._tick()

    def _tick(self) -> Iterator[str]:
        """Handle deadlines; a member with a parked request is not removed."""
        desk = self._desk
        now_ms, deadlines = desk.clock.now_ms, desk.inside.context.deadlines
        safe = [
            (group_id, one)
            for group_id, view in desk.before.items()
            for one, seat in view.members.items()
            if seat.awaits_join
            and (not seat.is_new or not desk.is_line_closed(group_id, one))
            and (deadlines.at(DeadlineKey(DeadlineKind.SESSION, group_id, one)) or now_ms + 1)
            > now_ms
        ]
        desk.coordinator.runtime.tick(now_ms)
        for group_id, one in safe:
            view = desk.view(group_id)
            if view is None or one not in view.members:
                yield f"{one} of {group_id} is removed while it waits"

    # The journal

    def _slow(self) -> Iterator[str]:
        journal = self._desk.journal
        journal.is_prompt = not journal.is_prompt
        if journal.is_prompt:
            self._confirm_all()
        yield from ()

    def _confirm(self) -> Iterator[str]:
        if waiting := self._desk.journal.under_way:
            self._desk.journal.confirm(self._random.choice(waiting))
        yield from ()

    def _confirm_all(self) -> None:
        waiting = self._desk.journal.under_way
        for write in self._random.sample(waiting, len(waiting)):
            self._desk.journal.confirm(write)

    def _confirm_late(self) -> Iterator[str]:
        """A client gets a time-out; its write stays, and may still be confirmed."""
        if waiting := self._desk.journal.under_way:
            self._random.choice(waiting).done(Unwritten.LATE)
        yield from ()

    def _refuse(self) -> Iterator[str]:
        """What is to be written next is refused: commits from outside, an empty group's end."""
        desk = self._desk
        desk.journal.refuses = self._random.choice((Unwritten.OVERTAKEN, Unwritten.FAILED))
        try:
            for group_id in desk.coordinator.reading.group_ids():
                desk.commit_outside(group_id, self._random.choice(PLACES), 1_001)
            desk.coordinator.runtime.tick(desk.clock.now_ms)
        finally:
            desk.journal.refuses = None
        yield from ()

    # Operators

    def _some_group(self) -> str:
        return self._random.choice([*self._desk.before, "orders"])

    def _delete_positions(self) -> Iterator[str]:
        desk, group_id = self._desk, self._some_group()
        view = desk.view(group_id)
        keys = tuple(self._random.sample(PLACES, 2))
        had = desk.journal.state(with_all=True).of_group(group_id)
        desk.coordinator.delete_offsets(group_id, keys, lambda _: None)
        left = desk.journal.state(with_all=True).of_group(group_id)
        if view is None or view.state is DEAD:
            return
        for key in keys:
            is_wanted = bool(view.members) and key.topic == TOPIC
            if is_wanted and left.get(_place(key)) != had.get(_place(key)):
                yield f"{key} of {group_id} is deleted, and members read it"
            if view.state is EMPTY and _place(key) in left:
                yield f"{key} of {group_id} is deleted, and stands in the log"

    def _delete_group(self) -> Iterator[str]:
        desk, group_id = self._desk, self._some_group()
        view = desk.view(group_id)
        answers: list[Mapping[str, ErrorCode]] = []
        desk.coordinator.delete_groups([group_id], answers.append)
        if view is None or view.state is DEAD:
            right: ErrorCode | None = ErrorCode.GROUP_ID_NOT_FOUND
        else:
            right = None if view.state is EMPTY else ErrorCode.NON_EMPTY_GROUP
        told = answers[0][group_id] if answers else None
        if right is not None and told is not right:
            yield f"{group_id} can not be deleted, and hears {told}, of {view}"
        if right is None and told not in (None, OK):
            yield f"{group_id} is deleted, and hears {told}"
        if right is None:
            yield from self._left_of(group_id, "deleted")
            is_there = desk.view(group_id) is not None
            if is_there == (told is OK):
                yield f"{group_id} is deleted, is there: {is_there}, and hears {told}"

    def _left_of(self, group_id: str, what: str) -> Iterator[str]:
        state = self._desk.journal.state(with_all=True)
        if group_id in state.groups or state.of_group(group_id):
            yield f"{group_id} is {what}, and comes back with the next start"

    def _delete_topic(self) -> Iterator[str]:
        desk = self._desk
        topic, topic_id = self._random.choice((TOPIC, "other")), b"id of some topic"
        desk.coordinator.on_topics_deleted({topic: topic_id})
        for place, position in desk.journal.state(with_all=True).positions.items():
            is_owned = desk.view(place[0]) is not None
            if is_owned and place[1] == topic and position.topic_id in (None, topic_id):
                yield f"{place} is left of a topic that is deleted"

    def _expire(self) -> Iterator[str]:
        """Run retention at the time at which a group expires, or close to it."""
        desk = self._desk
        groups = [one for name in desk.before if (one := desk.group(name)) is not None]
        ends = {
            group.group_id: _end_of(group) + desk.config.offsets_retention_ms for group in groups
        }
        if not ends:
            return
        desk.retention_now_ms = self._random.choice([*ends.values()]) + self._random.randint(-1, 1)
        gone = {group.group_id for group in groups if _is_idle(group, ends, desk.retention_now_ms)}
        desk.inside.context.deadlines.set(DeadlineKey(DeadlineKind.EXPIRY), desk.clock.now_ms)
        yield from self._tick()
        for group_id, before in desk.before.items():
            view = desk.view(group_id)
            is_gone = view is None or view.state is DEAD
            if is_gone and group_id in gone:
                yield from self._left_of(group_id, "expired")
            is_void = before.state is EMPTY and bool(before.pending)
            if is_gone != (group_id in gone) and before.state is not DEAD and not is_void:
                yield f"{group_id} is gone: {is_gone}, at {desk.retention_now_ms}, with {ends}"

    # Rewrites and loadings

    def _due(self) -> Iterator[str]:
        self._times.appended(self._taken_bytes())
        told = self._desk.coordinator.runtime.base.rewrites.due()
        right = self._times.is_due() and not self._is_in_log_only
        if told != ((PARTITION,) if right else ()):
            yield f"a rewrite is due: {told}, by {self._times}"

    def _taken_bytes(self) -> int:
        journal = self._desk.journal
        size, journal.appended_bytes = journal.appended_bytes, 0
        return size

    def _rewrite(self) -> Iterator[str]:
        desk, journal = self._desk, self._desk.journal
        if desk.coordinator.runtime.is_movable(PARTITION) is self._is_in_log_only:
            yield f"may be rewritten: {not self._is_in_log_only}, and says otherwise"
        if self._is_in_log_only:
            return
        start, rewritten, right = len(journal.log), [], list(journal.log)
        for records in desk.coordinator.runtime.snapshot(PARTITION):
            some = [(record[0] or b"", record[1]) for record in records]
            journal.log += some
            rewritten += some
            if self._random.random() < 0.3:
                at = len(journal.log)
                desk.commit_outside(self._some_group(), self._random.choice(PLACES), 1_002)
                right += journal.log[at:]
        self._confirm_all()
        wanted, found = read_log(right), read_log(journal.log[start:])
        yield from _differences(wanted, found)
        self._times.appended(self._taken_bytes())
        if self._random.random() < 0.3:
            self._times.failed()
            desk.coordinator.runtime.base.rewrites.failed(PARTITION)
            journal.cut(0)
            return
        journal.cut(start)
        self._times.rewritten(size_of(rewritten))
        desk.coordinator.runtime.rewritten(PARTITION, size_of(rewritten))

    def _give_up_and_load(self) -> Steps:
        yield "give up", self._give_up
        if self._random.random() < 0.4:
            yield "write of a later version", self._write_strange
        yield "load", self._load

    def _give_up(self) -> Iterator[str]:
        desk = self._desk
        waiting = [one for one in desk.asked if one.write is None]
        desk.coordinator.runtime.unload(PARTITION)
        under_way = len(desk.journal.under_way)
        for write in desk.journal.lose_mastership(self._random.randint(0, under_way)):
            write.done(Unwritten.OVERTAKEN)
        for one in waiting:
            if not one.answers:
                yield f"{one.request} is not answered, though the partition is given up"

    def _write_strange(self) -> Iterator[str]:
        journal = self._desk.journal
        state = journal.state()
        keys = [key for key, _ in journal.log[-40:]] or [b"\0\1\0\1g\0\7history\0\0\0\0"]
        values = [group for group in state.groups.values() if len(group) > 60]
        entries: list[Entry] = [(b"\0\7kind", b"of a later version")]
        for _ in range(self._random.randint(1, 3)):
            key = self._random.choice(keys)
            entries.append(
                self._random.choice(
                    [
                        (key + b"\0", b"\0\3" + b"\0" * 22),
                        (key, b"\0\x09" + b"\1" * 30),
                        (key, None),
                    ]
                )
            )
        if values:
            value = self._random.choice(values)
            name = next(group for group in state.groups if state.groups[group] == value).encode()
            key = b"\0\2" + len(name).to_bytes(2, "big") + name
            cut = self._random.randint(20, len(value) - 1)
            entries.append((key, self._random.choice((None, value[:cut]))))
        journal.add(entries)
        yield from ()

    def _load(self) -> Iterator[str]:
        """Take the partition over, by the same process or another one."""
        desk, journal = self._desk, self._desk.journal
        size = size_of(journal.log)
        if self._random.random() < 0.5:
            self._times = RewriteTimes(max(1, size + self._random.choice((0, 0, 1, 200))))
            desk.config = replace(desk.config, rewrite_after_bytes=self._times.threshold_bytes)
            desk.coordinator = desk.new_coordinator()
        self._times.forget()
        journal.appended_bytes = 0
        desk.coordinator.runtime.begin_loading(PARTITION)
        for key, value in journal.log:
            desk.coordinator.runtime.load(PARTITION, (key, value))
        self._is_in_log_only = self._random.random() < 0.15
        if self._is_in_log_only:
            desk.coordinator.runtime.load_unread_batch(PARTITION, "a batch of a transaction")
        desk.coordinator.runtime.finish_loading(PARTITION)
        self._times.appended(size)
        desk.loaded_anew()
        yield from desk.wrong_load()


def _place(key: TopicKey) -> tuple[str, int]:
    return key.topic, key.partition


def _end_of(group: Group) -> int:
    """Return when a group had its last commit, or changed for the last time."""
    times = [value.commit_timestamp_ms for value in group.offsets.values.values()]
    return max([*times, group.state_since_ms])


def _is_idle(group: Group, ends: dict[str, int], now_ms: int) -> bool:
    """Whether a group is to go now."""
    is_read = not group.has_unread_metadata
    positions = group.offsets.values.values()
    is_quiet = group.state is EMPTY and not group.pending and not group.offsets.in_flight_count
    if not (is_quiet and is_read):
        return False
    is_over = now_ms > ends[group.group_id] and all(
        position.unread is None for position in positions
    )
    return not positions or is_over


def _differences(wanted: Reading, found: Reading) -> Iterator[str]:
    """Name what a rewrite has made another."""
    for place in dict.fromkeys([*wanted.positions, *found.positions]):
        right, one = wanted.positions.get(place), found.positions.get(place)
        if right != one:
            yield f"{place} is rewritten as {_short(one)}, and was {_short(right)}"
    if wanted.groups != found.groups:
        yield f"groups {list(wanted.groups)} are rewritten as {list(found.groups)}, or otherwise"
    if wanted.unknown != found.unknown:
        yield f"{list(wanted.unknown)} are rewritten as {list(found.unknown)}"


def _short(position: Position | None) -> str:
    return (
        "nothing"
        if position is None
        else f"{position.offset} {position.metadata} unread={position.unread!r}"
    )
