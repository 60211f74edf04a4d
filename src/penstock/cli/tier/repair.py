"""`penstock tier repair`: find what nobody needs in the object store, and delete it when told to.

rows of __tier_state ─► list of the store ─► rows again ─► differences ─► what may go ─► --delete
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import ADMIN_SECONDS, CommandFailed, TimeoutOption, connected
from penstock.cli.output import Output, OutputOption, Row, note, print_rows
from penstock.cli.tier.store import settings_of, store_of
from penstock.cli.values import SECONDS_MAX

if TYPE_CHECKING:
    from penstock.base.ids import TopicId
    from penstock.client.admin import Admin
    from penstock.client.cluster import Cluster
    from penstock.tier.config import TierConfig
    from penstock.tier.metadata.state import TierMetadata
    from penstock.tier.port import ObjectStore
    from penstock.tier.read.repair import Book, Finding
    from penstock.tier.service.loading import TierLoader
    from penstock.tier.service.table import TierTable

COLUMNS = ("what", "object", "bytes", "age_s", "finding", "state")

ConfigOption = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="Settings of a node, with tier.url.")
]
BootstrapOption = Annotated[
    str,
    typer.Option(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT[,...]",
        envvar="PENSTOCK_BOOTSTRAP",
        help="Brokers; without it the node of the settings.",
    ),
]


def repair(
    config: ConfigOption,
    bootstrap: BootstrapOption = "",
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete what may go; else it is only shown.")
    ] = False,
    older_than: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=SECONDS_MAX,
            help="Leave what is younger; 0: tier.grace_ms, or upload_ms and skew_ms.",
        ),
    ] = 0,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare the store with what the cluster knows of it; fails if anything is missing there.

    Shows objects and probes that nobody needs, and deletes them with --delete. Asks the masters of
    all replica sets with tiered topics. Objects that may be the only ones with what they have stay.
    """
    settings = settings_of(config)
    grace_ms = _grace_ms(settings.tier, older_than)
    host, port = settings.node.advertised()
    with connected(bootstrap or f"{host}:{port}", timeout) as cluster:
        findings = _run(cluster, store_of(settings), settings.tier, grace_ms, is_for_real=delete)
    print_rows([_row(one, is_deleted=delete) for one in findings], COLUMNS, output)
    going = sum(one.may_go for one in findings)
    if going and not delete:
        note(f"{going} may go: run it again with --delete")
    if missing := [one for one in findings if one.kind in {"lost", "wrong size"}]:
        raise CommandFailed(
            f"{len(missing)} objects that the cluster counts on are not there, or are not what they"
            " were: bring them back from a copy of the store"
        )


def _grace_ms(tier: "TierConfig", older_than: float) -> int:
    """Return how old what is deleted must be. Raises ConfigError."""
    least = tier.upload_ms + tier.skew_ms
    if not older_than:
        return max(tier.grace_ms, least)
    if older_than * 1000 < least:
        raise ConfigError(
            f"--older-than is at least {least / 1000:g} s, tier.upload_ms and tier.skew_ms: an"
            " upload of what is younger may still be under way"
        )
    return round(older_than * 1000)


def _row(one: "Finding", *, is_deleted: bool) -> Row:
    state = ("deleted" if is_deleted else "may go") if one.may_go else "stays"
    return {
        "what": str(one.kind),
        "object": one.name,
        "bytes": one.size_bytes,
        "age_s": None if one.age_ms is None else one.age_ms // 1000,
        "finding": one.text,
        "state": state,
    }


def _run(
    cluster: "Cluster",
    store: "ObjectStore",
    tier: "TierConfig",
    grace_ms: int,
    *,
    is_for_real: bool,
) -> "list[Finding]":
    """Return what was found; with `is_for_real` what may go is deleted."""
    import asyncio
    import secrets

    from penstock.node.housekeeper.splitter import cluster_bytes
    from penstock.tier.names import PROBE_BYTES, probes_of
    from penstock.tier.read import repair as work

    cluster_id = cluster_bytes(cluster.describe([]).cluster_id)

    newest: work.Book = {}

    async def books() -> work.Book:
        nonlocal newest
        newest = await asyncio.to_thread(_books, cluster, cluster_id, tier)
        return newest

    async def run() -> "list[Finding]":
        now_ms = time.time_ns() // 1_000_000
        if is_for_real:  # what is deleted is judged by the store's clock alone
            probe = f"{probes_of(cluster_id)}/{secrets.token_hex(PROBE_BYTES)}"
            now_ms = await work.store_clock(store, probe)
        known = _topics(cluster)

        def is_gone(topic_id: "TopicId") -> bool:
            # Who may not see topics that are copied may not call any of them deleted.
            return topic_id not in known and _copied_topics(newest) <= known

        judge = work.Judge(is_gone, now_ms, grace_ms)
        findings = await work.examine(store, cluster_id, books, judge)
        if is_for_real:
            await work.delete(store, findings)
        return findings

    return asyncio.run(run())


def _topics(cluster: "Cluster") -> "set[TopicId]":
    from penstock.base.ids import TopicId
    from penstock.client.admin import Admin

    views = Admin(cluster).list_topics(with_internal=True)
    return {TopicId(view.topic_id.bytes) for view in views if view.topic_id is not None}


def _copied_topics(books: "Book") -> "set[TopicId]":
    """Return the topics of which the tier has records."""
    return {
        key.topic_id
        for book in books.values()
        for key in book.partitions()
        if book.manifest(key).runs
    }


def _books(cluster: "Cluster", cluster_id: bytes, tier: "TierConfig") -> "dict[int, TierMetadata]":
    """Read the metadata of all sets. Raises CommandFailed where this release can not read it."""
    from penstock.client.admin import EARLIEST, LATEST, Admin
    from penstock.client.consume import RecordStream
    from penstock.controller.commands.topic_names import TIER_STATE_TOPIC
    from penstock.coordinator.records import UnreadRecord
    from penstock.coordinator.unread import UnreadRecords
    from penstock.tier.metadata.state import TierMetadata
    from penstock.tier.service.loading import TierLoader

    admin = Admin(cluster)
    numbers = _numbers(admin)
    starts = admin.list_offsets(TIER_STATE_TOPIC, EARLIEST, list(numbers))
    ends = admin.list_offsets(TIER_STATE_TOPIC, LATEST, list(numbers))
    loaders = {
        number: TierLoader(TierMetadata(cluster_id, tier.times()), UnreadRecords(number, 0))
        for number in numbers
    }
    stream = RecordStream(
        cluster,
        {(TIER_STATE_TOPIC, number): at.offset for number, at in starts.items()},
        ends={(TIER_STATE_TOPIC, number): at.offset for number, at in ends.items()},
    )
    for consumed in stream:
        key, value = consumed.record.key, consumed.record.value
        loaders[consumed.partition].load(
            UnreadRecord(
                None if key is None else bytes(key), None if value is None else bytes(value)
            )
        )
    return dict(pair for loader in loaders.values() for pair in _book(loader))


def _numbers(admin: "Admin") -> range:
    """Return the partitions of the tier's topic.

    Raises CommandFailed without it. Whoever may not see it must not take the store for unused.
    """
    from penstock.client.errors import TopicNotFound
    from penstock.controller.commands.topic_names import TIER_STATE_TOPIC

    try:
        return range(len(admin.describe_topic(TIER_STATE_TOPIC).partitions))
    except TopicNotFound:
        raise CommandFailed(
            "there is nothing to compare the store with: no topic was copied into it yet"
            f" (remote.storage.enable), or you may not see {TIER_STATE_TOPIC}"
        ) from None


def _book(loader: "TierLoader") -> "list[tuple[int, TierMetadata]]":
    """Return the metadata by the set that it is of; nothing if there was never a mastership."""
    table = _made(loader)
    if table.is_lost:
        raise CommandFailed(
            "__tier_state has rows of a later release: use its penstock tier repair"
        )
    return [(set_id, table.metadata) for set_id in table.metadata.tenures]


def _made(loader: "TierLoader") -> "TierTable":
    steps = loader.make()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            table: TierTable = end.value
            return table
