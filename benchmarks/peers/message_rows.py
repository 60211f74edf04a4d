"""The rows of RocketMQ's clients: what is asked of Penstock and of RocketMQ by the same client.

Each question has servers of its own, so that none finds what another left. Where RocketMQ has a
proxy between its gRPC clients and its log the goal is twice as high.
"""

from collections.abc import Iterable, Mapping

from benchmarks.peers import message_probes
from benchmarks.peers.message_probes import GRPC, REMOTING
from benchmarks.peers.model import Figure, Group, Question, Spec
from benchmarks.peers.probes import Probe

OURS = Spec(product="penstock", has_messages=True)
ROCKET = Spec(product="rocketmq", has_messages=True)

AHEAD: Mapping[str, float] = {"rocketmq": 1.5}
GOALS: Mapping[str, Mapping[str, float]] = {REMOTING: AHEAD, GRPC: {"rocketmq": 3.0}}
PACES = {REMOTING: 1_000, GRPC: 500}
"""Messages per second at which both are far from what they can do."""
TRANSACTING = 16
_CPU = Figure(key="cpu", unit="CPU us/message", is_more_better=False)


def _question(name: str, ask: Probe, figures: Iterable[Figure], note: str) -> Question:
    return Question(
        name=f"rocket-{name}",
        ask=ask,
        figures=(*figures, _CPU),
        ours=OURS,
        peers=(ROCKET,),
        note=note,
    )


def _rate(targets: Mapping[str, float]) -> Figure:
    return Figure(key="messages/s", unit="messages/s", is_more_better=True, targets=targets)


def _waits(targets: Mapping[str, float], *keys: str) -> list[Figure]:
    return [Figure(key=key, unit="us", is_more_better=False, targets=targets) for key in keys]


def _sends() -> Iterable[Question]:
    shapes = {"1": (1, 1), "1x64": (1, 64), "64": (64, 1)}
    for protocol, goal in GOALS.items():
        for name, (clients, in_flight) in shapes.items():
            yield _question(
                f"{protocol}-send-{name}",
                message_probes.send(protocol, clients=clients, in_flight=in_flight),
                [_rate(goal), *_waits(goal, "p50", "p99")],
                f"{clients} clients with {in_flight} on their way; 1 KiB",
            )


def _pops() -> Iterable[Question]:
    how = {
        REMOTING: "POP with batches of acknowledgements",
        GRPC: "a simple consumer, which acknowledges each message by itself",
    }
    for protocol, goal in GOALS.items():
        yield _question(
            f"{protocol}-pop",
            message_probes.pop(protocol),
            [_rate(goal)],
            f"{how[protocol]}; 32 a call, eight calls at once",
        )
        yield _question(
            f"{protocol}-latency",
            message_probes.latency(protocol, PACES[protocol]),
            _waits(goal, "p50", "p99", "p999"),
            f"end to end at {PACES[protocol]:,} messages/s, from when each was due",
        )


def _timers() -> Iterable[Question]:
    late = [
        Figure(key=key, unit="s late", is_more_better=False, targets=AHEAD)
        for key in ("p50", "p99", "max")
    ]
    early = Figure(key="early", unit="messages before their time", is_more_better=False, limit=0)
    yield _question(
        "timers-burst",
        message_probes.timers(is_burst=True),
        [_rate(AHEAD), *late, early],
        "all become due within a second; from the first due time to the last receipt",
    )
    yield _question(
        "timers-paced",
        message_probes.timers(is_burst=False),
        [late[0], *late[1:], early],
        f"{message_probes.TIMERS_PER_SECOND:,} become due each second",
    )


def _transactions() -> Iterable[Question]:
    for protocol, goal in GOALS.items():
        rate = Figure(key="per_second", unit="commits/s", is_more_better=True, targets=goal)
        yield _question(
            f"{protocol}-transactions",
            message_probes.transactions(protocol, clients=TRANSACTING),
            [rate, *_waits(goal, "p50", "p99")],
            f"{TRANSACTING} producers, one message each; all have to be readable in the end",
        )


def _filters() -> Question:
    return _question(
        "filters-1000",
        message_probes.filters(),
        [_rate(AHEAD), *_waits(AHEAD, "p50")],
        "a thousand groups, each with an SQL filter on one property; one wants a message",
    )


def _in_flight() -> Question:
    memory = Figure(key="memory", unit="MB per million", is_more_better=False, targets=AHEAD)
    return Question(
        name="rocket-in-flight",
        ask=message_probes.in_flight(),
        figures=(memory,),
        ours=OURS,
        peers=(ROCKET,),
        note="received by POP and not acknowledged; RocketMQ's is its heap after a collection",
    )


def groups() -> tuple[Group, ...]:
    """Return a group for each question."""
    questions = [*_sends(), *_pops(), *_timers(), *_transactions(), _filters(), _in_flight()]
    return tuple(Group(name=one.name, questions=(one,), is_warm=False) for one in questions)
