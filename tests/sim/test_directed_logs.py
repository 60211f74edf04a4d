"""Schedules for the files of a log: syncs that fail as a node stops, rolls during a sync, topics
that are deleted while their records are on their way, logs that begin with the newest segment."""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.base.ids import ReplicaSetId
from penstock.base.ports import Lane
from penstock.node.layout import ReplicaSetPlace
from penstock.node.node import Node
from penstock.replica.followed_set import FollowedSet
from penstock.replication.config import FirstSync
from penstock.replication.messages import LogRun
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import FlushPolicy
from simulator.run.one_run import Run
from simulator.run.server import Server
from simulator.run.topology import data_path
from tests.sim.test_directed import APART, EMPTY_SET, follow, image_of, server
from tests.sim.test_directed_sets import LONE, member_of

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BUSY_LONE = replace(LONE, records_per_second=400, pipeline=5)
CHURNING = replace(APART, is_churning=True, policy="k-of-n", required=2)


def set_directory(run: Run, one: Server, number: int) -> str:
    return ReplicaSetPlace(ReplicaSetId(run.cluster.set_ids()[number]), data_path(one.host)).name


def test_what_a_failed_sync_lost_as_the_node_stops_is_not_called_durable() -> None:
    # "fsyncgate" at a stop: the sync under way has failed, and the loop has not heard of it yet.
    failed: list[str] = []

    async def schedule(run: Run) -> None:
        one = server(run, "master:0")
        one.suspect_disk()

        def note(operation: str, path: str) -> None:
            is_segment = path.startswith(f"{directory}/log/") and path.endswith(".log")
            if operation == "sync" and is_segment and not failed:
                failed.append(path)
                one.disk.fail("sync", path, errno.EIO)

        directory = set_directory(run, one, 0)
        failed.clear()
        tell_failures_late(member_of(run, one).log, seconds=12.0)
        await asyncio.sleep(0.1)  # what was handed in before is told as ever
        one.disk.on_operation = note
        await run.until(lambda: bool(failed))
        one.stop()
        await run.until(lambda: not one.is_up, seconds=30)
        one.disk.on_operation = None
        one.disk.heal()
        one.start()
        await asyncio.sleep(1.0)
        one.power_off()
        one.start()
        await asyncio.sleep(0.5)

    follow(schedule, BUSY_LONE)


def tell_failures_late(log: SetLog, *, seconds: float) -> None:
    """Let the loop hear that a sync has failed only so long after it did."""
    commit = log.parts.writer._commit
    offload, loop = commit._offload, asyncio.get_running_loop()

    class Late:
        def submit(
            self, work: Callable[[], Any], done: Callable[..., None], lane: Lane = Lane.WORK
        ) -> None:
            def answered(result: object, error: BaseException | None) -> None:
                loop.call_later(0.0 if error is None else seconds, done, result, error)

            offload.submit(work, answered, lane)

    commit._offload = Late()


def test_files_that_are_rolled_during_one_sync_are_open_for_the_next_one() -> None:
    rolled: list[int] = []

    async def schedule(run: Run) -> None:
        one = server(run, "master:0")
        log = replace(one._settings.log, open_segments_max=2, flush_policy=FlushPolicy.ASYNC)
        one._settings = replace(one._settings, log=replace(log, flush_interval_bytes=4_096))
        one.restart()
        await run.until(lambda: isinstance(one.node, Node) and bool(one.node.manager))
        await asyncio.sleep(0.5)
        log_of_set = member_of(run, one).log
        segments = log_of_set.parts.store.segments
        before = segments[-1].base
        hold_one_sync(log_of_set, seconds=2.5)
        await asyncio.sleep(3.0)
        rolled.append(sum(segment.base > before for segment in segments))

    follow(schedule, BUSY_LONE)
    assert min(rolled) > 3


def hold_one_sync(log: SetLog, *, seconds: float) -> None:
    """Let the next sync find no free thread for so long."""
    commit = log.parts.writer._commit
    offload, loop = commit._offload, asyncio.get_running_loop()

    class Late:
        def submit(
            self, work: Callable[[], Any], done: Callable[..., None], lane: Lane = Lane.WORK
        ) -> None:
            commit._offload = offload
            loop.call_later(seconds, offload.submit, work, done, lane)

    commit._offload = Late()


def test_a_slave_that_hears_of_a_deletion_before_its_records_come_keeps_nothing() -> None:
    strangers: list[int] = []

    async def schedule(run: Run) -> None:
        # Writes are answered by two of three; the third gets them after its controllers' news.
        last = server(run, f"slave:{EMPTY_SET}")
        take_runs_late(last, seconds=0.8)
        begun_s = run.simulation.now_s
        while run.simulation.now_s < begun_s + 6.0:
            strangers.append(len(unknown_partitions(run)))
            await asyncio.sleep(0.02)
        run.clients.stop_writing()
        await run.until(lambda: not unknown_partitions(run), seconds=10)

    follow(schedule, CHURNING)
    assert max(strangers) > 0


def take_runs_late(one: Server, *, seconds: float) -> None:
    """Let this server's slaves get what their masters send only so long after it has come."""
    assert isinstance(one.node, Node)
    assert one.node.manager is not None
    for driver in one.node.manager.drivers.values():
        if driver.followed is not None:
            delay_runs(driver.followed, seconds)


def delay_runs(followed: FollowedSet, seconds: float) -> None:
    on_message, loop = followed.on_message, asyncio.get_running_loop()

    def later(message: Any) -> None:
        if isinstance(message, LogRun):
            loop.call_later(seconds, on_message, message._replace(data=bytes(message.data)))
        else:
            on_message(message)

    followed.on_message = later  # type: ignore[method-assign]


def unknown_partitions(run: Run) -> list[str]:
    """What logs hold of topics that the newest image does not have."""
    image = run.cluster.newest_image()
    assert image is not None
    known = {topic.topic_id for topic in image.topics_by_name.values()}
    return [
        f"{node.manager} {partition}"
        for node in run.cluster.nodes()
        if node.manager is not None
        for member in node.manager.members.values()
        for partition in member.log.partitions
        if partition.topic_id not in known
    ]


def test_a_slave_that_begins_with_the_newest_segment_of_an_unwritten_set_gets_in_step() -> None:
    copied: list[int] = []

    async def schedule(run: Run) -> None:
        one = server(run, f"slave:{EMPTY_SET}")
        settings = one._settings
        newest = replace(settings.replication, first_sync=FirstSync.NEWEST)
        one._settings = replace(settings, replication=newest)
        one.lose_disk(set_directory(run, one, EMPTY_SET))
        await run.until(lambda: len(image_of(run, EMPTY_SET).sync_state_set) == 2)
        one.start()
        await run.until(lambda: len(image_of(run, EMPTY_SET).sync_state_set) == 3, seconds=5)
        assert isinstance(one.node, Node)
        assert one.node.manager is not None
        copied.append(one.node.manager.follow_stats.installs)
        one._settings = settings

    follow(schedule)
    assert max(copied) == 1
