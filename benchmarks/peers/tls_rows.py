"""The rows of TLS: what encryption costs each product, plain and TLS in turns on one server.

A turn asks plain, TLS, TLS, plain with the same load, so that a server that becomes slower, or
faster, meanwhile is so on both sides. What is compared with Kafka is the share of the throughput
that TLS takes. Client and server share the machine, so that share is of both ends.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from benchmarks.peers import probes
from benchmarks.peers.model import Answer, Figure, Group, Question, Scale, Spec
from benchmarks.peers.over_tls import Loaded
from benchmarks.peers.servers import Server

LOSS_RATIO_MAX: Final = 1.3
"""Our loss may be so many times Kafka's."""
LOSS_MIN: Final = 0.01
"""Less can not be told from none, and a ratio of what is next to nothing says nothing."""
OURS: Final = Spec(product="penstock", has_tls=True)
KAFKA: Final = Spec(product="kafka", has_tls=True)
RATE: Final = 5_000

Ways = Mapping[str, Answer]
"""What each way into the server showed, `plain` and `tls`."""


def priced(
    ask_one: Callable[[Loaded, Scale], Answer], priced_by: Callable[[Ways], Answer]
) -> probes.Probe:
    """Ask on both ways into a server, in turns; `priced_by` says what TLS came to."""

    def ask(server: Server, scale: Scale) -> Answer:
        ways: dict[str, Loaded] = {"plain": server, "tls": server.over_tls()}
        found: dict[str, list[Answer]] = {name: [] for name in ways}
        for name in ("plain", "tls", "tls", "plain"):
            found[name].append(ask_one(ways[name], scale))
        return priced_by({name: _mean(answers) for name, answers in found.items()})

    return ask


def _mean(answers: list[Answer]) -> Answer:
    return {key: sum(one[key] for one in answers) / len(answers) for key in answers[0]}


def price_of_bytes(ways: Ways) -> Answer:
    """Return the share of the throughput that is `lost`, and CPU seconds a GB on both ways."""
    plain, tls = ways["plain"], ways["tls"]
    return {
        "lost": max(LOSS_MIN, 1 - tls["MB/s"] / plain["MB/s"]),
        "plain": plain["MB/s"],
        "tls": tls["MB/s"],
        "plain_cpu": plain["cpu"],
        "cpu": tls["cpu"],
        "more_cpu": tls["cpu"] - plain["cpu"],
        "client_cpu": tls["client_cpu"],
    }


def price_of_waiting(ways: Ways) -> Answer:
    """Return the latencies on both ways, and the CPU that a record costs more."""
    plain, tls = ways["plain"], ways["tls"]
    return {
        "p50": tls["p50"],
        "p99": tls["p99"],
        "plain_p50": plain["p50"],
        "plain_p99": plain["p99"],
        "cpu": tls["cpu"],
        "more_cpu": tls["cpu"] - plain["cpu"],
    }


def _less(key: str, unit: str) -> Figure:
    return Figure(key=key, unit=unit, is_more_better=False)


_BYTES: Final = (
    Figure(
        key="lost",
        unit="share of the throughput",
        is_more_better=False,
        targets={"kafka": round(1 / LOSS_RATIO_MAX, 2)},
    ),
    Figure(key="plain", unit="MB/s", is_more_better=True),
    Figure(key="tls", unit="MB/s", is_more_better=True),
    _less("plain_cpu", "CPU s/GB"),
    _less("cpu", "CPU s/GB"),
    _less("more_cpu", "CPU s/GB"),
    _less("client_cpu", "client CPU s/GB"),
)
_WAITS: Final = (
    *(_less(key, "us") for key in ("p50", "p99", "plain_p50", "plain_p99")),
    _less("cpu", "CPU us/record"),
    _less("more_cpu", "CPU us/record"),
)


def _questions() -> Iterable[Question]:
    loads: Mapping[str, Callable[[Loaded, Scale], Answer]] = {
        "tls-produce-16k": probes.produce(batch=16_384),
        "tls-produce-256k": probes.produce(batch=262_144),
        "tls-consume": probes.consume(batch=262_144),
    }
    for name, load in loads.items():
        yield Question(
            name=name,
            ask=priced(load, price_of_bytes),
            figures=_BYTES,
            ours=OURS,
            peers=(KAFKA,),
            note="plain and TLS 1.3 in turns; AES-256-GCM, one connection",
        )
    yield Question(
        name=f"tls-latency-{RATE}",
        ask=priced(probes.latency(RATE), price_of_waiting),
        figures=_WAITS,
        ours=OURS,
        peers=(KAFKA,),
        note="plain and TLS 1.3 in turns; AES-256-GCM, one connection",
    )


GROUP: Final = Group(name="tls", questions=tuple(_questions()))
