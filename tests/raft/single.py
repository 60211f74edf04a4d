"""One member alone, with everybody else played by the test."""

from collections.abc import Sequence
from typing import TypeVar

from penstock.base.ids import PeerId
from penstock.raft.config import RaftConfig
from penstock.raft.entry import Entry
from penstock.raft.ids import NO_INDEX, NO_TERM, DirectoryId, RaftIndex, Term
from penstock.raft.messages import (
    AppendEntries,
    AppendResponse,
    LearnerHello,
    Message,
    VoteRequest,
    VoteResponse,
)
from penstock.raft.raft import Raft
from penstock.raft.ready import HardState, Ready, Role, Snapshot
from tests.raft.group import CONFIG, voters

M = TypeVar("M")


def entry(index: int, term: int, payload: bytes = b"") -> Entry:
    return Entry(
        index=RaftIndex(index), term=Term(term), payload=payload or b"%d.%d" % (index, term)
    )


def entries(terms: Sequence[int], first: int = 1) -> tuple[Entry, ...]:
    return tuple(entry(first + position, term) for position, term in enumerate(terms))


class Single:
    """Member 1 of the given voters, with a disk that obeys, and its outbox."""

    def __init__(
        self,
        *,
        voter_ids: Sequence[int] = (1, 2, 3),
        terms: Sequence[int] = (),
        term: int | None = None,
        commit_index: int = 0,
        config: RaftConfig = CONFIG,
        own_id: int = 1,
        draw: int = 0,
    ) -> None:
        """`terms` are those of the log's entries; every draw of chance gives `draw`."""
        self.raft = Raft(
            own_id=PeerId(own_id),
            config=config,
            random_below=lambda below: min(draw, below - 1),
            hard_state=HardState(
                term=Term(max((0, *terms)) if term is None else term),
                commit_index=RaftIndex(commit_index),
            ),
            snapshot=Snapshot(configuration=voters(*voter_ids)),
            entries=entries(terms),
        )
        self.sent: list[tuple[int, Message]] = []
        self.readies: list[Ready] = []
        self.work()

    @property
    def terms(self) -> list[int]:
        """The terms of the log's entries."""
        return [e.term for e in self.raft._core.log._entries]

    def work(self) -> "Single":
        """Do everything that the member asks for."""
        while (ready := self.raft.ready()) is not None:
            self.readies.append(ready)
            self.sent.extend((*ready.messages, *ready.messages_persisted))
            self.raft.advance(ready)
        return self

    def step(self, *messages: Message) -> "Single":
        for message in messages:
            self.raft.step(message)
        return self.work()

    def tick(self, count: int = 1) -> "Single":
        for _ in range(count):
            self.raft.tick()
            self.work()
        return self

    def take(self, kind: type[M]) -> list[M]:
        """Return what was sent of this kind since the last look, and forget all that was sent."""
        taken: list[M] = []
        taken.extend(message for _, message in self.sent if isinstance(message, kind))
        self.sent.clear()
        return taken

    def one(self, kind: type[M]) -> M:
        (message,) = self.take(kind)
        return message

    # -- common situations

    def elected(self, votes: Sequence[int] = (2, 3)) -> "Single":
        """Become the leader by the votes of these."""
        for _ in range(100):
            if self.raft.role in {Role.PRE_CANDIDATE, Role.LEADER}:
                break
            self.tick()
        self.step(*(granted(v, self.raft.term + 1, is_pre_vote=True) for v in votes[:1]))
        while self.raft.role is Role.PRE_CANDIDATE:
            votes = votes[1:]
            self.step(granted(votes[0], self.raft.term + 1, is_pre_vote=True))
        for voter in (2, 3, 4, 5):
            if self.raft.role is Role.CANDIDATE:
                self.step(granted(voter, self.raft.term))
        assert self.raft.role is Role.LEADER
        return self

    def acknowledge(self, sender: int, match_index: int) -> "Single":
        return self.step(
            success(sender, self.raft.term, match_index, self.raft._roles.current.rounds.current)  # type: ignore[union-attr]
        )


def granted(
    sender: int, term: int, *, is_pre_vote: bool = False, is_granted: bool = True
) -> VoteResponse:
    return VoteResponse(
        sender=PeerId(sender), term=Term(term), is_pre_vote=is_pre_vote, is_granted=is_granted
    )


def vote_request(
    sender: int,
    term: int,
    last: tuple[int, int] = (0, 0),
    *,
    is_pre_vote: bool = False,
    is_transfer: bool = False,
) -> VoteRequest:
    """`last` is (term, index) of the candidate's last entry."""
    return VoteRequest(
        sender=PeerId(sender),
        term=Term(term),
        is_pre_vote=is_pre_vote,
        is_transfer=is_transfer,
        last_term=Term(last[0]),
        last_index=RaftIndex(last[1]),
    )


def append(
    sender: int,
    term: int,
    previous: tuple[int, int] = (0, 0),
    new: Sequence[Entry] = (),
    *,
    commit_index: int = 0,
    round_number: int = 1,
) -> AppendEntries:
    """`previous` is (term, index)."""
    return AppendEntries(
        sender=PeerId(sender),
        term=Term(term),
        previous_term=Term(previous[0]),
        previous_index=RaftIndex(previous[1]),
        entries=tuple(new),
        commit_index=RaftIndex(commit_index),
        round=round_number,
    )


def hello(sender: int, term: int = 0, *, directory_id: str, is_new: bool = False) -> LearnerHello:
    """The hello of a learner with an empty log."""
    return LearnerHello(
        sender=PeerId(sender),
        term=Term(term),
        last_index=NO_INDEX,
        last_term=NO_TERM,
        directory_id=DirectoryId(directory_id),
        is_new=is_new,
    )


def success(sender: int, term: int, match_index: int, round_number: int = 1) -> AppendResponse:
    return AppendResponse(
        sender=PeerId(sender),
        term=Term(term),
        round=round_number,
        is_success=True,
        match_index=RaftIndex(match_index),
        rejected_index=NO_INDEX,
        hint_index=NO_INDEX,
        hint_term=NO_TERM,
    )
