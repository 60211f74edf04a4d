"""Damage under three real nodes: files of one are changed while it is stopped, or under its feet.

    write with acks=all ─► one damage in each set of one node ─► start it, or let it scrub
      ─► every set whole again ─► everything read and compared ─► replicas equal, byte for byte

Only bytes that count are damaged: what nobody looks at is the in-process rounds' business, and
makes files differ. A controller's Raft log is damaged too: its process must refuse to start.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from harness.cluster import ClusterProcess
from harness.node import NodeProcess
from harness.replica_bytes import differences
from harness.waiting import wait_until
from harness.workload import create_topic
from reliability.damage.byte_classes import UNUSED, Classes, classes_of
from reliability.damage.damage import Damage, draw
from reliability.damage.rounds import REBUILT, REPAIRED, REPLACED, SAME, Tally, Verdict

TOPIC, PARTITIONS = "damaged", 12
RECORDS = 600
WHOLE_SECONDS = 90.0
SETTINGS: dict[str, dict[str, object]] = {
    "log": {
        "segment_bytes": 1 << 20,
        "checkpoint_interval_bytes": 65_536,
        "scrub_interval_ms": 200,
        "scrub_bytes_per_second": 64 << 20,
    },
}
REFUSED = "refused, nothing changed"
Written = dict[tuple[int, int], bytes]


def damage_processes(directory: Path, rounds: int, seed: int, tally: Tally) -> None:
    """Damage three nodes so many times; what becomes of it goes into `tally`."""
    rng, written = Random(seed), Written()
    with ClusterProcess(directory, settings=SETTINGS) as cluster:
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
        for number in range(rounds):
            _write(cluster, rng, written, number)
            _until_whole(cluster, tally)
            victim = rng.choice(sorted(cluster.nodes))
            mode = "stopped process" if rng.random() < 0.6 else "running process"
            damages = _damage(cluster, victim, rng, is_running=mode == "running process")
            for one, before in damages:
                outcome = _outcome_in_time(one, before, cluster.nodes[victim])
                if outcome is None:
                    tally.wrong.append(f"not found: {one.name} {one.path} at {one.at} ({mode})")
                tally.verdicts[Verdict(one.name, mode, outcome or "MISSED")] += 1
            _until_whole(cluster, tally)
            _compare(cluster, written, tally)
            if tally.wrong:
                return
        _damage_controller(cluster, rng, tally)


def _write(cluster: ClusterProcess, rng: Random, written: Written, number: int) -> None:
    """Write with acks=all, and take note of every acknowledged record."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "batch.size": rng.choice((1_000, 16_384)),
        }
    )
    for at in range(RECORDS):
        value = f"{number}-{at}-".encode() + rng.randbytes(rng.randrange(10, 900))
        producer.produce(
            TOPIC, value, partition=rng.randrange(PARTITIONS), on_delivery=_noting(written, value)
        )
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("records were not acknowledged within a minute")


def _noting(written: Written, value: bytes) -> Callable[[object, object], None]:
    def delivered(error: object, message: object) -> None:
        if error is not None:
            raise KafkaException(error)
        partition, offset = message.partition(), message.offset()  # type: ignore[attr-defined]
        written[partition, offset] = value

    return delivered


def _damage(
    cluster: ClusterProcess, victim: int, rng: Random, *, is_running: bool
) -> list[tuple[Damage, str]]:
    """Damage one place in each set of a node; return what was done, and the logs' ids before."""
    node = cluster.nodes[victim]
    if not is_running:
        if rng.random() < 0.7:
            node.kill()
        else:
            node.stop()
    damages = []
    for path in sorted(node.data.glob("set-*")):
        before = _log_id(path)
        classes = _counting(classes_of(path), is_running=is_running)
        damages.append((draw(rng, classes, set_id=int(path.name[4:]), broker_id=victim), before))
    if not is_running:
        node.start()
    return damages


def _counting(classes: Classes, *, is_running: bool) -> Classes:
    """Return the classes whose damage has to be noticed."""
    kept = {name: places for name, places in classes.items() if name not in UNUSED}
    if not is_running:
        return {name: places for name, places in kept.items() if name != "catching-up"}
    return {
        name: places
        for name, places in kept.items()
        if "frame" in name or "batch" in name or name.startswith("index")
    }


def _log_id(directory: Path) -> str:
    try:
        return str(json.loads((directory / "replica.json").read_bytes())["log_id"])
    except (OSError, ValueError, KeyError):
        return ""


def _outcome_in_time(damage: Damage, before: str, node: NodeProcess) -> str | None:
    """Return what became of a damage, which may take a while; None where nothing did."""
    deadline = time.monotonic() + WHOLE_SECONDS
    while time.monotonic() < deadline:
        outcome = _outcome(damage, before) or _told_at_start(damage, node)
        if outcome is not None:
            return outcome
        time.sleep(0.05)
    return None


def _told_at_start(damage: Damage, node: NodeProcess) -> str | None:
    """A start names every file that it had to make anew."""
    name = damage.path.relative_to(node.data)
    text = node.log_file.read_text(encoding="utf-8", errors="replace")
    return REBUILT if f"rebuilt: {name} is damaged" in text else None


def _outcome(damage: Damage, before: str) -> str | None:
    top = damage.path
    while not top.name.startswith("set-"):
        top = top.parent
    if _log_id(top) not in {"", before}:
        return REPAIRED
    now = damage.path.read_bytes() if damage.path.exists() else None
    if damage.path.name == "replica.json":
        return SAME if _log_id(top) == before else None
    if damage.path.suffix == ".log" or now == damage.after:
        return None
    return REBUILT if now == damage.before else REPLACED


def _until_whole(cluster: ClusterProcess, tally: Tally) -> None:
    def is_whole() -> bool:
        try:
            sets = cluster.status()["sets"]
        except Exception:  # noqa: BLE001  no active controller for a moment
            return False
        return all(
            replica_set["master"] in cluster.nodes
            and len(replica_set["sync_state_set"]) == len(cluster.nodes)
            for replica_set in sets
        )

    if not wait_until(is_whole, WHOLE_SECONDS):
        tally.wrong.append(f"not whole after {WHOLE_SECONDS} s:\n{cluster.log_tails()}")


def _compare(cluster: ClusterProcess, written: Written, tally: Tally) -> None:
    """Read everything with a stock client, and the files of all replicas."""
    found = _read(cluster, written)
    lost = [place for place in written if place not in found]
    other = [place for place in found if written.get(place, found[place]) != found[place]]
    if lost or other:
        tally.wrong.append(f"{len(lost)} records lost, {len(other)} are others: {lost[:3]}")
    tally.records_read += len(found)
    _, problems = differences(cluster)
    tally.wrong += problems


def _read(cluster: ClusterProcess, written: Written) -> Written:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader-of-damage",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, one, 0) for one in range(PARTITIONS)])
    found, deadline = Written(), time.monotonic() + WHOLE_SECONDS
    while len(found) < len(written) and time.monotonic() < deadline:
        for message in consumer.consume(5_000, 0.5):
            if message.error() is None:
                found[message.partition() or 0, message.offset() or 0] = message.value() or b""
    consumer.close()
    return found


def _damage_controller(cluster: ClusterProcess, rng: Random, tally: Tally) -> None:
    """A voter whose Raft log is damaged at its last entry must not start; the others go on."""
    victim = rng.choice(cluster.voters)
    node = cluster.processes[victim]
    node.kill()
    path = node.data / "metadata" / "raft.log"
    whole = path.read_bytes()
    at = len(whole.rstrip(b"\0")) - 1
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    outcome = _refuses(node)
    if outcome is None:
        tally.wrong.append(f"a voter starts with a damaged Raft log:\n{node.log_tail()}")
    tally.verdicts[Verdict("raft.log: last frame", "stopped process", outcome or "MISSED")] += 1


def _refuses(node: NodeProcess) -> str | None:
    node.launch()
    code = node.wait_exit()
    return REFUSED if code and "must not vote" in node.log_tail() else None
