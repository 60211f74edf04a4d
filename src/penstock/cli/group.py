"""`penstock group`: groups of all kinds, their members, positions and lag."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import (
    ADMIN_SECONDS,
    CommandFailed,
    TimeoutOption,
    connected,
    patient,
)
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    note,
    print_json,
    print_rows,
    print_summary,
)
from penstock.cli.records.places import Place, resolve
from penstock.cli.values import named

if TYPE_CHECKING:
    from penstock.client.cluster import Cluster
    from penstock.client.groups import Groups, Partition
    from penstock.client.views import GroupView, SharePosition

app = typer.Typer(help="List, describe, reset and delete groups of all kinds.")

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Group id.", callback=named)]
SHARE = "share"
OFFSET_COLUMNS = ("topic", "partition", "committed", "end", "lag", "member", "client", "host")
SHARE_COLUMNS = ("topic", "partition", "start", "in_flight", "delivered", "lag", "members")
DEAD = "Dead"


@app.command(name="list")
def list_groups(
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List all groups."""
    from penstock.client.groups import Groups

    with connected(bootstrap, timeout) as cluster, patient("the brokers", timeout):
        rows = [
            {
                "group": one.group_id,
                "type": one.group_type,
                "state": one.state,
                "protocol_type": one.protocol_type,
            }
            for one in Groups(cluster).list()
        ]
    print_rows(rows, ("group", "type", "state", "protocol_type"), output)


@app.command()
def describe(
    group: GroupArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a group's state, members, positions and lag."""
    with connected(bootstrap, timeout) as cluster, patient(_those_of(group), timeout):
        view = _existing(cluster, group)
        is_share = view.group_type == SHARE
        rows = _share_rows(cluster, view) if is_share else _offset_rows(cluster, view)
    summary = {
        "group": group,
        "type": view.group_type,
        "state": view.state,
        "protocol": view.protocol,
        "members": len(view.members),
        "lag": sum(lag for row in rows if isinstance(lag := row["lag"], int)),
        **_of_streams(view),
    }
    columns = SHARE_COLUMNS if is_share else OFFSET_COLUMNS
    print_summary(summary, "partitions", rows, columns, output)


@app.command()
def reset(
    group: GroupArgument,
    to: Annotated[
        str,
        typer.Option(metavar="PLACE", help="beginning, end, an offset, or a time (ISO or @ms)."),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="These topics; else all it has read.", callback=named),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(metavar="N", help="These partitions; else all.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be.")] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move the committed positions of a group that has no members at present.

    Of a share group, where its shares begin: all records from there on come again.
    """
    from penstock.client.groups import Groups

    place = Place.parse(to)
    with connected(bootstrap, timeout) as cluster, patient(_those_of(group), timeout):
        groups = Groups(cluster)
        view = groups.describe(group)
        before = _positions(groups, view)
        topics = topic or sorted({name for name, _ in before})
        if not topics:
            what = "does not exist" if view.state == DEAD else "has read nothing yet"
            raise ConfigError(
                f"group {group} {what}: name topics with --topic to give it positions"
            )
        wanted = {
            (name, number): offset
            for name in topics
            for number, offset in resolve(cluster, name, place, partition).items()
        }
        if not dry_run:
            if view.members:
                raise CommandFailed(
                    f"group {group} has {len(view.members)} members: stop them, then reset"
                )
            move = groups.move_shares if view.group_type == SHARE else groups.commit
            move(group, wanted)
    rows = [
        {
            "topic": name,
            "partition": number,
            "before": before.get((name, number)),
            "after": offset,
        }
        for (name, number), offset in sorted(wanted.items())
    ]
    print_rows(rows, ("topic", "partition", "before", "after"), output)


@app.command()
def delete(
    group: GroupArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a group that has no members, with its positions or shares."""
    from penstock.client.groups import Groups

    with connected(bootstrap, timeout) as cluster, patient(_those_of(group), timeout):
        view = _existing(cluster, group)
        if view.members:
            raise CommandFailed(
                f"group {group} has {len(view.members)} members: stop them, then delete"
            )
        Groups(cluster).delete(group)
    if output is Output.JSON:
        print_json({"deleted": group})
    else:
        note(f"deleted {group}")


def _those_of(group: str) -> str:
    """Return who answers for a group: of a share group also the masters of its data."""
    return f"the coordinator of group {group} and the brokers that lead its topics"


def _positions(groups: "Groups", view: "GroupView") -> dict["Partition", int]:
    if view.group_type == SHARE:
        return {place: share.start for place, share in groups.shares(view.group_id).items()}
    return {place: one.offset for place, one in groups.offsets(view.group_id).items()}


def _share_rows(cluster: "Cluster", view: "GroupView") -> list[dict[str, object]]:
    """Return one row for each partition that is assigned or has a share."""
    from penstock.client.groups import Groups

    shares = Groups(cluster).shares(view.group_id)
    members: dict[Partition, list[str]] = {place: [] for place in shares}
    for member in view.members:
        for place in member.partitions:
            members.setdefault(place, []).append(member.member_id)
    rows: list[dict[str, object]] = []
    for place in sorted(members):
        share = shares.get(place)
        rows.append(
            {
                "topic": place[0],
                "partition": place[1],
                "start": None if share is None else share.start,
                "in_flight": None if share is None else share.in_flight,
                "delivered": None if share is None else _by_deliveries(share),
                "lag": None if share is None else share.lag,
                "members": ", ".join(sorted(members[place])) or None,
            }
        )
    return rows


def _by_deliveries(share: "SharePosition") -> dict[str, int]:
    """Return how many records that are not over were handed out how often."""
    from penstock.client.views import DELIVERIES_TOLD

    return {
        f"{times}+" if times == DELIVERIES_TOLD else str(times): count
        for times, count in enumerate(share.delivered, 1)
        if count
    }


def _of_streams(view: "GroupView") -> dict[str, object]:
    """Return what a streams group has besides: its topology's epoch, and who has which tasks."""
    if view.topology_epoch is None:
        return {}
    tasks = {one.member_id: ", ".join(one.tasks) for one in view.members}
    told = "; ".join(f"{member_id}: {some or 'none'}" for member_id, some in tasks.items())
    return {"topology_epoch": view.topology_epoch, "tasks": told}


def _existing(cluster: "Cluster", group: str) -> "GroupView":
    from penstock.client.groups import Groups

    groups = Groups(cluster)
    view = groups.describe(group)
    if view.state == DEAD and not groups.offsets(group):
        raise CommandFailed(f"group {group} does not exist: see penstock group list")
    return view


def _offset_rows(cluster: "Cluster", view: "GroupView") -> list[dict[str, object]]:
    """Return one row for each partition that is assigned or has a committed position."""
    from penstock.client.admin import LATEST, Admin
    from penstock.client.errors import TopicNotFound
    from penstock.client.groups import Groups

    committed = Groups(cluster).offsets(view.group_id)
    readers = {partition: member for member in view.members for partition in member.partitions}
    partitions = sorted({*committed, *readers})
    ends: dict[Partition, int] = {}
    for topic in sorted({topic for topic, _ in partitions}):
        try:
            found = Admin(cluster).list_offsets(topic, LATEST)
        except TopicNotFound:  # deleted; its positions expire
            continue
        ends.update({(topic, number): one.offset for number, one in found.items()})
    rows: list[dict[str, object]] = []
    for place in partitions:
        at = committed[place].offset if place in committed else None
        end = ends.get(place)
        member = readers.get(place)
        rows.append(
            {
                "topic": place[0],
                "partition": place[1],
                "committed": at,
                "end": end,
                "lag": None if at is None or end is None else max(0, end - at),
                "member": member.member_id if member else None,
                "client": member.client_id if member else None,
                "host": member.client_host if member else None,
            }
        )
    return rows
