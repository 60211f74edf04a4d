"""`penstock token`: delegation tokens, by which programs log in in a user's name for a while."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import ADMIN_SECONDS, TimeoutOption, connected
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    moment,
    print_rows,
)
from penstock.cli.values import named

if TYPE_CHECKING:
    from penstock.client.access.delegation import DelegationToken

app = typer.Typer(help="Make, renew, end and list delegation tokens, which log in as their owner.")

COLUMNS = ("token", "owner", "requester", "renewers", "issued", "expires", "ends")
SECONDS_MAX = 366 * 86_400
AT_ONCE_MS = -1
USUAL_MS = -1
TokenArgument = Annotated[str, typer.Argument(metavar="TOKEN", help="Its id.", callback=named)]
PeriodOption = Annotated[
    int | None, typer.Option(min=1, max=SECONDS_MAX, metavar="SECONDS", show_default=False)
]


@app.command()
def create(
    owner: Annotated[
        str | None,
        typer.Option(metavar="USER", help="Of another user, where that is permitted."),
    ] = None,
    renewer: Annotated[
        list[str] | None,
        typer.Option(metavar="USER", help="May renew and end it too; repeatable.", callback=named),
    ] = None,
    lifetime: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=SECONDS_MAX,
            metavar="SECONDS",
            show_default=False,
            help="It is over after so long, whoever renews it. Without it: as long as brokers let.",
        ),
    ] = None,
    password_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the password into a new file instead of printing it."
        ),
    ] = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a token. Clients log in by SCRAM with its id, its password and tokenauth=true."""
    from penstock.client.access.delegation import DelegationTokens

    if password_file is not None and password_file.exists():
        raise ConfigError(f"{password_file} is there already: name a new file")
    lifetime_ms = USUAL_MS if lifetime is None else lifetime * 1000
    with connected(bootstrap, timeout) as cluster:
        made = DelegationTokens(cluster).create(owner, renewer or [], lifetime_ms)
    row = _row(made, output)
    if password_file is None:
        print_rows([row | {"password": made.password}], (*COLUMNS, "password"), output)
        return
    _write(password_file, made.password)
    print_rows([row], COLUMNS, output)


@app.command()
def renew(
    token: TokenArgument,
    period: PeriodOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
) -> None:
    """Let a token be good for longer, a day from now if brokers have no other period."""
    from penstock.client.access.delegation import DelegationTokens

    with connected(bootstrap, timeout) as cluster:
        period_ms = USUAL_MS if period is None else period * 1000
        expires_ms = DelegationTokens(cluster).renew(token, period_ms)
    print(f"token {token} is good until {moment(expires_ms)}")


@app.command()
def expire(
    token: TokenArgument,
    period: PeriodOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
) -> None:
    """End a token, now or after a period. Who has logged in by it stays until the session ends."""
    from penstock.client.access.delegation import DelegationTokens

    with connected(bootstrap, timeout) as cluster:
        period_ms = AT_ONCE_MS if period is None else period * 1000
        expires_ms = DelegationTokens(cluster).expire(token, period_ms)
    if period is None:
        print(f"token {token} is gone")
    else:
        print(f"token {token} is good until {moment(expires_ms)}")


@app.command(name="list")
def list_tokens(
    owner: Annotated[
        list[str] | None,
        typer.Option(metavar="USER", help="Only those of this user; repeatable.", callback=named),
    ] = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the tokens that you may see, without their passwords."""
    from penstock.client.access.delegation import DelegationTokens

    with connected(bootstrap, timeout) as cluster:
        found = DelegationTokens(cluster).list(owner)
    print_rows([_row(one, output) for one in found], COLUMNS, output)


def _row(one: "DelegationToken", output: Output) -> dict[str, object]:
    def told(wall_ms: int) -> object:
        return moment(wall_ms) if output is Output.TABLE else wall_ms

    return {
        "token": one.token_id,
        "owner": one.owner,
        "requester": one.requester,
        "renewers": one.renewers,
        "issued": told(one.issued_ms),
        "expires": told(one.expires_ms),
        "ends": told(one.ends_ms),
    }


def _write(path: Path, password: str) -> None:
    """Write a new file that nobody else may read. Raises ConfigError."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w") as opened:
            opened.write(password + "\n")
    except OSError as error:
        raise ConfigError(f"{path} can not be written: {error.strerror}") from error
