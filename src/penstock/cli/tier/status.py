"""`penstock tier status`: how far topics are copied into the object store, asked of the nodes."""

import json
import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import CommandFailed, client_security
from penstock.cli.operator import DATA_DEFAULT, ConfigOption, DataOption
from penstock.cli.output import Output, OutputOption, Row, print_json, print_rows

if TYPE_CHECKING:
    from penstock.cli.machine.http_get import Answer

HTTPS = "https://"
PAGE_BYTES_MAX = 64 << 20
"""Some 150,000 partitions."""
ANSWER_SECONDS = 15.0
PORT_MAX = 65_535
OK = 200
FORBIDDEN = 403
PARTITION_COLUMNS = (
    *("topic", "partition", "replica_set", "start", "local_start", "tier_start", "tier_end"),
    *("log_end", "runs", "merged_runs", "tier_bytes", "lag_records", "lag_bytes", "waits_for"),
)
SET_COLUMNS = (
    *("replica_set", "node", "leader_epoch", "step", "is_fenced", "objects", "object_bytes"),
    *("leaving_objects", "lag_records", "lag_bytes", "trouble"),
)
NODE_COLUMNS = (
    *("node", "copies", "objects", "object_bytes", "deleted", "failures"),
    *("merges", "merged_runs", "merge_failures"),
)
SUM_COLUMNS = ("partitions", "runs", "merged_runs", "tier_bytes", "lag_records", "lag_bytes")

NodesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="HOST:PORT",
        help="Metrics ports of nodes (node.metrics_port); https://HOST:PORT where they have TLS.",
    ),
]


class Asked(NamedTuple):
    """A node's HTTP port, and how it is asked where that has TLS."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None


class Told(NamedTuple):
    """What all nodes told, and who did not."""

    nodes: list[Row]
    sets: list[Row]
    partitions: list[Row]
    silent: list[str]
    """Nodes that did not answer, and why."""
    unknown: list[int]
    """Sets that have topics to be copied, and are led by none of those that answered."""


def status(
    nodes: NodesArgument = None,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how far each partition is copied, and what the next record waits for.

    Masters know it: name the metrics port of every node, or the directory of `penstock up`. Fails
    if a node does not answer, or a set with such topics is led by a node that was not named.
    """
    told = _told(_addresses(nodes or [], config, data))
    if output is Output.JSON:
        print_json({**told._asdict(), "sums": _sums(told.partitions)})
    else:
        for rows, columns in (
            (told.partitions, PARTITION_COLUMNS),
            (told.sets, SET_COLUMNS),
            (told.nodes, NODE_COLUMNS),
        ):
            print_rows(rows, columns, output)
            print()
        print_rows([_sums(told.partitions)], SUM_COLUMNS, output)
    troubles = list(told.silent)
    if told.unknown:
        sets = ", ".join(map(str, told.unknown))
        troubles.append(f"no node that answered leads replica set {sets}: name all nodes")
    if troubles:
        raise CommandFailed("; ".join(troubles))


def _sums(partitions: Sequence[Row]) -> Row:
    sums = {name: _sum(partitions, name) for name in SUM_COLUMNS[1:]}
    return {"partitions": len(partitions), **sums}


def _sum(rows: Sequence[Row], name: str) -> int:
    values = (row.get(name) for row in rows)
    return sum(value for value in values if isinstance(value, int))


def _addresses(nodes: Sequence[str], config: Path | None, data: Path) -> list[Asked]:
    """Return the metrics ports to ask. Raises ConfigError."""
    if nodes:
        return [_address(text) for text in nodes]
    paths = [config] if config is not None else sorted(data.glob("node-*/node.toml"))
    if not paths:
        raise ConfigError(
            f"{data} holds no cluster of `penstock up`: name the metrics ports of the nodes, or "
            "the settings of one with --config"
        )
    from penstock.cli.machine.http_get import tls_of_pages
    from penstock.node.settings.settings import load_settings

    found = []
    for path in paths:
        settings = load_settings(path, environment=os.environ)
        node = settings.node
        if not node.metrics_port:
            raise ConfigError(f"{path}: node.metrics_port is 0, so this node can not be asked")
        tls = tls_of_pages(settings.security)
        found.append(Asked(node.metrics_host, node.metrics_port, tls))
    return found


def _address(text: str) -> Asked:
    """Return a node by its address; the client's file says whose certificate is trusted."""
    host, _, port = text.removeprefix(HTTPS).rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= PORT_MAX:
        raise ConfigError(f"{text!r} is no HOST:PORT of a node's metrics")
    tls = client_security().tls_context() if text.startswith(HTTPS) else None
    return Asked(host.strip("[]"), int(port), tls)


def _told(addresses: Sequence[Asked]) -> Told:
    import asyncio

    from penstock.cli.machine.http_get import get

    async def ask() -> "list[Answer]":
        return await asyncio.gather(
            *(
                get(
                    (one.host, one.port),
                    "/tier",
                    seconds=ANSWER_SECONDS,
                    bytes_max=PAGE_BYTES_MAX,
                    tls=one.tls,
                )
                for one in addresses
            )
        )

    told = Told([], [], [], [], [])
    wanted: set[int] = set()
    for (host, port, _), answer in zip(addresses, asyncio.run(ask()), strict=True):
        name = f"{host}:{port}"
        if answer.status != OK:
            told.silent.append(f"{name} {_reason(answer.status)}")
            continue
        page = json.loads(answer.body)
        wanted.update(page["tiered_sets"])
        _add(told, page)
    led = {row["replica_set"] for row in told.sets}
    told.unknown.extend(sorted(wanted - led))
    return told


def _reason(status: int) -> str:
    if not status:
        return "does not answer"
    if status == FORBIDDEN:
        return "tells it nobody from this machine without a certificate that may read it"
    return f"answers {status}: it is no node, or one of an earlier release"


def _add(told: Told, page: dict[str, Any]) -> None:
    node = page["broker_id"]
    told.nodes.append({"node": node, "copies": page["copies"], **page["counters"]})
    told.partitions.extend(page["partitions"])
    for row in page["sets"]:
        own = [one for one in page["partitions"] if one["replica_set"] == row["replica_set"]]
        lags = {name: _sum(own, name) for name in ("lag_records", "lag_bytes")}
        told.sets.append({"node": node, **row, **lags})
