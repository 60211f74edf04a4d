"""The loads of RocketMQ's clients behind the questions: one client program for every server.

A probe starts the Java clients, has them warm up with the load that is measured, and takes the
answer of the second time. Messages have 1 KiB. Whatever is acknowledged has to be there, and what
is received has to be what was sent: a client that finds otherwise, or errs, ends the question.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.parts import rocketmq
from benchmarks.peers.java_client import JavaClient
from benchmarks.peers.model import Answer, CanNotRun, Scale
from benchmarks.peers.probes import Probe
from benchmarks.peers.servers import Server
from harness.maven import jars

BYTES = 1024
QUEUES = 4
QUEUES_IN_FLIGHT = 120
"""A queue of ours has 2,000 messages in flight at most unless its group is told otherwise."""
SECONDS_MAX = 8
WARM_SECONDS_MAX = 4
WARM_SHARE = 5
"""A fifth of the messages comes before those that count."""
RECEIVERS = 8
LEAD_MS = 12_000
"""In which all timers are set. RocketMQ's are of whole seconds."""
LEAD_MS_SMOKE = 4_000
BURST_MS = 1_000
TIMERS_PER_SECOND = 1_000
HEAP_MIB = 1_024
REMOTING, GRPC = "remoting", "grpc"

Clients = Mapping[str, JavaClient]


@contextlib.contextmanager
def clients_of(server: Server) -> Iterator[Clients]:
    """Yield a client of each protocol, which starts with its first command. Raises CanNotRun."""
    grpc_jars = jars("rocketmq-grpc")
    if isinstance(grpc_jars, str):
        raise CanNotRun(grpc_jars)
    remoting = JavaClient(
        ("Load.java", "Subscribers.java", "RemotingClient.java"),
        rocketmq.class_path(),
        (server.remoting,),
        heap_mib=HEAP_MIB,
    )
    grpc = JavaClient(
        ("Load.java", "GrpcClient.java"),
        rocketmq.class_path("rocketmq-grpc"),
        (server.grpc,),
        heap_mib=HEAP_MIB,
    )
    try:
        yield {REMOTING: remoting, GRPC: grpc}
    finally:
        remoting.close()
        grpc.close()


def _measured(server: Server, client: JavaClient, *words: object) -> dict[str, Any]:
    """Send a command; its answer also has `cpu`, the server's microseconds for each message."""
    before = server.cpu_seconds()
    found = client.command(*words)
    found["cpu"] = (server.cpu_seconds() - before) / found["messages"] * 1e6
    return found


def _rate(found: Mapping[str, float]) -> float:
    return found["messages"] / max(found["seconds"], 1e-9)


def _paces(scale: Scale) -> tuple[int, int]:
    """Return for how long to warm up, and for how long to measure."""
    return min(scale.seconds, WARM_SECONDS_MAX), min(scale.seconds, SECONDS_MAX)


def send(protocol: str, *, clients: int, in_flight: int) -> Probe:
    """Each client sends the next message with an answer: `messages/s`, latencies, `cpu`."""

    def ask(server: Server, scale: Scale) -> Answer:
        warm, measured = _paces(scale)
        with clients_of(server) as programs:
            programs[REMOTING].command("topic", "sent", QUEUES, "NORMAL")
            how = ("send", "sent", clients, in_flight)
            first = programs[protocol].command(*how, warm, BYTES)
            found = _measured(server, programs[protocol], *how, measured, BYTES)
            answered = first["messages"] + found["messages"]
            programs[REMOTING].command("held", "sent", answered)
        return {**found, "messages/s": _rate(found)}

    return ask


def pop(protocol: str) -> Probe:
    """Receive and acknowledge what is there already, with each message seen: `messages/s`."""

    def ask(server: Server, scale: Scale) -> Answer:
        count, warm = scale.messages, scale.messages // WARM_SHARE
        with clients_of(server) as programs:
            remoting, client = programs[REMOTING], programs[protocol]
            remoting.command("topic", "popped", QUEUES, "NORMAL")
            remoting.command("group", "popping")
            remoting.command("fill", "popped", 0, warm, BYTES)
            client.command("pop", "popped", "popping", 0, warm, RECEIVERS)
            remoting.command("fill", "popped", warm, count, BYTES)
            found = _measured(server, client, "pop", "popped", "popping", warm, count, RECEIVERS)
        return {**found, "messages/s": _rate(found)}

    return ask


def latency(protocol: str, per_second: int) -> Probe:
    """From when a message was due to be sent to when a consumer has it: `p50`, `p99`, `p999`."""

    def ask(server: Server, scale: Scale) -> Answer:
        warm, measured = _paces(scale)
        with clients_of(server) as programs:
            programs[REMOTING].command("topic", "paced", QUEUES, "NORMAL")
            programs[REMOTING].command("group", "receiving")
            how = ("latency", "paced", "receiving", per_second)
            programs[protocol].command(*how, warm, RECEIVERS)
            return _measured(server, programs[protocol], *how, measured, RECEIVERS)

    return ask


def timers(*, is_burst: bool) -> Probe:
    """Messages that become due, all within a second or paced: `messages/s`, lateness in seconds.

    `early` is how many came before their time.
    """

    def ask(server: Server, scale: Scale) -> Answer:
        count, lead = scale.messages, LEAD_MS_SMOKE if scale.is_smoke else LEAD_MS
        warm = count // WARM_SHARE
        window = BURST_MS if is_burst else count * 1_000 // TIMERS_PER_SECOND // WARM_SHARE
        with clients_of(server) as programs:
            client = programs[REMOTING]
            client.command("topic", "warmed", QUEUES, "DELAY")
            client.command("timers", "warmed", warm, LEAD_MS_SMOKE, BURST_MS)
            client.command("topic", "due", QUEUES, "DELAY")
            if not is_burst:
                count = warm
            found = _measured(server, client, "timers", "due", count, lead, window)
        late = {key: found[key] / 1e6 for key in ("p50", "p99", "max")}
        return {"messages/s": _rate(found), **late, "early": found["early"], "cpu": found["cpu"]}

    return ask


def transactions(protocol: str, *, clients: int) -> Probe:
    """Each client commits one message after the other: `per_second`, latencies, `cpu`.

    Every one has to be readable in the end. A remoting client is not told that it is committed.
    """

    def ask(server: Server, scale: Scale) -> Answer:
        warm, measured = _paces(scale)
        with clients_of(server) as programs:
            remoting, client = programs[REMOTING], programs[protocol]
            remoting.command("topic", "committed", QUEUES, "TRANSACTION")
            how = ("transactions", "committed", clients)
            first = client.command(*how, warm)
            before = server.cpu_seconds()
            found = client.command(*how, measured)
            answered = first["messages"] + found["messages"]
            remoting.command("committed", "committed", answered)
            used = server.cpu_seconds() - before
        return {**found, "per_second": _rate(found), "cpu": used / found["messages"] * 1e6}

    return ask


def filters() -> Probe:
    """Groups with an SQL filter each, of which one wants a message: `messages/s`, `cpu`."""

    def ask(server: Server, scale: Scale) -> Answer:
        count, warm = scale.messages // 4, scale.messages // 4 // WARM_SHARE
        with clients_of(server) as programs:
            client = programs[REMOTING]
            client.command("topic", "filtered", 1, "NORMAL")
            how = ("filters", "filtered", scale.subscribers)
            client.command(*how, warm)
            found = _measured(server, client, *how, count)
        return {**found, "messages/s": _rate(found)}

    return ask


def in_flight() -> Probe:
    """What messages hold that are received and not acknowledged: `memory` in MB per million."""

    def ask(server: Server, scale: Scale) -> Answer:
        count = scale.messages * 5
        with clients_of(server) as programs:
            client = programs[REMOTING]
            client.command("topic", "taken", QUEUES_IN_FLIGHT, "NORMAL")
            client.command("group", "taking")
            client.command("fill", "taken", 0, count, BYTES)
            client.command("held", "taken", count)
            before = server.live_bytes()
            client.command("take", "taken", "taking", count)
            after = server.live_bytes()
        return {"memory": max(after - before, 0) / count}

    return ask
