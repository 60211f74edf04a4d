"""`penstock user`: users of SCRAM, as the metadata log has them."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import ADMIN_SECONDS, CommandFailed, TimeoutOption, connected
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    note,
    print_rows,
)
from penstock.cli.values import named

app = typer.Typer(help="List, add and delete users, who prove a password by SCRAM.")

COLUMNS = ("user", "mechanism", "iterations")
ITERATIONS = 8_192
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name.", callback=named)]


class Mechanism(StrEnum):
    """The choices of --mechanism."""

    SHA_512 = "SCRAM-SHA-512"
    SHA_256 = "SCRAM-SHA-256"


MechanismsOption = Annotated[
    list[Mechanism] | None,
    typer.Option("--mechanism", help="Only by this one; repeatable. Without it: both."),
]


@app.command(name="list")
def list_users(
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List all users and their mechanisms."""
    from penstock.client.access.users import Users

    with connected(bootstrap, timeout) as cluster:
        found = Users(cluster).list()
    print_rows([one._asdict() for one in found], COLUMNS, output)


@app.command()
def add(
    user: UserArgument,
    password_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its first line is the password; - or none is stdin."),
    ] = None,
    mechanism: MechanismsOption = None,
    iterations: Annotated[
        int, typer.Option(min=4_096, max=16_384, help="The more, the longer guessing takes.")
    ] = ITERATIONS,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
) -> None:
    """Add a user, or change the password of one."""
    from penstock.client.access.users import Users

    password = _password(password_file)
    with connected(bootstrap, timeout) as cluster:
        for one in mechanism or list(Mechanism):
            Users(cluster).add(user, password, one, iterations)
    print(f"user {user} has a password")


@app.command()
def delete(
    user: UserArgument,
    mechanism: MechanismsOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
) -> None:
    """Delete a user. Connections that are open live on until they end."""
    from penstock.client.access.users import Users

    with connected(bootstrap, timeout) as cluster:
        users = Users(cluster)
        theirs = {one.mechanism for one in users.list() if one.user == user}
        wanted = tuple(one.value for one in mechanism or Mechanism if mechanism or one in theirs)
        if not wanted:
            raise CommandFailed(f"there is no user {user}: see penstock user list")
        users.delete(user, wanted)
    print(f"user {user} is deleted")


def _password(path: Path | None) -> str:
    """Return the password: never an argument, which everybody on the machine could read."""
    if path is not None and str(path) != "-":
        from penstock.node.access.files import read_private

        text = read_private("--password-file", str(path))
    elif sys.stdin.isatty():
        text = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    else:
        note("the password is the first line of stdin")
        text = sys.stdin.readline()
    password = text.partition("\n")[0].rstrip("\r")
    if not password:
        raise ConfigError("the password is empty")
    return password
