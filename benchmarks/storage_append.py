"""What the storage room costs: microseconds of CPU per append, MB/s, recovery of 1 GiB.

    python benchmarks/storage_append.py [DIRECTORY]      prints one JSON object

A loop turn is taken to be 32 appends, as a connection with pipelined requests causes them. CPU is
that of this thread (`thread_time`), so waiting for the disk does not count. `append` figures hold
all of it: framing, checksum, index, the gathered write and the callbacks.
"""

import asyncio
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from struct import Struct

from crc32c import crc32c

from penstock.base.ids import LeaderEpoch, Offset, Position, TopicId, TopicPartition
from penstock.cli.exit_codes import end_with
from penstock.record.batch import BatchHeader, read_header
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.io.disk import FileDisk, ThreadOffload
from penstock.storage.commit_log.set_log import Chunk, SetLog
from penstock.storage.config import FlushPolicy, LogConfig

HEADER = Struct(">qiibIhiqqqhii")
APPENDS_PER_TURN = 32
GIB = 1 << 30


def make_batch(size: int, producer_id: int = -1) -> memoryview:
    numbers = (0, size - 12, 0, 2, 0, 0, 0, 1000, 1000, producer_id, 0, 0, 1)
    batch = bytearray(HEADER.pack(*numbers) + os.urandom(size - 61))
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return memoryview(batch)


def open_log(loop: asyncio.AbstractEventLoop, root: Path, name: str, config: LogConfig) -> SetLog:
    log = SetLog.recover(
        disk=FileDisk(root),
        directory=name,
        config=config,
        clock=SystemClock(),
        offload=ThreadOffload(loop, name=name),
        scheduler=LoopScheduler(loop),
    )
    if log.leader_epoch < 0:
        log.begin_epoch(LeaderEpoch(1))
    return log


async def append_many(log: SetLog, batch: memoryview, total: int, partitions: int = 1) -> dict:
    """Append `total` batches; the first tenth warms up and is not counted."""
    logs = [
        log.open_partition(TopicPartition(TopicId(bytes(16)), number))
        for number in range(partitions)
    ]
    header = read_header(batch)
    measured = total
    cpu = wall = 0.0
    for number in range(0, total + total // 10, APPENDS_PER_TURN):
        if number >= total // 10 and not wall:
            measured = total + total // 10 - number
            cpu, wall = time.thread_time(), time.perf_counter()
        for step in range(APPENDS_PER_TURN):
            log.append(logs[(number + step) % partitions], batch, header)
        await asyncio.sleep(0)
        while log.end_position - log.flushed_position > 96 << 20:  # noqa: ASYNC110  it polls
            await asyncio.sleep(0.001)
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    written = measured * len(batch)
    return {
        "batch_bytes": len(batch),
        "partitions": partitions,
        "cpu_us_per_append": round(cpu * 1e6 / measured, 2),
        "cpu_s_per_gb": round(cpu / written * 1e9, 3),
        "mb_per_s": round(written / wall / 1e6),
    }


def append_alone(log: SetLog, batch: memoryview, header: BatchHeader) -> float:
    """Microseconds of `append` itself, without the write."""
    partition = log.open_partition(TopicPartition(TopicId(bytes(16)), 0))
    spent = 0.0
    count = 0
    while count < 100_000:
        start = time.thread_time()
        for _ in range(100):
            log.append(partition, batch, header)
        spent += time.thread_time() - start
        count += 100
        log.writer.write_staged()
    return round(spent * 1e6 / count, 2)


def read_back(log: SetLog, partitions: int) -> dict:
    """Read the tail from the page cache, 1 MiB at a time, as a consumer that keeps up does."""
    logs = [
        log.open_partition(TopicPartition(TopicId(bytes(16)), number))
        for number in range(partitions)
    ]
    begin = [partition.bases[0] for partition in logs]
    for _ in range(2):
        offsets = list(begin)
        size = 0
        start = time.thread_time()
        for number, partition in enumerate(logs):
            while offsets[number] < partition.log_end_offset:
                found = log.read(partition, Offset(offsets[number]), 1 << 20, Position(1 << 62))
                if not isinstance(found, Chunk):
                    break
                size += found.size
                offsets[number] += found.size // partition.sizes[0]
        spent = time.thread_time() - start
    return {"partitions": partitions, "cpu_s_per_gb": round(spent / max(size, 1) * 1e9, 3)}


async def measure(root: Path) -> dict:
    loop = asyncio.get_running_loop()
    asynchronous = LogConfig(flush_policy=FlushPolicy.ASYNC)
    answer: dict = {"machine": platform.processor() or platform.machine(), "cpus": os.cpu_count()}
    log = open_log(loop, root, "small", asynchronous)
    small = make_batch(200)
    answer["append_alone_us"] = append_alone(log, small, read_header(small))
    idempotent = make_batch(200, producer_id=7)
    answer["append_alone_idempotent_us"] = append_alone(log, idempotent, read_header(idempotent))
    log.close()
    answer["append"] = []
    answer["read"] = []
    for size, total, partitions in (
        (200, 300_000, 1), (1_200, 300_000, 1), (1_200, 300_000, 10_000), (16_384, 40_000, 1),
        (16_384, 40_000, 100), (262_144, 4_000, 1), (1 << 20, 1_000, 1),
    ):  # fmt: skip
        for policy in (FlushPolicy.ASYNC, FlushPolicy.SYNC):
            config = LogConfig(flush_policy=policy)
            log = open_log(loop, root, f"{size}-{partitions}-{policy}", config)
            found = await append_many(log, make_batch(size), total, partitions)
            answer["append"].append({"flush": str(policy), **found})
            if size == 16_384 and policy is FlushPolicy.ASYNC:
                answer["read"].append(read_back(log, partitions))
            log.close()
            shutil.rmtree(root / log.directory)
    answer["recovery"] = await recovery(loop, root)
    return answer


async def recovery(loop: asyncio.AbstractEventLoop, root: Path) -> dict:
    """Start on 1 GiB that was never checkpointed, in batches of 16 KiB, as after kill -9."""
    config = LogConfig(segment_bytes=1 << 31, checkpoint_interval_bytes=1 << 40)
    log = open_log(loop, root, "recovery", config)
    await append_many(log, make_batch(16_384), GIB // 16_432 * 10 // 11)
    while log.flushed_position < log.end_position:  # noqa: ASYNC110  it polls
        await asyncio.sleep(0.01)
    start = time.perf_counter()
    again = open_log(loop, root, "recovery", config)
    spent = time.perf_counter() - start
    return {"replayed_bytes": again.recovery.replayed_bytes, "seconds": round(spent, 2)}


def main() -> None:
    parent = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    root = Path(tempfile.mkdtemp(prefix="storage-append-", dir=parent))
    try:
        print(json.dumps(asyncio.run(measure(root)), indent=1))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    end_with(main)
