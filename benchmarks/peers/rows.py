"""Every row there is: what is asked, of whom, and what is to be reached.

The targets are the project's goals for performance. A group is what one start of a server
is used for, small enough that both sides of a ratio are measured within a minute or two.
"""

from collections.abc import Iterable, Mapping

from benchmarks.peers import message_rows, probes, second_level_rows, spark_rows, tls_rows
from benchmarks.peers.model import FSYNC, PAGE_CACHE, Figure, Group, Question, Spec

OURS = Spec(product="penstock")
KAFKA = Spec(product="kafka")
ROCKET = Spec(product="rocketmq")
STUB = Spec(product="stub")
BOTH = (KAFKA, ROCKET)

OURS_FSYNC = Spec(product="penstock", durable_in=FSYNC)
BOTH_FSYNC = (
    Spec(product="kafka", durable_in=FSYNC),
    Spec(product="rocketmq", durable_in=FSYNC),
)


def _three(durable_in: str) -> tuple[Spec, Spec, Spec]:
    names = ("penstock", "kafka", "rocketmq")
    ours, kafka, rocket = (Spec(product=name, nodes=3, durable_in=durable_in) for name in names)
    return ours, kafka, rocket


OURS_3, KAFKA_3, ROCKET_3 = _three(PAGE_CACHE)
OURS_3_FSYNC, KAFKA_3_FSYNC, ROCKET_3_FSYNC = _three(FSYNC)

BATCHES = {"16k": 16_384, "256k": 262_144, "1m": 1_000_000}
CODECS = ("none", "lz4", "zstd")
CPU_PER_GB_MAX = {"16k": 1.1, "256k": 0.45}

AHEAD = {"*": 1.0}
NO_CODEC = "its client compresses no batches: see the row without codec"
NO_RAW = "nothing but its own client speaks its protocol, and that client shares one connection"
CURVE_PARTITIONS = "throughput against partitions"
CURVE_BATCH = "throughput against batch size"
CURVE_MESSAGE = "throughput against message size"
CURVE_CONNECTIONS = "throughput against connections"
CURVE_MEMORY_PARTITIONS = "memory against partitions"
CURVE_MEMORY_CONNECTIONS = "memory against connections"
CURVE_RECOVERY = "recovery against log size"


def _speed(targets: Mapping[str, float], cpu_limit: float | None = None) -> tuple[Figure, ...]:
    cpu_targets = {"kafka": 2.0} if targets else {}
    return (
        Figure(key="MB/s", unit="MB/s", is_more_better=True, targets=targets),
        Figure(
            key="cpu",
            unit="CPU s/GB",
            is_more_better=False,
            targets=cpu_targets,
            limit=cpu_limit,
        ),
        Figure(key="client_cpu", unit="client CPU s/GB", is_more_better=False),
    )


def _waits(limits: tuple[float | None, float | None], targets: Mapping[str, float]) -> list[Figure]:
    """Latencies; `limits` are for p50 and p99 in microseconds."""
    return [
        Figure(key="p50", unit="us", is_more_better=False, targets=targets, limit=limits[0]),
        Figure(key="p99", unit="us", is_more_better=False, targets=targets, limit=limits[1]),
        Figure(
            key="p999",
            unit="us",
            is_more_better=False,
            targets={**targets, "stub": 0.5} if targets else {},
        ),
        Figure(key="cpu", unit="CPU us/record", is_more_better=False),
    ]


def _produce() -> Iterable[Question]:
    for batch, size in BATCHES.items():
        for codec in CODECS:
            plain = codec == "none"
            yield Question(
                name=f"produce-{batch}" + ("" if plain else f"-{codec}"),
                ask=probes.produce(batch=size, codec=codec),
                figures=_speed(
                    {} if codec == "zstd" else {"*": 1.5},
                    CPU_PER_GB_MAX.get(batch) if plain else None,
                ),
                ours=OURS,
                peers=BOTH,
                curve=CURVE_BATCH if plain else "",
                at=size,
                unfit={} if plain else {"rocketmq": NO_CODEC},
            )


def _produce_fsync() -> Iterable[Question]:
    for batch, size in BATCHES.items():
        yield Question(
            name=f"fsync-produce-{batch}",
            ask=probes.produce(batch=size),
            figures=_speed(AHEAD),
            ours=OURS_FSYNC,
            peers=BOTH_FSYNC,
        )
    yield Question(
        name="fsync-latency-1000",
        ask=probes.latency(1_000),
        figures=tuple(_waits((None, None), AHEAD)),
        ours=OURS_FSYNC,
        peers=BOTH_FSYNC,
    )


def _stub() -> Iterable[Question]:
    for batch, size in BATCHES.items():
        yield Question(
            name=f"stub-{batch}",
            ask=probes.produce(batch=size),
            figures=_speed({"stub": 0.75})[:2],
            ours=OURS,
            peers=(STUB,),
        )


def _sizes() -> Iterable[Question]:
    for name, value in {"100b": 100, "1k": 1024, "10k": 10_240, "100k": 102_400}.items():
        yield Question(
            name=f"message-{name}",
            ask=probes.produce(value=value, batch=262_144),
            figures=_speed(AHEAD),
            ours=OURS,
            peers=BOTH,
            curve=CURVE_MESSAGE,
            at=value,
        )


def _batches() -> Iterable[Question]:
    for name, size in {"4k": 4_096, "64k": 65_536, "512k": 524_288}.items():
        yield Question(
            name=f"batch-{name}",
            ask=probes.produce(batch=size),
            figures=_speed(AHEAD),
            ours=OURS,
            peers=BOTH,
            curve=CURVE_BATCH,
            at=size,
        )


def _partitions() -> Iterable[Question]:
    for count in (1, 10, 100):
        yield Question(
            name=f"partitions-{count}",
            ask=probes.produce(batch=262_144, partitions=count),
            figures=_speed(AHEAD),
            ours=OURS,
            peers=BOTH,
            curve=CURVE_PARTITIONS,
            at=count,
        )


def _among(name: str, count: str, at: int, written: int) -> Group:
    share = Figure(key="share", unit="share of what it was without", is_more_better=True, limit=0.8)
    is_curve = written > 10
    question = Question(
        name=name,
        ask=probes.produce_among(count, written=written),
        figures=(*_speed(AHEAD)[:2], *(() if is_curve else (share,))),
        ours=OURS,
        peers=BOTH,
        curve=CURVE_PARTITIONS if is_curve else "",
        at=at,
        note=f"written to {written:,} of {at:,}",
    )
    return Group(name=name, questions=(question,))


def _consume() -> Iterable[Question]:
    shapes = {
        "consume-hot": (1024, 262_144, 1, 0.30),
        "consume-hot-16k": (1024, 16_384, 1, None),
        "consume-hot-100": (1024, 16_384, 100, 0.60),
        "consume-hot-100b": (100, 262_144, 1, None),
        "consume-hot-10k": (10_240, 262_144, 1, None),
    }
    for name, (value, batch, partitions, limit) in shapes.items():
        yield Question(
            name=name,
            ask=probes.consume(value=value, batch=batch, partitions=partitions),
            figures=_speed({"*": 1.5}, limit),
            ours=OURS,
            peers=BOTH,
            note=f"{partitions} partitions, {value} B, batches of {batch:,} B",
        )


def _share_consume() -> Iterable[Question]:
    for partitions in (1, 10):
        yield Question(
            name=f"share-consume-{partitions}",
            ask=probes.share_consume(batch=16_384, partitions=partitions),
            figures=(
                Figure(
                    key="records/s", unit="records/s", is_more_better=True, targets={"kafka": 1.5}
                ),
                Figure(key="MB/s", unit="MB/s", is_more_better=True),
                Figure(key="cpu", unit="CPU s/GB", is_more_better=False),
            ),
            ours=OURS,
            peers=(KAFKA,),
            note="one member, Java's ShareConsumerPerformance, from its first records on",
        )


def _consume_cold() -> Question:
    from_disk = Figure(key="from_disk", unit="share read from the disk", is_more_better=True)
    return Question(
        name="consume-cold",
        ask=probes.consume_cold(batch=262_144),
        figures=(*_speed(AHEAD), from_disk),
        ours=OURS,
        peers=BOTH,
        note="after a restart, files out of the page cache",
    )


def _latency() -> Iterable[Question]:
    for rate in (1_000, 5_000):
        is_goal = rate == 5_000
        limits = (200.0, 400.0) if is_goal else (None, None)
        yield Question(
            name=f"latency-{rate}",
            ask=probes.latency(rate),
            figures=tuple(_waits(limits, {"kafka": 1.0, "rocketmq": 1.0} if is_goal else {})),
            ours=OURS,
            peers=(*BOTH, STUB),
        )


def _transactions(prefix: str, ours: Spec, peer: Spec) -> Iterable[Question]:
    wanted = {"kafka": 1.5}
    for count in (1, 10, 100):
        yield Question(
            name=f"{prefix}transactions-{count}",
            ask=probes.transactions(partitions=count, records=count),
            figures=(
                Figure(key="per_second", unit="commits/s", is_more_better=True, targets=wanted),
                Figure(key="p50", unit="us", is_more_better=False, targets=wanted),
                Figure(key="p99", unit="us", is_more_better=False, targets=wanted),
                Figure(key="cpu", unit="CPU us/transaction", is_more_better=False),
            ),
            ours=ours,
            peers=(peer,),
            note=f"a record in each of {count} partitions; latencies are those of the commit",
        )
    yield Question(
        name=f"{prefix}transactions-large",
        ask=probes.transactions(partitions=1, records=20_000),
        figures=(Figure(key="MB/s", unit="MB/s", is_more_better=True, targets=wanted),),
        ours=ours,
        peers=(peer,),
        note="transactions of 20,000 records of 1 KiB",
    )


def _rebalances() -> Iterable[Question]:
    for protocol in ("classic", "consumer"):
        yield Question(
            name=f"rebalance-{protocol}",
            ask=probes.rebalance(protocol),
            figures=tuple(
                Figure(key=key, unit="s", is_more_better=False, targets={"kafka": 2.0})
                for key in ("form", "join", "leave")
            ),
            ours=OURS,
            peers=(KAFKA,),
            note="100 members of librdkafka, 1,000 partitions; then one more joins, and leaves",
        )


def _small() -> Iterable[Question]:
    cases = {"small-pipelined": (4, 32, 130_000.0), "small-64": (64, 1, 45_000.0)}
    for name, (connections, in_flight, limit) in cases.items():
        yield Question(
            name=name,
            ask=probes.small_requests(connections=connections, in_flight=in_flight),
            figures=(
                Figure(key="requests/s", unit="requests/s", is_more_better=True, targets=AHEAD),
                Figure(key="core", unit="requests per core s", is_more_better=True, limit=limit),
                Figure(key="cpu", unit="CPU us/request", is_more_better=False),
            ),
            ours=OURS,
            peers=BOTH,
            note=f"{connections} connections with {in_flight} in flight; RocketMQ by its client",
        )


def _connections() -> Iterable[Question]:
    for count in (1, 16, 256, 1_000):
        yield Question(
            name=f"connections-{count}",
            ask=probes.small_requests(connections=count, in_flight=1),
            figures=(
                Figure(key="requests/s", unit="requests/s", is_more_better=True, targets=AHEAD),
                Figure(key="cpu", unit="CPU us/request", is_more_better=False),
            ),
            ours=OURS,
            peers=BOTH,
            curve=CURVE_CONNECTIONS,
            at=count,
            unfit={"rocketmq": NO_RAW},
        )


def _footprint() -> Iterable[Group]:
    memory = Figure(key="memory", unit="MB", is_more_better=False, targets=AHEAD, limit=80.0)
    start = Figure(key="start", unit="s", is_more_better=False, targets=AHEAD, limit=1.0)
    idle = Question(name="idle", ask=probes.idle, figures=(memory, start), ours=OURS, peers=BOTH)
    yield Group(name="idle", questions=(idle,), is_warm=False)
    plain = Figure(key="memory", unit="MB", is_more_better=False)
    each = Figure(key="each", unit="B per connection", is_more_better=False, limit=6_000.0)
    for share, count in ((0.0, 0), (0.2, 1_000), (1.0, 5_000)):
        question = Question(
            name=f"memory-connections-{count}",
            ask=probes.memory_of_connections(share),
            figures=(plain, each) if count else (plain,),
            ours=OURS,
            peers=BOTH,
            curve=CURVE_MEMORY_CONNECTIONS,
            at=count,
            note="a JVM takes them from its heap, which is there from the start",
        )
        yield Group(name=question.name, questions=(question,), is_warm=False)
    for at, field_name in ((1_000, "thousand"), (10_000, "ten_thousand")):
        question = Question(
            name=f"memory-partitions-{at}",
            ask=probes.memory_of_partitions(field_name),
            figures=(plain,),
            ours=OURS,
            peers=BOTH,
            curve=CURVE_MEMORY_PARTITIONS,
            at=at,
        )
        yield Group(name=question.name, questions=(question,), is_warm=False)


def _restart() -> Iterable[Group]:
    record = Figure(key="record", unit="s to the first record", is_more_better=False)
    counts: tuple[tuple[int, str | int], ...] = (
        (10, 10),
        (1_000, "thousand"),
        (10_000, "ten_thousand"),
    )
    for at, count in counts:
        limit = 5.0 if at == 10_000 else None
        seconds = Figure(key="seconds", unit="s", is_more_better=False, targets=AHEAD, limit=limit)
        question = Question(
            name=f"restart-partitions-{at}",
            ask=probes.restart_with_partitions(count),
            figures=(seconds, record),
            ours=OURS,
            peers=BOTH,
            note="after kill -9, to the first answer",
        )
        yield Group(name=question.name, questions=(question,), is_warm=False)
    for name, gigabytes in (("0", 0.0), ("250m", 0.25), ("1g", 1.0), ("4g", 4.0)):
        seconds = Figure(key="seconds", unit="s", is_more_better=False, targets=AHEAD)
        question = Question(
            name=f"recovery-{name}",
            ask=probes.restart_with_log(gigabytes),
            figures=(seconds, record),
            ours=OURS,
            peers=BOTH,
            curve=CURVE_RECOVERY,
            at=gigabytes * 1e9,
            note="after kill -9, to the first answer",
        )
        yield Group(name=question.name, questions=(question,), is_warm=False)


def _three_nodes() -> Iterable[Question]:
    for batch in ("16k", "256k"):
        yield Question(
            name=f"three-produce-{batch}",
            ask=probes.produce(batch=BATCHES[batch]),
            figures=_speed(AHEAD),
            ours=OURS_3,
            peers=(KAFKA_3, ROCKET_3),
        )
    yield Question(
        name="three-latency-5000",
        ask=probes.latency(5_000),
        figures=tuple(_waits((400.0, 800.0), AHEAD)),
        ours=OURS_3,
        peers=(KAFKA_3, ROCKET_3),
    )


def _three_nodes_fsync() -> Iterable[Question]:
    targets = {"kafka": 2.0, f"kafka {PAGE_CACHE}": 1.0, "rocketmq": 1.0}
    for batch in ("16k", "256k"):
        yield Question(
            name=f"three-fsync-produce-{batch}",
            ask=probes.produce(batch=BATCHES[batch]),
            figures=_speed(targets),
            ours=OURS_3_FSYNC,
            peers=(KAFKA_3_FSYNC, KAFKA_3, ROCKET_3_FSYNC),
        )
    yield Question(
        name="three-fsync-latency-5000",
        ask=probes.latency(5_000),
        figures=tuple(_waits((1_000.0, 3_000.0), AHEAD)),
        ours=OURS_3_FSYNC,
        peers=(KAFKA_3_FSYNC, ROCKET_3_FSYNC),
    )


def _failover() -> Iterable[Group]:
    counts: tuple[tuple[int, str | int], ...] = ((10, 10), (10_000, "ten_thousand"))
    for at, count in counts:
        question = Question(
            name=f"failover-{at}",
            ask=probes.failover(count),
            figures=(Figure(key="gap", unit="s", is_more_better=False, targets=AHEAD, limit=3.0),),
            ours=OURS_3,
            peers=(KAFKA_3, ROCKET_3),
            note=f"the killed node leads {at:,} partitions; one writer's silence",
        )
        yield Group(name=question.name, questions=(question,), is_warm=False)


def all_groups() -> tuple[Group, ...]:
    """Return everything that is asked of servers, in the order it is asked."""
    return (
        Group(name="produce", questions=tuple(_produce())),
        Group(name="stub", questions=tuple(_stub())),
        Group(name="consume", questions=tuple(_consume())),
        Group(name="share-consume", questions=tuple(_share_consume())),
        Group(name="consume-cold", questions=(_consume_cold(),)),
        Group(name="latency", questions=tuple(_latency())),
        Group(name="small", questions=tuple(_small())),
        Group(name="rebalance", questions=tuple(_rebalances())),
        Group(name="transactions", questions=tuple(_transactions("", OURS, KAFKA))),
        Group(name="three", questions=tuple(_three_nodes()), share=0.5),
        Group(
            name="three-fsync-transactions",
            questions=tuple(_transactions("three-fsync-", OURS_3_FSYNC, KAFKA_3_FSYNC)),
            share=0.25,
        ),
        Group(name="three-fsync", questions=tuple(_three_nodes_fsync()), share=0.25),
        Group(name="fsync", questions=tuple(_produce_fsync()), share=0.5),
        Group(name="message", questions=tuple(_sizes())),
        Group(name="batch", questions=tuple(_batches())),
        Group(name="partitions", questions=tuple(_partitions())),
        _among("partitions-1000", "thousand", 1_000, 1_000),
        _among("partitions-10000", "ten_thousand", 10_000, 1_000),
        _among("partitions-10-of-10000", "ten_thousand", 10_000, 10),
        Group(name="connections", questions=tuple(_connections())),
        *_footprint(),
        *_restart(),
        *_failover(),
        tls_rows.GROUP,
        *message_rows.groups(),
        *second_level_rows.groups(),
        spark_rows.GROUP,
    )
