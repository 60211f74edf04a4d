"""Masters that copy into an object store are killed while they do, and others go on.

A round of uploads is several objects, which are committed together at its end. A master is killed
when the first of them is in the store: some are put then, and nobody has noted them.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic, read_all
from tests.integration.clients import check_all_acked, send
from tests.integration.layouts import SMALL, Layout
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import SMALL_BATCHES, TOPIC, Directory, settings

pytestmark = pytest.mark.process

VALUE_BYTES = 20_000
"""A block has some 50 of them, and an object one block."""
COUNT = 400
KILLS = 3


class Copied:
    """Two members of one set, and what was written to its topic."""

    def __init__(self, directory: Path, **configs: str) -> None:
        self.store = Directory(directory / "store")
        self.layout = Layout(directory, SMALL)
        for peer_id in (1, 2, 3):
            own = self.settings_of(peer_id)
            node = self.layout.add(peer_id, voters=(1, 2, 3), replicas=3, settings=own)
            node.launch()
        for node in self.layout.nodes.values():
            node.wait_ready()
        create_topic(self.layout.bootstrap, TOPIC, 1, {"remote.storage.enable": "true", **configs})
        self.values: list[bytes] = []
        self.set_id = next(
            one["replica_set_id"]
            for one in self.layout.status(via=1)["sets"]
            if one["partition_count"]
        )

    def settings_of(self, peer_id: int) -> dict[str, dict[str, object]]:
        """Return the settings of one node."""
        del peer_id
        return settings(self.store.url)

    def produce(self) -> None:
        first = len(self.values)
        values = [b"%d." % number + bytes(VALUE_BYTES) for number in range(first, first + COUNT)]
        answers = send(self.layout.bootstrap, TOPIC, values, settings=SMALL_BATCHES)
        check_all_acked(answers, values)
        self.values += values

    def master(self, via: int) -> int:
        return int(self.layout.replica_set(self.set_id, via=via)["master"])

    def kill_the_master_at_its_next_object(self) -> int:
        """Wait for an object that is new, and kill whoever leads; return who that was."""
        before, master = set(self.store.objects()), self.master(via=1)
        node = self.layout.nodes[master]
        deadline = time.monotonic() + UNTIL_SECONDS
        self.produce()
        while not set(self.store.objects()) - before:
            assert time.monotonic() < deadline, self.layout.tails()
            time.sleep(0.001)
        node.kill()
        return master

    def is_copied(self, end: int) -> bool:
        found = self.store.read()
        return bool(found) and found[0].end_offset >= end

    def is_clean(self) -> bool:
        """Whether all objects in the store are those that are noted as live."""
        nodes = self.layout.nodes.values()
        live = sum(metric(node, "penstock_tier_live_objects") for node in nodes)
        leaving = sum(metric(node, "penstock_tier_leaving_objects") for node in nodes)
        return not leaving and live == len(self.store.objects())


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Copied]:
    made = Copied(tmp_path)
    yield made
    for node in made.layout.nodes.values():
        node.kill()


def until(done: Callable[[], bool], copied: Copied) -> None:
    assert wait_until(done, UNTIL_SECONDS), copied.layout.tails()


def test_what_a_killed_master_had_put_of_a_topic_that_is_deleted_then_goes_from_the_store(
    copied: Copied,
) -> None:
    killed = copied.kill_the_master_at_its_next_object()
    assert copied.store.objects()
    node = copied.layout.nodes[next(one for one in (1, 2, 3) if one != killed)]
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    # librdkafka waits for the controller that it was told of first, also if that is dead.
    until(lambda: admin.list_topics(timeout=UNTIL_SECONDS).controller_id != killed, copied)
    admin.delete_topics([TOPIC])[TOPIC].result()
    until(lambda: not copied.store.objects(), copied)


def test_masters_that_are_killed_between_upload_and_commit_leave_no_gap_and_nothing_behind(
    copied: Copied,
) -> None:
    copied.produce()
    layout = copied.layout
    for _ in range(KILLS):
        killed = copied.kill_the_master_at_its_next_object()
        layout.nodes[killed].start()
        layout.wait_in_step(copied.set_id, [1, 2, 3], via=killed)
    copied.produce()
    until(copied.is_clean, copied)  # what is deleted is gone: from here on the store can be read
    until(partial(copied.is_copied, len(copied.values) - COUNT), copied)
    until(copied.is_clean, copied)
    (found,) = copied.store.read()
    assert found.start_offset == 0
    offsets = [offset for offset, _ in found.records]
    assert offsets == sorted(set(offsets))
    values = [value for _, value in found.records]
    assert values == copied.values[: len(values)]
    polls = read_all(layout.bootstrap, TOPIC, 1)
    numbers = [str(value) for poll in polls for _, value in poll.records]
    assert numbers == [str(number) for number in range(len(copied.values))]
