"""The driver while leadership comes and goes, and in processes that never lead."""

import asyncio

import pytest

from harness.waiting import until
from penstock.base.ids import BrokerId, ControllerEpoch
from penstock.controller.commands.command import (
    AllocateProducerIds,
    ChangeFeatureLevel,
    CreateCluster,
    CreateTopics,
    NewTopic,
    RegisterBroker,
)
from penstock.controller.errors import LeadershipLost, NotActiveController
from penstock.controller.metadata.levels import METADATA, TRANSACTIONS
from penstock.controller.metadata.record_codec import decode_records, encode_records
from penstock.controller.metadata.records import FeatureLevelChanged
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.controller.replicated_log import MachineIndex
from penstock.runtime.image_installing import SLICE_RECORDS
from penstock.runtime.io.clock import LoopScheduler
from tests.runtime.session_cluster import Process, on_loop
from tests.runtime.shared_log import LogGroup

ALLOCATE = AllocateProducerIds(broker_id=BrokerId(1))
REGISTER = RegisterBroker(broker_id=BrokerId(1), host="h", port=1)


def members(count: int = 2) -> tuple[LogGroup, list[Process]]:
    group = LogGroup(LoopScheduler(asyncio.get_running_loop()))
    processes = [Process(group, number) for number in range(1, count + 1)]
    for process in processes:
        process.log.on_leadership = process.driver.on_leadership
        process.driver.start()
    return group, processes


@on_loop
async def test_only_the_leaders_driver_takes_commands_and_all_replay_them() -> None:
    group, (one, two) = members()
    with pytest.raises(NotActiveController):
        await one.driver.submit(CreateCluster(cluster_id="c"))
    group.lead(1)
    assert await one.driver.submit(CreateCluster(cluster_id="c")) == "c"
    with pytest.raises(NotActiveController) as refused:
        await two.driver.submit(CreateCluster(cluster_id="d"))
    assert refused.value.controller_id == 1
    assert one.image == two.image
    assert (one.driver.stats.proposals, two.driver.stats.proposals) == (1, 0)
    assert two.driver.stats.entries_applied == 1


@on_loop
async def test_lost_leadership_fails_the_entry_in_flight_as_open_and_the_rest_as_not_taken() -> (
    None
):
    group, (one, _) = members()
    group.lead(1)
    await one.driver.submit(REGISTER)
    group.is_open = False
    tasks = [asyncio.create_task(one.driver.submit(ALLOCATE)) for _ in range(3)]
    await until(lambda: len(group.waiting) == 1)
    group.lead(2)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [LeadershipLost, NotActiveController, NotActiveController]
    assert one.driver.stats.proposals_failed == 1


@on_loop
async def test_entry_that_the_next_leader_commits_is_in_the_image_of_both() -> None:
    group, (one, two) = members()
    group.lead(1)
    await one.driver.submit(REGISTER)
    group.is_open = False
    task = asyncio.create_task(one.driver.submit(ALLOCATE))
    await until(lambda: len(group.waiting) == 1)
    group.lead(2, commit_waiting=True)
    with pytest.raises(LeadershipLost):
        await task
    assert one.image == two.image
    group.open()
    block = await two.driver.submit(ALLOCATE)
    assert block.first_producer_id == 1_000, "the block of the lost answer is gone"


@on_loop
async def test_driver_that_leads_again_does_not_wait_for_its_former_entries() -> None:
    group, (one, _) = members()
    group.lead(1)
    await one.driver.submit(REGISTER)
    group.is_open = False
    lost = asyncio.create_task(one.driver.submit(ALLOCATE))
    await until(lambda: len(group.waiting) == 1)
    group.lead(2)
    group.lead(1)
    group.open()
    again = asyncio.create_task(one.driver.submit(ALLOCATE))
    with pytest.raises(LeadershipLost):
        await lost
    assert (await again).first_producer_id == 0
    assert one.driver.stats.leaderships == 2


@on_loop
async def test_snapshot_replaces_the_image_of_a_process_that_was_far_behind() -> None:
    group, (one, two) = members()
    group.lead(1)
    await one.driver.submit(REGISTER)
    two.log.is_cut_off = True
    for _ in range(3):
        await one.driver.submit(ALLOCATE)
    group.members[1].trim(MachineIndex(4), encode_records(snapshot_records(one.image)))
    assert one.image != two.image
    applied_when_told: list[int] = []
    two.image.subscribe(lambda _: applied_when_told.append(two.log.applied_index))
    two.log.heal()
    assert one.image == two.image
    assert applied_when_told == [4], "an image is shown with its own index"
    assert two.driver.stats.snapshots_installed == 1
    assert two.driver.applied_index == 4
    await one.driver.submit(ALLOCATE)
    assert one.image == two.image


@on_loop
async def test_process_that_ends_while_it_installs_a_snapshot_keeps_its_image() -> None:
    group, (one, two) = members()
    group.lead(1)
    await one.driver.submit(REGISTER)
    two.log.is_cut_off = True
    await one.driver.submit(ALLOCATE)
    for count in range(4):
        names = [f"topic-{count}-{number}" for number in range(SLICE_RECORDS)]
        await one.driver.submit(CreateTopics(topics=tuple(NewTopic(name=name) for name in names)))
    before = snapshot_records(two.image)
    group.members[1].trim(MachineIndex(6), encode_records(snapshot_records(one.image)))
    two.log.heal()
    two.log.close()
    for _ in range(20):
        await asyncio.sleep(0)
    assert snapshot_records(two.image) == before
    assert two.driver.stats.snapshots_installed == 0
    assert two.driver.applied_index == 1


@on_loop
async def test_caller_waits_until_an_entry_is_in_the_image() -> None:
    group, (one, two) = members()
    group.lead(1)
    two.log.is_cut_off = True
    await one.driver.submit(REGISTER)
    assert await one.driver.wait_until_applied(MachineIndex(1), 1)
    assert not await two.driver.wait_until_applied(MachineIndex(1), 5), "bounded"
    waiting = [
        asyncio.create_task(two.driver.wait_until_applied(MachineIndex(number), 10_000))
        for number in (2, 1, 3)
    ]
    gone = asyncio.create_task(two.driver.wait_until_applied(MachineIndex(2), 10_000))
    await asyncio.sleep(0)
    gone.cancel()
    await one.driver.submit(ALLOCATE)
    two.log.heal()
    assert await waiting[0]
    assert await waiting[1]
    assert not waiting[2].done()
    await one.driver.submit(ALLOCATE)
    assert await waiting[2]


@on_loop
async def test_snapshot_wakes_those_who_wait_for_entries_that_it_stands_for() -> None:
    group, (one, two) = members()
    group.lead(1)
    two.log.is_cut_off = True
    for command in (REGISTER, ALLOCATE):
        await one.driver.submit(command)
    group.members[1].trim(MachineIndex(2), encode_records(snapshot_records(one.image)))
    waiting = asyncio.create_task(two.driver.wait_until_applied(MachineIndex(2), 10_000))
    await asyncio.sleep(0)
    two.log.heal()
    assert await waiting


@on_loop
async def test_a_command_that_came_in_an_earlier_leadership_is_not_proposed_in_a_later_one() -> (
    None
):
    """It may rest on promises that the controller in between has released."""
    group, (one, _) = members()
    group.lead(1)
    await one.driver.submit(REGISTER)
    group.is_open = False
    tasks = [asyncio.create_task(one.driver.submit(ALLOCATE)) for _ in range(2)]
    await until(lambda: len(group.waiting) == 1)
    before = one.driver.stats.proposals
    group.lead(2)
    group.lead(1)
    group.is_open = True
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [LeadershipLost, NotActiveController]
    assert one.driver.stats.proposals == before
    term = one.driver.leadership.term
    with pytest.raises(NotActiveController):
        await one.driver.submit(ALLOCATE, decided_in=ControllerEpoch(term - 1))
    await one.driver.submit(ALLOCATE, decided_in=term)


@on_loop
async def test_a_lowered_level_leaves_nothing_behind_that_an_earlier_release_can_not_read() -> None:
    group, (one, two) = members()
    group.lead(1)
    await one.driver.submit(CreateCluster(cluster_id="c"))
    assert FeatureLevelChanged in [type(record) for record in decode_records(group.entries[0])]
    lower = ChangeFeatureLevel(feature=METADATA, level=1, is_lowering=True)
    assert await one.driver.submit(lower) == 1
    assert group.forgotten_index == group.last_index == 2
    assert FeatureLevelChanged not in [type(record) for record in decode_records(group.snapshot)]
    await one.driver.submit(CreateCluster(cluster_id="the same"))
    await one.driver.submit(REGISTER)
    assert group.forgotten_index == 2, "later entries are trimmed as ever"
    assert two.image == one.image


@on_loop
async def test_a_level_that_was_lowered_while_a_process_was_down_is_forgotten_at_its_start() -> (
    None
):
    group, (one, _) = members()
    group.lead(1)
    await one.driver.submit(CreateCluster(cluster_id="c"))
    level = one.image.metadata_level
    epoch = one.image.features_epoch + 1
    lower = [
        FeatureLevelChanged(feature=feature, level=1, epoch=epoch)
        for feature in (TRANSACTIONS, METADATA)
    ]
    group.entries.append(encode_records(lower, level))
    late = Process(group, 3)
    late.driver.start()
    assert late.image.metadata_level == 1
    assert group.forgotten_index == 2
