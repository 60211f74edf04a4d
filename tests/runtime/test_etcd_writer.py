"""The etcd leader's writes when its leadership changes while an answer is on its way."""

import asyncio
from collections.abc import Sequence

from harness.waiting import until
from penstock.controller.errors import MetadataError, NotActiveController
from penstock.runtime.etcd.election import Lead
from penstock.runtime.etcd.entry import Entry
from penstock.runtime.etcd.feed import Feed
from penstock.runtime.etcd.local_copy import LocalCopy, LocalFiles
from penstock.runtime.etcd.store import LeaderKey
from penstock.runtime.etcd.writer import Writer
from tests.controller.replicated_log_contract import Machine
from tests.runtime.crash_disk import CrashDisk, StepLoop
from tests.runtime.session_cluster import on_loop


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


class Leader:
    """A writer and its feed over a disk that writes at once."""

    def __init__(self, etcd: SlowEtcd) -> None:
        loop = asyncio.get_running_loop()
        self.machine = Machine()
        self._disk = StepLoop()
        self.feed = Feed(LocalCopy(LocalFiles(CrashDisk(), "metadata", self._disk)), loop)
        self.feed.start(self.machine)
        self.writer = Writer(etcd, self.feed, loop)  # type: ignore[arg-type]
        self._tasks = [asyncio.create_task(self.writer.run()), asyncio.create_task(self._write())]

    async def _write(self) -> None:
        while True:
            self._disk.run()
            await asyncio.sleep(0.001)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


@on_loop
async def test_done_follows_apply_where_the_watch_is_faster_than_the_answer() -> None:
    etcd = SlowEtcd()
    leader = Leader(etcd)
    events = leader.machine.events
    leader.writer.begin(lead(1, head=0))
    for payload in (b"a", b"b"):
        leader.writer.propose(payload, lambda outcome: events.append(f"done {outcome}"))
    await until(lambda: len(etcd.written) == 2)
    for index, entry in enumerate(etcd.written, 1):
        leader.feed.offer(index, entry)  # the watch tells
    await until(lambda: len(events) == 4)
    assert not leader.writer.is_idle
    etcd.answer.set()
    await until(lambda: leader.writer.is_idle)
    assert events == ["apply 1", "done 1", "apply 2", "done 2"]
    leader.stop()


@on_loop
async def test_answer_to_an_earlier_leadership_changes_nothing_in_the_next_one() -> None:
    etcd = SlowEtcd()
    leader = Leader(etcd)
    writer, machine = leader.writer, leader.machine
    outcomes: list[int | MetadataError] = []
    first = lead(1, head=0)
    writer.begin(first)
    writer.propose(b"a", outcomes.append)
    await until(lambda: len(etcd.written) == 1)

    first.ended.set()
    writer.stop(NotActiveController(-1))
    leader.feed.offer(1, etcd.written[0])  # the watch tells
    await until(lambda: machine.index == 1)
    writer.begin(lead(2, head=1))
    etcd.answer.set()

    writer.propose(b"b", outcomes.append)
    await until(lambda: len(etcd.written) == 2)
    await until(lambda: len(outcomes) == 2)
    assert machine.state == [b"a", b"b"]
    assert isinstance(outcomes[0], NotActiveController)
    assert outcomes[1:] == [2]
    leader.stop()
