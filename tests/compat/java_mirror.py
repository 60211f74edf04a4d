"""MirrorMaker 2 between two clusters, in both directions and exactly once."""

from pathlib import Path

from benchmarks.parts.java_servers import JavaServer
from harness.ports import free_port
from tests.compat.java_programs import program, write_properties

MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"


def mirror_maker(directory: Path, bootstrap_of: dict[str, str]) -> JavaServer:
    """Return a MirrorMaker that copies all topics of each of two clusters to the other.

    `bootstrap_of` has the clusters' addresses by alias. It looks for topics, groups and
    configurations each second.
    """
    directory.mkdir(exist_ok=True)
    file = directory / "mirror.properties"
    write_properties(file, _settings(bootstrap_of))
    return program("kafka-connect", MAIN, str(file), log=directory / "mirror.log")


def _settings(bootstrap_of: dict[str, str]) -> dict[str, object]:
    one, two = bootstrap_of
    seconds = (
        "refresh.topics.interval.seconds",
        "refresh.groups.interval.seconds",
        "sync.topic.configs.interval.seconds",
        "sync.topic.acls.interval.seconds",
        "sync.group.offsets.interval.seconds",
        "emit.checkpoints.interval.seconds",
        "emit.heartbeats.interval.seconds",
    )
    internal = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
    storage = ("config.storage", "offset.storage", "status.storage")
    return {
        "clusters": f"{one},{two}",
        **{f"{alias}.bootstrap.servers": at for alias, at in bootstrap_of.items()},
        **{f"{alias}.consumer.isolation.level": "read_committed" for alias in bootstrap_of},
        **{f"{alias}.exactly.once.source.support": "enabled" for alias in bootstrap_of},
        f"{one}->{two}.enabled": "true",
        f"{two}->{one}.enabled": "true",
        **dict.fromkeys(seconds, 1),
        "replication.factor": -1,
        **{f"{kind}.replication.factor": -1 for kind in (*internal, *storage)},
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": 0,
        "tasks.max": 2,
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{free_port()}",
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 1_000,
        "scheduled.rebalance.max.delay.ms": 0,
        "offset.flush.interval.ms": 1_000,
    }
