"""What a broker hears of a command that was asked for more than once, or may have happened."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from harness.ids import as_brokers
from harness.log_world import World
from penstock.base.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PeerId,
    ReplicaSetId,
    RequestId,
    SyncStateSetEpoch,
)
from penstock.controller.commands.codec import encode_answer, encode_error
from penstock.controller.commands.command import ChangeSyncStateSet, Command, CreateCluster
from penstock.controller.errors import (
    MetadataQueueFull,
    MetadataTimeout,
    NotActiveController,
    StaleSyncStateSet,
)
from penstock.controller.replicated_log import NO_LEADER, MachineIndex
from penstock.runtime.session.active import ActiveTracker
from penstock.runtime.session.commands import LocalLog, SessionCommands
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.link import AnswerLost, ControllerSession
from penstock.runtime.session.messages import SubmitOutcome
from tests.net.serving import run

CHANGE = ChangeSyncStateSet(
    replica_set_id=ReplicaSetId(1),
    master=BrokerId(1),
    leader_epoch=LeaderEpoch(2),
    sync_state_set_epoch=SyncStateSetEpoch(3),
    sync_state_set=as_brokers(1),
)
CREATE = CreateCluster(cluster_id="c")


class Controllers:
    """The one controller that there is, and this broker's copy of its log: they say what they are
    told to, one thing after the other.
    """

    local_id = NO_LEADER

    def __init__(self, *answers: SubmitOutcome | Exception, is_wait_refused: bool = False) -> None:
        self.answers = list(answers)
        self.is_wait_refused = is_wait_refused
        self.waited_for: list[int] = []

    def session(self, _: int) -> ControllerSession:
        return cast("ControllerSession", self)

    def open_sessions(self) -> Iterable[ControllerSession]:
        return ()

    async def ask(self, _: object) -> SubmitOutcome:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def submit(self, _: object) -> Any:
        raise NotActiveController(PeerId(-1))

    async def wait_until_applied(self, log_index: int, timeout_ms: int) -> bool:
        if self.is_wait_refused:
            raise MetadataQueueFull(log_index)
        self.waited_for.append(log_index)
        return timeout_ms > 0


def refusal(error: Any) -> SubmitOutcome:
    return SubmitOutcome(request_id=RequestId(1), error=encode_error(error))


def ask(controllers: Controllers, command: Command[Any]) -> Any:
    found = []

    async def work() -> None:
        tracker = ActiveTracker()
        tracker.on_heartbeat_answer(active_id=PeerId(5), controller_epoch=ControllerEpoch(1))
        asking = SessionCommands(
            controllers,
            tracker,
            cast("LocalLog", controllers),
            config=SessionConfig(),
            clock=World(),
        )
        found.append(await asking.submit(command))

    run(work())
    return found[0]


LOST = AnswerLost("the session closed")
OPEN = SubmitOutcome(request_id=RequestId(1), is_fate_open=True)
FULL = refusal(MetadataQueueFull(3))


def test_a_command_that_nobody_took_says_so() -> None:
    with pytest.raises(MetadataQueueFull):
        ask(Controllers(FULL), CREATE)


@pytest.mark.parametrize("first", [LOST, OPEN])
def test_a_full_queue_does_not_hide_that_an_earlier_attempt_may_have_happened(
    first: SubmitOutcome | Exception,
) -> None:
    with pytest.raises(MetadataTimeout):
        ask(Controllers(first, FULL), CREATE)


@pytest.mark.parametrize("first", [LOST, OPEN])
def test_a_change_of_the_sync_state_set_is_not_repeated_behind_its_masters_back(
    first: SubmitOutcome | Exception,
) -> None:
    controllers = Controllers(first, refusal(StaleSyncStateSet(3, 4)))
    with pytest.raises(MetadataTimeout):
        ask(controllers, CHANGE)
    assert len(controllers.answers) == 1, "the next attempt is its master's"


def test_a_command_that_was_taken_is_not_called_refused_for_want_of_room_to_wait() -> None:
    taken = SubmitOutcome(
        request_id=RequestId(1), applied_index=MachineIndex(9), answer=encode_answer("c")
    )
    with pytest.raises(MetadataTimeout):
        ask(Controllers(taken, is_wait_refused=True), CREATE)
    assert ask(Controllers(taken), CREATE) == "c"


def test_who_is_refused_sees_what_it_was_refused_by() -> None:
    # The caller looks at its image next: a master that is told of a newer set must find that there.
    stale = replace(refusal(StaleSyncStateSet(3, 4)), applied_index=MachineIndex(7))
    controllers = Controllers(stale)
    with pytest.raises(StaleSyncStateSet):
        ask(controllers, CHANGE)
    assert controllers.waited_for == [7]


def test_nobody_waits_for_a_command_that_was_not_taken() -> None:
    controllers = Controllers(replace(FULL, applied_index=MachineIndex(7)))
    with pytest.raises(MetadataQueueFull):
        ask(controllers, CREATE)
    assert controllers.waited_for == []
