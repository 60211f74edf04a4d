"""The second level of real members: a new one copies it, whenever it is killed; damage is repaired.

A topic that is kept for ever has most of its records in extent files. What is read of it at the end
comes from the member that is tested, which leads by then.
"""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic, read_all
from tests.integration import test_compaction as compaction
from tests.integration.clients import PATIENT, check_all_acked, send
from tests.integration.layouts import Layout, member_of
from tests.integration.test_housekeeper import metric

pytestmark = pytest.mark.process

TOPIC = "kept"
SEGMENT = 256 << 10
SETTINGS: dict[str, dict[str, object]] = {
    "log": {
        "segment_bytes": SEGMENT,
        "first_segment_bytes": SEGMENT,
        "staging_bytes": 128 << 10,
        "checkpoint_interval_ms": 0,
        "recycle_count": 0,
        "reserve_bytes": 0,
        "level0_bytes": 0,
        "scrub_bytes_per_second": 64 << 20,
        "scrub_interval_ms": 300,
    },
    "broker": {"housekeeping_interval_ms": 300},
}
SMALL_BATCHES = {**PATIENT, "batch.size": 50_000}
VALUE_BYTES = 2_000


class Kept:
    """A cluster of two, and what was written to its topic."""

    def __init__(self, directory: Path, *, replicas: int) -> None:
        self.layout = Layout(directory)
        for peer_id in (1, 2):
            node = self.layout.add(peer_id, voters=(1,), replicas=replicas, settings=SETTINGS)
            node.launch()
        for node in self.layout.nodes.values():
            node.wait_ready()
        create_topic(self.layout.bootstrap, TOPIC, 1, {"retention.ms": "-1"})
        self.count = 0
        (self.set_id,) = [
            one["replica_set_id"]
            for one in self.layout.status(via=1)["sets"]
            if one["partition_count"]
        ]

    @property
    def master(self) -> int:
        return int(self.layout.replica_set(self.set_id, via=1)["master"])

    def produce(self, count: int) -> None:
        values = [
            b"%d." % (self.count + number) + os.urandom(VALUE_BYTES) for number in range(count)
        ]
        answers = send(self.layout.bootstrap, TOPIC, values, settings=SMALL_BATCHES)
        check_all_acked(answers, values)
        self.count += count

    def directory(self, broker_id: int) -> Path:
        return self.layout.nodes[broker_id].data / f"set-{self.set_id}"

    def extent_files(self, broker_id: int) -> list[Path]:
        return sorted((self.directory(broker_id) / "second").glob("*.extents"))

    def grow(self, files: int, brokers: tuple[int, ...], *, count: int = 600) -> None:
        """Write until these members have so many extent files, and few shared ones."""
        for wanted in range(1, files + 1):
            self.produce(count)
            for broker_id in brokers:
                has_moved = partial(self._has_moved, broker_id, wanted)
                assert wait_until(has_moved, UNTIL_SECONDS), self.layout.tails()

    def _has_moved(self, broker_id: int, files: int) -> bool:
        shared = list((self.directory(broker_id) / "log").glob("*.log"))
        return len(self.extent_files(broker_id)) >= files and len(shared) <= 4

    def lead(self, broker_id: int) -> None:
        """Have a member lead, which is in step then."""
        layout = self.layout
        layout.wait_in_step(self.set_id, [1, 2], via=1)
        if self.master != broker_id:
            layout.do("set", "transfer", str(self.set_id), "--to", str(broker_id), via=1)
            layout.wait_for_master(self.set_id, broker_id, via=1)

    def is_whole(self) -> bool:
        polls = read_all(self.layout.bootstrap, TOPIC, 1)
        found = [str(value) for poll in polls for _, value in poll.records]
        return found == [str(number) for number in range(self.count)]

    def metric(self, broker_id: int, name: str) -> float:
        return metric(self.layout.nodes[broker_id], name)


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Callable[[int], Kept]]:
    made: list[Kept] = []

    def make(replicas: int) -> Kept:
        made.append(Kept(tmp_path, replicas=replicas))
        return made[-1]

    yield make
    for kept in made:
        for node in kept.layout.nodes.values():
            node.kill()


def _is_gone(path: Path) -> bool:
    return not path.exists()


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 8]))


def test_flipped_bits_are_repaired_from_the_other_member_whoever_leads(
    clusters: Callable[[int], Kept],
) -> None:
    kept = clusters(2)
    kept.grow(2, (1, 2))
    for broker_id in (kept.master, 3 - kept.master):
        damaged = kept.extent_files(broker_id)[0]
        flip(damaged, damaged.stat().st_size // 3)

        def is_repaired(broker_id: int = broker_id) -> bool:
            return kept.metric(broker_id, "penstock_second_level_damage_repaired_total") > 0

        assert wait_until(is_repaired, UNTIL_SECONDS), kept.layout.tails()
        assert wait_until(partial(_is_gone, damaged), UNTIL_SECONDS)
        assert kept.metric(broker_id, "penstock_second_level_damaged_files") == 0
        assert kept.metric(broker_id, "penstock_second_level_damage_fetched_bytes_total") > 0
        kept.lead(broker_id)
        assert kept.is_whole()
        node = kept.layout.nodes[broker_id]
        node.restart()
        kept.lead(broker_id)
        assert kept.is_whole()


def test_a_damaged_range_that_was_cleaned_is_taken_from_the_other_member(
    clusters: Callable[[int], Kept],
) -> None:
    kept = clusters(2)
    layout = kept.layout
    create_topic(layout.bootstrap, compaction.TOPIC, 1, compaction.CONFIG)
    work = compaction.Work(layout.nodes[1])
    for _ in range(3):
        work.update(2_000)
        work.transaction(50, is_commit=False)

    def has_cleaned(broker_id: int) -> bool:
        has_passed = kept.metric(broker_id, "penstock_cleaner_passes_total") > 0
        return has_passed and kept.metric(broker_id, "penstock_cleaner_dirty_bytes") == 0

    def extent_files(broker_id: int) -> list[Path]:
        return list(layout.nodes[broker_id].data.glob("set-*/second/*.extents"))

    for broker_id in (1, 2):
        assert wait_until(partial(has_cleaned, broker_id), UNTIL_SECONDS), layout.tails()
        for damaged in extent_files(broker_id):
            flip(damaged, damaged.stat().st_size // 3)

        def is_repaired(broker_id: int = broker_id) -> bool:
            return kept.metric(broker_id, "penstock_second_level_damage_ranges_total") > 0

        assert wait_until(is_repaired, UNTIL_SECONDS), layout.tails()
        assert wait_until(partial(has_no_damage, kept, broker_id), UNTIL_SECONDS), layout.tails()
        kept.lead(broker_id)
        assert work.read()[0] == work.values
    assert wait_until(partial(has_cleaned, 1), UNTIL_SECONDS), layout.tails()
    work.update(500)
    assert work.read()[0] == work.values


def has_no_damage(kept: Kept, broker_id: int) -> bool:
    return kept.metric(broker_id, "penstock_second_level_damaged_files") == 0


@pytest.mark.parametrize("name", ["extents", "manifest"])
def test_a_member_that_can_not_start_for_damage_copies_everything_again(
    clusters: Callable[[int], Kept], name: str
) -> None:
    kept = clusters(2)
    kept.grow(2, (1, 2))
    kept.lead(1)
    node = kept.layout.nodes[2]
    node.kill()
    directory = kept.directory(2) / "second"
    flip(kept.extent_files(2)[0] if name == "extents" else directory / "manifest", 9)
    node.start()
    kept.lead(2)
    assert kept.is_whole()
    assert kept.metric(2, "penstock_log_damage_repaired_total") == 1, node.log_tail(100)


def parts_of(directory: Path) -> dict[str, int]:
    """Return the files of a copy that is under way, and their sizes."""
    return {
        f"{path.parent.name}/{path.name}": path.stat().st_size
        for part in ("log", "second")
        for path in (directory / "install" / part).glob("*.*")
        if path.exists()
    }


def test_a_new_member_that_is_killed_while_it_copies_has_everything_in_the_end(
    clusters: Callable[[int], Kept],
) -> None:
    kept = clusters(1)
    old = kept.master
    new = 3 - old
    kept.grow(3, (old,), count=4_000)
    layout, node = kept.layout, kept.layout.nodes[new]
    layout.do("set", "add", str(kept.set_id), str(new), via=1)
    stages: list[Callable[[dict[str, int]], Any]] = [
        lambda parts: parts,
        lambda parts: any(name.startswith("second/") for name in parts),
        lambda parts: sum(name.endswith(".extents") for name in parts) >= 1,
        lambda parts: sum(name.endswith(".extents") for name in parts) >= 2,
    ]
    killed = 0
    for is_there in stages:
        if _seen(kept.directory(new), is_there):
            node.kill()
            killed += 1
            node.start()
    if not killed:  # the copy was faster than the looks at it
        node.kill()
        node.start()
    kept.lead(new)
    assert kept.is_whole()
    assert len(kept.extent_files(new)) >= 3
    assert member_of(layout.replica_set(kept.set_id, via=1), new)["role"] == "master"
    assert not parts_of(kept.directory(new))


def _seen(directory: Path, is_there: Callable[[dict[str, int]], Any]) -> bool:
    """Wait for a moment of the copy; False if it is over before."""
    until = time.monotonic() + UNTIL_SECONDS
    while time.monotonic() < until:
        try:
            if is_there(parts_of(directory)):
                return True
        except FileNotFoundError:
            continue
        if (directory / "second" / "manifest").exists():
            return False
    return False
