"""A coordinator on a copy, with checks after each step.

    before: each group's state ─► one request, one step of time, one confirmation
    after:  the answers, the groups, the counts, the positions ── as the rules require?

Open requests are recorded, so that each is answered exactly once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.assignors.topic_facts import TopicFacts
from penstock.base.errors import PlatformError
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.config import GroupConfig
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.messages import CommitOffsets, JoinGroup, JoinReply, SyncGroup, SyncReply
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.groups.share.masters import NoShareMasters
from penstock.protocol.error_codes import ErrorCode
from simulator.checks.groups.counts import Inside, inside, miscounted
from simulator.checks.groups.log import GroupSaid, Reading, group_said
from simulator.checks.groups.rules import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    View,
    view_of,
    wrong_change,
    wrong_view,
)
from simulator.trials.paper_journal import PaperJournal, Write

OK = ErrorCode.NONE
WALL_MS = 1_700_000_000_000
PARTITION = 0


@dataclass(slots=True)
class Line:
    """The connection that a request came by."""

    is_closed: bool = False


@dataclass(slots=True, eq=False)
class Asked:
    """A request that may be answered later."""

    request: Any
    line: Line
    answers: list[Any] = field(default_factory=list)
    write: Write | None = None
    """Of a commit."""
    is_seen: bool = False


class Clock:
    """Time that a walk turns."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_us(self) -> int:
        return self.now_ms * 1_000


class NoTopics:
    """A cluster without topics (groups/cluster.py): groups of the classic protocol need none."""

    def __init__(self, retention_now_ms: Callable[[], int]) -> None:
        self.version = 0
        self.retention_now_ms = retention_now_ms
        self.share_masters = NoShareMasters()

    def find(self, name: str) -> TopicFacts | None:
        del name
        return None

    def names(self) -> Iterable[str]:
        return ()

    def names_of_users(self) -> Iterable[str]:
        return ()

    def group_keys(self, group_id: str) -> Mapping[str, str]:
        del group_id
        return {}


class Desk:
    """See the module."""

    def __init__(self, journal: PaperJournal, config: GroupConfig) -> None:
        self.clock = Clock()
        self.journal = journal
        self.config = config
        self.retention_now_ms = WALL_MS
        self.asked: list[Asked] = []
        self.given: dict[tuple[str, int], dict[str, bytes]] = {}
        """What the leader of a generation has assigned, by instance or member."""
        self.lines: dict[tuple[str, str], Line] = {}
        """Whose newest parked join came by which connection."""
        self._suffixes = 0
        self.coordinator = self.new_coordinator()
        self.before: dict[str, View] = {}
        journal.group_of = self.group

    def new_coordinator(self) -> GroupCoordinator:
        """Return one that has nothing yet."""
        return GroupCoordinator(
            self.clock,
            self.journal,
            config=self.config,
            new_suffix=self._suffix,
            cluster=NoTopics(lambda: self.retention_now_ms),
        )

    @property
    def inside(self) -> Inside:
        """What the coordinator consists of."""
        return inside(self.coordinator)

    def _suffix(self) -> str:
        self._suffixes += 1
        return str(self._suffixes)

    def group(self, group_id: str) -> Group | None:
        """Return a group as it is."""
        return self.inside.table.classic(group_id)

    def view(self, group_id: str) -> View | None:
        """Return how a group looks."""
        return view_of(self.group(group_id))

    def step(self, do: Callable[[], Iterator[str]]) -> Iterator[str]:
        """Do one thing, and name what is wrong with it and behind it."""
        groups = self.inside.table.groups
        self.before = {group: seen for group in groups if (seen := self.view(group)) is not None}
        try:
            yield from do()
            yield from self._behind()
        except (AssertionError, LookupError, TypeError, NameError, PlatformError) as error:
            yield f"{type(error).__name__}: {error}"

    def _behind(self) -> Iterator[str]:
        groups = self.inside.table.groups
        self.given = {key: one for key, one in self.given.items() if key[0] in groups}
        told = list(self._answers())
        yield from (text for text, _ in told if text)
        for group_id in self.coordinator.reading.group_ids():
            after, before = self.view(group_id), self.before.get(group_id)
            assert after is not None
            heard = [one for _, one in told if one is not None]
            texts = list(wrong_view(after))
            if before is not None:
                texts += wrong_change(before, after, heard, self.config.group_size_max)
            yield from (f"group {group_id} {text}" for text in texts)
        writes = [write.group for write in self.journal.under_way]
        yield from miscounted(self.inside, writes, self.clock.now_ms)
        yield from self._wrong_lines()
        yield from self._wrong_positions()

    # Answers

    def _answers(self) -> Iterator[tuple[str, str | None]]:
        """Yield errors in new answers, and note the members answered with a generation."""
        for one in self.asked:
            if len(one.answers) > 1:
                yield f"{one.request} is answered {len(one.answers)} times", None
            if one.answers and not one.is_seen:
                one.is_seen = True
                yield from self._answer(one, one.answers[0])
        self.asked = [one for one in self.asked if not one.answers]

    def _answer(self, asked: Asked, answer: Any) -> Iterator[tuple[str, str | None]]:
        view = self.view(asked.request.group_id)
        if isinstance(answer, JoinReply) and answer.error is OK and view is not None:
            yield "", answer.member_id
            yield from ((text, None) for text in self._wrong_join(asked.request, answer, view))
        elif isinstance(answer, SyncReply) and answer.error is OK and view is not None:
            yield from ((text, None) for text in self._wrong_sync(asked.request, answer, view))
        elif isinstance(asked.request, CommitOffsets) and OK in answer.values():
            is_confirmed = asked.write is not None and asked.write.is_confirmed
            if not is_confirmed:
                yield f"{asked.request} is taken, and not confirmed", None

    def _wrong_join(self, asked: JoinGroup, answer: JoinReply, view: View) -> Iterator[str]:
        before = self.before.get(asked.group_id)
        is_held_up = asked.instance_id is not None and answer.generation < view.generation
        if answer.generation != view.generation and not is_held_up:  # its own record was on its way
            yield f"{answer.member_id} is told of generation {answer.generation}"
        is_new = before is None or before.generation != view.generation
        if not is_new or view.state is not COMPLETING:
            return
        if answer.leader_id != view.leader_id:
            yield f"{answer.member_id} is told that {answer.leader_id} leads"
        told = {
            member.member_id: (member.instance_id, member.metadata) for member in answer.members
        }
        right = {
            member_id: (seat.instance_id, dict(reversed(seat.protocols))[view.protocol_name or ""])
            for member_id, seat in view.members.items()
        }
        if told != (right if answer.member_id == view.leader_id else {}):
            yield f"{answer.member_id} is told of members {told}, of {right}"

    def _wrong_sync(self, asked: SyncGroup, answer: SyncReply, view: View) -> Iterator[str]:
        given = self.given.get((asked.group_id, asked.generation))
        seat = view.members.get(asked.member_id)
        who = asked.member_id if seat is None else seat.instance_id or asked.member_id
        if given is None or answer.assignment != given.get(who, b""):
            yield f"{who} hears {answer.assignment!r} in generation {asked.generation}"
        value = self.journal.state().groups.get(asked.group_id)
        said = None if value is None else group_said(value)
        if value is not None and (said is None or said.generation != asked.generation):
            yield f"{who} hears an assignment of {asked.generation} that is not confirmed"

    # State

    def _wrong_lines(self) -> Iterator[str]:
        for (group_id, member_id), line in self.lines.items():
            group = self.group(group_id)
            member = None if group is None else group.members.get(member_id)
            if member is not None and member.is_new and member.is_gone() != line.is_closed:
                yield f"{member_id} is judged by another connection than its own"

    def _wrong_positions(self) -> Iterator[str]:
        if self.is_given_up or self.coordinator.is_loading:
            return
        wanted = _places_of(self.journal.state())
        for group_id in dict.fromkeys([*wanted, *self.coordinator.reading.group_ids()]):
            reply = self.coordinator.reading.fetch_offsets(group_id, None)
            told = {
                (key.topic, key.partition): _short(offset.committed)
                for key, offset in reply.offsets.items()
                if offset.committed is not None
            }
            right = wanted.get(group_id, {})
            if told != right:
                yield f"{group_id} stands at {told}, and by the log at {right}"

    @property
    def is_given_up(self) -> bool:
        """Whether the groups have no coordinator at the moment."""
        return self.coordinator.runtime.base.partitions.state(PARTITION) is None

    def is_line_closed(self, group_id: str, member_id: str) -> bool:
        """Whether the connection that a member waits by is closed, as far as is known."""
        line = self.lines.get((group_id, member_id))
        return line is None or line.is_closed

    def commit_outside(self, group_id: str, key: TopicKey, offset: int) -> None:
        """Commit without being a member."""
        position = CommittedOffset(offset, commit_timestamp_ms=self.clock.wall_ms())
        request = CommitOffsets(group_id=group_id, offsets={key: position})
        one = Asked(request, Line())
        self.asked.append(one)
        self.journal.last = None
        self.coordinator.commit(request, one.answers.append)
        one.write = self.journal.last

    def loaded_anew(self) -> None:
        """Go by what the log says of groups from now on."""
        self.before = {}
        self.lines.clear()
        self.given.clear()
        for group_id, value in self.journal.state().groups.items():
            if (said := group_said(value)) is not None:
                self.given[group_id, said.generation] = {
                    member.instance_id or member.member_id: member.assignment
                    for member in said.members
                }

    def wrong_load(self) -> Iterator[str]:
        """Name what was made of the log otherwise than it says."""
        state = self.journal.state()
        for group_id in dict.fromkeys([*self.coordinator.reading.group_ids(), *state.groups]):
            value, view = state.groups.get(group_id), self.view(group_id)
            said = None if value is None else group_said(value)
            found = [] if view is None else _seats(self.group(group_id))
            wanted = [] if said is None else [member[:3] + member[4:] for member in said.members]
            if sorted(found, key=repr) != sorted(wanted, key=repr):
                yield f"{group_id} is loaded with {found}, and has {wanted}"
            if view is None:
                if value is not None:
                    yield f"{group_id} is not loaded"
                continue
            generation = 0 if said is None else said.generation
            if view.generation != generation or view.state is not _loaded_state(said):
                yield f"{group_id} is loaded as {view}, of {said}"


def _loaded_state(said: GroupSaid | None) -> GroupState:
    """Return how a group is loaded: one that was a consumer group has no leader, and rebalances."""
    if said is None or not said.members:
        return EMPTY
    return STABLE if said.leader_id is not None else PREPARING


def _seats(group: Group | None) -> list[tuple[Any, ...]]:
    assert group is not None
    return [
        (member.member_id, member.instance_id, member.session_timeout_ms, member.assignment)
        for member in group.members.values()
    ]


def _places_of(state: Reading) -> dict[str, dict[tuple[str, int], tuple[Any, ...]]]:
    found: dict[str, dict[tuple[str, int], tuple[Any, ...]]] = {}
    for (group_id, topic, partition), position in state.positions.items():
        found.setdefault(group_id, {})[topic, partition] = position[:3]
    return found


def _short(committed_offset: CommittedOffset) -> tuple[Any, ...]:
    return committed_offset.offset, committed_offset.metadata, committed_offset.topic_id
