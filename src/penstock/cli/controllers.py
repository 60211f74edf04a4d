"""`penstock controller`: run a controller alone, and manage the group of controllers.

Without a command it runs one in the foreground, as `penstock node` does: SIGTERM and SIGINT end it,
exit codes 0, 1 and 2 mean the same.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.base.ids import PeerId, RequestId
from penstock.cli.launch.loading import loading
from penstock.cli.node import (
    EndsWithParent,
    SetOption,
    SettingsFile,
    end_with_parent,
    log_to_stderr,
)
from penstock.cli.operator import (
    DATA_DEFAULT,
    ConfigOption,
    DataOption,
    cluster_settings,
    fetch_quorum,
    operate,
)
from penstock.cli.output import Output, OutputOption, print_json, print_rows
from penstock.cli.values import ID_MAX
from penstock.raft.ids import DirectoryId

if TYPE_CHECKING:
    from penstock.runtime.session.messages import ChangeControllers

app = typer.Typer(
    help="Run a controller alone; show, add, remove and move controllers.",
    invoke_without_command=True,
)

VoterArgument = Annotated[
    int, typer.Argument(metavar="ID", max=ID_MAX, help="Peer id of the controller.")
]
DirectoryOption = Annotated[
    str,
    typer.Option(
        metavar="ID",
        help="Refuse unless it has this directory id; `controller status` shows them.",
    ),
]
COLUMNS = (
    *("peer_id", "address", "directory_id", "is_voter", "state"),
    *("match_index", "lag_entries", "silent_ms"),
)


@app.callback()
def run_controller(
    context: typer.Context,
    config: SettingsFile = None,
    overrides: SetOption = None,
    ends_with_parent: EndsWithParent = False,
) -> None:
    """Run a controller alone in the foreground until SIGTERM or SIGINT; or a command below."""
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise ConfigError("say which controller: penstock controller --config FILE")
    with loading():
        from penstock.node.settings.settings import check_interpreter, load_settings

    check_interpreter()
    if ends_with_parent:
        end_with_parent()
    settings = load_settings(config, environment=os.environ, overrides=overrides or ())
    log_to_stderr(settings.node.log_level)
    with loading():
        from penstock.node.main import run_controller

    raise typer.Exit(run_controller(settings))


@app.command()
def status(
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the active controller, voters and observers, and how far each is behind."""
    documents = fetch_quorum(cluster_settings(config, data))
    if output is Output.JSON:
        print_json(documents)
        return
    print_rows(documents["peers"], COLUMNS, output)


@app.command()
def transfer(
    to: VoterArgument, config: ConfigOption = None, data: DataOption = DATA_DEFAULT
) -> None:
    """Make another controller the active one."""
    print(operate(cluster_settings(config, data), _change("transfer", to)))


@app.command()
def add(
    voter: VoterArgument,
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Its controller port.")],
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
    directory: DirectoryOption = "",
) -> None:
    """Give a vote to a process that follows the metadata log and has caught up."""
    print(operate(cluster_settings(config, data), _change("add", voter, address, directory)))


@app.command()
def remove(
    voter: VoterArgument,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
    directory: DirectoryOption = "",
) -> None:
    """Take a controller's vote away; one at a time."""
    print(operate(cluster_settings(config, data), _change("remove", voter, directory=directory)))


def _change(
    action: str, peer_id: int, address: str = "", directory: str = ""
) -> "Callable[[RequestId], ChangeControllers]":
    from penstock.runtime.session.messages import ChangeControllers

    return lambda request_id: ChangeControllers(
        request_id=request_id,
        action=action,
        peer_id=PeerId(peer_id),
        address=address,
        directory_id=DirectoryId(directory),
    )
