"""Processes of one cluster over etcd, as far as the log can tell, on one event loop of a test."""

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock.controller.errors import MetadataError
from penstock.controller.replicated_log import Leadership, StateMachine
from penstock.runtime.etcd import EtcdConfig, EtcdLog, EtcdPeer, LocalFiles
from penstock.runtime.io.disk import FileDisk, ThreadOffload

WAIT_S = 15.0
LEASE_TTL_S = 2
_NOWHERE = ("http://127.0.0.1:9",)


class Member:
    """A directory, workers, a log and what it heard. `crash` and `start` begin a new life."""

    def __init__(self, members: "Members", peer_id: int, *, is_controller: bool) -> None:
        self._members = members
        self.directory = members.directory / str(peer_id)
        self.directory.mkdir(exist_ok=True)
        self.peer = EtcdPeer(members.cluster_id, peer_id, is_controller)
        self.heard: list[Leadership] = []
        self.fenced: list[Exception] = []
        self.is_open = False
        self.endpoint = ""
        """Its own way to etcd, where it has one."""

    def open(self) -> EtcdLog:
        """Open the log over what is in the directory."""
        assert not self.is_open
        loop = self._members.loop
        self._offload = ThreadOffload(loop, name="etcd-test", threads=2)
        config = self._members.config
        if self.endpoint:
            config = replace(config, endpoints=(self.endpoint,))
        self.log = EtcdLog(
            config,
            self.peer,
            LocalFiles(FileDisk(self.directory), "metadata", self._offload),
            loop=loop,
        )
        self.log.on_leadership = self.heard.append
        self.log.on_fenced = self.fenced.append
        self.is_open = True
        return self.log

    def start(self, machine: StateMachine) -> EtcdLog:
        log = self.open()
        log.start(machine)
        return log

    def propose(self, *payloads: bytes) -> list[int | MetadataError]:
        """Propose all at once and return the outcomes."""
        outcomes: list[int | MetadataError] = []
        for payload in payloads:
            self.log.propose(payload, outcomes.append)
        self._members.wait(lambda: len(outcomes) == len(payloads))
        return outcomes

    def crash(self) -> None:
        """End without a word to etcd: the lease stays and open requests are cut off."""
        self._members.run(self.log._client.close())
        self.close()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.log.close()
            self._members.run(self.log.wait_closed())
            self._offload.close()


class Members:
    """The members and the loop they share."""

    def __init__(self, directory: Path, *endpoints: str, cluster_id: str = "test") -> None:
        self.directory = directory
        self.cluster_id = cluster_id
        self.config = EtcdConfig(endpoints=endpoints or _NOWHERE, lease_ttl_s=LEASE_TTL_S)
        self.loop = asyncio.new_event_loop()
        self.failures: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self.all: list[Member] = []

    def __enter__(self) -> "Members":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if kind is None:
            assert self.failures == []

    def member(self, peer_id: int, *, is_controller: bool = True) -> Member:
        member = Member(self, peer_id, is_controller=is_controller)
        self.all.append(member)
        return member

    def run(self, work: Any) -> Any:
        """Run a coroutine to its end, and everything else meanwhile."""
        return self.loop.run_until_complete(work)

    def wait(self, is_reached: Callable[[], bool]) -> None:
        """Run the loop until `is_reached`."""

        async def poll() -> None:
            async with asyncio.timeout(WAIT_S):
                while not is_reached():
                    assert not self.failures, self.failures
                    await asyncio.sleep(0.002)

        self.run(poll())

    def pass_time(self, seconds: float) -> None:
        """Let everything run for a while."""
        self.run(asyncio.sleep(seconds))

    def close(self) -> None:
        for member in self.all:
            member.close()
        self.run(asyncio.sleep(0.05))  # closed connections leave the loop
        self.loop.close()
        gc.collect()
