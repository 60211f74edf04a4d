"""Several processes that send bad frames at a bounded rate, with pauses for comparison.

A job is a range of frames of one seed; whoever is free takes the next one. Senders run at low
priority: on a machine of their own they would not take the node's processor.
"""

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass
from typing import NamedTuple

from harness.bad_input.callers import Address, Members, call
from harness.bad_input.generator import bad_frames
from harness.bad_input.grpc_frames import grpc_frames
from harness.bad_input.grpc_sender import call_grpc
from harness.bad_input.http_requests import http_frames
from harness.bad_input.peers import STRANGER_ID, stranger_frames
from harness.bad_input.remoting_frames import remoting_frames
from harness.bad_input.remoting_sender import call_remoting
from harness.bad_input.sender import Sender, Tally
from harness.bad_input.sweeps import swept_frames

PROCESSES = 3
THREADS = 4
"""Of each process: connections that are open at a time."""
JOB_FRAMES = 400
NODES_NICENESS, SENDERS_NICENESS = -10, 10

KAFKA, SWEEP, HTTP, GRPC, REMOTING = "kafka", "sweep", "http", "grpc", "remoting"
STRANGER, MEMBER = "stranger", "member"


def raise_priority() -> None:
    """Put this process, and the nodes that it starts, before whatever else the machine does.

    Without the right to do so everything is measured as it comes.
    """
    with contextlib.suppress(PermissionError):
        be_nice(NODES_NICENESS)


def be_nice(niceness: int) -> None:
    """Set this process's place before others: lower comes first."""
    os.setpriority(os.PRIO_PROCESS, 0, niceness)


class Target(NamedTuple):
    """Where frames go: addresses of the same kind, and for members what they need to get in."""

    kind: str
    addresses: tuple[Address, ...]
    purposes: Mapping[bytes, Address] | None = None
    secret: bytes = b""


@dataclass(frozen=True, slots=True)
class Job:
    """Frames `first` to `first + count` of a seed."""

    target: Target
    seed: int
    first: int
    count: int


def send(job: Job) -> Tally:
    """Send the frames of a job over several connections at a time."""
    with ThreadPoolExecutor(THREADS) as pool:
        tallies = list(pool.map(lambda lane: _lane(job, lane), range(THREADS)))
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _lane(job: Job, lane: int) -> Tally:
    """Send every fourth frame of the job."""
    target, seed = job.target, job.seed
    tally = Tally()
    share = job.count // THREADS + (lane < job.count % THREADS)
    first = job.first + lane * (job.count // THREADS) + min(lane, job.count % THREADS)
    address = target.addresses[(job.first // JOB_FRAMES + lane) % len(target.addresses)]
    match target.kind:
        case "kafka":
            sender = Sender(address)
            sender.send(bad_frames(seed, share, first))
            return sender.tally
        case "sweep":
            sender = Sender(address)
            sender.send(swept_frames(seed, share, first))
            return sender.tally
        case "http":
            call(address, http_frames(seed, share, first), tally)
        case "grpc":
            call_grpc(address, grpc_frames(seed, share, first), tally)
        case "remoting":
            call_remoting(address, remoting_frames(seed, share, first), tally)
        case "stranger":
            call(address, stranger_frames(seed, share, first), tally)
        case "member":
            peer_id = STRANGER_ID + os.getpid() % 10_000 * THREADS + lane
            members = Members(target.purposes or {}, target.secret, peer_id)
            members.send(seed, first, share, tally)
            members.close()
        case _:
            raise ValueError(f"no frames of kind {target.kind}")
    return tally


class Flood:
    """A pool of senders."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(
            PROCESSES, mp_context=context, initializer=be_nice, initargs=(SENDERS_NICENESS,)
        )
        self._waiting: set[Future[Tally]] = set()

    def run(self, jobs: Iterator[Job], total: Tally, *, seconds: float, rate: float) -> bool:
        """Send jobs for so long, at most `rate` frames a second; False when none are left.

        Returns when all that was begun is done.
        """
        begun = time.monotonic()
        sent = 0
        has_more = True
        while has_more and time.monotonic() - begun < seconds:
            if sent > (time.monotonic() - begun) * rate:
                self._collect(total, 0.02)
                continue
            if len(self._waiting) >= PROCESSES:
                self._collect(total, None)
                continue
            job = next(jobs, None)
            has_more = job is not None
            if job is not None:
                sent += job.count
                self._waiting.add(self._pool.submit(send, job))
        while self._waiting:
            self._collect(total, None)
        return has_more

    def _collect(self, total: Tally, timeout: float | None) -> None:
        if not self._waiting:
            time.sleep(timeout or 0.001)
            return
        done, self._waiting = wait(self._waiting, timeout, FIRST_COMPLETED)
        for future in done:
            total.add(future.result())

    def close(self) -> None:
        """End the senders."""
        self._pool.shutdown(cancel_futures=True)


def jobs_of(target: Target, seed: int, first: int, count: int) -> Iterator[Job]:
    """Yield the jobs for `count` frames from number `first` on."""
    while count > 0:
        size = min(JOB_FRAMES, count)
        yield Job(target, seed, first, size)
        first += size
        count -= size
