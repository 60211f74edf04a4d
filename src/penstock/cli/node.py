"""`penstock node`: one node in the foreground; what a service manager runs.

Lines about what the node does go to stderr, with time, level and room. SIGTERM and SIGINT end it
cleanly. Exit code 0 after a clean end, 1 when it failed while running, 2 when a setting, a data
directory or a port can not be used.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override one setting; repeatable."),
]

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def run_node(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="Settings, TOML.")],
    overrides: SetOption = None,
    ends_with_parent: Annotated[bool, typer.Option("--ends-with-parent", hidden=True)] = False,
) -> None:
    """Run one node in the foreground until SIGTERM or SIGINT."""
    from penstock.node.settings import check_interpreter, load_settings

    check_interpreter()
    if ends_with_parent:
        _end_with_parent()
    settings = load_settings(config, environment=os.environ, overrides=overrides or ())
    _log_to_stderr(settings.node.log_level)

    from penstock.node.main import run

    raise typer.Exit(run(settings))


def _log_to_stderr(level: str) -> None:
    import logging

    logging.basicConfig(
        stream=sys.stderr, level=level.upper(), format=LOG_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S%z"
    )


def _end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the launcher dies, so that no node is left over by kill -9.

    Linux only (prctl PR_SET_PDEATHSIG); elsewhere a node may outlive its launcher.
    """
    import ctypes
    import signal

    pr_set_pdeathsig = 1
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGTERM), 0, 0, 0)
