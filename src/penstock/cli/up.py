"""`penstock up`: a local cluster in one command, for trying things out and for tests."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.node import SetOption
from penstock.cli.values import directory

NODES_MAX = 50
"""With more, ports would collide: each node has three, a hundred apart."""
REPLICAS_DEFAULT = 3
ROCKETMQ = "remoting.port=9876", "grpc.port=8081"
"""The ports of RocketMQ's name servers and of its proxy: clients look for a cluster by either."""
TAKES_TLS = "grpc.takes_tls=true"
"""Java's gRPC client begins with TLS unless it is told otherwise."""


def run_up(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Settings, data and logs.", parser=directory)
    ] = Path("penstock-data"),
    port: Annotated[int, typer.Option(help="Kafka port of the first node.")] = 9092,
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 1,
    replicas: Annotated[
        int, typer.Option(help="Copies of each partition; 0: three, or as many as there are nodes.")
    ] = 0,
    no_restart: Annotated[
        bool, typer.Option("--no-restart", help="Do not restart a node that died.")
    ] = False,
    metrics_port: Annotated[
        int, typer.Option(help="Metrics port of the first node; 0 for none.")
    ] = 9404,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure", help="TLS, a first user `admin`, and nobody else may do anything."
        ),
    ] = False,
    rocketmq: Annotated[
        bool,
        typer.Option(
            "--rocketmq",
            help="Ports for RocketMQ's clients as well: 9876 and 8081, and following.",
        ),
    ] = False,
    overrides: SetOption = None,
) -> None:
    """Start a local cluster, print one `ready` line, and keep it running until SIGTERM."""
    if not 1 <= nodes <= NODES_MAX:
        raise ConfigError(f"--nodes {nodes}: choose 1 to {NODES_MAX}")
    copies = replicas or min(REPLICAS_DEFAULT, nodes)
    if not 1 <= copies <= nodes:
        raise ConfigError(f"--replicas {replicas}: every copy needs a node; choose 1 to {nodes}")
    from penstock.cli.launch.cluster_files import HA_PORT_DISTANCE
    from penstock.cli.launch.launcher import Plan, launch

    _check_range("--port", port, 1, nodes, nodes - 1 + (HA_PORT_DISTANCE if nodes > 1 else 0))
    _check_range("--metrics-port", metrics_port, 0, nodes, nodes - 1)
    given = tuple(overrides or ())
    ports = _rocketmq(given, secure=secure) if rocketmq else ()
    plan = Plan(
        directory=data,
        nodes=nodes,
        replicas=copies,
        port=port,
        metrics_port=metrics_port,
        restart=not no_restart,
        overrides=(*ports, *given),
        secure=secure,
    )
    raise typer.Exit(launch(plan))


def _rocketmq(given: tuple[str, ...], *, secure: bool) -> tuple[str, ...]:
    """Return settings of the ports; what is given stands over them, and decides who comes in."""
    is_open = not secure and not any(one.startswith("security.") for one in given)
    return (*ROCKETMQ, TAKES_TLS) if is_open and "grpc.port=0" not in given else ROCKETMQ


def _check_range(option: str, port: int, least: int, nodes: int, farther: int) -> None:
    """Raise ConfigError for ports out of range, naming the option of the command line."""
    from penstock.node.settings.config import PORT_MAX

    if least <= port <= PORT_MAX - farther:
        return
    last = port + farther
    why = f"{nodes} nodes need ports up to {last}; " if port <= PORT_MAX < last else ""
    raise ConfigError(f"{option} {port}: {why}choose {least} to {PORT_MAX - farther}")
