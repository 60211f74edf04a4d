"""A controller's sessions, one message at a time, through channels within the process."""

from dataclasses import replace

from harness.waiting import until
from penstock.base.ids import BrokerId, ControllerEpoch, PeerId, ReplicaSetId, RequestId, SessionId
from penstock.controller.commands.codec import decode_answer, decode_error, encode_command
from penstock.controller.commands.command import CreateCluster, CreateTopics, NewTopic
from penstock.controller.errors import MetadataQueueFull, NotActiveController, RefusedCommand
from penstock.controller.session import (
    NO_HEARTBEAT,
    ElectRequest,
    Heartbeat,
    HeartbeatAnswer,
    OperationAnswer,
    ProbeAnswer,
    StatusAnswer,
    StatusRequest,
    Submit,
)
from penstock.net.peer import PeerHello, dial
from penstock.runtime.session.channel import LocalChannel
from penstock.runtime.session.messages import (
    PURPOSE,
    ChangeFeature,
    FeaturesRequest,
    SessionMessage,
    SubmitOutcome,
)
from penstock.runtime.session.service import REQUESTS_MAX
from tests.runtime.session_cluster import (
    SECURITY,
    ControllerProcess,
    WatchedBrain,
    on_loop,
    session_cluster,
)

SENT_MS = 77
SECOND_PROCESS = 1 << 40
"""Session ids of another process: the upper half is not the same."""


def sessions(brain: WatchedBrain) -> list[tuple[object, ...]]:
    return [event for event in brain.events if event[0] != "leadership"]


class Caller:
    """A broker's end of a session with what came out of it."""

    def __init__(self, controller: ControllerProcess, broker_id: int, session_id: int) -> None:
        self.messages: list[SessionMessage] = []
        self.reasons: list[str] = []
        self.channel: LocalChannel = controller.service.open_local(
            BrokerId(broker_id), SessionId(session_id)
        )
        self.channel.start(self.messages.append, self.reasons.append)
        self.send = self.channel.send

    def heartbeat(self, broker_id: int, session_id: int, identity: str = "disks") -> None:
        self.send(
            Heartbeat(
                session_id=SessionId(session_id),
                broker_id=BrokerId(broker_id),
                incarnation="i",
                identity=identity,
                sent_ms=SENT_MS,
            )
        )

    async def next(self) -> SessionMessage:
        await until(lambda: bool(self.messages))
        return self.messages.pop(0)


def create(request_id: int) -> Submit:
    return Submit(
        request_id=RequestId(request_id), command=encode_command(CreateCluster(cluster_id="c"))
    )


@on_loop
async def test_heartbeat_answer_says_who_is_active_and_who_should_register() -> None:
    async with session_cluster(2) as cluster:
        caller = Caller(cluster.controllers[1], 11, 5)
        cluster.controllers[1].brain.unknown.add(11)
        caller.heartbeat(11, 5)
        assert await caller.next() == HeartbeatAnswer(
            active_id=PeerId(-1), controller_epoch=ControllerEpoch(0), sent_ms=SENT_MS
        )
        cluster.group.lead(2)
        told = HeartbeatAnswer(
            active_id=PeerId(2), controller_epoch=ControllerEpoch(1), sent_ms=SENT_MS
        )
        assert await caller.next() == replace(told, sent_ms=NO_HEARTBEAT), "pushed"
        caller.heartbeat(11, 5)
        assert await caller.next() == told, "only the active one asks for registration"
        cluster.group.lead(1)
        assert await caller.next() == HeartbeatAnswer(
            active_id=PeerId(1), controller_epoch=ControllerEpoch(2), sent_ms=NO_HEARTBEAT
        )
        caller.heartbeat(11, 5)
        assert await caller.next() == HeartbeatAnswer(
            active_id=PeerId(1),
            controller_epoch=ControllerEpoch(2),
            is_registration_wanted=True,
            sent_ms=SENT_MS,
        )


@on_loop
async def test_newer_session_replaces_the_older_whose_late_words_change_nothing() -> None:
    async with session_cluster(1) as cluster:
        brain = cluster.controllers[1].brain
        older = Caller(cluster.controllers[1], 11, 5)
        newer = Caller(cluster.controllers[1], 11, 6)
        older.heartbeat(11, 5)
        older.send(ProbeAnswer(request_id=RequestId(1), reports=()))
        newer.heartbeat(11, 6)
        await newer.next()
        await until(lambda: older.reasons == ["a newer session was opened"])
        assert sessions(brain) == [("opened", 11, 5), ("opened", 11, 6)], "no close is told"
        assert [heartbeat.session_id for heartbeat in brain.heartbeats] == [6]
        assert brain.answers == []
        newer.channel.close("stopped")
        await until(lambda: brain.events[-1] == ("closed", 11, 6))


@on_loop
async def test_older_session_of_the_same_process_that_comes_late_is_refused() -> None:
    async with session_cluster(1) as cluster:
        brain = cluster.controllers[1].brain
        newer = Caller(cluster.controllers[1], 11, 6)
        late = Caller(cluster.controllers[1], 11, 5)
        await until(lambda: late.reasons == ["a newer session is open"])
        newer.heartbeat(11, 6)
        await newer.next()
        assert sessions(brain) == [("opened", 11, 6)]


@on_loop
async def test_session_of_a_restarted_process_is_the_newer_whatever_its_number() -> None:
    async with session_cluster(1) as cluster:
        brain = cluster.controllers[1].brain
        before = Caller(cluster.controllers[1], 11, SECOND_PROCESS + 9)
        Caller(cluster.controllers[1], 11, 1).heartbeat(11, 1)
        await until(lambda: bool(before.reasons))
        assert sessions(brain) == [("opened", 11, SECOND_PROCESS + 9), ("opened", 11, 1)]


@on_loop
async def test_second_process_with_a_brokers_id_does_not_take_its_session_and_is_told() -> None:
    async with session_cluster(1) as cluster:
        cluster.group.lead(1)
        brain = cluster.controllers[1].brain
        brain.strange.add("other disks")
        broker = Caller(cluster.controllers[1], 11, 5)
        broker.heartbeat(11, 5)
        await broker.next()
        second = Caller(cluster.controllers[1], 11, SECOND_PROCESS)
        second.heartbeat(11, SECOND_PROCESS, "other disks")
        assert await second.next() == HeartbeatAnswer(
            active_id=PeerId(1),
            controller_epoch=ControllerEpoch(1),
            is_registration_wanted=True,
            sent_ms=NO_HEARTBEAT,
        )
        second.send(ProbeAnswer(request_id=RequestId(1), reports=()))
        second.send(create(7))
        assert isinstance(await second.next(), SubmitOutcome), "its registration is judged"
        broker.heartbeat(11, 5)
        await broker.next()
        assert (broker.reasons, brain.answers) == ([], [])
        assert sessions(brain) == [("opened", 11, 5)]
        brain.strange.clear()  # an operator has let the old disks be forgotten
        second.heartbeat(11, SECOND_PROCESS, "other disks")
        await until(lambda: broker.reasons == ["a newer session was opened"])


@on_loop
async def test_session_of_other_disks_counts_no_more_once_it_says_so() -> None:
    async with session_cluster(1) as cluster:
        brain = cluster.controllers[1].brain
        brain.strange.add("other disks")
        second = Caller(cluster.controllers[1], 11, 5)
        second.heartbeat(11, 5, "other disks")
        await second.next()
        assert sessions(brain) == [("opened", 11, 5), ("closed", 11, 5)]
        broker = Caller(cluster.controllers[1], 11, SECOND_PROCESS)
        broker.heartbeat(11, SECOND_PROCESS)
        await broker.next()
        assert sessions(brain)[2:] == [("opened", 11, SECOND_PROCESS)]
        assert second.reasons == []


@on_loop
async def test_heartbeat_with_another_sessions_number_is_not_heard() -> None:
    async with session_cluster(1) as cluster:
        caller = Caller(cluster.controllers[1], 11, 5)
        caller.heartbeat(11, 4)
        caller.heartbeat(11, 5)
        await caller.next()
        assert [heartbeat.session_id for heartbeat in cluster.controllers[1].brain.heartbeats] == [
            5
        ]


@on_loop
async def test_heartbeat_in_another_brokers_name_ends_the_session() -> None:
    async with session_cluster(1) as cluster:
        caller = Caller(cluster.controllers[1], 11, 5)
        caller.heartbeat(12, 5)
        await until(lambda: caller.reasons == ["a heartbeat in another broker's name"])
        assert cluster.controllers[1].brain.heartbeats == []


@on_loop
async def test_message_that_brokers_do_not_send_ends_the_session() -> None:
    async with session_cluster(1) as cluster:
        caller = Caller(cluster.controllers[1], 11, 5)
        caller.send(HeartbeatAnswer(active_id=PeerId(1), controller_epoch=ControllerEpoch(1)))
        await until(lambda: bool(caller.reasons))


@on_loop
async def test_command_to_a_controller_that_is_not_active_names_the_active_one() -> None:
    async with session_cluster(2) as cluster:
        cluster.group.lead(2)
        caller = Caller(cluster.controllers[1], 11, 5)
        caller.send(create(1))
        outcome = await caller.next()
        assert isinstance(outcome, SubmitOutcome)
        error = decode_error(outcome.error)
        assert isinstance(error, NotActiveController)
        assert error.controller_id == 2
        caller.send(ElectRequest(request_id=RequestId(2), replica_set_id=ReplicaSetId(0)))
        answer = await caller.next()
        assert isinstance(answer, OperationAnswer)
        assert isinstance(decode_error(answer.error), NotActiveController)


@on_loop
async def test_bytes_that_are_no_command_are_refused() -> None:
    async with session_cluster(1) as cluster:
        cluster.group.lead(1)
        caller = Caller(cluster.controllers[1], 11, 5)
        caller.send(Submit(request_id=RequestId(1), command=b"nonsense"))
        outcome = await caller.next()
        assert isinstance(outcome, SubmitOutcome)
        assert isinstance(decode_error(outcome.error), RefusedCommand)
        caller.send(create(2))
        outcome = await caller.next()
        assert isinstance(outcome, SubmitOutcome)
        assert not outcome.error
        assert outcome.applied_index == 1


@on_loop
async def test_a_command_of_very_many_topics_is_more_than_one_entry_and_has_one_answer() -> None:
    async with session_cluster(1) as cluster:
        cluster.group.lead(1)
        caller = Caller(cluster.controllers[1], 11, 5)
        command = CreateTopics(topics=tuple(NewTopic(name=f"t{at}") for at in range(120)))
        caller.send(Submit(request_id=RequestId(1), command=encode_command(command)))
        outcome = await caller.next()
        assert isinstance(outcome, SubmitOutcome)
        answers = decode_answer(command, outcome.answer)
        assert [answer.name for answer in answers] == [topic.name for topic in command.topics]


@on_loop
async def test_open_questions_of_one_session_are_bounded() -> None:
    async with session_cluster(1) as cluster:
        cluster.group.lead(1)
        cluster.group.is_open = False
        caller, other = (Caller(cluster.controllers[1], number, 5) for number in (11, 12))
        for number in range(REQUESTS_MAX + 1):
            caller.send(create(number))
        outcome = await caller.next()
        assert isinstance(outcome, SubmitOutcome)
        assert outcome.request_id == REQUESTS_MAX
        assert isinstance(decode_error(outcome.error), MetadataQueueFull)
        cluster.group.open()
        await until(lambda: len(caller.messages) == REQUESTS_MAX)
        other.send(create(1))
        caller.send(create(999))
        assert isinstance(await other.next(), SubmitOutcome)
        await until(lambda: len(caller.messages) == REQUESTS_MAX + 1)


@on_loop
async def test_operations_that_were_answered_are_not_open_any_more() -> None:
    async with session_cluster(1) as cluster:
        cluster.group.lead(1)
        caller = Caller(cluster.controllers[1], 11, 5)
        for number in range(REQUESTS_MAX + 1):
            caller.send(ElectRequest(request_id=RequestId(number), replica_set_id=ReplicaSetId(0)))
        await until(lambda: len(caller.messages) == REQUESTS_MAX + 1)
        answers = [message for message in caller.messages if isinstance(message, OperationAnswer)]
        assert [answer.error for answer in answers] == [b""] * (REQUESTS_MAX + 1)


@on_loop
async def test_brain_and_driver_hear_of_every_change_of_leadership() -> None:
    async with session_cluster(2) as cluster:
        for leader_id in (1, 2, 1, 1):
            cluster.group.lead(leader_id)
        for controller in cluster.controllers.values():
            told = [event for event in controller.brain.events if event[1:] != (-1, 0)]
            assert told == [("leadership", *one) for one in ((1, 1), (2, 2), (1, 3), (1, 4))]
        assert cluster.controllers[1].driver.stats.leaderships == 3
        assert cluster.controllers[2].driver.stats.leaderships == 1


@on_loop
async def test_brains_commands_run_here_and_end_with_an_answer_or_an_error() -> None:
    async with session_cluster(2) as cluster:
        cluster.group.lead(1)
        outcomes: list[object] = []
        for controller in cluster.controllers.values():
            controller.submit(CreateCluster(cluster_id="c"), outcomes.append)
        assert outcomes == [], "later"
        await until(lambda: len(outcomes) == 2)
        assert "c" in outcomes
        (error,) = [outcome for outcome in outcomes if outcome != "c"]
        assert isinstance(error, NotActiveController)


@on_loop
async def test_brains_command_is_of_the_term_in_which_it_was_given_and_not_of_the_next() -> None:
    async with session_cluster(1) as cluster:
        cluster.group.lead(1)
        outcomes: list[object] = []
        cluster.controllers[1].submit(CreateCluster(cluster_id="c"), outcomes.append)
        cluster.group.lead(1)
        await until(lambda: len(outcomes) == 1)
        assert isinstance(outcomes[0], NotActiveController)


@on_loop
async def test_tool_that_is_no_broker_may_ask_and_counts_as_nobody() -> None:
    async with session_cluster(1) as cluster:
        cluster.group.lead(1)
        controller = cluster.controllers[1]
        first, second = Caller(controller, -1, 1), Caller(controller, -1, 1)
        first.heartbeat(-1, 1)
        answer = await first.next()
        assert isinstance(answer, HeartbeatAnswer), "it hears whom to ask"
        assert (answer.active_id, answer.is_registration_wanted) == (1, False)
        for tool in (first, second):
            tool.send(StatusRequest(request_id=RequestId(4)))
            assert isinstance(await tool.next(), StatusAnswer)
        first.send(ElectRequest(request_id=RequestId(5), replica_set_id=ReplicaSetId(0)))
        assert await first.next() == OperationAnswer(request_id=RequestId(5), text="ElectRequest")
        assert sessions(controller.brain) == []
        assert controller.brain.heartbeats == []


@on_loop
async def test_questions_for_levels_are_answered_by_what_has_them() -> None:
    async with session_cluster(1) as cluster:
        cluster.group.lead(1)
        caller = Caller(cluster.controllers[1], 11, 1)
        for request in (
            FeaturesRequest(request_id=RequestId(2)),
            ChangeFeature(request_id=RequestId(3), feature="penstock.metadata"),
        ):
            caller.send(request)
            answer = await caller.next()
            assert answer == OperationAnswer(
                request_id=request.request_id, text=type(request).__name__
            )


@on_loop
async def test_a_session_says_by_its_heartbeats_which_levels_its_process_reads() -> None:
    async with session_cluster(1) as cluster:
        cluster.group.lead(1)
        service = cluster.controllers[1].service
        newer, older = Caller(cluster.controllers[1], 11, 1), Caller(cluster.controllers[1], 12, 1)
        assert service.said_levels() == []
        older.heartbeat(12, 1)
        newer.send(
            Heartbeat(
                session_id=SessionId(1),
                broker_id=BrokerId(11),
                incarnation="",
                metadata_levels=1 << 16 | 2,
            )
        )
        await until(lambda: len(service.said_levels()) == 2)
        assert service.said_levels() == [(11, 1 << 16 | 2), (12, 0)]
        newer.channel.close("it stops")
        await until(lambda: service.said_levels() == [(12, 0)])


@on_loop
async def test_stopping_service_closes_every_session() -> None:
    async with session_cluster(1) as cluster:
        controller = cluster.controllers[1]
        callers = [Caller(controller, number, 1) for number in (11, 12, -1)]
        link = await dial(
            controller.address,
            PeerHello(PURPOSE, "c", 13, 1),
            SECURITY,
            timeout_ms=5_000,
            frame_bytes_max=1 << 20,
        )
        link.on_frame = lambda _: None
        controller.service.stop()
        await until(lambda: all(caller.reasons for caller in callers))
        await until(lambda: link.is_closed)
