"""Schedules of changes of the sync-state set whose answers are lost, late, or never given."""

import asyncio

import pytest

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands.command import ChangeSyncStateSet
from penstock.controller.errors import MetadataQueueFull
from penstock.replica.change_request import ask_for, change_command
from penstock.replica.master_set import MasterSet
from penstock.replication.sync_state import Change
from simulator.faults.weather import Effect, pairs
from simulator.run.one_run import Run
from simulator.run.server import Server
from tests.sim.test_directed import SET_WITH_RECORDS, follow, image_of, leader_epoch, server
from tests.sim.test_directed_sets import (
    PAIR,
    controllers,
    cut,
    in_step,
    lose_disk,
    master_set,
    member_of,
)

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


async def _no_room(_: ChangeSyncStateSet) -> None:
    raise MetadataQueueFull(0)


class UnansweredThenRefusedAtTheDoor:
    """The first change that this master asks for is recorded, and it does not hear of it; the
    second, the same again, is not taken. Then it is cut off from its slave as well."""

    def __init__(self, run: Run, one: Server, slave: Server) -> None:
        self._run, self._server, self._slave = run, one, slave
        self.asked: list[Change] = []
        self.effects: list[Effect] = []
        self._tasks: list[asyncio.Task[None]] = []
        leading = master_set(run, one)
        assert leading is not None
        self._submit = leading._submit
        leading._submit = self.submit

    def submit(self, asking: MasterSet, change: Change) -> None:
        self.asked.append(change)
        if len(self.asked) == 1:
            self._hear_nothing()
            self._submit(asking, change)
            return
        if len(self.asked) == 2:
            self.effects.append(cut(self._run, [self._server.name], [self._slave.name]))
        set_id = self._run.cluster.set_ids()[SET_WITH_RECORDS]
        command = change_command(
            ReplicaSetId(set_id), BrokerId(self._server.host.process_id), change
        )
        work = ask_for(command, _no_room, asking.answered)
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    def _hear_nothing(self) -> None:
        one_way = pairs(controllers(self._run), [self._server.name], both_ways=False)
        self.effects.append(Effect(pairs=one_way, is_cut=True))
        self._run.cluster.weather.add(self.effects[0])


def test_a_change_that_was_not_taken_does_not_cancel_the_one_before_it_that_was_recorded() -> None:
    # Else the master confirms alone what the member that it does not wait for may lead without.
    async def schedule(run: Run) -> None:
        old, member = server(run, "master:0"), server(run, "slave:0")
        epoch = leader_epoch(run, SET_WITH_RECORDS)
        member.kill()
        await run.until(lambda: in_step(run) == 1)
        script = UnansweredThenRefusedAtTheDoor(run, old, member)
        member.start()
        await run.until(lambda: len(script.asked) >= 2)
        assert script.asked[0].sync_state_set == script.asked[1].sync_state_set
        await run.until(lambda: leader_epoch(run, SET_WITH_RECORDS) > epoch)
        assert image_of(run, SET_WITH_RECORDS).master == member.host.process_id
        await asyncio.sleep(0.5)
        old.kill()
        for effect in script.effects:
            run.cluster.weather.remove(effect)

    follow(schedule, PAIR)


def test_a_member_that_registers_anew_between_two_attempts_is_judged_by_its_new_log() -> None:
    # The second attempt names the same set. What the lost log held says nothing about the new one.
    async def schedule(run: Run) -> None:
        old, member = server(run, "master:0"), server(run, "slave:0")
        broker_id = member.host.process_id
        member.kill()
        await run.until(lambda: in_step(run) == 1)
        lost = image_of(run, SET_WITH_RECORDS).replica_ids[BrokerId(broker_id)]
        leading = master_set(run, old)
        assert leading is not None
        asked: list[Change] = []
        submit = leading._submit

        def late(asking: MasterSet, change: Change) -> None:
            asked.append(change)
            if len(asked) > 1:
                submit(asking, change)
            else:
                asyncio.get_running_loop().call_later(1.5, submit, asking, change)

        leading._submit = late
        member.start()
        await run.until(lambda: bool(asked))
        lose_disk(run, member)
        member.start()
        await run.until(
            lambda: (
                image_of(run, SET_WITH_RECORDS).replica_ids.get(BrokerId(broker_id), lost) != lost
            )
        )
        apart = cut(run, [old.name], [member.name])
        await asyncio.sleep(1.5)
        assert in_step(run) == 1, "the change was meant for another log"
        run.cluster.weather.remove(apart)
        await run.until(lambda: in_step(run) == 2)
        assert member_of(run, member).log.end_position > 0

    follow(schedule, PAIR)
