"""A mastership that copies: over a store that loses answers, and a log whose masters change."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.coordinator.unwritten import Unwritten
from penstock.extents.reader import read_summary
from penstock.runtime.tier.asking import OwnMetadata
from penstock.runtime.tier.copying import CopyConfig, Copying, Surroundings
from penstock.runtime.tier.merging import MergeRoom, Merging
from penstock.tier.copies.alignment import OwnLog
from penstock.tier.copies.copier import Copier, Step
from penstock.tier.copies.counters import CopyCounters
from penstock.tier.copies.effects import Part, Plan
from penstock.tier.copies.merge_plan import Bounds, MergePlanner, MergeRules
from penstock.tier.copies.source import Image
from penstock.tier.metadata.commands import Fence
from penstock.tier.metadata.objects import ObjectRow, State
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import prefix_of
from penstock.tier.read.reader import TierReader
from penstock.tier.service.config import TierServiceConfig
from penstock.tier.service.coordinator import TierCoordinator
from simulator.kernel.object_store import FULL, Bucket, Fate, ModelledStore
from simulator.kernel.simulation import Simulation, simulate
from tests.coordinator.held_journal import HeldJournal
from tests.coordinator.shard_contract import load
from tests.extents.files import CLUSTER, SET, batch, key, reading, written_with_directory
from tests.extents.files import Part as FilePart
from tests.runtime.tier_running import LoopClock, SyncingJournal

KEYS = (key(1, 0), key(2, 5))
TIMES = TierTimes(upload_ms=60_000, skew_ms=30_000, lease_ms=60_000, grace_ms=120_000)
CONFIG = CopyConfig(pause_ms=5_000, retry_ms=500, retry_ms_max=20_000, look_ms_max=5_000)
OBJECT_RECORDS = 3


class Log:
    """A master's log: batches of one record, whose offset is their place. Implements Source."""

    def __init__(self, logs: Mapping[TopicPartition, list[bytes]]) -> None:
        self.logs = logs
        self.starts = dict.fromkeys(logs, 0)
        self.build_s = 0.1
        self.error: PlatformError | None = None
        self.wrong_from = 0
        """What begins there can not be built as long as there is an error."""

    def partitions(self) -> Sequence[TopicPartition]:
        return sorted(self.logs)

    def own(self, topic_partition: TopicPartition) -> OwnLog:
        log = self.logs[topic_partition]
        return OwnLog(((1, 0),), self.starts[topic_partition], len(log))

    def plans(self, ends: Mapping[TopicPartition, int], count_max: int) -> Sequence[Plan]:
        plans = [
            (Part(one, first, first + OBJECT_RECORDS),)
            for one, log in sorted(self.logs.items())
            for first in range(ends[one], len(log) - OBJECT_RECORDS + 1, OBJECT_RECORDS)
        ]
        return plans[:count_max]

    async def build(self, plan: Plan) -> Image:
        await asyncio.sleep(self.build_s)
        if self.error is not None and plan[0].first_offset == self.wrong_from:
            raise self.error
        parts = [FilePart(one, self.logs[one][first:end]) for one, first, end in plan]
        data, entries = written_with_directory(parts)
        notes = [read_summary("a", entry, reading(data)).notes for entry in entries]
        return Image([data], tuple(entries), tuple(tuple(one.epochs) for one in notes))


class Puts:
    """Notes what is put; all of it is done."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, operation: str, name: str) -> Fate:
        self.names += [name] if operation == "put" else []
        return Fate.DONE


def log_of(*counts: int) -> Log:
    pairs = zip(KEYS, counts, strict=False)
    return Log({one: [batch(at, epoch=1) for at in range(count)] for one, count in pairs})


class Node:
    """A master of the set, with its metadata and its copying."""

    def __init__(
        self,
        log: Log,
        journal: HeldJournal,
        bucket: Bucket,
        fate_of: Callable[[str, str], Fate] = lambda _operation, _name: Fate.DONE,
        *,
        epoch: int = 1,
        runs_max: int = 100_000,
        rules: MergeRules | None = None,
        merge_rate: int = 1 << 30,
    ) -> None:
        """`rules`: what is merged, at so many bytes in a second; None: nothing is."""
        self.log, self.journal = log, journal
        self.store = ModelledStore(bucket, fate_of)
        config = TierServiceConfig(times=TIMES, runs_max=runs_max)
        clock = LoopClock()
        self.coordinator = TierCoordinator(clock, journal, cluster_id=CLUSTER, config=config)
        load(self.coordinator, journal.log(with_all=True))  # type: ignore[arg-type]
        merging = None if rules is None else self._merging(rules, clock, merge_rate)
        self.copier = Copier(
            Fence(SET, LeaderEpoch(epoch), b"%d" % epoch),
            CLUSTER,
            log,
            TIMES,
            None if merging is None else merging.planner,
        )
        self.counters = CopyCounters()
        metadata = OwnMetadata(self.coordinator, lambda: 0)
        self.copying = Copying(
            self.copier,
            Surroundings(log, metadata, self.store, FULL, clock, merging),
            config=CONFIG,
            counters=self.counters,
        )
        self.task = asyncio.get_running_loop().create_task(self.copying.run())

    def _merging(self, rules: MergeRules, clock: LoopClock, rate: int) -> Merging:
        room = MergeRoom(clock, rate)
        bounds = Bounds(lambda one: self.log.starts[one], clock.wall_ms, room.has_place)
        return Merging(self.store, MergePlanner(rules, bounds), room, (CLUSTER, SET))

    @property
    def metadata(self) -> TierMetadata:
        return self.coordinator._shard.by_partition[0].metadata

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def kill(self, kept: int) -> None:
        """Die: of what is on its way to the log `kept` batches stay, and nobody hears."""
        self.journal.lose(kept)
        await self.end()

    async def has_copied(self) -> None:
        """Wait until all that is worth it is in the tier; the test has a limit of its own."""
        while any(
            self.metadata.manifest(one).end_offset + OBJECT_RECORDS <= len(log)
            for one, log in self.log.logs.items()
        ):
            assert not self.task.done(), self.task
            await asyncio.sleep(1)

    async def check_at_rest(self) -> None:
        """Let all deadlines pass; then the store has what is live, and it is the log."""
        await asyncio.sleep(2 * (TIMES.upload_ms + TIMES.skew_ms + TIMES.grace_ms) / 1000)
        rows = self.metadata.objects.rows.values()
        assert {one.state for one in rows} <= {State.LIVE}
        objects = {
            name for name in self.store.bucket.objects if name.startswith(prefix_of(CLUSTER))
        }
        assert objects == {str(one.name) for one in rows}
        reader = TierReader(ModelledStore(self.store.bucket))
        for one, log in self.log.logs.items():
            manifest, offset = self.metadata.manifest(one), self.metadata.manifest(one).start_offset
            while offset < manifest.end_offset:
                batches, after = await reader.read(manifest, one, offset, 200)
                assert [bytes(each) for each in batches] == log[offset:after]
                offset = after


def run(story: Callable[[], Coroutine[Any, Any, None]], seed: int = 1) -> None:
    async def played(_: Simulation) -> None:
        await story()

    simulate(seed, played, seconds_max=50_000)


def test_a_log_is_copied_and_more_of_it_later() -> None:
    async def story() -> None:
        node = Node(log_of(10, 30), SyncingJournal(), Bucket())
        await node.has_copied()
        assert [node.metadata.manifest(one).end_offset for one in KEYS] == [9, 30]
        node.log.logs[KEYS[0]].extend(batch(at, epoch=1) for at in (10, 11))
        node.copying.knock()
        await node.has_copied()
        assert node.counters.objects == 14
        assert node.counters.failures == 0
        await node.check_at_rest()
        await node.end()

    run(story)


def test_what_the_log_does_not_keep_is_deleted_from_the_store_after_the_grace() -> None:
    async def story() -> None:
        node = Node(log_of(9), SyncingJournal(), Bucket())
        await node.has_copied()
        node.log.starts[KEYS[0]] = 6
        node.copying.knock()
        await asyncio.sleep(TIMES.grace_ms / 1000 - 1)
        assert len(node.store.bucket.objects) == 3
        await node.check_at_rest()
        assert len(node.store.bucket.objects) == 1
        assert node.counters.deleted == 2
        await node.end()

    run(story)


def test_what_is_missing_where_the_store_was_away_comes_later_and_it_is_left_alone_meanwhile() -> (
    None
):
    """An hour without a store: pauses grow, so that neither it nor the log of commands suffers."""

    async def story() -> None:
        is_away, puts = True, 0

        def fate_of(operation: str, _: str) -> Fate:
            nonlocal puts
            puts += operation == "put"
            return Fate.FAILED if is_away else Fate.DONE

        node = Node(log_of(3), SyncingJournal(), Bucket(), fate_of)
        await asyncio.sleep(3600)
        assert 100 < puts < 300
        assert node.counters.objects == 0
        is_away = False
        await node.has_copied()
        await node.check_at_rest()
        await node.end()

    run(story)


def test_each_pause_after_a_failure_is_twice_as_long_as_the_one_before() -> None:
    async def story() -> None:
        log, begun = log_of(3), list[float]()
        log.build_s = 0
        log.error = PlatformError("a damaged file")
        build = log.build

        async def noted(plan: Plan) -> Image:
            begun.append(asyncio.get_running_loop().time())
            return await build(plan)

        log.build = noted  # type: ignore[method-assign]
        node = Node(log, SyncingJournal(), Bucket())
        await asyncio.sleep(30)
        pauses = [after - before for before, after in pairwise(begun[:5])]
        assert pauses == pytest.approx([0.5, 1, 2, 4], rel=0.2)
        await node.end()

    run(story)


def test_a_knock_while_a_round_ends_is_heard() -> None:
    async def story() -> None:
        node = Node(log_of(3), SyncingJournal(), Bucket())
        due, knocked = node.copying._metadata.due, list[None]()

        async def due_and_knocked() -> Any:
            found = await due()
            if not knocked and node.metadata.manifest(KEYS[0]).end_offset:
                knocked.append(None)
                node.log.logs[KEYS[0]].extend(batch(at, epoch=1) for at in range(3, 6))
                node.copying.knock()
            return found

        node.copying._metadata.due = due_and_knocked  # type: ignore[method-assign]
        await asyncio.sleep(CONFIG.pause_ms / 1000 - 1)
        assert len(knocked) == 1
        assert node.counters.objects == 2, "it has not waited for the end of its pause"
        await node.end()

    run(story)


def test_the_bound_of_the_metadata_stops_uploads_without_a_storm() -> None:
    async def story() -> None:
        node = Node(log_of(30), SyncingJournal(), Bucket(), runs_max=4)
        await asyncio.sleep(600)
        runs = node.metadata.run_count
        assert 4 <= runs < 10
        assert node.counters.failures < 60
        node.log.starts[KEYS[0]] = 24
        await node.has_copied()
        await node.check_at_rest()
        await node.end()

    run(story)


def test_what_can_not_be_built_is_tried_again_under_another_id() -> None:
    async def story() -> None:
        log = log_of(3)
        log.error = PlatformError("a damaged file")
        node = Node(log, SyncingJournal(), Bucket())
        await asyncio.sleep(20)
        assert node.store.bucket.objects == {}
        log.error = None
        await node.has_copied()
        assert min(one.name.object_id for one in _live(node)) > 1
        await node.check_at_rest()
        await node.end()

    run(story)


def test_what_lies_behind_an_object_that_can_not_be_built_is_not_put_again_and_again() -> None:
    """It can not be committed with the gap before it."""

    async def story() -> None:
        log, puts = log_of(9), Puts()
        log.error = PlatformError("a damaged file")
        node = Node(log, SyncingJournal(), Bucket(), puts)
        await asyncio.sleep(600)
        assert 2 < len(puts.names) < 100
        assert node.metadata.run_count == 0
        log.error = None
        await node.has_copied()
        await node.check_at_rest()
        await node.end()

    run(story)


def test_nothing_is_put_behind_its_deadline() -> None:
    async def story() -> None:
        log, puts = log_of(3), Puts()
        log.build_s = TIMES.upload_ms / 1000 + 1
        node = Node(log, SyncingJournal(), Bucket(), puts)
        await asyncio.sleep(TIMES.upload_ms / 1000 + 100)
        assert puts.names == []
        assert node.counters.failures > 0
        log.build_s = 0.1
        await node.has_copied()
        await node.check_at_rest()
        await node.end()

    run(story)


def test_an_older_mastership_ends_when_another_one_has_begun() -> None:
    """Both are on one log, as they are while the older one has not heard of its end."""

    async def story() -> None:
        bucket, journal = Bucket(), SyncingJournal()
        old = Node(log_of(9), journal, bucket)
        await old.has_copied()
        old.coordinator.ask(0, Fence(SET, LeaderEpoch(2), b"2"), lambda _: None)
        old.log.logs[KEYS[0]].extend(batch(at, epoch=1) for at in range(9, 20))
        old.copying.knock()
        await old.task
        assert old.copier.step is Step.DEPOSED
        assert len(bucket.objects) == 3

    run(story)


def test_commands_wait_until_the_log_takes_them() -> None:
    async def story() -> None:
        journal = SyncingJournal()
        journal.refuses = Unwritten.TOO_FEW_IN_STEP
        node = Node(log_of(9), journal, Bucket())
        await asyncio.sleep(60)
        assert node.counters.failures < 20
        assert node.store.bucket.objects == {}
        journal.refuses = None
        await node.has_copied()
        await node.check_at_rest()
        await node.end()

    run(story)


@pytest.mark.parametrize("seed", range(20))
def test_masters_that_die_over_a_bad_store_leave_no_orphan_and_no_gap(seed: int) -> None:
    """Answers are lost, puts land late, masters are killed at any time with commands under way."""

    async def story() -> None:
        random, bucket, journal = Random(seed), Bucket(), SyncingJournal()
        is_bad = True

        def fate_of(_: str, name: str) -> Fate:
            assert bucket
            return random.choice(FATES) if is_bad and name != "" else Fate.DONE

        log = log_of(random.randrange(30), random.randrange(60))
        for epoch in range(1, 6):
            node = Node(log, journal, bucket, fate_of, epoch=epoch)
            for _ in range(random.randrange(1, 30)):
                await asyncio.sleep(random.random())
                if bucket.late and random.random() < 0.3:
                    bucket.land_late(random.randrange(len(bucket.late)))
            await node.kill(random.randrange(3))
        node = Node(log, journal, bucket, fate_of, epoch=9)
        await asyncio.sleep(TIMES.skew_ms / 1000 / 2)
        while bucket.late:
            bucket.land_late()
        is_bad = False
        await node.has_copied()
        await node.check_at_rest()
        await node.end()

    run(story, seed)


FATES = (*[Fate.DONE] * 4, Fate.LOST_ANSWER, Fate.LATE, Fate.FAILED, Fate.THROTTLED)


def _live(node: Node) -> list[ObjectRow]:
    return [one for one in node.metadata.objects.rows.values() if one.state is State.LIVE]
