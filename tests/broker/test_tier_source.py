"""What a mastership tells the tier's copier of its log: what may be copied, cut and deleted."""

import asyncio
from collections.abc import Coroutine, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from harness.log_world import ALL, make_batch, partition_number
from penstock.base.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from penstock.broker.tier.source import NEVER, TierSource
from penstock.controller.topic_config.local import LocalLimits
from penstock.record.batch import read_header
from penstock.storage.errors import ReadFailed
from penstock.tier.copies.alignment import OwnLog, agreed_end
from penstock.tier.metadata.commands import Fence, Fenced, Reserve
from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName
from tests.extents.files import CLUSTER
from tests.storage.second_level import IDENTITY
from tests.storage.test_second_level_copies import Master
from tests.storage.test_stores import KEY, OTHER
from tests.tier.clerk import Clerk

T = TypeVar("T")
OBJECT_BYTES = 20_000
COPIED = {"remote.storage.enable": "true"}
LIMITS = LocalLimits(-2, 0)
NO_LIMITS: LocalLimits | None = None


class Broker:
    """A broker as a source sees it, over one log whose closed files are in its second level."""

    def __init__(self, configs: Mapping[str, str] = COPIED) -> None:
        self.master = Master(is_released=False)
        self.log = self.master.log
        self.metadata_of_tier: TierMetadata | None = TierMetadata(CLUSTER, TierTimes())
        topic = SimpleNamespace(
            topic_id=KEY.topic_id,
            internal=False,
            local=NO_LIMITS,
            settings=SimpleNamespace(is_compacted=False),
        )
        self.topic = topic
        self.partitions = SimpleNamespace(by_id={KEY.topic_id: topic})
        image = SimpleNamespace(configs=configs)
        self.give_ups: dict[TopicId, int] = {}
        self.metadata = SimpleNamespace(
            topics_by_id={KEY.topic_id: image},
            configuration=SimpleNamespace(give_ups=self.give_ups),
        )
        self.is_deleted = True
        self.leftovers = SimpleNamespace(is_deleted=lambda _: self.is_deleted)
        self.news = 0

    def source(self) -> TierSource:
        member: Any = SimpleNamespace(
            log=self.log, leader_epoch=self.log.leader_epoch, confirm_position=ALL
        )
        broker: Any = self
        source = TierSource(broker, member, IDENTITY, lambda: self.metadata_of_tier, OBJECT_BYTES)
        source.on_news = self._note_news
        return source

    def set_configs(self, configs: Mapping[str, str]) -> None:
        self.metadata.topics_by_id[KEY.topic_id] = SimpleNamespace(configs=configs)

    def _note_news(self) -> None:
        self.news += 1

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, and the log's work that it waits for."""

        async def with_log() -> T:
            task = asyncio.ensure_future(work)
            while not task.done():
                await asyncio.sleep(0)
                self.master.world.run()
            return await task

        return asyncio.run(with_log())

    def looked(self) -> TierSource:
        source = self.source()
        self.run(source.look())
        self.master.world.run()
        return source

    def append(self, **batch: Any) -> None:
        data = make_batch(**batch)
        self.log.append(self.master.partition, data, read_header(data))
        self.master.world.run()

    def stored(self, key: TopicPartition, first: int, end: int) -> None:
        """Let the tier have offsets of a partition."""
        run = Clerk.run(ObjectName(CLUSTER, 1, LeaderEpoch(1), 1), key, first, end)
        manifest = Manifest()
        manifest.apply(EventGroup(Kind.COPY, key, (run,)))
        assert self.metadata_of_tier is not None
        self.metadata_of_tier.restore(key, manifest)


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_topics_are_copied_that_say_so_and_no_others(broker: Broker) -> None:
    assert broker.source().is_wanted
    assert broker.looked().partitions() == [KEY, OTHER]
    assert not Broker({}).source().is_wanted
    for change in ({"internal": True}, {"settings": SimpleNamespace(is_compacted=True)}):
        other = Broker()
        vars(other.topic).update(change)
        assert not other.source().is_wanted


def test_what_was_reserved_for_a_topic_that_is_gone_is_somebodys_work() -> None:
    broker = Broker({})
    metadata = broker.metadata_of_tier
    assert metadata is not None
    fenced = metadata.apply(Fence(1, LeaderEpoch(3), b"n"), 0)
    assert isinstance(fenced, Fenced)
    assert not broker.source().is_wanted
    metadata.apply(Reserve(fenced.tenure, 1, 1), 0)
    assert not metadata.partitions()
    assert broker.source().is_wanted


def test_plans_come_with_a_knock_and_for_no_other_ends(broker: Broker) -> None:
    source = broker.looked()
    before = broker.news
    assert source.plans({KEY: 0}, 8) == ()
    broker.master.world.run()
    assert broker.news == before + 1
    assert source.plans({KEY: 3}, 8) == ()
    broker.master.world.run()
    plans = source.plans({KEY: 3}, 8)
    assert plans[0][0].first_offset == 3
    image = broker.run(source.build(plans[0]))
    (entry,) = image.entries
    assert (entry.first_offset, entry.end_offset) == plans[0][0][1:]


def test_what_retention_has_dropped_since_it_was_planned_is_not_built(broker: Broker) -> None:
    source = broker.looked()
    source.plans({KEY: 0}, 8)
    broker.master.world.run()
    plan = source.plans({KEY: 0}, 8)[0]
    broker.log.delete_records(broker.master.partition, Offset(plan[0].end_offset))
    broker.master.retain()
    with pytest.raises(ReadFailed):
        broker.run(source.build(plan))


def test_nothing_is_planned_behind_the_begin_of_an_open_transaction() -> None:
    broker = Broker()
    source = broker.looked()
    assert source.waiting_bytes > 0
    transactions: Any = SimpleNamespace(first_unstable=lambda *_: SimpleNamespace(offset=Offset(1)))
    broker.log.transactions = transactions
    assert source.waiting_bytes == 0
    assert source.plans({KEY: 0}, 8) == ()
    broker.master.world.run()
    assert source.plans({KEY: 0}, 8) == ()


def test_what_this_mastership_appends_is_of_its_epoch(broker: Broker) -> None:
    """The tier has it soon; read anew, it must not be cut."""
    log = broker.log
    log.begin_epoch(LeaderEpoch(log.leader_epoch + 1))
    broker.master.world.run()
    source, end = broker.looked(), broker.master.partition.log_end_offset
    before = source.own(KEY)
    assert before.log_end == end
    assert before.epochs[-1][0] < log.leader_epoch
    broker.append()
    after = source.own(KEY)
    assert after.epochs == (*before.epochs, (log.leader_epoch, end))
    run = Clerk.run(
        ObjectName(CLUSTER, 1, LeaderEpoch(int(log.leader_epoch)), 1), KEY, end, end + 1
    )
    manifest = Manifest()
    manifest.apply(EventGroup(Kind.COPY, KEY, (run,)))
    assert agreed_end(manifest.snapshot(), after) == end + 1


def test_a_log_start_counts_when_a_snapshot_has_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = broker.looked()
    asked: list[Any] = []
    checkpoint = broker.log.checkpoint
    monkeypatch.setattr(broker.log, "checkpoint", asked.append)
    broker.log.delete_records(broker.master.partition, Offset(7))
    broker.run(source.look())
    assert source.own(KEY).log_start == 0
    asked.pop()(False)
    assert source.own(KEY).log_start == 0
    monkeypatch.setattr(broker.log, "checkpoint", checkpoint)
    broker.run(source.look())
    broker.master.world.run()
    assert source.own(KEY).log_start == 7


def test_what_a_deleted_topic_has_is_below_the_log_start(broker: Broker) -> None:
    broker.stored(KEY, 0, 5)
    broker.stored(OTHER, 0, 9)
    source = broker.looked()
    assert source.own(KEY).log_start == 0
    broker.metadata.topics_by_id.clear()
    broker.partitions.by_id.clear()
    assert source.is_wanted
    assert set(source.partitions()) == {KEY, OTHER}
    assert source.own(KEY) == OwnLog((), 5, NEVER)
    assert source.own(OTHER) == OwnLog((), 9, NEVER)


def test_nothing_new_is_copied_of_a_topic_whose_copying_is_disabled(broker: Broker) -> None:
    broker.stored(KEY, 0, 5)
    source = broker.looked()
    source.plans({KEY: 5}, 8)
    broker.master.world.run()
    broker.set_configs({**COPIED, "remote.log.copy.disable": "true"})
    assert source.plans({KEY: 5}, 8) == (), "what was planned before is not copied either"
    broker.master.world.run()
    assert source.plans({KEY: 5}, 8) == ()
    assert source.waiting_bytes == 0
    assert KEY in source.partitions(), "what is there is still looked after"
    assert not source.own(KEY).is_emptied


def test_a_topic_that_is_switched_off_has_nothing_in_the_tier_and_the_copier_hears_of_it(
    broker: Broker,
) -> None:
    broker.stored(KEY, 0, 5)
    source = broker.looked()
    assert not source.own(KEY).is_emptied
    before = broker.news
    broker.set_configs({"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})
    broker.run(source.look())
    assert broker.news > before
    assert source.is_wanted
    assert KEY in source.partitions()
    assert source.own(KEY).is_emptied


def test_what_was_given_up_before_the_topic_was_on_again_is_told_until_the_tier_knows(
    broker: Broker,
) -> None:
    broker.stored(KEY, 0, 5)
    source = broker.looked()
    assert source.own(KEY).give_ups == 0
    before = broker.news
    broker.give_ups[KEY.topic_id] = 2
    broker.run(source.look())
    assert broker.news > before
    assert source.own(KEY).give_ups == 2
    assert broker.metadata_of_tier is not None
    manifest = Manifest()
    manifest.apply(EventGroup(Kind.GIVE_UP, KEY, give_ups=2))
    for one in broker.log.partitions:
        broker.metadata_of_tier.restore(one, manifest)
    told = broker.news
    broker.run(source.look())
    assert broker.news == told


def test_a_topic_that_seems_to_be_off_is_not_emptied_where_give_ups_are_counted(
    broker: Broker,
) -> None:
    """It may be on again since, and its master may have freed disks of what it copied then."""
    broker.stored(KEY, 0, 5)
    source = broker.looked()
    broker.give_ups[KEY.topic_id] = 1
    broker.set_configs({"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})
    assert not source.own(KEY).is_emptied
    assert source.own(KEY).give_ups == 1


def test_what_comes_into_the_tier_anew_begins_no_earlier_than_the_log(broker: Broker) -> None:
    source = broker.looked()
    broker.log.delete_records(broker.master.partition, Offset(7))
    source.plans({KEY: 0}, 8)
    broker.master.world.run()
    assert source.plans({KEY: 0}, 8)[0][0].first_offset == 5, "that of the batch with offset 7"
    broker.stored(KEY, 0, 3)  # a run that is there is followed, wherever the log begins
    source.plans({KEY: 3}, 8)
    broker.master.world.run()
    assert source.plans({KEY: 3}, 8)[0][0].first_offset == 3


def test_a_topic_that_the_image_may_not_know_yet_is_left_alone(broker: Broker) -> None:
    broker.is_deleted = False
    gone = partition_number(0, topic=2)
    broker.stored(gone, 0, 9)
    source = broker.looked()
    assert gone not in source.partitions()
    own = source.own(gone)
    assert own.log_start == 0
    assert agreed_end(_snapshot_of(broker, gone), own) == 9


def _snapshot_of(broker: Broker, key: TopicPartition) -> Any:
    assert broker.metadata_of_tier is not None
    return broker.metadata_of_tier.manifest(key).snapshot()


def test_runs_may_be_merged_of_what_is_copied_on_either_side_of_the_local_start(
    broker: Broker,
) -> None:
    assert broker.source().mergeable_from(KEY) is None, "it was not looked at yet"
    source = broker.looked()
    assert source.mergeable_from(KEY) == 0
    broker.log.delete_records(broker.log.partitions[KEY], Offset(3))
    assert source.mergeable_from(KEY) == 3


def test_nothing_is_merged_of_what_is_not_copied_any_more(broker: Broker) -> None:
    source = broker.looked()
    broker.set_configs({**COPIED, "remote.log.copy.disable": "true"})
    assert source.mergeable_from(KEY) is None
    broker.set_configs(COPIED)
    broker.topic.settings = SimpleNamespace(is_compacted=True)
    assert source.mergeable_from(KEY) is None
    del broker.partitions.by_id[KEY.topic_id]
    assert source.mergeable_from(KEY) is None


def _manifest_of(broker: Broker) -> Manifest:
    assert broker.metadata_of_tier is not None
    return broker.metadata_of_tier.manifest(KEY)


def _deleted_below(broker: Broker, source: TierSource, offset: int) -> None:
    """Delete records, and have that durable."""
    broker.log.delete_records(broker.master.partition, Offset(offset))
    broker.run(source.look())
    broker.master.world.run()


def test_local_limits_count_once_the_tier_has_let_go_of_what_was_deleted_before(
    broker: Broker,
) -> None:
    broker.stored(KEY, 0, 9)
    source, told = broker.looked(), lambda _: _manifest_of(broker)
    source.note_limits(told)
    _deleted_below(broker, source, 9)
    broker.topic.local = LIMITS
    manifest = _manifest_of(broker)
    second = Clerk.run(ObjectName(CLUSTER, 1, LeaderEpoch(1), 2), KEY, 9, 12)
    manifest.apply(EventGroup(Kind.COPY, KEY, (second,)))
    source.note_limits(told)
    assert KEY not in source.limited(), "its disks are not freed meanwhile"
    assert source.own(KEY).log_start == 9, "the tier is to let go of it"
    known = source.known(KEY, manifest)
    assert (list(known.runs), known.start_offset, known.end_offset) == ([second], 9, 12)
    source.note_limits(lambda _: None)
    assert KEY not in source.limited(), "nobody knows yet what the tier has"
    manifest.apply(EventGroup(Kind.DELETE, KEY, offset=9))
    assert broker.metadata_of_tier is not None
    broker.metadata_of_tier.restore(KEY, manifest)
    source.note_limits(told)
    assert KEY in source.limited()
    assert source.known(KEY, manifest) is manifest
    _deleted_below(broker, source, 12)
    source.note_limits(told)
    assert KEY in source.limited(), "the disks were freed: the tier's start has a life of its own"
    assert source.own(KEY).log_start == 0


def test_what_the_tier_has_below_a_log_counts_where_the_limits_were_there_first(
    broker: Broker,
) -> None:
    broker.stored(KEY, 0, 9)
    broker.topic.local = LIMITS
    source = broker.looked()
    _deleted_below(broker, source, 9)
    source.note_limits(lambda _: _manifest_of(broker))
    assert KEY in source.limited()
    assert source.own(KEY).log_start == 0
    assert source.known(KEY, _manifest_of(broker)).start_offset == 0


def test_local_limits_count_at_once_where_the_tier_has_nothing_below_the_log(
    broker: Broker,
) -> None:
    source = broker.looked()
    source.note_limits(lambda _: _manifest_of(broker))
    _deleted_below(broker, source, 7)
    broker.topic.local = LIMITS
    source.note_limits(lambda _: _manifest_of(broker))
    assert KEY in source.limited(), "it has nothing at all"
    broker.topic.local = None
    broker.stored(KEY, 0, 9)
    source.note_limits(lambda _: _manifest_of(broker))
    known = source.known(KEY, _manifest_of(broker))
    assert known.start_offset == 0, "who has no limits is not read from the tier"
