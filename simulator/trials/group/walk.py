"""A walk with one coordinator: draws the requests of the clients of its groups; see groups.py.

clients know their answers ─► most requests are valid for their state, some are not
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from penstock.groups.config import GroupConfig
from penstock.groups.messages import (
    CommitOffsets,
    Heartbeat,
    JoinGroup,
    JoinReply,
    MemberIdentity,
    OfferedProtocol,
    SyncGroup,
    SyncReply,
)
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.protocol.error_codes import ErrorCode
from simulator.checks.groups.log import Entry, read_log
from simulator.checks.groups.rules import (
    COMPLETING,
    STABLE,
    View,
    beat_error,
    commit_error,
    join_error,
    leave_error,
    sync_error,
)
from simulator.clients.group_wire import subscription
from simulator.trials.group.desk import OK, Asked, Desk, Line
from simulator.trials.group.upkeep import Upkeep
from simulator.trials.paper_journal import PaperJournal

REBALANCE_MS, DELAY_MS = 3_000, 100
SESSIONS_MS = (1_000, 8_000)
"""Shorter than a rebalance, and longer: who is silent goes before it is over, or stays in it."""
TOPICS = ("history", "other")
IDS = (None, b"id of some topic")
WRONG_SHARE = 0.12
"""How often a client says what it should not."""
PROMPT_SHARE = 0.6
"""How often what is written is confirmed at once, to begin with."""
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
OFFERS = (
    (("range", 0), ("sticky", 0)),
    (("sticky", 0), ("range", 0)),
    (("range", 1), ("sticky", 1)),
    (("range", 0),),
)


@dataclass(slots=True, eq=False)
class Client:
    """What a client knows of its group."""

    group_id: str
    name: str
    instance_id: str | None
    offer: int
    member_id: str = ""
    generation: int = -1
    seen: tuple[str, ...] = ()
    waits: Asked | None = None
    line: Line | None = None


class GroupWalk:
    """See the module."""

    def __init__(self, entries: Sequence[Entry], draw: Random) -> None:
        """`entries`: the log that it begins with."""
        self._random = draw
        config = GroupConfig(
            partition_count=1,
            session_timeout_min_ms=1,
            initial_rebalance_delay_ms=draw.choice((0, DELAY_MS)),
            new_member_join_timeout_ms=4_000,
            group_size_max=draw.choice((3, 8)),
            offsets_retention_ms=50_000,
            expiry_check_interval_ms=1 << 40,
        )
        self._desk = Desk(PaperJournal(entries), config)
        self._upkeep = Upkeep(self._desk, draw)
        known = list(read_log(entries).groups)[:1]
        self._clients = [
            Client(group_id, f"c{n}", f"i{n}" if n % 2 else None, offer=draw.choice((0, 0, 1, 3)))
            for group_id in [*known, "orders", "others"][:2]
            for n in range(4)
        ]
        self._session_ms = draw.choice(SESSIONS_MS)
        self._desk.journal.is_prompt = draw.random() < PROMPT_SHARE
        self._trail: list[str] = []

    def run(self, steps: int) -> Iterator[str]:
        """Go; yield what is wrong, up to the first step that something is wrong with."""
        ways = self._ways()
        for name, do in self._upkeep.opening():
            if texts := self._step(name, do):
                yield from texts
                return
        for _ in range(steps):
            (many,) = self._random.choices([one for _, one in ways], [share for share, _ in ways])
            for name, do in many():
                if texts := self._step(name, do):
                    yield from texts
                    return

    def _step(self, name: str, do: Callable[[], Iterator[str]]) -> list[str]:
        self._trail.append(name)
        texts = list(self._desk.step(do))
        self._hear()
        return [f"{text}, after {self._trail[-8:]}" for text in texts]

    def _ways(self) -> list[tuple[float, Callable[[], Iterator[Any]]]]:
        one = self._one
        return [
            (3, partial(one, self._join)),
            (3, partial(one, self._sync)),
            (2, partial(one, self._beat)),
            (4, partial(one, self._commit)),
            (1, partial(one, self._leave)),
            (1, partial(one, self._forget)),
            (3, self._meet),
            (3, self._sync_all),
            *self._upkeep.ways(),
        ]

    def _one(self, do: Callable[[Client], Iterator[str]]) -> Iterator[Any]:
        client = self._random.choice(self._clients)
        yield f"{do.__name__[1:]} {client.name}", partial(do, client)

    def _meet(self) -> Iterator[Any]:
        """All members that are not waiting join, and the rebalance has enough time."""
        group_id = self._random.choice(self._clients).group_id
        for _ in range(2):
            for client in self._clients:
                if client.group_id == group_id and client.waits is None:
                    yield f"meet {client.name}", partial(self._join, client)
        for _ in range(self._random.choice((1, 4))):
            yield from self._upkeep.to_next_deadline()

    def _sync_all(self) -> Iterator[Any]:
        share = self._random.choice((0.6, 1.0))
        clients = [one for one in self._clients if self._random.random() < share]
        for client in self._random.sample(clients, len(clients)):
            if client.generation >= 0 and client.waits is None:
                yield f"sync {client.name}", partial(self._sync, client)

    # What is said

    def _is_wrong(self) -> bool:
        return self._random.random() < WRONG_SHARE

    def _id_of(self, client: Client, view: View | None) -> str:
        if not self._is_wrong():
            return client.member_id
        known = [] if view is None else [*view.members, *view.pending]
        return self._random.choice([*known, "nobody", ""])

    def _instance_of(self, client: Client) -> str | None:
        return self._random.choice((None, "i1", "i3")) if self._is_wrong() else client.instance_id

    def _generation_of(self, client: Client) -> int:
        change = self._random.choice((-1, 1)) if self._is_wrong() else 0
        return max(client.generation + change, -1)

    def _join(self, client: Client) -> Iterator[str]:
        desk, view = self._desk, self._desk.view(client.group_id)
        if self._is_wrong():
            client.offer = self._random.randrange(len(OFFERS))
        offer = OFFERS[client.offer]
        old, line = client.line, Line()
        if old is not None and self._random.random() < 0.5:
            old.is_closed = True
        asked = JoinGroup(
            group_id=client.group_id,
            member_id=self._id_of(client, view),
            instance_id=self._instance_of(client),
            client_id=client.name,
            client_host="host",
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=tuple(
                OfferedProtocol(name, subscription([]) + b"!" * more) for name, more in offer
            ),
            member_id_required=client.instance_id is None and self._random.random() < 0.8,
            can_skip_assignment=client.name == "c1",
            is_gone=lambda: line.is_closed,
        )
        one = self._ask(client, asked, line)
        desk.coordinator.join(asked, one.answers.append)
        client.waits, client.line = one, line
        yield from self._wrong_at_once(
            asked, one, join_error(view, asked, desk.config.group_size_max)
        )
        after = desk.view(client.group_id)
        if after is not None and not one.answers:
            self._note_line(asked, view, after, line)

    def _note_line(self, asked: JoinGroup, view: View | None, after: View, line: Line) -> None:
        new = [member for member in after.members if view is None or member not in view.members]
        who = asked.member_id or (new[-1] if new else "")
        self._desk.lines[asked.group_id, who] = line

    def _sync(self, client: Client) -> Iterator[str]:
        desk, view = self._desk, self._desk.view(client.group_id)
        generation = self._generation_of(client)
        given = {one: f"{one}@{generation}".encode() for one in client.seen}
        asked = SyncGroup(
            group_id=client.group_id,
            generation=generation,
            member_id=self._id_of(client, view),
            instance_id=self._instance_of(client),
            protocol_type=None,
            protocol_name=None,
            assignments=given,
        )
        error = sync_error(view, asked)
        if view is not None and error is None and view.state is COMPLETING:
            key = (client.group_id, view.generation)
            if view.leader_id == asked.member_id and key not in desk.given:
                desk.given[key] = {
                    seat.instance_id or one: given.get(one, b"")
                    for one, seat in view.members.items()
                }
        one = self._ask(client, asked, Line())
        desk.coordinator.sync(asked, one.answers.append)
        client.waits = one
        yield from self._wrong_at_once(asked, one, error)
        if error is None and view is not None and view.state is STABLE and not one.answers:
            yield f"{asked} is not answered in a stable group"

    def _beat(self, client: Client) -> Iterator[str]:
        view = self._desk.view(client.group_id)
        member_id, instance_id = self._id_of(client, view), self._instance_of(client)
        generation = self._generation_of(client)
        asked = Heartbeat(
            group_id=client.group_id,
            member_id=member_id,
            instance_id=instance_id,
            generation=generation,
        )
        told = self._desk.coordinator.heartbeat(asked)
        right = beat_error(view, member_id, instance_id, generation)
        if told is not right:
            yield f"{asked} hears {told.name}, and has to hear {right.name}, of {view}"
        if told in LOST and member_id == client.member_id:
            client.member_id = ""

    def _commit(self, client: Client) -> Iterator[str]:
        desk, view = self._desk, self._desk.view(client.group_id)
        is_outside = self._random.random() < 0.4
        positions = {
            TopicKey(self._random.choice(TOPICS), self._random.randrange(2)): CommittedOffset(
                self._random.randrange(1_000),
                metadata="x" * self._random.randrange(4),
                commit_timestamp_ms=desk.clock.wall_ms(),
                topic_id=self._random.choice(IDS),
            )
            for _ in range(self._random.choice((1, 2)))
        }
        asked = CommitOffsets(
            group_id=client.group_id,
            generation=-1 if is_outside else self._generation_of(client),
            member_id="" if is_outside else self._id_of(client, view),
            instance_id=None if is_outside else self._instance_of(client),
            offsets=positions,
        )
        error = commit_error(view, asked)
        desk.journal.last = None
        one = Asked(asked, Line())
        desk.asked.append(one)
        desk.coordinator.commit(asked, one.answers.append)
        one.write = desk.journal.last
        told = set(one.answers[0].values()) if one.answers else set()
        if error is not None and told != {error}:
            yield f"{asked} hears {told}, and has to hear {error.name}, of {view}"
        if error is None and told - {OK} and desk.journal.refuses is None:
            yield f"{asked} hears {told}, of {view}"

    def _leave(self, client: Client) -> Iterator[str]:
        view = self._desk.view(client.group_id)
        member_identity = MemberIdentity(self._id_of(client, view), self._instance_of(client))
        reply = self._desk.coordinator.leave(client.group_id, (member_identity,))
        right = leave_error(view, member_identity)
        if reply.error is OK and reply.members[0].error is not right:
            told = reply.members[0].error.name
            yield f"{member_identity} hears {told}, and has to hear {right.name}"
        client.member_id = ""

    def _forget(self, client: Client) -> Iterator[str]:
        """Its process dies, and comes back without what it knew."""
        if client.line is not None:
            client.line.is_closed = True
        client.member_id, client.generation, client.waits, client.seen = "", -1, None, ()
        yield from ()

    # What is heard

    def _ask(self, client: Client, request: Any, line: Line) -> Asked:
        asked = Asked(request, line)
        self._desk.asked.append(asked)
        return asked

    def _wrong_at_once(self, asked: Any, one: Asked, error: ErrorCode | None) -> Iterator[str]:
        told = one.answers[0].error if one.answers else None
        if error is not None and told is not error:
            yield f"{asked} hears {told}, and has to hear {error.name}"
        is_refused = told not in (None, OK)
        if error is None and is_refused and self._desk.journal.refuses is None:
            yield f"{asked} hears {told}, and nothing is wrong with it"

    def _hear(self) -> None:
        for client in self._clients:
            if client.waits is not None and client.waits.answers:
                answer, client.waits = client.waits.answers[0], None
                if isinstance(answer, JoinReply):
                    _hear_join(client, answer)
                elif isinstance(answer, SyncReply) and answer.error in LOST:
                    client.member_id = ""


def _hear_join(client: Client, answer: JoinReply) -> None:
    if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
        client.member_id = answer.member_id
    elif answer.error in LOST:
        client.member_id = ""
    elif answer.error is OK:
        client.member_id, client.generation = answer.member_id, answer.generation
        is_leader = answer.leader_id == answer.member_id
        client.seen = tuple(member.member_id for member in answer.members) if is_leader else ()
