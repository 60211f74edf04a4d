"""A member of a share group, without a connection: it yields requests and is sent the answers.

    heartbeat ─► assignment ─► of each leader: words on what it holds ─► fetch ─► holds ─┐
        ▲                                                                             │
        └─────────────────────────────────────────────────────────────────────────────┘

`turn` is one round. Who runs it sends each request and answers with `send`, or throws NoAnswer, as
after a lost connection: the session with that leader is over then, and what was held there is not
spoken of any more. At random a record is accepted, released, rejected, renewed, or left to its
lock, with the next fetch or in a request of its own.

Source: KIP-932, KIP-1222 (renew), KIP-1206 (acquire modes).
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.read import iter_batches, iter_records
from simulator.history.shares import Handed, Kind, LostAnswer, Place, Settled, ShareNotes

VERSION_OF_RENEW = 2
HEARTBEAT_VERSION = 1
WAIT_MS = 100
MAX_BYTES = 1 << 20
EPOCH_OPEN, EPOCH_CLOSE, EPOCH_LAST = 0, -1, 2**31 - 1
JOIN, LEAVE = 0, -1
MODE_RECORD_LIMIT = 1
HELD_MAX = 2_000
NO_LEADER = -1
_REJOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_SESSION_LOST = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)


class NoAnswer(Exception):
    """Thrown into a turn: the request was not answered."""


class TryLater(Exception):
    """Raised by a turn: something is not there just now. Metadata may be old."""


class Ask(NamedTuple):
    """A request; `leader` None goes to the coordinator of the group."""

    leader: int | None
    key: ApiKey
    version: int
    fields: Mapping[str, Any]


Turn = Generator[Ask, Any, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What a member does with a record, in parts of one; the rest is accepted."""

    released: float = 0.15
    rejected: float = 0.1
    renewed: float = 0.05
    forgotten: float = 0.02
    """Left to its lock."""


@dataclass(slots=True)
class Session:
    """A share session with one leader, and what the member holds there."""

    epoch: int = EPOCH_OPEN
    partitions: set[int] = field(default_factory=set)
    held: dict[Place, Handed] = field(default_factory=dict)
    gaps: set[Place] = field(default_factory=set)

    def advance(self) -> None:
        """The request of this epoch was answered."""
        self.epoch = self.epoch + 1 if self.epoch < EPOCH_LAST else 1


@dataclass(slots=True, kw_only=True)
class ShareMember:
    """See the module."""

    group: str
    topic: str
    name: str
    """Its member id."""
    random: Random
    notes: ShareNotes
    now_ns: Callable[[], int]
    version: int
    """Of ShareFetch and ShareAcknowledge."""
    hosts: Mapping[int, str] = field(default_factory=dict)
    """Of leaders, as far as anybody wants to know."""
    habits: Habits = Habits()
    is_draining: bool = False
    """Whether it accepts everything from now on."""
    epoch: int = JOIN
    beat_due_ns: int = 0
    topic_id: UUID | None = None
    assigned: list[int] = field(default_factory=list)
    sessions: dict[int, Session] = field(default_factory=dict)
    """By leader."""
    last_error: str = ""

    def turn(self, leaders: Mapping[int, int]) -> Turn:
        """One round; `leaders` by partition. Raises NoAnswer, TryLater."""
        if self.now_ns() >= self.beat_due_ns:
            yield from self._beat()
        by_leader: dict[int, set[int]] = defaultdict(set)
        for partition in self.assigned:
            leader = leaders.get(partition, NO_LEADER)
            if leader == NO_LEADER:
                raise self._later(f"partition {partition} has no leader")
            by_leader[leader].add(partition)
        for gone in sorted(set(self.sessions) - set(by_leader)):
            del self.sessions[gone]
        for leader, partitions in sorted(by_leader.items()):
            yield from self._serve(leader, partitions)

    def leave(self) -> Turn:
        """Close the sessions, which releases what is held, and leave."""
        for leader, session in sorted(self.sessions.items()):
            if session.epoch != EPOCH_OPEN:
                fields = self._who(EPOCH_CLOSE) | {"topics": []}
                yield Ask(leader, ApiKey.SHARE_ACKNOWLEDGE, self.version, fields)
        self.sessions.clear()
        fields = {"group_id": self.group, "member_id": self.name, "member_epoch": LEAVE}
        yield Ask(None, ApiKey.SHARE_GROUP_HEARTBEAT, HEARTBEAT_VERSION, fields)

    def _beat(self) -> Turn:
        fields = {
            "group_id": self.group,
            "member_id": self.name,
            "member_epoch": self.epoch,
            "rack_id": None,
            "subscribed_topic_names": [self.topic] if self.epoch == JOIN else None,
        }
        answer = yield Ask(None, ApiKey.SHARE_GROUP_HEARTBEAT, HEARTBEAT_VERSION, fields)
        code = ErrorCode(answer.error_code)
        if code in _REJOIN:
            self.epoch = JOIN
        if code is not ErrorCode.NONE:
            raise self._later(f"heartbeat: {code.name}")
        self.epoch = answer.member_epoch
        interval_ms = answer.heartbeat_interval.total_seconds() * 1_000
        self.beat_due_ns = self.now_ns() + round(interval_ms * 1e6)
        if answer.assignment is not None:
            self.assigned = []
            for topic in answer.assignment.topic_partitions:
                self.topic_id, self.assigned = topic.topic_id, sorted(topic.partitions)
                self.notes.topic_id = self.topic_id
        if not self.assigned:
            # Until the topic is known to the coordinator there is nothing to wait for.
            self.beat_due_ns = self.now_ns()
            raise self._later("nothing is assigned")

    def _later(self, why: str) -> TryLater:
        self.last_error = why
        return TryLater(why)

    # --- one leader ----------------------------------------------------------------------------

    def _serve(self, leader: int, partitions: set[int]) -> Turn:
        session = self.sessions.setdefault(leader, Session())
        words = self._words(session)
        if self.version >= VERSION_OF_RENEW:
            renewed = {place for place, kind in words.items() if kind is Kind.RENEW}
            if renewed:
                again = dict.fromkeys(renewed, Kind.RENEW)
                yield from self._acknowledge(leader, session, again, is_renewing=True)
            words = {place: kind for place, kind in words.items() if place not in renewed}
        moved = {place for place in words if place[0] not in partitions}
        if words and (moved or self.random.random() < 0.5):
            yield from self._acknowledge(leader, session, words)
            words = {}
        if len(session.held) < HELD_MAX:
            yield from self._fetch(leader, session, partitions, words)

    def _words(self, session: Session) -> dict[Place, Kind]:
        """Choose what to say of what is held; what is forgotten is not held any more."""
        words: dict[Place, Kind] = dict.fromkeys(session.gaps, Kind.GAP)
        for place in [*session.held]:
            kind = self._choose()
            if kind is None:
                del session.held[place]
            else:
                words[place] = kind
        return words

    def _choose(self) -> Kind | None:
        if self.is_draining:
            return Kind.ACCEPT
        draw, habits = self.random.random(), self.habits
        for kind, part in (
            (Kind.RELEASE, habits.released),
            (Kind.REJECT, habits.rejected),
            (Kind.RENEW if self.version >= VERSION_OF_RENEW else Kind.ACCEPT, habits.renewed),
            (None, habits.forgotten),
        ):
            if draw < part:
                return kind
            draw -= part
        return Kind.ACCEPT

    def _acknowledge(
        self,
        leader: int,
        session: Session,
        words: Mapping[Place, Kind],
        *,
        is_renewing: bool = False,
    ) -> Turn:
        fields = self._who(session.epoch) | {
            "is_renew_ack": is_renewing,
            "topics": [self._topic(words, words)],
        }
        asked_ns = self.now_ns()
        ask = Ask(leader, ApiKey.SHARE_ACKNOWLEDGE, self.version, fields)
        answer = yield from self._ask(ask, words, asked_ns)
        codes = {
            one.partition_index: ErrorCode(one.error_code)
            for topic in answer.responses
            for one in topic.partitions
        }
        self._heard(leader, session, words, asked_ns, (ErrorCode(answer.error_code), codes))

    def _fetch(
        self, leader: int, session: Session, partitions: set[int], words: Mapping[Place, Kind]
    ) -> Turn:
        told = {place[0] for place in words}
        new = partitions - session.partitions
        gone = session.partitions - partitions
        limit = self.random.choice((1, 10, 500))
        fields = self._who(session.epoch) | {
            "max_wait": WAIT_MS,
            "max_wait_ms": WAIT_MS,
            "min_bytes": 1,
            "max_bytes": MAX_BYTES,
            "max_records": limit,
            "batch_size": limit,
            "share_acquire_mode": self.random.choice((0, MODE_RECORD_LIMIT)),
            "is_renew_ack": False,
            "topics": [self._topic(new | told, words)] if new | told else [],
            "forgotten_topics_data": (
                [{"topic_id": self.topic_id, "partitions": sorted(gone)}] if gone else []
            ),
        }
        asked_ns = self.now_ns()
        session.partitions = set(partitions)
        ask = Ask(leader, ApiKey.SHARE_FETCH, self.version, fields)
        answer = yield from self._ask(ask, words, asked_ns)
        found = [one for topic in answer.responses for one in topic.partitions]
        codes = {one.partition_index: ErrorCode(one.acknowledge_error_code) for one in found}
        self._heard(leader, session, words, asked_ns, (ErrorCode(answer.error_code), codes))
        for at, one in enumerate(found):
            code = ErrorCode(one.error_code)
            if code is not ErrorCode.NONE:
                self._lose([each.partition_index for each in found[at + 1 :]], asked_ns)
                self._end_session(leader)
                raise self._later(f"fetch of partition {one.partition_index}: {code.name}")
            self._take(leader, one, asked_ns)

    def _ask(
        self, ask: Ask, words: Mapping[Place, Kind], asked_ns: int
    ) -> Generator[Ask, Any, Any]:
        """Send; without an answer the session is over and all words may have counted."""
        assert ask.leader is not None
        try:
            answer = yield ask
        except NoAnswer:
            self._say(words, asked_ns, None, (ask.leader, False))
            if ask.key is ApiKey.SHARE_FETCH:
                self._lose(self.sessions[ask.leader].partitions, asked_ns)
            self._end_session(ask.leader)
            raise
        return answer

    def _heard(
        self,
        leader: int,
        session: Session,
        words: Mapping[Place, Kind],
        asked_ns: int,
        said: tuple[ErrorCode, Mapping[int, ErrorCode]],
    ) -> None:
        """Note what became of the words. Raises TryLater where the session is over."""
        whole, codes = said
        told_ns = self.now_ns()
        for place, kind in words.items():
            code = codes.get(place[0], ErrorCode.NONE) if whole is ErrorCode.NONE else whole
            is_refused = code in {ErrorCode.INVALID_RECORD_STATE, *_SESSION_LOST}
            is_heard = code is ErrorCode.NONE or is_refused
            self._say(
                {place: kind},
                asked_ns,
                told_ns if is_heard else None,
                (leader, code is ErrorCode.NONE),
            )
            if kind is not Kind.RENEW or code is not ErrorCode.NONE:
                session.held.pop(place, None)
                session.gaps.discard(place)
        if whole is not ErrorCode.NONE:
            self._end_session(leader)
            raise self._later(f"session with {leader}: {whole.name}")
        session.advance()
        wrong = [code for code in codes.values() if code is not ErrorCode.NONE]
        self.last_error = wrong[0].name if wrong else ""

    def _say(
        self,
        words: Mapping[Place, Kind],
        asked_ns: int,
        told_ns: int | None,
        answered: tuple[int, bool],
    ) -> None:
        """Note words; `answered`: whom they were said to, and whether they were taken."""
        leader, is_taken = answered
        self.notes.settled += [
            Settled(self.name, place, kind, asked_ns, told_ns, is_taken, leader)
            for place, kind in words.items()
        ]

    def _lose(self, partitions: Iterable[int], asked_ns: int) -> None:
        """Note that records of these may have been handed out, and nobody has seen it."""
        self.notes.lost += [LostAnswer(each, asked_ns, self.name) for each in sorted(partitions)]

    def _take(self, leader: int, found: Any, asked_ns: int) -> None:
        """Hold what was handed out; offsets without a record are gaps."""
        session, told_by = self.sessions[leader], self.hosts.get(leader, "")
        partition = found.partition_index
        values = {
            record.offset: (record.value or b"").decode()
            for header, batch in iter_batches(memoryview(found.records or b""))
            if not header.is_control
            for record in iter_records(batch)
        }
        told_ns = self.now_ns()
        for run in found.acquired_records:
            for offset in range(run.first_offset, run.last_offset + 1):
                place = partition, offset
                value = values.get(offset)
                if value is None:
                    session.gaps.add(place)
                    continue
                count = run.delivery_count
                handed = Handed(self.name, place, value, count, asked_ns, told_ns, told_by)
                self.notes.handed.append(handed)
                session.held[place] = handed

    def _end_session(self, leader: int) -> None:
        self.sessions.pop(leader, None)

    def _who(self, epoch: int) -> dict[str, Any]:
        return {"group_id": self.group, "member_id": self.name, "share_session_epoch": epoch}

    def _topic(self, partitions: Iterable[Any], words: Mapping[Place, Kind]) -> dict[str, Any]:
        numbers = {one if isinstance(one, int) else one[0] for one in partitions}
        return {
            "topic_id": self.topic_id,
            "partitions": [
                {
                    "partition_index": number,
                    "partition_max_bytes": 0,
                    "acknowledgement_batches": as_runs(
                        {place[1]: kind for place, kind in words.items() if place[0] == number}
                    ),
                }
                for number in sorted(numbers)
            ],
        }


def as_runs(words: Mapping[int, Kind]) -> list[dict[str, Any]]:
    """Return the words by offset as runs; a run of one word is told with a single number."""
    runs: list[tuple[int, list[int]]] = []
    for offset, kind in sorted(words.items()):
        if runs and runs[-1][0] + len(runs[-1][1]) == offset:
            runs[-1][1].append(int(kind))
        else:
            runs.append((offset, [int(kind)]))
    return [
        {
            "first_offset": first,
            "last_offset": first + len(kinds) - 1,
            "acknowledge_types": kinds[:1] if len(set(kinds)) == 1 else kinds,
        }
        for first, kinds in runs
    ]
