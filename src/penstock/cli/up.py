"""`penstock up`: a local cluster in one command, for trying things out and for tests."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.node import SetOption

NODES_MAX = 1
"""Several nodes would be several clusters of one node each until replica sets span nodes."""


def run_up(
    data: Annotated[Path, typer.Option(metavar="DIR", help="Settings, data and logs.")] = Path(
        "penstock-data"
    ),
    port: Annotated[int, typer.Option(help="Kafka port of the first node.")] = 9092,
    nodes: Annotated[int, typer.Option(help="How many nodes; this version runs one.")] = 1,
    no_restart: Annotated[
        bool, typer.Option("--no-restart", help="Leave a node that died as it is.")
    ] = False,
    metrics_port: Annotated[
        int, typer.Option(help="Metrics port of the first node; 0 for none.")
    ] = 9404,
    overrides: SetOption = None,
) -> None:
    """Start a local node, keep it running, print one `ready` line; end it with SIGTERM."""
    if nodes != NODES_MAX:
        raise ConfigError("this version runs one node; use --nodes 1")
    from penstock.cli.launcher import Plan, launch

    plan = Plan(
        directory=data,
        nodes=nodes,
        port=port,
        metrics_port=metrics_port,
        restart=not no_restart,
        overrides=overrides or (),
    )
    raise typer.Exit(launch(plan))
