"""The loads behind the questions: each returns a function that puts one on a server.

A probe is told everything when it is made, so that every server gets the same. Megabytes and
gigabytes are decimal and count values, before compression. CPU seconds are those of the server.
"""

import contextlib
import resource
import socket
import time
from collections.abc import Callable, Iterator

from benchmarks.parts.processes import io_bytes
from benchmarks.peers import cold
from benchmarks.peers.failover import longest_silence
from benchmarks.peers.model import Answer, CanNotRun, Scale
from benchmarks.peers.over_tls import Loaded
from benchmarks.peers.servers import Server

Probe = Callable[[Server, Scale], Answer]
LoadProbe = Callable[[Loaded, Scale], Answer]
"""One that only puts a load on a server, and so on any way into it."""
SETTLE_SECONDS = 1.0
FILLER = 4


def produce(
    *, value: int = 1024, batch: int, codec: str = "none", partitions: int = 1
) -> LoadProbe:
    """Write as fast as it goes: `MB/s`, and CPU seconds per GB of `cpu` and `client_cpu`."""

    def ask(server: Loaded, scale: Scale) -> Answer:
        with server.load.topic(server.bootstrap, partitions) as topic:
            shape = (partitions, value, batch, codec)
            return _written(server, topic, shape, _total(value, scale), scale.write_seconds)

    return ask


def _total(value: int, scale: Scale) -> int:
    """Small records cost the client more: a quarter of the bytes takes as long."""
    return scale.total_bytes // (4 if value < 1000 else 1)


def _written(
    server: Loaded,
    topic: str,
    shape: tuple[int, int, int, str],
    total: int,
    seconds_max: float = 0.0,
) -> dict[str, float]:
    how = (*shape, total)
    before = server.cpu_seconds()
    client = server.load.produce(server.bootstrap, topic, how, seconds_max=seconds_max)
    used = server.cpu_seconds() - before
    return _speed(client, used)


def _speed(client: dict[str, float], server_cpu: float) -> dict[str, float]:
    gigabytes = client["bytes"] / 1e9
    return {
        "MB/s": client["bytes"] / 1e6 / max(client["seconds"], 1e-9),
        "cpu": server_cpu / gigabytes,
        "client_cpu": client["client_cpu"] / gigabytes,
    }


def produce_among(count: str, *, written: int, batch: int = 262_144) -> Probe:
    """Write to `written` partitions before and after so many others are there; `share` of it.

    `count` names a field of the scale. The share means nothing where many are written to: Kafka
    needs ten times as long for the first batch of each, which makes its files.
    """

    def ask(server: Server, scale: Scale) -> Answer:
        others = int(getattr(scale, count))
        spread = min(written, others)
        shape, total = (spread, 1024, batch, "none"), scale.total_bytes
        server.load.create(server.bootstrap, "few", spread)
        alone = _written(server, "few", shape, total)
        server.load.create_many(server.bootstrap, others - spread, prefix="other")
        among = _written(server, "few", shape, total)
        return {**among, "share": among["MB/s"] / alone["MB/s"], "alone": alone["MB/s"]}

    return ask


def consume(*, value: int = 1024, batch: int, partitions: int = 1) -> LoadProbe:
    """Read what was just written, from the page cache."""

    def ask(server: Loaded, scale: Scale) -> Answer:
        with _filled(server, scale, (partitions, value, batch)) as (topic, written):
            return read_from_start(server, topic, partitions, written)

    return ask


def share_consume(*, value: int = 1024, batch: int, partitions: int) -> Probe:
    """Read as one member of a share group what was just written: `records/s`, `MB/s`."""

    def ask(server: Server, scale: Scale) -> Answer:
        with _filled(server, scale, (partitions, value, batch)) as (topic, written):
            before = server.cpu_seconds()
            rate = server.load.share_consume(server.bootstrap, topic, written // value)
            used = server.cpu_seconds() - before
        return {"records/s": rate, "MB/s": rate * value / 1e6, "cpu": used / (written / 1e9)}

    return ask


def consume_cold(*, value: int = 1024, batch: int) -> Probe:
    """Read after a restart with nothing in the page cache; `from_disk` is the share read there.

    A start reads the end of a log again, RocketMQ's the last three files of 1 GiB, and maps them:
    so that this is not what is measured, four times as much is written behind it.
    """

    def ask(server: Server, scale: Scale) -> Answer:
        with _filled(server, scale, (1, value, batch)) as (topic, written):
            server.load.create(server.bootstrap, "behind", 1)
            behind = (1, value, batch, "none", FILLER * scale.total_bytes)
            server.load.produce(server.bootstrap, "behind", behind)
            server.restart_cold()
            server.warm_up(scale)
            cold.forget(server.data)  # a start that looks through the log has read some of it
            cold_before = io_bytes(server.pids(), "read_bytes")
            answer = read_from_start(server, topic, 1, written)
            fetched = io_bytes(server.pids(), "read_bytes") - cold_before
            return {**answer, "from_disk": fetched / written}

    return ask


@contextlib.contextmanager
def _filled(server: Loaded, scale: Scale, shape: tuple[int, int, int]) -> Iterator[tuple[str, int]]:
    """Yield a topic of this shape and the bytes in it; shape is partitions, value and batch."""
    with server.load.topic(server.bootstrap, shape[0]) as topic:
        how = (*shape, "none", _total(shape[1], scale))
        written = server.load.produce(server.bootstrap, topic, how)
        yield topic, int(written["bytes"])


def read_from_start(server: Loaded, topic: str, partitions: int, total: int) -> dict[str, float]:
    """Read so many bytes from the beginning; returns `MB/s` and CPU seconds per GB, of both."""
    before = server.cpu_seconds()
    client = server.load.consume(server.bootstrap, topic, partitions, total)
    return _speed(client, server.cpu_seconds() - before)


def latency(rate: int) -> LoadProbe:
    """Write 1 KiB records on an open schedule: `p50`, `p99`, `p999` in microseconds."""

    def ask(server: Loaded, scale: Scale) -> Answer:
        with server.load.topic(server.bootstrap) as topic:
            before = server.cpu_seconds()
            found = server.load.latency(server.bootstrap, topic, (1024, rate, scale.seconds))
            used = server.cpu_seconds() - before
        # The first second warms up and is not in the latencies.
        found["cpu"] = used / (found["records"] + rate) * 1e6
        return {key: float(found[key]) for key in ("p50", "p99", "p999", "cpu")}

    return ask


def transactions(*, partitions: int, records: int) -> Probe:
    """One producer's transactions of 1 KiB records, one after the other, by librdkafka.

    `per_second`, `MB/s` and server CPU `cpu` in microseconds a transaction; `p50` and `p99` of a
    commit in microseconds, from when all records are acknowledged.
    """

    def ask(server: Server, scale: Scale) -> Answer:
        with server.load.topic(server.bootstrap, partitions) as topic:
            before = server.cpu_seconds()
            how = (partitions, 1024, records, scale.seconds)
            found = server.load.transactions(server.bootstrap, topic, how)
            used = server.cpu_seconds() - before
        # What warms up, a second, is not counted: its share of the CPU is taken off.
        used *= found["seconds"] / (found["seconds"] + 1.0)
        return {
            "per_second": found["transactions"] / found["seconds"],
            "MB/s": found["bytes"] / 1e6 / found["seconds"],
            "cpu": used / found["transactions"] * 1e6,
            "p50": float(found["p50"]),
            "p99": float(found["p99"]),
        }

    return ask


def rebalance(protocol: str) -> Probe:
    """A group of a tenth of a thousand's members; seconds to `form`, to `join` and to `leave`."""

    def ask(server: Server, scale: Scale) -> Answer:
        partitions, members = scale.thousand, max(2, scale.thousand // 10)
        with server.load.topic(server.bootstrap, partitions) as topic:
            at = (server.bootstrap, topic, partitions, members)
            found = server.load.rebalance(*at, protocol)
        return {key: float(found[key]) for key in ("form", "join", "leave")}

    return ask


def small_requests(*, connections: int, in_flight: int) -> Probe:
    """Write one 100 B record a request: `requests/s`, and `core`, the same per core second."""

    def ask(server: Server, scale: Scale) -> Answer:
        _allow_files(connections + 1000)
        found = server.load.storm(server, connections, in_flight, scale.seconds)
        return {
            "requests/s": found["per_second"],
            "core": 1e6 / found["cpu_us"],
            "cpu": found["cpu_us"],
        }

    return ask


def idle(server: Server, scale: Scale) -> Answer:
    """A server that was started just now and does nothing: `memory` in MB, `start` in seconds."""
    _settle(scale)
    return {"memory": server.memory_bytes() / 1e6, "start": server.started_seconds}


def memory_of_connections(share: float) -> Probe:
    """Memory with a share of the scale's connections idle: `memory` in MB, `each` in bytes."""

    def ask(server: Server, scale: Scale) -> Answer:
        count = int(share * scale.connections)
        _allow_files(count + 1000)
        before = server.memory_bytes()
        with _connected(server, count):
            _settle(scale)
            after = server.memory_bytes()
        each = {"each": max(after - before, 0) / count} if count else {}
        return {"memory": after / 1e6, **each}

    return ask


@contextlib.contextmanager
def _connected(server: Server, count: int) -> Iterator[None]:
    ports = server.ports()
    with contextlib.ExitStack() as open_ones:
        for number in range(count):
            address = ("127.0.0.1", ports[number % len(ports)])
            connection = open_ones.enter_context(socket.create_connection(address, 10))
            connection.sendall(server.greeting)
            head = connection.recv(4, socket.MSG_WAITALL)
            connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        yield


def memory_of_partitions(count: str) -> Probe:
    """Memory with so many partitions that hold nothing: `memory` in MB."""

    def ask(server: Server, scale: Scale) -> Answer:
        server.load.create_many(server.bootstrap, int(getattr(scale, count)), prefix="empty")
        _settle(scale)
        return {"memory": server.memory_bytes() / 1e6}

    return ask


def restart_with_partitions(count: str | int) -> Probe:
    """Kill -9 a node with some records in each of many partitions; seconds to answer again."""

    def ask(server: Server, scale: Scale) -> Answer:
        wanted = count if isinstance(count, int) else int(getattr(scale, count))
        topics = server.load.create_many(server.bootstrap, wanted, prefix="part")
        for topic, partitions in topics:
            total = min(10_000_000, scale.total_bytes)
            how = (partitions, 1024, 65_536, "none", total)
            server.load.produce(server.bootstrap, topic, how)
        return _restarted(server, topics[0][0])

    return ask


def restart_with_log(gigabytes: float) -> Probe:
    """Kill -9 a node with so much in one partition; seconds to answer again."""

    def ask(server: Server, scale: Scale) -> Answer:
        server.load.create(server.bootstrap, "filled", 1)
        size = int(gigabytes * scale.total_bytes)
        if size:
            how = (1, 1024, 262_144, "none", size)
            server.load.produce(server.bootstrap, "filled", how)
        return _restarted(server, "filled")

    return ask


def _restarted(server: Server, topic: str) -> dict[str, float]:
    server.load.first_record(server.bootstrap, topic)
    server.kill()
    begun = time.perf_counter()
    answered = server.start()
    server.load.first_record(server.bootstrap, topic)
    return {"seconds": answered, "record": time.perf_counter() - begun}


def failover(count: str | int) -> Probe:
    """Kill the node that leads so many partitions; `gap` is the silence one writer notices."""

    def ask(server: Server, scale: Scale) -> Answer:
        wanted = count if isinstance(count, int) else int(getattr(scale, count))
        topic = server.load.create_led_by_one(server.bootstrap, wanted)
        with server.load.steady_writer(server.bootstrap, topic) as writer:
            writer.wait_for_acks()
            begun = time.monotonic()
            server.kill_leader(topic)
            writer.wait_for_acks(sent_after=time.monotonic())  # so another one took it
        return {"gap": longest_silence(writer.acked_at, since=begun - 1.0)}

    return ask


def _settle(scale: Scale) -> None:
    time.sleep(0.2 if scale.is_smoke else SETTLE_SECONDS)


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise CanNotRun(f"{count} open files are needed, {hard} are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
