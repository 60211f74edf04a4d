"""A small language for tests of streams groups: members beat by name."""

from penstock.base.ids import MemberEpoch, TopologyEpoch
from penstock.groups.assigned.messages import HeartbeatReply
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.streams.messages import StreamsHeartbeat, StreamsReply
from penstock.groups.streams.status import StatusCode
from penstock.groups.streams.tasks import Role, Tasks, of_role
from penstock.groups.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
)
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import GROUP, World, only

REJOINS = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,  # a group that nobody uses goes after some seconds
}
TIMEOUT_MS = 60_000
SESSION_MS = 45_000


def internal(name: str, partitions: int = 0) -> InternalTopic:
    return InternalTopic(name, partitions, 0, (("cleanup.policy", "compact"),))


def part(
    subtopology_id: str,
    *sources: str,
    changelogs: tuple[str, ...] = (),
    sinks: tuple[str, ...] = (),
    repartitions: tuple[InternalTopic, ...] = (),
    regexes: tuple[str, ...] = (),
    together: tuple[CopartitionGroup, ...] = (),
) -> Subtopology:
    logs = tuple(internal(name) for name in changelogs)
    return Subtopology(subtopology_id, sources, regexes, logs, sinks, repartitions, together)


STATELESS = Topology(TopologyEpoch(1), (part("0", "lines"),))
WORD_COUNT = Topology(
    TopologyEpoch(1),
    (
        part("0", "lines", sinks=("words",)),
        part("1", changelogs=("counts",), repartitions=(internal("words"),)),
    ),
)


class Troupe(World):
    """A World whose groups are streams groups; without delay unless a test asks for it."""

    def __init__(self, *, streams_initial_delay_ms: int = 0, **settings: int) -> None:
        super().__init__(
            has_turns=False, streams_initial_delay_ms=streams_initial_delay_ms, **settings
        )

    def beat_as(self, member_id: str, epoch: int, **said: object) -> list[HeartbeatReply]:
        """Send a heartbeat; the list gets its answer."""
        answers: list[HeartbeatReply] = []
        said.setdefault("group_id", GROUP)
        beat = StreamsHeartbeat(
            member_id=member_id,
            member_epoch=MemberEpoch(epoch),
            client_id=f"client-{member_id}",
            client_host="10.0.0.1",
            **said,  # type: ignore[arg-type]
        )
        self.coordinator.streams.heartbeat(beat, answers.append)
        return answers

    def enter(self, member_id: str, topology: Topology, **said: object) -> list[HeartbeatReply]:
        """Join, with everything that a client says then; each member is a process of its own."""
        default = {"owned": {}, "rebalance_timeout_ms": TIMEOUT_MS, "process_id": f"p-{member_id}"}
        return self.beat_as(member_id, 0, topology=topology, **{**default, **said})

    def entered(self, member_id: str, topology: Topology, **said: object) -> HeartbeatReply:
        """Join, and return the answer, which must be there."""
        return only(self.enter(member_id, topology, **said))

    def group(self) -> StreamsGroup:
        """The group itself."""
        found = self.coordinator._table.groups[GROUP]
        assert isinstance(found, StreamsGroup), found
        return found

    def words(self) -> None:
        """Create all topics of WORD_COUNT, of three partitions each."""
        for name in ("lines", "words", "counts"):
            self.cluster.create(name, 3)


class Player:
    """One member of a streams group."""

    def __init__(self, troupe: Troupe, member_id: str, topology: Topology, **said: object) -> None:
        self.troupe, self.member_id, self.topology, self.said = troupe, member_id, topology, said
        self.epoch = 0
        self.owned: Tasks = {}
        self.is_lost = False
        """Whether the last answer was lost: it says everything then, as clients do."""
        self.answer = HeartbeatReply(error=ErrorCode.NONE)

    def beat(self, **said: object) -> "Player":
        """Send one heartbeat, and do as it is answered."""
        if self.epoch == 0:
            self.owned = {}
            answers = self.troupe.enter(self.member_id, self.topology, **{**self.said, **said})
        else:
            if self.is_lost:
                said = {**self.said, "rebalance_timeout_ms": TIMEOUT_MS, **said}
            answers = self.troupe.beat_as(self.member_id, self.epoch, owned=self.owned, **said)
        self.answer = only(answers)
        self.is_lost = self.answer.error is not ErrorCode.NONE
        if self.answer.error in REJOINS:
            self.epoch, self.owned = 0, {}
        elif self.answer.error is ErrorCode.NONE:
            self.epoch = self.answer.member_epoch
            if self.answer.assignment is not None:
                self.owned = self.answer.assignment
        return self

    def leave(self) -> HeartbeatReply:
        answer = only(self.troupe.beat_as(self.member_id, -1))
        self.epoch, self.owned = 0, {}
        return answer

    def tasks(self, role: Role = Role.ACTIVE) -> set[tuple[str, int]]:
        found = of_role(self.owned, role)
        return {(one, number) for one, numbers in found.items() for number in numbers}

    @property
    def codes(self) -> list[StatusCode]:
        """The codes of the statuses in the last answer."""
        assert isinstance(self.answer, StreamsReply), self.answer
        return [status.code for status in self.answer.statuses]

    @property
    def reply(self) -> StreamsReply:
        assert isinstance(self.answer, StreamsReply), self.answer
        return self.answer


def settle(*players: Player) -> None:
    """Let all of them beat until nothing changes any more."""
    for _ in range(20):
        before = [(one.epoch, one.owned) for one in players]
        for one in players:
            one.beat()
        if before == [(one.epoch, one.owned) for one in players]:
            return
    raise AssertionError([(one.member_id, one.epoch, one.tasks()) for one in players])
