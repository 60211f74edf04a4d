"""An unmodified aiokafka producer and consumer against a simulated cluster that loses a broker.

    python -m tests.sim.stock_toy SEED...

prints for each seed the trace hash and what was read. Must be the same in each process.
"""

import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from simulator.kernel.process import Main, Process
from simulator.kernel.simulation import Simulation, simulate
from simulator.run.cluster import SimCluster
from simulator.run.plan import Shape

SERVERS = "n1:9092,n2:9092,n3:9092"
RECORDS = 120
QUICK = {"request_timeout_ms": 3_000, "retry_backoff_ms": 50, "metadata_max_age_ms": 2_000}


async def produce(_process: Process) -> None:
    """Create the topic and send all records, one after the other, to its partitions in turn."""
    admin = AIOKafkaAdminClient(bootstrap_servers=SERVERS)
    await admin.start()
    await admin.create_topics([NewTopic("t", 3, 3)])
    await admin.close()
    producer = AIOKafkaProducer(
        bootstrap_servers=SERVERS, acks="all", enable_idempotence=True, **QUICK
    )
    await producer.start()
    for number in range(RECORDS):
        now_ms = int(time.time() * 1000)
        text = b"%d" % number
        await producer.send_and_wait("t", text, partition=number % 3, timestamp_ms=now_ms)
        await asyncio.sleep(0.01)
    await producer.stop()


def consume(read: list[int]) -> Main:
    """Return a program that reads until it has seen every record, and commits."""

    async def main(_process: Process) -> None:
        await asyncio.sleep(1)
        consumer = AIOKafkaConsumer(
            "t", bootstrap_servers=SERVERS, group_id="g", auto_offset_reset="earliest", **QUICK
        )
        await consumer.start()
        while len(set(read)) < RECORDS:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                read.extend(int(record.value) for record in records)
            await consumer.commit()
        await consumer.stop()

    return main


def run(seed: int, directory: Path) -> str:
    """Kill the master of a set while both are busy; return what tells runs apart."""
    secret = directory / "secret"
    secret.write_bytes(b"the simulated cluster's secret\n")
    secret.chmod(0o600)
    read: list[int] = []

    async def story(simulation: Simulation) -> list[int | None]:
        cluster = SimCluster(simulation, Shape(), secret)
        cluster.start()
        await cluster.form()
        clients = [
            simulation.start("c1", "producer", produce),
            simulation.start("c2", "consumer", consume(read)),
        ]
        await asyncio.sleep(1.5)
        (victim,) = cluster.hosts(["master:0"])
        cluster.servers[victim].kill()
        await asyncio.sleep(1)
        cluster.servers[victim].start()
        for client in clients:
            await client.ended
        return [client.exit_code for client in clients]

    outcome = simulate(seed, story, seconds_max=120)
    codes, failures = outcome.value, len(outcome.failures)
    return f"{outcome.digest} codes={codes} failures={failures} read={len(read)}/{len(set(read))}"


def main(seeds: list[int]) -> None:
    """Print one line for each seed."""
    logging.disable()
    with tempfile.TemporaryDirectory() as directory:
        for seed in seeds:
            print(seed, run(seed, Path(directory)))  # noqa: T201


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]])
