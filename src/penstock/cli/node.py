"""`penstock node`: run one node in the foreground, for a service manager; or drain one.

Log lines go to stderr, with time, level and module. SIGTERM and SIGINT end the node cleanly. The
exit code is 0 after a clean end, 1 if it failed while running, 2 if a setting, a data directory or
a port can not be used.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.base.ids import BrokerId, RequestId
from penstock.cli.exit_codes import EXIT_FAILED
from penstock.cli.launch.loading import loading
from penstock.cli.operator import (
    DATA_DEFAULT,
    ConfigOption,
    DataOption,
    cluster_settings,
    operate,
)
from penstock.cli.values import ID_MAX

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override one setting; repeatable."),
]

LOG_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s {who}%(name)s: %(message)s"

ANY_CORE = -1
"""The node is not bound to a core."""

SettingsFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings, TOML.")
]
EndsWithParent = Annotated[bool, typer.Option("--ends-with-parent", hidden=True)]

app = typer.Typer(help="Run one node; drain a node.", invoke_without_command=True)


@app.callback()
def run_node(
    context: typer.Context,
    config: SettingsFile = None,
    overrides: SetOption = None,
    ends_with_parent: EndsWithParent = False,
    supervisor: Annotated[int, typer.Option("--supervised-by", hidden=True)] = 0,
    core: Annotated[int, typer.Option("--core", hidden=True)] = ANY_CORE,
) -> None:
    """Run one node in the foreground until SIGTERM or SIGINT; or a command below."""
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise ConfigError("say which node: penstock node --config FILE")
    if core != ANY_CORE:
        os.sched_setaffinity(0, {core})  # before threads are started, which inherit it
    with loading():
        from penstock.node.settings.settings import check_interpreter, load_settings

    check_interpreter()
    if ends_with_parent or supervisor:
        end_with_parent(supervisor)
    settings = load_settings(config, environment=os.environ, overrides=overrides or ())
    log_to_stderr(
        settings.node.log_level, who=f"node={settings.node.broker_id} " if supervisor else ""
    )
    with loading():
        from penstock.node.main import run

    raise typer.Exit(run(settings))


@app.command()
def drain(
    broker: Annotated[int, typer.Argument(metavar="BROKER", max=ID_MAX, help="Broker id.")],
    undo: Annotated[bool, typer.Option("--undo", help="Let it lead again.")] = False,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Move every mastership away from a broker, then take it out of the sync-state sets."""
    from penstock.controller.session import DrainRequest

    def request(request_id: RequestId) -> DrainRequest:
        return DrainRequest(request_id=request_id, broker_id=BrokerId(broker), is_draining=not undo)

    print(operate(cluster_settings(config, data), request))


def log_to_stderr(level: str, *, who: str = "") -> None:
    """Send log lines to stderr, each with `who`, for nodes that share one stderr."""
    import logging
    import time

    logging.Formatter.converter = time.gmtime  # so that logs of several machines can be compared
    logging.basicConfig(
        stream=sys.stderr,
        level=level.upper(),
        format=LOG_FORMAT.format(who=who),
        datefmt="%Y-%m-%dT%H:%M:%S",
    )


def end_with_parent(parent: int = 0) -> None:
    """Ask the kernel for SIGTERM when the launcher dies, so that its nodes end even after kill -9.

    With the launcher's process id in `parent`, the process also ends if the launcher died before
    this call. Linux only (prctl PR_SET_PDEATHSIG); elsewhere a node may outlive its launcher.
    """
    import signal

    from penstock.runtime.io import modesty

    if not modesty.end_with_parent(parent, signal.SIGTERM):
        raise typer.Exit(EXIT_FAILED)
