"""`penstock serve`: run the nodes of one machine under one supervisor, for a service manager.

A node is one process with one event loop, so a machine can run one for each core. The exit code is
0 after a clean end, 1 if a node had to be killed or failed at its end, 2 if a setting, a data
directory or a port can not be used, in which case nothing was started.
"""

import os
import signal
from pathlib import Path
from typing import Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.node import SetOption

AUTO = "auto"
PORT_MAX = 65_535


def run_serve(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Settings of the first node, TOML."),
    ] = None,
    nodes: Annotated[
        str,
        typer.Option(metavar="N|auto", help="How many nodes; auto: one for each core."),
    ] = AUTO,
    pin: Annotated[
        bool, typer.Option("--pin", help="Bind each node to a core of its own.")
    ] = False,
    metrics_port: Annotated[
        int,
        typer.Option(
            min=0, max=PORT_MAX, help="Port of the page about all nodes; 0: node.metrics_port + 1."
        ),
    ] = 0,
    overrides: SetOption = None,
) -> None:
    """Run several nodes of one machine until SIGTERM or SIGINT; SIGHUP restarts them in turn.

    The file has the settings of the first node. Node k has its broker id + k, each of its ports +
    100 k, and its data in node-<id> below each of its data directories.
    """
    if config is None:
        raise ConfigError("say which machine: penstock serve --config FILE")
    from penstock.cli.launch.node_process import say
    from penstock.cli.machine.plan import (
        Wishes,
        check_machine_is_free,
        make_directories,
        nodes_left_out,
        plan_machine,
        voters_at_other_ports,
    )
    from penstock.cli.machine.supervisor import supervise
    from penstock.node.settings.settings import check_interpreter
    from penstock.runtime.io.cores import usable_cores

    check_interpreter()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is handled; by default it would end us
    cores = usable_cores()
    wanted = _count(nodes, len(cores))
    if pin:
        _check_pin(wanted, len(cores))
    wishes = Wishes(
        config=config.absolute(),
        nodes=wanted,
        cores=tuple(cores[:wanted]) if pin else (),
        metrics_port=metrics_port,
        overrides=tuple(overrides or ()),
    )
    plan = plan_machine(wishes, os.environ)
    check_machine_is_free(plan)
    make_directories(plan)
    for warning in (*voters_at_other_ports(plan), *nodes_left_out(plan)):
        say(warning)
    raise typer.Exit(supervise(plan, lambda: plan_machine(wishes, os.environ)))


def _count(text: str, cores: int) -> int:
    """Return the number of nodes; `cores` is the number that this process may use."""
    from penstock.cli.machine.plan import NODES_MAX

    if text == AUTO:
        return min(cores, NODES_MAX)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= NODES_MAX):
        raise ConfigError(f"--nodes {text}: choose auto, or 1 to {NODES_MAX}")
    return int(text)


def _check_pin(nodes: int, cores: int) -> None:
    if not hasattr(os, "sched_setaffinity"):
        raise ConfigError("--pin: this system binds no processes to cores: leave it out")
    if nodes > cores:
        raise ConfigError(f"--pin: {nodes} nodes need a core each, and there are {cores}")
