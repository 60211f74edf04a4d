"""What `penstock serve` starts: the settings of each node, from the one file of the machine.

Node k of N has

    node.broker_id          that of the file + k
    every port              that of the file + 100 k: clients, named listeners, peers, metrics,
                            and those that others are told
    data directories        <directory of the file>/node-<broker id>
    shares of the machine   those of a node alone / N: memory that clients pin, memory that is
                            trusted to hold the newest records

and everything else as the file says. `cluster.voters` is the same for all: a node votes if its id
is in it. A node's own values are passed as `--set`, so that the file is not changed.

Everything is checked before anything is started or written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock.base.endpoints import NamedEndpoint
from penstock.base.errors import ConfigError
from penstock.cli.launch.ports import why_unusable
from penstock.net.memory_share import machine_bytes, share_of
from penstock.node.access.exposure import check_exposure
from penstock.node.identity import IDENTITY_NAME, absence, check_cluster_is_named
from penstock.node.settings.config import BROKER_ID_MAX, PORT_MAX
from penstock.node.settings.settings import NodeSettings, load_settings

PORT_STEP = 100
"""Distance between the ports of one kind of two consecutive nodes."""
NODES_MAX = 64
"""More than a machine can use; with 100 ports each, usual ports stay below 16,000."""
ANY_CORE = -1


class Port(NamedTuple):
    """A port on which a process of this machine listens."""

    who: str
    setting: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """One node to be started."""

    broker_id: int
    settings: NodeSettings
    overrides: tuple[str, ...]
    """Each as `section.key=value`: those of the command line, then the node's own."""
    core: int = ANY_CORE

    @property
    def metrics_address(self) -> tuple[str, int]:
        """The address of its metrics and health pages, from this machine."""
        node = self.settings.node
        return reachable_host(node.metrics_host), node.metrics_port


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePlan:
    """All nodes of a machine, and the address of the machine's pages."""

    config: Path
    nodes: tuple[PlannedNode, ...]
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The arguments of the command line."""

    config: Path
    nodes: int
    cores: tuple[int, ...] = ()
    """One core for each node; empty: nodes are not pinned."""
    metrics_port: int = 0
    """Port of the machine's pages; 0: one above the first node's metrics port."""
    overrides: tuple[str, ...] = ()


def plan_machine(wishes: Wishes, environment: Mapping[str, str]) -> MachinePlan:
    """Return the plan. Changes nothing. Raises ConfigError with one line."""
    base = load_settings(wishes.config, environment=environment, overrides=wishes.overrides)
    _check_machine(base, wishes)
    nodes = tuple(_planned(base, wishes, number, environment) for number in range(wishes.nodes))
    _check_cluster(base, [node.broker_id for node in nodes])
    port = wishes.metrics_port or base.node.metrics_port + 1
    plan = MachinePlan(config=wishes.config, nodes=nodes, host=base.node.metrics_host, port=port)
    _check_apart(plan)
    return plan


def check_machine_is_free(plan: MachinePlan) -> None:
    """Raise ConfigError if a port is in use."""
    for who, setting, host, port in _all_ports(plan):
        if why := why_unusable(host, port):
            raise ConfigError(
                f"{who}: {host}:{port} can not be used: {why}: stop what uses it, or change "
                f"{setting} in {plan.config}"
            )


def make_directories(plan: MachinePlan) -> None:
    """Create each node's own directory below the existing ones of the file."""
    for node in plan.nodes:
        for path in node.settings.node.data_directories:
            try:
                Path(path).mkdir(exist_ok=True)
            except OSError as error:
                raise ConfigError(
                    f"node {node.broker_id}: {path} can not be made: {error.strerror}"
                ) from error


def voters_at_other_ports(plan: MachinePlan) -> Iterator[str]:
    """Yield a warning for each voter of this machine whose port is not the one of its node."""
    cluster = plan.nodes[0].settings.cluster
    ports = {node.broker_id: node.settings.cluster.controller_port for node in plan.nodes}
    for voter in cluster.voter_addresses():
        port = ports.get(voter.peer_id, voter.port)
        if port != voter.port:
            yield (
                f"cluster.voters has controller {voter.peer_id} at port {voter.port}, and node "
                f"{voter.peer_id} listens at {port}: that works only if something forwards it"
            )


def nodes_left_out(plan: MachinePlan) -> Iterator[str]:
    """Yield a warning for each node that has data here and is not started."""
    ids = {node.broker_id for node in plan.nodes}
    places = {
        Path(data_directory).parent
        for data_directory in plan.nodes[0].settings.node.data_directories
    }
    for path in sorted(one for place in places for one in place.glob("node-*")):
        number = path.name.removeprefix("node-")
        if number.isascii() and number.isdigit() and int(number) not in ids:
            yield (
                f"{path} is there, and node {number} is not started: with {len(ids)} nodes the ids "
                f"end at {max(ids)}"
            )


def reachable_host(host: str) -> str:
    """Return the address at which this machine reaches what is bound to `host`."""
    every = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  compared, not bound
    return every.get(host, host)


def _planned(
    base: NodeSettings, wishes: Wishes, number: int, environment: Mapping[str, str]
) -> PlannedNode:
    broker_id = base.node.broker_id + number
    overrides = (*wishes.overrides, *_own(base, number, wishes.nodes))
    try:
        settings = load_settings(wishes.config, environment=environment, overrides=overrides)
    except ConfigError as error:
        raise ConfigError(f"node {broker_id}: {error}") from error
    return PlannedNode(
        broker_id=broker_id,
        settings=settings,
        overrides=overrides,
        core=wishes.cores[number] if wishes.cores else ANY_CORE,
    )


def _own(base: NodeSettings, number: int, count: int) -> Iterator[str]:
    """Yield the settings of node `number` that differ from the file."""
    node, cluster, distance = base.node, base.cluster, PORT_STEP * number
    broker_id = node.broker_id + number
    places = [str(Path(path) / f"node-{broker_id}") for path in node.data_directories]
    yield f"node.broker_id={broker_id}"
    yield f"node.data_directories={','.join(places)}"
    ports = {
        "node.port": node.port,
        "node.advertised_port": node.advertised_port,
        "node.metrics_port": node.metrics_port,
        "cluster.controller_port": cluster.controller_port,
        "cluster.ha_port": cluster.ha_port,
        "remoting.port": base.remoting.port,
        "remoting.advertised_port": base.remoting.advertised_port,
        "grpc.port": base.grpc.port,
        "grpc.advertised_port": base.grpc.advertised_port,
    }
    yield from (f"{name}={port + distance}" for name, port in ports.items() if port)
    yield from _moved("node.listeners", node.named_listeners(), distance)
    names = {text.partition("://")[0] for text in node.advertised_listeners}
    told = [listener for listener in node.told_listeners() if listener.name in names]
    yield from _moved("node.advertised_listeners", told, distance)
    if not base.net.unfinished_bytes_max:
        yield f"net.unfinished_bytes_max={share_of(machine_bytes(), nodes=count)}"
    percent = max(1, base.broker.slave_read_memory_percent // count)
    yield f"broker.slave_read_memory_percent={percent}"


def _moved(setting: str, listeners: Sequence[NamedEndpoint], distance: int) -> Iterator[str]:
    if listeners:
        moved = (listener._replace(port=listener.port + distance) for listener in listeners)
        yield f"{setting}={','.join(map(str, moved))}"


def _check_machine(base: NodeSettings, wishes: Wishes) -> None:
    """Raise ConfigError for settings with which no node could start; `base` is the file's."""
    last = base.node.broker_id + wishes.nodes - 1
    if last > BROKER_ID_MAX:
        raise ConfigError(f"node.broker_id: {wishes.nodes} nodes need ids up to {last}: lower it")
    if not base.node.metrics_port:
        raise ConfigError(
            "node.metrics_port is 0: nodes of a machine are watched by it; 9404 by custom"
        )
    for path in map(Path, base.node.data_directories):
        if "," in str(path):
            raise ConfigError(f"data directory {path}: a comma parts directories: rename it")
        if not path.is_dir():
            raise ConfigError(absence(path))
        if (path / IDENTITY_NAME).exists():
            raise ConfigError(
                f"data directory {path} is that of a node that ran by itself: move what is in it "
                f"to {path / f'node-{base.node.broker_id}'}"
            )
    check_exposure(base)


def _check_cluster(base: NodeSettings, broker_ids: Sequence[int]) -> None:
    """Raise ConfigError if the nodes of the machine would not find each other."""
    cluster = base.cluster
    voters = {voter.peer_id for voter in cluster.voter_addresses()}
    if not voters and len(broker_ids) == 1:
        return
    if not voters:
        raise ConfigError(
            f"cluster.voters is empty: {len(broker_ids)} nodes are a cluster: name its "
            f"controllers, such as {base.node.broker_id}@{base.node.advertised()[0]}:9093"
        )
    check_cluster_is_named(base.node.cluster_id, voters)
    if not cluster.ha_port:
        raise ConfigError("cluster.ha_port is 0: nodes copy from each other there; 9094 by custom")
    if voters & set(broker_ids) and not cluster.controller_port:
        raise ConfigError(
            f"cluster.controller_port is 0 and node {min(voters & set(broker_ids))} is one of "
            "cluster.voters: controllers are reached there; 9093 by custom"
        )
    cluster.read_secrets()  # so that an error is reported once and not by each node


def _check_apart(plan: MachinePlan) -> None:
    """Raise ConfigError for two listeners on one port of this machine."""
    taken: dict[int, str] = {}
    for who, setting, _, port in _all_ports(plan):
        if port > PORT_MAX:
            raise ConfigError(f"{who}: there is no port {port}: lower {setting}")
        if port in taken:
            raise ConfigError(
                f"{who}: {setting} is {port}, and so is that of {taken[port]}: ports of the nodes "
                f"are {PORT_STEP} apart; change one of the two in {plan.config}"
            )
        taken[port] = f"{who}, {setting}"


def _all_ports(plan: MachinePlan) -> Iterator[Port]:
    """Yield all ports on which the plan's processes listen."""
    for planned in plan.nodes:
        who, node = f"node {planned.broker_id}", planned.settings.node
        cluster = planned.settings.cluster
        peers = cluster.host or node.host
        yield Port(who, "node.port", node.host, node.port)
        for listener in node.named_listeners():
            yield Port(who, "node.listeners", listener.host, listener.port)
        for listener in (*planned.settings.remoting.bound(), *planned.settings.grpc.bound()):
            yield Port(who, f"{listener.name}.port", listener.host, listener.port)
        if cluster.controller_port:
            yield Port(who, "cluster.controller_port", peers, cluster.controller_port)
        if cluster.ha_port:
            yield Port(who, "cluster.ha_port", peers, cluster.ha_port)
        yield Port(who, "node.metrics_port", node.metrics_host, node.metrics_port)
    yield Port("the page about all nodes", "--metrics-port", plan.host, plan.port)
