"""A mastership that merges: over a store that loses answers, fails and is slow, beside its copies.

Batches of the log have times of 1970, so that runs are old as soon as there are enough of them.
"""

import asyncio
from random import Random

import pytest

from penstock.tier.copies.merge_plan import MergeRules
from penstock.tier.metadata.manifest import Run
from simulator.kernel.object_store import Bucket, Fate
from tests.extents.files import batch
from tests.runtime.test_tier_copying import (
    CONFIG,
    KEYS,
    OBJECT_RECORDS,
    TIMES,
    Node,
    Puts,
    log_of,
    run,
)
from tests.runtime.tier_running import SyncingJournal

RUNS_MIN = 8
RULES = MergeRules(object_bytes=1 << 20, age_ms=1, runs_min=RUNS_MIN)
ENOUGH = RUNS_MIN * OBJECT_RECORDS
"""Records of as many runs as are merged."""


def runs_of(node: Node, which: int = 0) -> list[tuple[int, int, int]]:
    """Return first offset, end and generation of what a partition has in the tier."""
    runs = node.metadata.manifest(KEYS[which]).runs
    return [(one.first_offset, one.end_offset, one.entry.generation) for one in runs]


async def until_merged(node: Node, count: int = 1) -> None:
    """Wait until there were so many merges; the test has a limit of its own."""
    while node.counters.merges < count:
        assert not node.task.done(), node.task
        await asyncio.sleep(1)


def test_many_small_runs_become_one_and_their_objects_go_after_the_grace() -> None:
    async def story() -> None:
        node = Node(log_of(ENOUGH + 3, 6), SyncingJournal(), Bucket(), rules=RULES)
        await node.has_copied()
        await until_merged(node)
        objects = len(node.store.bucket.objects)
        assert objects >= RUNS_MIN + 1, "readers have their grace"
        await node.check_at_rest()
        assert runs_of(node)[0] == (0, node.metadata.manifest(KEYS[0]).runs[0].end_offset, 1)
        assert len(runs_of(node)) < 4
        assert [one[2] for one in runs_of(node, 1)] == [0, 0]
        assert node.counters.merged_runs >= RUNS_MIN
        assert node.counters.merge_failures == 0
        assert node.counters.failures == 0
        await node.end()

    run(story)


def test_without_rules_nothing_is_merged() -> None:
    async def story() -> None:
        node = Node(log_of(ENOUGH), SyncingJournal(), Bucket())
        await node.has_copied()
        await node.check_at_rest()
        assert len(runs_of(node)) == RUNS_MIN
        await node.end()

    run(story)


def test_a_slow_merge_makes_no_copy_wait() -> None:
    async def story() -> None:
        one_batch = len(batch(0, epoch=1))
        rate = one_batch * ENOUGH // 20  # 20 s to read, and as long to write
        node = Node(log_of(ENOUGH), SyncingJournal(), Bucket(), rules=RULES, merge_rate=rate)
        await node.has_copied()
        await asyncio.sleep(CONFIG.pause_ms / 1000)
        node.log.logs[KEYS[0]].extend(batch(ENOUGH + at, epoch=1) for at in range(3))
        node.copying.knock()
        await asyncio.sleep(2)
        assert node.metadata.manifest(KEYS[0]).end_offset == ENOUGH + 3
        assert node.counters.merges == 0
        await until_merged(node)
        assert runs_of(node) == [(0, ENOUGH, 1), (ENOUGH, ENOUGH + 3, 0)]
        await node.check_at_rest()
        await node.end()

    run(story)


def test_a_merge_that_does_not_fit_into_its_time_is_given_up_and_leaves_nothing() -> None:
    async def story() -> None:
        node = Node(log_of(ENOUGH), SyncingJournal(), Bucket(), rules=RULES, merge_rate=1)
        await asyncio.sleep(TIMES.upload_ms / 1000 + 100)
        assert node.counters.merge_failures == 1
        assert len(runs_of(node)) == RUNS_MIN
        assert len(node.store.bucket.objects) == RUNS_MIN
        await node.end()

    run(story)


def test_a_damaged_run_stops_the_merge_of_its_partition_and_no_other() -> None:
    async def story() -> None:
        node = Node(log_of(ENOUGH, ENOUGH), SyncingJournal(), Bucket())
        await node.has_copied()
        await node.end()
        damaged = node.metadata.manifest(KEYS[0]).runs[2]
        flip(node, damaged)
        journal, bucket = node.journal, node.store.bucket
        again = Node(node.log, journal, bucket, epoch=2, rules=RULES)
        await until_merged(again)
        assert len(runs_of(again, 0)) == RUNS_MIN
        assert runs_of(again, 1) == [(0, ENOUGH, 1)]
        assert again.counters.merge_failures == 1
        flip(node, damaged)
        await again.check_at_rest()
        await again.end()

    run(story)


def flip(node: Node, damaged: Run) -> None:
    """Change a bit of a run's records, or change it back."""
    data, version = node.store.bucket.objects[str(damaged.name)]
    changed = bytearray(data)
    changed[-200 - damaged.entry.summary_bytes] ^= 1
    node.store.bucket.objects[str(damaged.name)] = bytes(changed), version


def test_a_store_that_fails_merges_alone_is_left_alone_by_them_and_copies_go_on() -> None:
    async def story() -> None:
        reads = 0

        def fate_of(operation: str, _: str) -> Fate:
            nonlocal reads
            reads += operation == "read"
            return Fate.FAILED if operation == "read" else Fate.DONE

        node = Node(log_of(ENOUGH, 3000), SyncingJournal(), Bucket(), fate_of, rules=RULES)
        await node.has_copied()
        await asyncio.sleep(1000)
        assert 1 <= node.counters.merge_failures < 10
        assert node.counters.failures == 0
        assert reads < 50
        await node.end()

    run(story)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_store_does_and_whoever_dies_the_tier_has_the_log_and_nothing_more(
    seed: int,
) -> None:
    """Masters die in between, with puts that land late; what they have begun is nobody's."""

    async def story() -> None:
        random = Random(seed)
        has_faults = True

        def fate_of(operation: str, _: str) -> Fate:
            weights = (70, 10, 10 if operation == "put" else 0, 10)
            fates = (Fate.DONE, Fate.LOST_ANSWER, Fate.LATE, Fate.FAILED)
            return random.choices(fates, weights)[0] if has_faults else Fate.DONE

        journal, bucket, log = SyncingJournal(), Bucket(), log_of(2 * ENOUGH, ENOUGH)
        merges = 0
        for epoch in range(1, 6):
            node = Node(log, journal, bucket, fate_of, epoch=epoch, rules=RULES, merge_rate=2_000)
            # A put lands within the skew behind its deadline, or never.
            await asyncio.sleep(random.uniform(1, TIMES.skew_ms / 1000 - 1))
            merges += node.counters.merges
            await node.kill(random.randrange(3))
            while bucket.late:
                bucket.land_late()
            for one in KEYS:
                end = len(log.logs[one])
                log.logs[one] += [batch(end + at, epoch=1) for at in range(3 * random.randrange(4))]
        has_faults = False
        node = Node(log, journal, bucket, fate_of, epoch=6, rules=RULES)
        await node.has_copied()
        await node.check_at_rest()
        assert merges + node.counters.merges >= 1
        await node.end()

    run(story, seed)


def test_a_master_that_dies_while_it_merges_leaves_an_orphan_that_the_next_one_deletes() -> None:
    async def story() -> None:
        puts, has_put = Puts(), asyncio.Queue[str]()

        def fate_of(operation: str, name: str) -> Fate:
            puts(operation, name)
            if operation == "put" and len(puts.names) > RUNS_MIN:
                has_put.put_nowait(name)
            return Fate.DONE

        journal, bucket, log = SyncingJournal(), Bucket(), log_of(ENOUGH)
        node = Node(log, journal, bucket, fate_of, rules=RULES)
        merged = await has_put.get()
        await node.kill(0)
        again = Node(log, journal, bucket, puts, epoch=2)
        await again.has_copied()
        await again.check_at_rest()
        assert merged not in bucket.objects
        assert len(runs_of(again)) == RUNS_MIN
        await again.end()

    run(story)
