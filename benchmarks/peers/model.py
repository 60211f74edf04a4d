"""What is compared with what: servers, questions, figures and the rows that come out.

A *question* is asked of our server and of each peer in the same rounds; the answer has several
*figures* (throughput, CPU per GB ...). Each figure and peer is one row of the result file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

PAGE_CACHE = "page cache"
FSYNC = "fsync"

Answer = Mapping[str, float]
"""What one turn showed: key of a figure -> its value."""


class CanNotRun(Exception):
    """A server or client that can not do what a question asks; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A server to start: whose, how many nodes, and where a record is when it is acknowledged."""

    product: str
    nodes: int = 1
    durable_in: str = PAGE_CACHE
    has_tls: bool = False
    """Whether it has a listener with TLS beside the plain one."""
    has_messages: bool = False
    """Whether it listens to RocketMQ's clients of both protocols, remoting and gRPC."""
    has_cleaner: bool = False
    """Whether it cleans compacted topics, in small files and as fast as it can."""
    has_store: bool = False
    """Whether its topics may be in an object store, which is a directory."""

    @property
    def label(self) -> str:
        """As rows and tables call it."""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"{self.product}, {nodes}, {self.durable_in}{', TLS' if self.has_tls else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much load: bytes a measurement, seconds a measurement, and what `many` means."""

    total_bytes: int = 1_000_000_000
    warm_bytes: int = 800_000_000
    seconds: int = 15
    write_seconds: float = 60.0
    """What a server has taken after so long is what it takes: some need minutes with fsync."""
    thousand: int = 1_000
    ten_thousand: int = 10_000
    connections: int = 5_000
    spark_records: int = 1_000_000
    messages: int = 40_000
    """As many as the slowest of the compared takes within a part of a minute."""
    subscribers: int = 1_000
    is_smoke: bool = False

    def of(self, share: float) -> "Scale":
        """Return it with this share of the bytes."""
        total, warm = int(self.total_bytes * share), int(self.warm_bytes * share)
        return replace(self, total_bytes=total, warm_bytes=warm)


FULL = Scale()
SHORT = Scale(total_bytes=500_000_000, warm_bytes=500_000_000, seconds=5, write_seconds=10.0)
SMOKE = Scale(
    total_bytes=4_000_000,
    warm_bytes=2_000_000,
    seconds=1,
    thousand=20,
    ten_thousand=50,
    connections=50,
    spark_records=2_000,
    messages=400,
    subscribers=20,
    is_smoke=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One value of an answer. `targets` are ratios by product, `*` for any; above 1 we are ahead.

    `limit` is the target for our own value, whatever the peers show: in its unit, an upper bound
    where less is better and a lower one where more is.
    """

    key: str
    unit: str
    is_more_better: bool
    targets: Mapping[str, float] = field(default_factory=dict)
    limit: float | None = None

    def target_against(self, peer: Spec, ours: Spec) -> float | None:
        """Return the ratio to reach; `product durability` is looked up before `product`."""
        names = [f"{peer.product} {peer.durable_in}", peer.product, "*"]
        if peer.durable_in == ours.durable_in or peer.product == "stub":
            names = names[1:]
        return next((self.targets[name] for name in names if name in self.targets), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something asked of several servers: `ask` puts the load on one and returns its answer.

    `curve` and `at` name the plot that its first figure belongs to, and the place on its axis.
    `unfit` says, by product, why a peer is not asked.
    """

    name: str
    ask: Callable[[Any, Scale], Answer]
    figures: tuple[Figure, ...]
    ours: Spec
    peers: tuple[Spec, ...]
    curve: str = ""
    at: float = 0.0
    unfit: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def specs(self) -> tuple[Spec, ...]:
        """All servers it is asked of, ours first."""
        return (self.ours, *self.peers)

    def among(self, products: Sequence[str]) -> "Question":
        """Return it asked only of these peers."""
        return replace(self, peers=tuple(peer for peer in self.peers if peer.product in products))

    def row_keys(self) -> list[tuple[str, str]]:
        """Return what its rows are kept by: name and peer."""
        return [
            (self.row_name(figure), peer.label) for figure in self.figures for peer in self.peers
        ]

    def row_name(self, figure: Figure) -> str:
        """The first figure goes by the question's name, the others add theirs."""
        return self.name if figure is self.figures[0] else f"{self.name}.{figure.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Questions asked of a server between one start and its end, in each round."""

    name: str
    questions: tuple[Question, ...]
    is_warm: bool = True
    """Whether servers are warmed up first: not where starting is what is measured."""
    share: float = 1.0
    """Of the scale's bytes: where every record goes to three disks, as much takes far longer."""
    ask: Callable[..., Any] | None = None
    """Runs the questions where they do not go to servers; has `ask_group`'s parameters."""
