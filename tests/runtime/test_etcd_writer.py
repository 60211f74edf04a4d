"""The etcd leader's writes when its leadership changes while an answer is on its way."""

import asyncio
from collections.abc import Sequence

from penstock.controller.errors import MetadataError, NotActiveController
from penstock.runtime.etcd.election import Lead
from penstock.runtime.etcd.entry import Entry
from penstock.runtime.etcd.feed import Feed
from penstock.runtime.etcd.local_copy import LocalCopy, LocalFiles
from penstock.runtime.etcd.store import LeaderKey
from penstock.runtime.etcd.writer import Writer
from tests.controller.replicated_log_contract import Machine
from tests.runtime.crash_disk import CrashDisk, StepLoop
from tests.runtime.session_cluster import on_loop, until


class SlowEtcd:
    """Takes every transaction at once; the first one's answer comes when the test says so."""

    def __init__(self) -> None:
        self.written: list[Entry] = []
        self.answer = asyncio.Event()

    async def append(self, leader: LeaderKey, head: int, entries: Sequence[Entry]) -> bool:
        assert head == len(self.written), "a leader writes behind the last entry"
        self.written += entries
        if leader.term == 1:
            await self.answer.wait()
        return True


def lead(term: int, head: int) -> Lead:
    key = LeaderKey(peer_id=1, term=term, nonce=f"n{term}", create_revision=term)
    return Lead(key, head=head, lease_id=term, deadline_ms=1 << 60)


@on_loop
async def test_answer_to_an_earlier_leadership_changes_nothing_in_the_next_one() -> None:
    etcd, machine, disk = SlowEtcd(), Machine(), StepLoop()
    feed = Feed(LocalCopy(LocalFiles(CrashDisk(), "metadata", disk)), asyncio.get_running_loop())
    feed.start(machine)
    writer = Writer(etcd, feed, asyncio.get_running_loop())  # type: ignore[arg-type]
    running = asyncio.create_task(writer.run())

    async def write() -> None:
        while True:
            disk.run()
            await asyncio.sleep(0.001)

    writing = asyncio.create_task(write())
    outcomes: list[int | MetadataError] = []
    first = lead(1, head=0)
    writer.begin(first)
    writer.propose(b"a", outcomes.append)
    await until(lambda: len(etcd.written) == 1)

    first.ended.set()
    writer.stop(NotActiveController(-1))
    feed.offer(1, etcd.written[0])  # the watch tells
    await until(lambda: machine.index == 1)
    writer.begin(lead(2, head=1))
    etcd.answer.set()

    writer.propose(b"b", outcomes.append)
    await until(lambda: len(etcd.written) == 2)
    await until(lambda: len(outcomes) == 2)
    assert machine.state == [b"a", b"b"]
    assert isinstance(outcomes[0], NotActiveController)
    assert outcomes[1:] == [2]
    running.cancel()
    writing.cancel()
