"""`penstock set`: replica sets, their masters and their members."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.errors import ConfigError
from penstock.base.ids import BrokerId, ReplicaSetId, RequestId
from penstock.cli.cluster import SET_COLUMNS, places_told, set_row
from penstock.cli.connect import CommandFailed
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
from penstock.cli.values import ID_MAX, quoted

if TYPE_CHECKING:
    from penstock.controller.session import SetStatus, StatusAnswer

app = typer.Typer(help="List and describe replica sets, move masters, add and remove members.")

SetArgument = Annotated[int, typer.Argument(metavar="SET", max=ID_MAX, help="Id of the set.")]
BrokerArgument = Annotated[int, typer.Argument(metavar="BROKER", max=ID_MAX, help="Broker id.")]
MEMBER_COLUMNS = (
    *("broker", "replica", "role", "state", "in_sync", "epoch", "log_epoch"),
    *("start", "confirm", "end", "lag", "caught_up_ms_ago"),
)


@app.command(name="list")
def list_sets(
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
    output: OutputOption = Output.TABLE,
) -> None:
    """List all replica sets."""
    answer = fetch_status(cluster_settings(config, data))
    print_rows([set_row(replica_set) for replica_set in answer.sets], SET_COLUMNS, output)


@app.command()
def describe(
    replica_set: SetArgument,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one set with every member: epochs, log ends, confirm positions, lag."""
    found = _find(fetch_status(cluster_settings(config, data)), replica_set)
    rows = [
        {
            "broker": member.broker_id,
            "replica": member.replica_id,
            "role": member.role or None,
            "state": "live" if member.is_live else "gone",
            "in_sync": member.is_in_sync,
            "epoch": member.leader_epoch,
            "log_epoch": member.last_log_epoch,
            "start": member.log_start_position,
            "confirm": member.confirm_position,
            "end": member.log_end_position,
            "lag": member.lag_bytes if member.lag_bytes >= 0 else None,
            "caught_up_ms_ago": member.caught_up_ms_ago if member.caught_up_ms_ago >= 0 else None,
        }
        for member in found.members
    ]
    if output is Output.JSON:
        print_json({**set_row(found), "members": rows})
        return
    print_rows([set_row(found)], SET_COLUMNS, output)
    print()
    print_rows(rows, MEMBER_COLUMNS, output)


def _find(answer: "StatusAnswer", replica_set: int) -> "SetStatus":
    """Return the set. Raises CommandFailed."""
    for one in answer.sets:
        if one.replica_set_id == replica_set:
            return one
    raise CommandFailed(f"there is no replica set {replica_set}: see penstock set list")


def _members_told(answer: "StatusAnswer", replica_set: int) -> list[BrokerId]:
    return [member.broker_id for member in _find(answer, replica_set).members]


def _best_to_add(answer: "StatusAnswer", members: list[BrokerId]) -> BrokerId:
    """Return the broker best placed apart from the members, with few replicas.

    Raises CommandFailed if there is none.
    """
    from penstock.controller.commands.spread import shared

    places = places_told(answer)
    able = [
        broker
        for broker in answer.brokers
        if broker.broker_id not in members
        and broker.is_live
        and not (broker.is_fenced or broker.is_draining)
    ]
    if not able:
        raise CommandFailed("every broker that is live and not being drained is a member already")
    best = min(
        able,
        key=lambda one: (
            *shared(one.broker_id, members, places),
            one.replica_count,
            one.broker_id,
        ),
    )
    return best.broker_id


@app.command()
def elect(
    replica_set: SetArgument,
    master: Annotated[
        int, typer.Option(metavar="BROKER", max=ID_MAX, help="Elect this member.")
    ] = -1,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Also a member that may lack acknowledged records."),
    ] = False,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Elect a master now: by the election's rules, or the named member."""
    from penstock.controller.session import ElectRequest

    def request(request_id: RequestId) -> ElectRequest:
        return ElectRequest(
            request_id=request_id,
            replica_set_id=ReplicaSetId(replica_set),
            master=BrokerId(master),
            is_unclean=unclean,
        )

    print(operate(cluster_settings(config, data), request))


@app.command()
def transfer(
    replica_set: SetArgument,
    to: Annotated[
        int,
        typer.Option(metavar="BROKER", max=ID_MAX, help="The new master; else the preferred one."),
    ] = -1,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Move the mastership on purpose: nothing is lost, writes pause for a moment."""
    from penstock.controller.session import TransferRequest

    def request(request_id: RequestId) -> TransferRequest:
        return TransferRequest(
            request_id=request_id, replica_set_id=ReplicaSetId(replica_set), target=BrokerId(to)
        )

    print(operate(cluster_settings(config, data), request))


@app.command()
def create(
    members: Annotated[str, typer.Argument(metavar="BROKER,...", help="Preferred master first.")],
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Create a replica set with these brokers."""
    from penstock.controller.commands.command import CreateReplicaSet
    from penstock.controller.commands.spread import conflicts

    try:
        replicas = tuple(BrokerId(int(member)) for member in members.split(","))
    except ValueError:
        raise ConfigError(f"{quoted(members)}: write broker ids with commas, as in 1,2,3") from None
    settings = cluster_settings(config, data)
    answer = fetch_status(settings)
    set_id = max((replica_set.replica_set_id for replica_set in answer.sets), default=0) + 1
    submit(settings, CreateReplicaSet(replica_set_id=ReplicaSetId(set_id), replicas=replicas))
    print(f"set {set_id} with members {members}")
    for text in conflicts(replicas, places_told(answer)):
        print(f"warning: set {set_id}: {text}")


@app.command()
def add(
    replica_set: SetArgument,
    broker: Annotated[
        int | None,
        typer.Argument(metavar="BROKER", max=ID_MAX, help="Broker id; else the best one."),
    ] = None,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Add a member; it copies the log and joins the sync-state set when it has caught up.

    Without BROKER a live one is chosen: if possible on another machine and in another rack than the
    members, and of these the one with the fewest replicas.
    """
    from penstock.controller.commands.command import AddReplica
    from penstock.controller.commands.spread import conflicts

    settings = cluster_settings(config, data)
    answer = fetch_status(settings)
    members = _members_told(answer, replica_set)
    if broker in members:
        raise CommandFailed(f"broker {broker} is a member of set {replica_set} already")
    if broker is None:
        broker = _best_to_add(answer, members)
    added = BrokerId(broker)
    submit(settings, AddReplica(replica_set_id=ReplicaSetId(replica_set), broker_id=added))
    print(f"broker {broker} is a member of set {replica_set} and copies its log now")
    for text in conflicts([*members, added], places_told(answer)):
        print(f"warning: set {replica_set}: {text}")


@app.command()
def remove(
    replica_set: SetArgument,
    broker: BrokerArgument,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Remove a member; the master only after a transfer."""
    from penstock.controller.commands.command import RemoveReplica

    settings = cluster_settings(config, data)
    if broker not in _members_told(fetch_status(settings), replica_set):
        raise CommandFailed(f"broker {broker} is not a member of set {replica_set}")
    submit(
        settings,
        RemoveReplica(replica_set_id=ReplicaSetId(replica_set), broker_id=BrokerId(broker)),
    )
    print(f"broker {broker} is no member of set {replica_set} any more; its files stay")


@app.command()
def policy(
    replica_set: SetArgument,
    kind: Annotated[PolicyKind, typer.Argument(metavar="POLICY", help="How acks=all counts.")],
    required: Annotated[
        int, typer.Option(min=1, max=ID_MAX, help="k of k-of-n; copies that `adaptive` waits for.")
    ] = 2,
    minimum: Annotated[
        int, typer.Option(min=1, max=ID_MAX, help="Fewest members in step that take writes.")
    ] = 1,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Change how many durable copies an acknowledgement requires."""
    from penstock.controller.commands.command import SetAckPolicy

    wanted = AckPolicy(kind=kind, required=required, minimum=minimum)
    command = SetAckPolicy(replica_set_id=ReplicaSetId(replica_set), policy=wanted)
    submit(cluster_settings(config, data), command)
    print(f"set {replica_set} acknowledges by {kind.value}")


@app.command()
def unclean(
    replica_set: SetArgument,
    allowed: SwitchArgument,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Allow or forbid automatic election of members that may lack acknowledged records."""
    from penstock.controller.commands.command import SetUncleanElection

    command = SetUncleanElection(
        replica_set_id=ReplicaSetId(replica_set), is_allowed=allowed is Switch.ON
    )
    submit(cluster_settings(config, data), command)
    state = "may lose acknowledged records" if command.is_allowed else "loses none"
    print(f"an election of set {replica_set} {state} from now on")
