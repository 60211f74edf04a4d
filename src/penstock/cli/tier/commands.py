"""`penstock tier`: what lies in the object store of a cluster, and how far nodes are with it.

The commands in this module ask the store alone: objects say what they are, so they work when every
node is gone. What they tell is what is in the store, not what a cluster knows of it: objects that
are under way, or are to be deleted, are among them.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from penstock.cli.connect import CommandFailed
from penstock.cli.output import Output, OutputOption, Row, print_rows
from penstock.cli.tier.repair import repair
from penstock.cli.tier.status import status
from penstock.cli.tier.store import settings_of, store_of

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from penstock.tier.names import ObjectName
    from penstock.tier.port import ObjectStore

app = typer.Typer(help="See how topics are copied into the object store; list, verify, repair it.")
app.command()(status)
app.command()(repair)

ConfigOption = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="Settings of a node, with tier.url.")
]
OBJECT_COLUMNS = ("cluster", "set", "epoch", "object", "bytes")
PARTITION_COLUMNS = (
    "cluster",
    "topic_id",
    "partition",
    "start",
    "end",
    "runs",
    "merged_runs",
    "bytes",
)
VERIFIED_COLUMNS = ("object", "extents", "bytes", "state")
T = TypeVar("T")


@app.command()
def objects(config: ConfigOption, output: OutputOption = Output.TABLE) -> None:
    """List the objects that are in the store."""

    async def rows(store: "ObjectStore") -> list[Row]:
        return [
            {
                "cluster": name.cluster_id.hex(),
                "set": name.replica_set_id,
                "epoch": name.leader_epoch,
                "object": name.object_id,
                "bytes": size,
            }
            for name, size in sorted((await _sizes(store)).items())
        ]

    print_rows(_run(rows(_store(config))), OBJECT_COLUMNS, output)


@app.command()
def partitions(config: ConfigOption, output: OutputOption = Output.TABLE) -> None:
    """List the partitions that the objects have, as a lost cluster would be read back.

    Fails if there are objects that are not what they say, or offsets that no object has.
    """
    rows, wrong = _run(_partitions(_store(config)))
    print_rows(rows, PARTITION_COLUMNS, output)
    if wrong:
        raise CommandFailed("; ".join(wrong))


async def _partitions(store: "ObjectStore") -> tuple[list[Row], list[str]]:
    from penstock.tier.metadata.times import TierTimes
    from penstock.tier.read.rebuild import rebuild

    rows: list[Row] = []
    wrong: list[str] = []
    for cluster_id in sorted({name.cluster_id for name in await _sizes(store)}):
        found = await rebuild(store, cluster_id, TierTimes(), time.time_ns() // 1_000_000)
        for key in found.metadata.partitions():
            manifest = found.metadata.manifest(key)
            rows.append(
                {
                    "cluster": cluster_id.hex(),
                    "topic_id": key.topic_id.hex(),
                    "partition": key.partition,
                    "start": manifest.start_offset,
                    "end": manifest.end_offset,
                    "runs": len(manifest.runs),
                    "merged_runs": sum(run.entry.generation > 0 for run in manifest.runs),
                    "bytes": sum(run.entry.batch_bytes for run in manifest.runs),
                }
            )
        wrong += [f"object {name}: {reason}" for name, reason in found.refused]
        wrong += [
            f"no object has offsets {gap.first_offset} to {gap.end_offset} of partition"
            f" {gap.topic_partition.partition} of topic {gap.topic_partition.topic_id.hex()}"
            for gap in found.gaps
        ]
    return rows, wrong


@app.command()
def verify(config: ConfigOption, output: OutputOption = Output.TABLE) -> None:
    """Read every byte of every object, and say which are damaged. Fails if any is."""
    rows = _run(_verified(_store(config)))
    print_rows(rows, VERIFIED_COLUMNS, output)
    if damaged := [row for row in rows if row["state"] != "whole"]:
        raise CommandFailed(f"{len(damaged)} of {len(rows)} objects are not whole")


async def _verified(store: "ObjectStore") -> list[Row]:
    from penstock.tier.errors import LyingObject, ObjectNotFound
    from penstock.tier.read.check import check_object

    rows: list[Row] = []
    for name, size in sorted((await _sizes(store)).items()):
        row: dict[str, object] = {"object": str(name), "bytes": size, "state": "whole"}
        try:
            row["extents"] = len((await check_object(store, str(name))).directory.entries)
        except LyingObject as error:
            row["state"] = f"damaged at byte {error.at}: {error.reason}"
        except ObjectNotFound:
            continue  # it was deleted meanwhile
        rows.append(row)
    return rows


async def _sizes(store: "ObjectStore") -> dict["ObjectName", int]:
    """Return the objects of all clusters in the store, and their bytes."""
    from penstock.tier.names import parse_name

    found: dict[ObjectName, int] = {}
    async for page in store.pages(""):
        for stat in page:
            if (name := parse_name(stat.name)) is not None:
                found[name] = stat.size_bytes
    return found


def _store(config: Path) -> "ObjectStore":
    """Return the store of a node's settings. Raises ConfigError."""
    return store_of(settings_of(config))


def _run(work: "Coroutine[Any, Any, T]") -> T:
    """Run on a loop of its own, whose import takes longer than a help text may."""
    import asyncio

    return asyncio.run(work)
