"""A master frees disks of what the tier has, and whoever is none any more does not."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from penstock.base.ids import LeaderEpoch
from penstock.controller.topic_config.local import LocalLimits
from penstock.extents.layout import Notes
from penstock.replica.replica_set import Role
from penstock.runtime.tier.freeing import Freeing
from penstock.tier.metadata.manifest import Manifest, Run, Snapshot
from penstock.tier.names import ObjectName
from penstock.tier.read.counters import ReadCounters
from tests.extents.files import CLUSTER, SET, key
from tests.tier.clerk import Clerk

KEY = key(1, 0)
EPOCH = LeaderEpoch(3)
END = 9


class Set:
    """A member with one partition, all of which is copied, over a store that answers later."""

    def __init__(self, meanwhile: Callable[["Set"], None], *, is_copied: bool = True) -> None:
        """`meanwhile` happens while the store is asked."""
        self.local = LocalLimits(-2, 0, is_copied)
        self.tier_starts: list[int] = []
        self.freed: list[int] = []
        self.partition = SimpleNamespace(
            topic_partition=KEY, log_start_offset=0, is_dropped=False, size_bytes=END
        )
        older = SimpleNamespace(size_bytes=lambda _: 0)
        self.member = SimpleNamespace(
            role=Role.MASTER,
            leader_epoch=EPOCH,
            log=SimpleNamespace(
                partitions={KEY: self.partition},
                parts=SimpleNamespace(older=older),
                delete_records=lambda _, offset: self.freed.append(int(offset)),
            ),
        )
        run = Clerk.run(ObjectName(CLUSTER, SET, LeaderEpoch(int(EPOCH)), 1), KEY, 0, END)
        self.manifest = Manifest(Snapshot(1, 0, END, (run,)))
        self.merging: set[int] = set()
        """Ends of runs that are about to be none any more."""
        self._meanwhile = meanwhile

    async def notes(self, run: Run) -> Notes:
        await asyncio.sleep(0)
        self._meanwhile(self)
        return Notes([(LeaderEpoch(epoch), start) for epoch, start in run.epochs], decided_end=END)

    def look(self) -> list[int]:
        """Free what may be freed; return the new log starts."""
        settings = SimpleNamespace(deletes=True, retention_ms=-1, retention_bytes=-1)
        topic = SimpleNamespace(local=self.local, settings=settings)
        source = SimpleNamespace(
            limited=lambda: [KEY],
            raise_tier_start=lambda _, offset: self.tier_starts.append(offset),
            may_free=lambda _, offset: offset not in self.merging,
        )
        reader, member = cast("Any", self), cast("Any", self.member)
        freeing = Freeing(lambda _: cast("Any", topic), reader, lambda: 0, ReadCounters())
        asyncio.run(freeing.look(member, cast("Any", source), lambda _: self.manifest))
        return self.freed


def test_a_master_frees_what_the_store_gives_back() -> None:
    assert Set(lambda _: None).look() == [END]


def test_where_nothing_is_copied_any_more_the_master_frees_nothing_and_what_is_there_expires() -> (
    None
):
    one = Set(lambda _: None, is_copied=False)
    assert one.look() == []
    assert one.tier_starts, "the start of what the tier has is still looked at"


def test_who_was_demoted_while_the_store_was_asked_frees_nothing() -> None:
    def demoted(one: Set) -> None:
        one.member.role = Role.SLAVE

    assert Set(demoted).look() == []


def test_who_leads_anew_since_the_store_was_asked_frees_nothing() -> None:
    def elected_again(one: Set) -> None:
        one.member.leader_epoch = LeaderEpoch(EPOCH + 1)

    assert Set(elected_again).look() == []


def test_a_partition_that_was_deleted_while_the_store_was_asked_is_left_alone() -> None:
    def deleted(one: Set) -> None:
        one.partition.is_dropped = True

    assert Set(deleted).look() == []


def test_disks_are_not_freed_up_to_where_a_run_ended_that_was_merged_meanwhile() -> None:
    def merged(one: Set) -> None:
        (run,) = one.manifest.runs
        longer = run._replace(end_offset=END + 1)
        one.manifest = Manifest(Snapshot(3, 0, END + 1, (longer,)))

    assert Set(merged).look() == []


def test_disks_are_not_freed_up_to_where_a_run_ends_that_is_being_merged() -> None:
    def planned(one: Set) -> None:
        one.merging = {END}

    assert Set(planned).look() == []
