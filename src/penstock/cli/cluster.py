"""`penstock cluster`: the state of a whole cluster as its controllers see it, and its settings."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.base.ids import BrokerId, RequestId
from penstock.cli.features import downgrade, features, upgrade
from penstock.cli.operator import (
    DATA_DEFAULT,
    ConfigOption,
    DataOption,
    Switch,
    SwitchArgument,
    cluster_settings,
    fetch_status,
    operate,
    submit,
)
from penstock.cli.output import Output, OutputOption, print_json, print_rows
from penstock.cli.values import ID_MAX

if TYPE_CHECKING:
    from penstock.controller.commands.spread import Place
    from penstock.controller.session import SetStatus, StatusAnswer

app = typer.Typer(
    help="State of the cluster; masters spread; levels; elections on or off; brokers that are gone."
)
app.command()(features)
app.command()(upgrade)
app.command()(downgrade)

BrokerArgument = Annotated[int, typer.Argument(metavar="BROKER", max=ID_MAX, help="Broker id.")]

BROKER_COLUMNS = (
    *("rack", "machine", "broker", "address", "state"),
    *("masters", "replicas", "heard_ms_ago"),
)
SET_COLUMNS = (
    *("set", "master", "why", "epoch", "in_sync", "members", "policy", "partitions"),
    *("confirm", "end", "lag"),
)


@app.command()
def status(
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show controllers, brokers and replica sets: masters and why, members in step."""
    answer = fetch_status(cluster_settings(config, data))
    if output is Output.JSON:
        print_json(status_document(answer))
        return
    controller = answer.controller
    active = "none" if controller.active_id < 0 else str(controller.active_id)
    failover = "" if controller.is_failover_enabled else "; failover is off"
    print(
        f"cluster {answer.cluster_id}; active controller {active}, "
        f"epoch {controller.controller_epoch}{failover}"
    )
    print()
    print_rows(broker_rows(answer), BROKER_COLUMNS, output)
    print()
    print_rows([set_row(replica_set) for replica_set in answer.sets], SET_COLUMNS, output)
    warnings = placement_warnings(answer)
    if warnings:
        print()
    for text in warnings:
        print(f"warning: {text}")


@app.command()
def spread(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and end.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Balance what brokers lead: plan transfers of masterships to members in step, then do them.

    No data moves. A broker that was added leads new sets at once, and can take over others once it
    is a member of them (penstock set add).
    """
    from penstock.cli.leader_plan import Move, plan_leaders
    from penstock.controller.session import TransferRequest

    settings = cluster_settings(config, data)
    plan = plan_leaders(fetch_status(settings))
    if not plan.moves:
        print("no transfer to a member in step would balance what the brokers lead")
        return
    print_rows([move._asdict() for move in plan.moves], Move._fields, Output.TABLE)
    print()
    for broker_id, before in plan.before.items():
        print(f"broker {broker_id} leads {before}, then {plan.after[broker_id]}")
    print("counted in partitions; a set without any counts for one")
    if dry_run or not _is_wanted(len(plan.moves), is_said=yes):
        return
    for move in plan.moves:

        def request(request_id: RequestId, move: Move = move) -> TransferRequest:
            set_id, target = move.replica_set_id, move.target
            return TransferRequest(request_id=request_id, replica_set_id=set_id, target=target)

        print(operate(settings, request))


def _is_wanted(count: int, *, is_said: bool) -> bool:
    """Ask for confirmation. Raises ConfigError if stdin is not a terminal."""
    if is_said:
        return True
    if not sys.stdin.isatty():
        raise ConfigError("nobody can be asked here: say --yes to do it, --dry-run to see the plan")
    return typer.confirm(f"Do {count} transfers?", err=True)


@app.command()
def failover(
    switch: SwitchArgument,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Switch between elected masters (on) and fixed ones, which their sets wait for (off)."""
    from penstock.controller.commands.command import SetFailover

    is_enabled = switch is Switch.ON
    submit(cluster_settings(config, data), SetFailover(is_enabled=is_enabled))
    print(
        "another member takes over when a master dies"
        if is_enabled
        else "every set keeps its master: when it dies, the set waits until it is back"
    )


@app.command(name="remove-broker")
def remove_broker(
    broker: BrokerArgument, config: ConfigOption = None, data: DataOption = DATA_DEFAULT
) -> None:
    """Remove a broker that has stopped for good and is no longer a member of any set."""
    from penstock.controller.commands.command import RemoveBroker

    submit(cluster_settings(config, data), RemoveBroker(broker_id=BrokerId(broker)))
    print(f"broker {broker} is forgotten")


@app.command(name="forget-identity")
def forget_identity(
    broker: BrokerArgument, config: ConfigOption = None, data: DataOption = DATA_DEFAULT
) -> None:
    """Let a broker that lost its disks register again under its id with new ones."""
    from penstock.controller.commands.command import ForgetIdentity

    submit(cluster_settings(config, data), ForgetIdentity(broker_id=BrokerId(broker)))
    print(f"the next broker that registers as {broker} may have a new data directory")


def placement_warnings(answer: "StatusAnswer") -> list[str]:
    """Return a warning for each set with members on one machine or in one rack."""
    from penstock.controller.commands.spread import conflicts

    places = places_told(answer)
    return [
        f"set {replica_set.replica_set_id}: {text}"
        for replica_set in answer.sets
        for text in conflicts([member.broker_id for member in replica_set.members], places)
    ]


def places_told(answer: "StatusAnswer") -> dict[BrokerId, "Place"]:
    """Return where each broker runs."""
    from penstock.controller.commands.spread import Place

    return {broker.broker_id: Place(broker.machine, broker.rack) for broker in answer.brokers}


def broker_rows(answer: "StatusAnswer") -> list[dict[str, object]]:
    """Return one row per broker, grouped by rack and machine."""
    return [
        {
            "rack": broker.rack or None,
            "machine": broker.machine or None,
            "broker": broker.broker_id,
            "address": f"{broker.host}:{broker.port}",
            "state": _state(
                is_live=broker.is_live, is_fenced=broker.is_fenced, drains=broker.is_draining
            ),
            "masters": broker.master_count,
            "replicas": broker.replica_count,
            "heard_ms_ago": None if broker.heard_ms_ago < 0 else broker.heard_ms_ago,
        }
        for broker in sorted(answer.brokers, key=lambda one: (one.rack, one.machine, one.broker_id))
    ]


def _state(*, is_live: bool, is_fenced: bool, drains: bool) -> str:
    state = "fenced" if is_fenced else "live" if is_live else "silent"
    return f"{state}, draining" if drains else state


def set_row(one: "SetStatus") -> dict[str, object]:
    """Return one row for a set; positions are bytes, lag is that of the slowest member."""
    master = next((member for member in one.members if member.broker_id == one.master), None)
    lags = [
        member.lag_bytes
        for member in one.members
        if member.broker_id != one.master and member.log_end_position >= 0 <= member.lag_bytes
    ]
    return {
        "set": one.replica_set_id,
        "master": one.master if one.master >= 0 else None,
        "why": one.reason or one.cause,
        "epoch": one.leader_epoch,
        "in_sync": list(one.sync_state_set),
        "members": [member.broker_id for member in one.members],
        "policy": policy_text(one),
        "partitions": one.partition_count,
        "confirm": master.confirm_position if master else None,
        "end": master.log_end_position if master else None,
        "lag": max(lags, default=0) if master else None,
    }


def policy_text(one: "SetStatus") -> str:
    """Return the policy with its numbers."""
    match one.policy_kind:
        case "k-of-n":
            return f"{one.policy_required} of {len(one.members)}"
        case "adaptive":
            return f"adaptive {one.policy_required}, at least {one.policy_minimum}"
        case kind:
            return kind


def status_document(answer: "StatusAnswer") -> dict[str, object]:
    """Return everything, as JSON shows it."""
    from dataclasses import asdict

    document = asdict(answer)
    document.pop("request_id")
    document.pop("error")
    document["placement_warnings"] = placement_warnings(answer)
    return document
