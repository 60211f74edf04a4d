"""What processes say to each other is looked at: each false word is told."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.base.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PeerId,
    Position,
    ReplicaSetId,
    RequestId,
)
from penstock.controller.session import (
    PrepareTransfer,
    ProbeAnswer,
    ProbedSet,
    ProbeSets,
    ReleasePromises,
    SetReport,
    TransferReady,
)
from penstock.node.node import Node
from penstock.raft.core import Core
from penstock.raft.ids import DirectoryId, RaftIndex, Term
from penstock.raft.messages import AppendEntries, VoteRequest, VoteResponse
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.messages import Acknowledge, Begin, Hello, HelloAnswer, LogRun
from penstock.runtime.raft.raft_log import RaftLog
from penstock.runtime.raft.reads import Reads
from simulator.faults.weather import Effect, pairs
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from simulator.run.server import Server

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PLAN = Plan(seed=3, shape=Shape(partitions=1, producers=1), settle_ms=300)
Say = Callable[[Run], None]


def findings(say: Say) -> list[str]:
    """Return what is told when something false is said in a sound cluster."""

    async def schedule(run: Run) -> None:
        await asyncio.sleep(0.5)
        say(run)
        await asyncio.sleep(0.1)

    return run_plan(PLAN, schedule).findings


def members(run: Run) -> list[tuple[Server, ReplicaSetMember]]:
    """All members of the set with records, the master first."""
    set_id = run.cluster.set_ids()[0]
    found = []
    for server in run.cluster.servers.values():
        assert isinstance(server.node, Node)
        assert server.node.manager is not None
        found.append((server, server.node.manager.members[ReplicaSetId(set_id)]))
    return sorted(found, key=lambda one: one[1].role is not Role.MASTER)


def raft_log(server: Server) -> RaftLog:
    assert server.node is not None
    log = server.node.plane.log
    assert isinstance(log, RaftLog)
    return log


def controllers(run: Run) -> list[Server]:
    """The active one first."""
    servers = list(run.cluster.servers.values())
    return sorted(servers, key=lambda one: not raft_log(one).leadership.is_leader)


def test_nothing_is_told_where_nothing_false_is_said() -> None:
    assert findings(lambda _: None) == []


# --- controllers -------------------------------------------------------------------------------


def vote(term: int, directory_id: str = "") -> VoteResponse:
    return VoteResponse(
        sender=PeerId(2),
        term=Term(term),
        is_pre_vote=False,
        is_granted=True,
        directory_id=DirectoryId(directory_id),
    )


def entries(term: int) -> AppendEntries:
    return AppendEntries(
        sender=PeerId(1),
        term=Term(term),
        previous_index=RaftIndex(0),
        previous_term=Term(0),
        entries=(),
        commit_index=RaftIndex(0),
        round=1,
    )


def test_a_vote_that_is_not_on_the_disk() -> None:
    (told,) = findings(lambda run: run.invariants.raft_talk.heard("n2", PeerId(3), vote(40)))
    assert told.partition(" ")[2].startswith("n2 votes for 3 in term 40, and has HardState(")


def test_a_candidate_whose_own_vote_is_not_on_its_disk() -> None:
    asks = VoteRequest(
        sender=PeerId(2),
        term=Term(40),
        is_pre_vote=False,
        is_transfer=False,
        last_index=RaftIndex(1),
        last_term=Term(1),
    )
    (told,) = findings(lambda run: run.invariants.raft_talk.heard("n2", PeerId(3), asks))
    assert "n2 votes for 2 in term 40, and has" in told


def test_a_second_vote_of_one_term() -> None:
    def twice(run: Run) -> None:
        for candidate in (1, 3):
            run.invariants.raft_talk.heard("n2", PeerId(candidate), vote(40))

    assert any(
        "n2 votes for 3 in term 40, after it did for 1" in finding for finding in findings(twice)
    )


def test_a_leader_that_a_majority_has_not_durably_elected() -> None:
    (told,) = findings(lambda run: run.invariants.raft_talk.heard("n2", PeerId(1), entries(40)))
    assert told.endswith("n2 leads term 40 by durable votes of [] alone, of [1, 2, 3]")


def test_two_leaders_of_one_term() -> None:
    def lead(run: Run) -> None:
        active, other, _ = controllers(run)
        run.invariants.raft_talk.heard(
            other.name, PeerId(1), entries(raft_log(active).leadership.term)
        )

    (told,) = findings(lead)
    assert " leads term " in told
    assert told.endswith(" does")


def test_entries_and_votes_that_are_told_of_before_the_disk_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Core, "send_persisted", Core.send)
    told = findings(lambda _: None)
    assert "its disk" in told[0]


def test_a_read_that_is_answered_by_who_lacks_what_was_agreed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def at_once(self: Reads, done: Callable[[int], None], refusal: object) -> None:
        del self, refusal
        done(1)

    async def schedule(run: Run) -> None:
        await asyncio.sleep(0.3)
        _, _, behind = controllers(run)
        others = [name for name in run.cluster.servers if name != behind.name]
        cut = Effect(pairs=pairs([behind.name], others, both_ways=True), is_cut=True)
        run.cluster.weather.add(cut)
        await asyncio.sleep(1.5)  # until the others have agreed that it is gone
        monkeypatch.setattr(Reads, "ask", at_once)
        assert behind.process is not None
        behind.process.call_soon(raft_log(behind).confirm, lambda _: None)
        await asyncio.sleep(0.05)

    told = run_plan(PLAN, schedule).findings
    assert "answers a read by entry" in told[0]


# --- members of sets ---------------------------------------------------------------------------


def false_end(run: Run, kind: type[Acknowledge] | type[Begin]) -> None:
    master, slave = members(run)[:2]
    set_id, epoch, end = run.cluster.set_ids()[0], slave[1].leader_epoch, slave[1].log.end_position
    said = (
        Acknowledge(ReplicaSetId(set_id), epoch, Position(end + 1_000))
        if kind is Acknowledge
        else Begin(ReplicaSetId(set_id), epoch, Position(end + 1_000), Position(0))
    )
    run.invariants.replica_talk.heard(slave[0].name, master[0].host.process_id, said)


@pytest.mark.parametrize("kind", [Acknowledge, Begin])
def test_a_slave_that_does_not_hold_what_it_acknowledges(
    kind: type[Acknowledge] | type[Begin],
) -> None:
    (told,) = findings(lambda run: false_end(run, kind))
    assert "its disk has nothing durable at" in told


def test_a_slave_whose_bytes_are_not_those_of_its_master() -> None:
    def change(run: Run) -> None:
        master, (server, member) = members(run)[:2]
        path = next(name for name in sorted(server.disk.names) if f"set-{1}/log/" in name)
        for content in (server.disk.names[path].data, server.disk.names[path].durable):
            content[60] ^= 1
        set_id = member.replica_set_id
        said = Begin(set_id, member.leader_epoch, member.log.durable_position, Position(0))
        run.invariants.replica_talk.heard(server.name, master[0].host.process_id, said)

    assert any("its master has another frame" in finding for finding in findings(change))


def test_a_broker_that_sends_a_log_as_the_master_that_it_is_not() -> None:
    def send(run: Run) -> None:
        _, (server, member) = members(run)[:2]
        run_of_log = LogRun(
            member.replica_set_id,
            member.leader_epoch,
            LeaderEpoch(0),
            Position(0),
            Position(0),
            Position(0),
            Position(0),
            b"",
        )
        run.invariants.replica_talk.heard(server.name, 3, run_of_log)

    (told,) = findings(send)
    assert " sends as the master of (set, epoch) " in told


def test_a_master_that_greets_a_log_which_nobody_has_registered() -> None:
    def greet(run: Run) -> None:
        (master, _), (slave, member) = members(run)[:2]
        set_id, epoch = member.replica_set_id, member.leader_epoch
        shape = member.log  # of no interest here
        hello = Hello(set_id, epoch, 99, "", shape)  # type: ignore[arg-type]
        answer = HelloAnswer(set_id, epoch, shape)  # type: ignore[arg-type]
        talk = run.invariants.replica_talk
        talk.heard(slave.name, master.host.process_id, hello)
        talk.heard(master.name, slave.host.process_id, answer)

    assert any("with log 99, which is not the one" in finding for finding in findings(greet))


def promise(run: Run) -> tuple[Server, ReplicaSetMember, Server, ReplicaSetMember]:
    """Have a slave and its master promise to confirm nothing more for the present mastership."""
    (master, leading), (slave, member) = members(run)[:2]
    set_id, epoch = member.replica_set_id, member.leader_epoch
    talk = run.invariants.replica_talk
    for server in (master, slave):
        sets = (ProbedSet(replica_set_id=set_id, leader_epoch=epoch),)
        asked = ProbeSets(request_id=RequestId(7), controller_epoch=ControllerEpoch(1), sets=sets)
        talk.heard("n1", server.host.process_id, asked)
        talk.heard(
            server.name, 1, ProbeAnswer(request_id=RequestId(7), reports=(report(set_id, 0),))
        )
    return master, leading, slave, member


def report(set_id: int, end: int) -> SetReport:
    return SetReport(
        replica_set_id=ReplicaSetId(set_id),
        log_id="",
        role="slave",
        leader_epoch=LeaderEpoch(0),
        last_log_epoch=LeaderEpoch(0),
        log_start_position=0,
        log_end_position=end,
        confirm_position=0,
    )


def test_a_member_that_goes_on_in_spite_of_its_promise() -> None:
    def break_it(run: Run) -> None:
        master, leading, slave, member = promise(run)
        talk, set_id, epoch = run.invariants.replica_talk, member.replica_set_id, 0
        talk.heard(
            slave.name, master.host.process_id, Acknowledge(set_id, LeaderEpoch(epoch), Position(0))
        )
        talk.confirmed(master, leading)

    told = findings(break_it)
    assert "acknowledges to" in told[0]
    assert told[0].endswith("and has promised not to")
    assert any("confirms for epoch" in one for one in told)


def test_a_member_that_goes_on_after_its_promise_was_released() -> None:
    def release(run: Run) -> None:
        master, leading, slave, member = promise(run)
        talk, set_id, epoch = run.invariants.replica_talk, member.replica_set_id, 0
        sets = (ProbedSet(replica_set_id=set_id, leader_epoch=LeaderEpoch(epoch)),)
        talk.heard(
            "n1",
            2,
            ReleasePromises(
                controller_epoch=ControllerEpoch(1), request_id=RequestId(8), sets=sets
            ),
        )
        talk.heard(
            slave.name, master.host.process_id, Acknowledge(set_id, LeaderEpoch(epoch), Position(0))
        )
        talk.confirmed(master, leading)

    assert findings(release) == []


def test_a_member_that_names_an_end_which_it_has_not_made_durable() -> None:
    def name(run: Run) -> None:
        _, (slave, member) = members(run)[:2]
        end = member.log.end_position + 1_000
        answer = ProbeAnswer(request_id=RequestId(9), reports=(report(member.replica_set_id, end),))
        run.invariants.replica_talk.heard(slave.name, 1, answer)

    (told,) = findings(name)
    assert "its disk has nothing durable at" in told


def test_a_target_of_a_transfer_that_does_not_hold_everything() -> None:
    def hand_over(run: Run) -> None:
        (master, leading), (slave, _) = members(run)[:2]
        own_id = master.host.process_id
        asked = PrepareTransfer(
            request_id=RequestId(9),
            replica_set_id=leading.replica_set_id,
            leader_epoch=leading.leader_epoch,
            target=BrokerId(slave.host.process_id),
            timeout_ms=500,
        )
        end = leading.log.end_position + 1_000
        ready = TransferReady(request_id=RequestId(9), is_ready=True, log_end_position=end)
        run.invariants.replica_talk.heard("n1", own_id, asked)
        run.invariants.replica_talk.heard(master.name, 1, ready)

    (told,) = findings(hand_over)
    assert "its disk has nothing durable at" in told


def test_a_master_that_nobody_has_asked() -> None:
    def elect(run: Run) -> None:
        image = run.cluster.newest_image()
        assert image is not None
        one = image.replica_sets[ReplicaSetId(run.cluster.set_ids()[0])]
        run.invariants.replica_talk.elected(
            replace(one, leader_epoch=LeaderEpoch(one.leader_epoch + 1))
        )

    told = findings(elect)
    assert told[0].endswith("and was not asked: [] were")
    assert told[1].endswith("by answers of [] alone, under all")


def test_a_master_that_wrote_on_after_it_was_ready_to_hand_over() -> None:
    def write(run: Run) -> None:
        (master, leading), (slave, _) = members(run)[:2]
        asked = PrepareTransfer(
            request_id=RequestId(9),
            replica_set_id=leading.replica_set_id,
            leader_epoch=leading.leader_epoch,
            target=BrokerId(slave.host.process_id),
            timeout_ms=60_000,
        )
        ready = TransferReady(request_id=RequestId(9), is_ready=True, log_end_position=0)
        talk, image = run.invariants.replica_talk, run.cluster.newest_image()
        talk.heard("n1", master.host.process_id, asked)
        talk.heard(master.name, 1, ready)
        assert image is not None
        one = image.replica_sets[leading.replica_set_id]
        talk.elected(
            replace(
                one,
                leader_epoch=LeaderEpoch(one.leader_epoch + 1),
                master=BrokerId(slave.host.process_id),
            )
        )

    (told,) = findings(write)
    assert "was ready to hand over at 0, and has written up to" in told


def test_a_mastership_that_goes_on_in_another_process_before_the_others_agree() -> None:
    def again(run: Run) -> None:
        master, leading = members(run)[0]
        master.starts += 1
        run.invariants.replica_talk.leads_again(master, leading)
        master.starts -= 1

    told = findings(again)
    assert len(told) == 2
    assert "has not said that it agrees" in told[0]
