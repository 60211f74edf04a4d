"""Attacks beside a steady client, one after the other: what each cost it, and the node.

    quiet ── attack ── the attacker has left: what memory stays ── everything read back

The goals are those of a node that is fair: a client on one port costs others a bounded delay.
"""

import contextlib
import json
import math
import multiprocessing
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic, Producer

from harness.bad_input.callers import purposes_of
from harness.bad_input.grpc_frames import TOPIC as GRPC_TOPIC
from harness.bad_input.remoting_schemas import TOPIC as REMOTING_TOPIC
from harness.cluster import ClusterProcess, get_page
from harness.machine import commit
from harness.node import LOOPBACK, NodeProcess
from harness.ports import free_port
from harness.results import publish
from harness.warm_memory import warm_memory
from penstock.net.limits import NetLimits
from penstock.net.memory_share import pinned_bytes_max
from penstock.net.sockets import raise_descriptor_limit
from reliability import RESULTS
from reliability.attacks.attack_askers import ASKED_STAYS, ASKED_TOPIC
from reliability.attacks.attack_closed import CLOSED, ClosedNode
from reliability.attacks.attack_closed_fronts import CLOSED_FRONTS
from reliability.attacks.attack_frames import Aim
from reliability.attacks.attack_good import TOPIC, SteadyClient
from reliability.attacks.attack_http import CLOSED_HTTP, HttpFront
from reliability.attacks.attack_kept import OWN_TOPIC, STAYS
from reliability.attacks.attack_kinds import (
    API,
    AT_ROCKETMQ,
    ATTACKS,
    FULL,
    NAMED,
    RECOMPRESSED,
    WIDE,
    WIDE_TOPICS,
)
from reliability.attacks.attack_peers import AT_A_CONTROLLER, KNOW_THE_SECRET, PEERS
from reliability.attacks.attack_remoting import BY_CODE, MESSAGES_STAY
from reliability.attacks.attack_shares import GROUPS_STAY, SHARED_TOPIC
from reliability.attacks.attack_transactions import IDS_STAY, OWN_TOPICS
from reliability.attacks.attack_turns import TurnWatch
from reliability.attacks.bad_input_flood import SENDERS_NICENESS, be_nice
from reliability.attacks.bad_input_watch import MemoryWatch, findings

GAP_MS_MAX = 100.0
P99_RATIO_MAX = 3.0
LEFT_MIB_MAX = 32.0
GOAL = (
    f"longest gap <= {GAP_MS_MAX:.0f} ms, p99 <= {P99_RATIO_MAX:.0f} x quiet, memory above quiet "
    f"<= the budget and back (+ < {LEFT_MIB_MAX:.0f} MiB) after 30 s, no eviction, nothing lost; "
    "beside peers that know the secret p99 is only told"
)
ON_THREE = ("metadata", "metadata-pipelined", "recompress", "parked")
"""The worst few for heartbeats and leases: these run on a cluster too."""
THREE = " on three"
APART = " apart"
"""On three nodes, with a controller in a process of its own, which is attacked."""
FULL_BYTES = 64 << 20
START_SECONDS = 120.0
WARM_BYTES = 1 << 30
"""What an attack makes a node and the system take; else the host's way of lending is measured."""
SETTLE_SECONDS = 0.5
HEALTH_SECONDS = 0.5
ROCKETMQ_PORTS = frozenset({"remoting", "grpc"})
"""Parts of the settings of a node that is attacked there."""
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Spans:
    """How long each phase lasts, and how wide the topics are that fetches wait on.

    `after` is how long memory has to come back; it is not waited for once it has.
    """

    quiet: float = 15.0
    attack: float = 20.0
    after: float = 30.0
    wide_partitions: int = 1_900


class Steps(NamedTuple):
    """What the attacker's process has done, and is told to do."""

    is_ready: Event
    begin: Event
    is_up: Event
    is_over: Event


ONE_API = Spans(quiet=8.0, attack=10.0)
"""There are dozens of these, each much like the next."""
SHORT = (API, *PEERS, *BY_CODE, *CLOSED, *CLOSED_FRONTS, *CLOSED_HTTP)
MEANT_TO_STAY = STAYS | IDS_STAY | GROUPS_STAY | MESSAGES_STAY | ASKED_STAYS
QUICK = Spans(quiet=4.0, attack=6.0, after=8.0, wide_partitions=200)


def names(*, quick: bool) -> list[str]:
    """Return all attacks there are, those on three nodes last; the quick ones are few."""
    if quick:
        return [*NAMED]
    on_three = (name + THREE for name in (*ON_THREE, *PEERS))
    return [*ATTACKS, *on_three, *(name + APART for name in AT_A_CONTROLLER)]


def run_attacks(wanted: Sequence[str], *, quick: bool) -> bool:
    """Measure each attack; say whether every promise was kept. A quick one is not recorded."""
    rows = []
    for name in wanted:
        whole = ONE_API if name.startswith(SHORT) else Spans()
        row = _measure(name, QUICK if quick else whole)
        print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
        rows.append(row)
    if not quick:
        _record(rows)
    missed = [row for row in rows if row["verdict"] != "ok"]
    for row in missed:
        print(f"{row['attack']}: {row['verdict']}", file=sys.stderr)
    return not missed


def _record(rows: list[dict[str, Any]]) -> None:
    """Put `rows` in the place of what was recorded of these attacks; the others stay as they are.

    Each row says at which commit it was measured: a whole run takes longer than a mend of one row.
    """
    target = RESULTS / "attacks.json"
    recorded = json.loads(target.read_text("utf-8"))["rows"] if target.exists() else []
    now = [row | {"commit": commit()} for row in rows]
    by_name = {row["attack"]: row for row in [*recorded, *now]}
    known = [by_name[name] for name in names(quick=False) if name in by_name]
    publish(RESULTS, "attacks", known, goal=GOAL)


def _measure(name: str, spans: Spans) -> dict[str, Any]:
    kind = name.removesuffix(THREE).removesuffix(APART)
    with tempfile.TemporaryDirectory(prefix="penstock-attack-") as directory:
        if name != kind:
            with ClusterProcess(Path(directory), controllers=int(name.endswith(APART))) as cluster:
                nodes = list(cluster.processes.values())
                return _attacked(name, kind, nodes, cluster, spans)
        if kind in CLOSED | CLOSED_FRONTS | CLOSED_HTTP:
            return _measure_closed(name, ClosedNode(Path(directory), kind), spans)
        parts = ROCKETMQ_PORTS if kind in AT_ROCKETMQ else ()
        settings: dict[str, dict[str, object]] = {part: {"port": free_port()} for part in parts}
        settings["broker"] = {"client_metrics": True}
        with NodeProcess(Path(directory), settings=settings) as node:
            return _attacked(name, kind, [node], None, spans)


def _measure_closed(name: str, closed: ClosedNode, spans: Spans) -> dict[str, Any]:
    with closed:
        closed.prepare()
        if name not in CLOSED_HTTP:
            return _attacked(name, name, [closed], None, spans)
        front = HttpFront(closed.directory / "http", closed, _ports(closed)["remoting"])
        with front:
            return _attacked(name, name, [closed], None, spans, front=front)


def _attacked(
    name: str,
    kind: str,
    nodes: list[NodeProcess],
    cluster: ClusterProcess | None,
    spans: Spans,
    *,
    front: HttpFront | None = None,
) -> dict[str, Any]:
    bootstrap = cluster.bootstrap if cluster else nodes[0].bootstrap
    _prepare(kind, bootstrap, spans, len(nodes))
    first, login = nodes[0], None
    if isinstance(first, ClosedNode):
        bootstrap, login = f"{LOOPBACK}:{first.login_port}", first.login
    good = SteadyClient(bootstrap, login) if front is None else front.steady()
    good.start()
    time.sleep(spans.quiet / 2)  # connected, and the node's pools are warm
    epochs = _leader_epochs(cluster)
    target, aim = _aim(nodes[0], cluster, spans)
    fronts = [] if front is None else [front]
    aim = aim._replace(http=(LOOPBACK, fronts[0].port)) if fronts else aim
    memory = MemoryWatch([*nodes, *fronts], seconds=0.1)
    with _prepared(kind, aim) as steps:
        quiet = time.monotonic()
        time.sleep(spans.quiet)
        calm = time.monotonic()
        warm_memory(WARM_BYTES)
        time.sleep(SETTLE_SECONDS)
        memory.rebase()
        memory.start()
        turns = TurnWatch(target)
        begun = time.monotonic()
        steps.begin.set()
        missed = _unanswered_health(target, spans.attack, steps.is_up)
        turn, unserved = turns.longest(), turns.without_processor_percent()
        ended = time.monotonic()
    back_s = _until_back(memory, spans.after)
    left = memory.above()
    peak = memory.stop()
    good.stop()
    row = {
        "attack": name,
        "longest gap ms": round(good.longest_gap_ms(begun, ended), 1),
        "quiet gap ms": round(good.longest_gap_ms(quiet, calm), 1),
        "p99 ms": round(good.p99_ms(begun, ended), 1),
        "quiet p99 ms": round(good.p99_ms(quiet, calm), 1),
        "peak MiB": round(peak / _MIB, 1),
        "left MiB": round(left / _MIB, 1),
        "back after s": round(back_s, 1),
        "evictions": _leader_epochs(cluster) - epochs,
        "health unanswered": missed,
        "longest turn": turn,
        "no processor %": round(unserved, 1),
    }
    missed_too = [text for one in fronts for text in one.findings()]
    return row | {"verdict": "; ".join(_missed(row, good, nodes) + missed_too) or "ok"}


def _aim(
    alone: NodeProcess, cluster: ClusterProcess | None, spans: Spans
) -> tuple[NodeProcess, Aim]:
    """Return the process that is attacked: it leads, as a master or as a controller apart."""
    target = alone
    if cluster is not None:
        apart = cluster.controllers.values()
        target = next(iter(apart), None) or cluster.nodes[cluster.leader_of(TOPIC)]
    kafka, metrics = (LOOPBACK, target.port), (LOOPBACK, target.metrics_port)
    if isinstance(target, ClosedNode):
        kafka = (LOOPBACK, target.login_port)
    ports = _ports(target)
    aim = Aim(
        kafka,
        metrics,
        spans.wide_partitions,
        remoting=(LOOPBACK, ports["remoting"]),
        grpc=(LOOPBACK, ports["grpc"]),
    )
    if cluster is not None:
        peers = purposes_of(target)
        aim = aim._replace(controller=peers[b"raft"], ha=peers[b"ha"], secret=cluster.secret)
    return target, aim


def _ports(node: NodeProcess) -> dict[str, int]:
    settings = tomllib.loads(node.config.read_text("utf-8"))
    return {part: settings.get(part, {}).get("port", 0) for part in ROCKETMQ_PORTS}


def _until_back(memory: MemoryWatch, seconds: float) -> float:
    """Wait until nothing of note is above quiet any more, at most so long; return how long."""
    begun = time.monotonic()
    while memory.above() > LEFT_MIB_MAX * _MIB / 2 and time.monotonic() < begun + seconds:
        time.sleep(SETTLE_SECONDS)
    return time.monotonic() - begun


def _missed(row: dict[str, Any], good: SteadyClient, nodes: list[NodeProcess]) -> list[str]:
    """Return every promise that was not kept."""
    problems = good.judge() + findings(nodes)
    budget = pinned_bytes_max(NetLimits()) / _MIB
    if not row["longest gap ms"] <= GAP_MS_MAX:
        problems.append(f"{row['longest gap ms']} ms without an acknowledgement")
    ratio = row["p99 ms"] / row["quiet p99 ms"] if row["quiet p99 ms"] else math.nan
    if not ratio <= P99_RATIO_MAX and not row["attack"].startswith(KNOW_THE_SECRET):
        problems.append(f"p99 is {ratio:.1f} x quiet")
    if row["peak MiB"] > budget:
        problems.append(f"{row['peak MiB']} MiB above quiet, of a budget of {budget:.0f}")
    if row["left MiB"] > LEFT_MIB_MAX and row["attack"] not in MEANT_TO_STAY:
        problems.append(f"{row['left MiB']} MiB not given back")
    if float(row["longest turn"].split()[-2]) > GAP_MS_MAX:
        problems.append(f"{row['longest turn']} at once")
    if row["evictions"]:
        problems.append(f"{row['evictions']} evictions")
    if row["health unanswered"]:
        problems.append(f"/health did not answer {row['health unanswered']} times")
    return problems


def _prepare(kind: str, bootstrap: str, spans: Spans, replicas: int) -> None:
    """Make the topics that an attack needs, and fill the one that is read."""
    topics = []
    if kind == "recompress":
        config = {"compression.type": "gzip", "max.message.bytes": str(8 << 20)}
        topics = [NewTopic(RECOMPRESSED, 1, replicas, config=config)]
    elif kind == "parked":
        width = spans.wide_partitions
        topics = [NewTopic(f"{WIDE}-{one}", width, replicas) for one in range(WIDE_TOPICS)]
    elif kind in OWN_TOPIC | OWN_TOPICS | SHARED_TOPIC | ASKED_TOPIC:
        topics = [NewTopic(*(OWN_TOPIC | OWN_TOPICS | SHARED_TOPIC | ASKED_TOPIC)[kind], replicas)]
    elif kind in AT_ROCKETMQ:
        topics = [NewTopic(name, 4, replicas) for name in (REMOTING_TOPIC, GRPC_TOPIC)]
    elif kind == "deaf":
        topics = [NewTopic(FULL, 1, replicas)]
    if topics:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for made in admin.create_topics(topics, operation_timeout=60.0).values():
            made.result(START_SECONDS)
    if kind == "deaf":
        _fill(bootstrap)


def _fill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "none"})
    value = bytes(100_000)
    for _ in range(FULL_BYTES // len(value)):
        producer.produce(FULL, value, partition=0)
        producer.poll(0)
    if producer.flush(START_SECONDS):
        raise TimeoutError("the topic that is read could not be filled")


@contextlib.contextmanager
def _prepared(kind: str, aim: Aim) -> Iterator[Steps]:
    """Attack from a process of its own, from `begin` on to the end of the block."""
    context = multiprocessing.get_context("spawn")
    steps = Steps(*(context.Event() for _ in Steps._fields))
    attacker = context.Process(target=_attack, args=(kind, aim, steps))
    attacker.start()
    try:
        if not steps.is_ready.wait(START_SECONDS):
            raise TimeoutError(f"the attack {kind} could not be prepared")
        yield steps
    finally:
        steps.is_over.set()
        attacker.join(10.0)
        attacker.kill()


def _attack(kind: str, aim: Aim, steps: Steps) -> None:
    be_nice(SENDERS_NICENESS)
    raise_descriptor_limit()
    attack = (ATTACKS | PEERS)[kind](aim)  # builds its frames
    steps.is_ready.set()
    steps.begin.wait()
    with attack:
        steps.is_up.set()
        steps.is_over.wait()


def _unanswered_health(node: NodeProcess, seconds: float, is_up: Event) -> int:
    """Ask for the health all the time; return how often nothing came within half a second."""
    missed = 0
    is_up.wait(START_SECONDS)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        missed += get_page(node, "/health") is None
        time.sleep(HEALTH_SECONDS)
    return missed


def _leader_epochs(cluster: ClusterProcess | None) -> int:
    """Return how many masterships have begun; one more than before is an eviction."""
    return sum(one["leader_epoch"] for one in cluster.status()["sets"]) if cluster else 0
