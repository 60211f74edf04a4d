"""A controller over etcd as a process of its own; writes down what it sees, one line each.

L <monotonic ns> <term>      it led, at this moment
A <payload>                  applied
D <payload>                  its own proposal was acknowledged

python -m tests.integration.etcd_peer URL DIRECTORY PEER_ID HISTORY
"""

import asyncio
import os
import sys
import time
from functools import partial
from pathlib import Path

from penstock.base.ports import Buffer
from penstock.controller.errors import MetadataError
from penstock.runtime.etcd import EtcdConfig, EtcdLog, EtcdPeer, LocalFiles
from penstock.runtime.io.disk import FileDisk, ThreadOffload

SAMPLE_S = 0.005


class _Writer:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def line(self, text: str) -> None:
        os.write(self._file, f"{text}\n".encode())

    def install_snapshot(self, index: int, snapshot: Buffer) -> None:
        raise AssertionError("nobody trims here")

    def apply(self, index: int, payload: Buffer) -> None:
        self.line(f"A {bytes(payload).decode()}")


async def main(url: str, directory: str, peer_id: str, history: str) -> None:
    loop = asyncio.get_running_loop()
    Path(directory).mkdir(exist_ok=True)  # noqa: ASYNC240  before anything runs
    offload = ThreadOffload(loop, name="etcd", threads=2)
    log = EtcdLog(
        EtcdConfig(endpoints=(url,), lease_ttl_s=2),
        EtcdPeer("history", int(peer_id), is_controller=True),
        LocalFiles(FileDisk(Path(directory)), "metadata", offload),
        loop=loop,
    )
    writer = _Writer(history)
    writer.line("S")
    log.start(writer)
    is_free = True
    number = 0

    def done(payload: str, outcome: int | MetadataError) -> None:
        nonlocal is_free
        is_free = True
        if isinstance(outcome, int):
            writer.line(f"D {payload}")

    while True:
        before = time.monotonic_ns()
        leadership = log.leadership
        if leadership.is_leader:
            writer.line(f"L {before} {leadership.term}")
            if is_free:
                is_free = False
                number += 1
                payload = f"{peer_id}.{os.getpid()}.{number}"
                log.propose(payload.encode(), partial(done, payload))
        await asyncio.sleep(SAMPLE_S)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
