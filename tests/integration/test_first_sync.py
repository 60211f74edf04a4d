"""`replication.first_sync` in real processes: from where a new slave begins, and when it counts."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from harness.workload import create_topic, read_all
from reliability.faults.trials import QUICK_SESSIONS
from tests.integration.clients import PATIENT, acked, check_all_acked, send, send_all
from tests.integration.layouts import SMALL, WAIT_SECONDS, Layout, member_of, run_penstock

pytestmark = pytest.mark.process

TOPIC = "grown"
SEGMENT_BYTES = 65_536
RECORD = b"x" * 8_000
RECORDS = 40
SMALL_BATCHES = {**PATIENT, "batch.size": 2 * len(RECORD)}
"""A batch must fit into a segment, and waits while the disk makes the next one."""


def small_segments(first_sync: str) -> dict[str, dict[str, object]]:
    """Settings with which some records fill several segments."""
    return {
        "log": {
            "segment_bytes": SEGMENT_BYTES,
            "first_segment_bytes": SEGMENT_BYTES,
            "checkpoint_interval_bytes": SEGMENT_BYTES,
            "checkpoint_interval_ms": 100,
        },
        "broker": {"housekeeping_interval_ms": 200},
        "replication": {"first_sync": first_sync},
    }


@contextlib.contextmanager
def two_nodes(directory: Path, first_sync: str, *, replicas: int) -> Iterator[Layout]:
    """Two nodes with small segments, the first of them the controller."""
    settings = small_segments(first_sync)
    with Layout(directory, SMALL) as layout:
        for peer_id in (1, 2):
            layout.add(peer_id, voters=(1,), replicas=replicas, settings=settings).launch()
        for node in layout.nodes.values():
            node.wait_ready()
        yield layout


def set_of_topic(layout: Layout) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        one for one in layout.status(via=1)["sets"] if one["partition_count"]
    ]
    assert len(found) == 1
    return found[0]


def start_of(layout: Layout, set_id: int, broker_id: int) -> int:
    """Where that member's log begins; -1 while it has reported nothing."""
    member = member_of(layout.replica_set(set_id, via=1), broker_id)
    return int(member["log_start_position"]) if member["role"] else -1


def grown(layout: Layout) -> tuple[int, int, int]:
    """Write some segments to a set of one and give it another member.

    Returns the set, its master and the new member, which holds as much as the master by then.
    """
    create_topic(layout.bootstrap, TOPIC, 1)
    sent = send(layout.bootstrap, TOPIC, [RECORD] * RECORDS, settings=SMALL_BATCHES)
    assert len(acked(sent)) == RECORDS
    before = set_of_topic(layout)
    set_id, master = before["replica_set_id"], before["master"]
    new = 3 - master
    layout.do("set", "add", str(set_id), str(new), via=1)

    def holds_as_much(one: dict[str, Any]) -> bool:
        ends = {member["log_end_position"] for member in one["members"]}
        return len(one["members"]) == 2 and len(ends) == 1 and min(ends) > SEGMENT_BYTES

    layout.wait(set_id, holds_as_much, via=1)
    return set_id, master, new


def delete_all_records(layout: Layout) -> None:
    """Move the log start behind what was written, so that the master's older segments go."""
    admin = AdminClient({"bootstrap.servers": layout.bootstrap})
    (done,) = admin.delete_records([TopicPartition(TOPIC, 0, RECORDS)]).values()
    assert done.result(WAIT_SECONDS).low_watermark == RECORDS


def test_a_new_slave_copies_everything_where_it_is_told_to(tmp_path: Path) -> None:
    with two_nodes(tmp_path, "everything", replicas=1) as layout:
        set_id, master, new = grown(layout)
        assert start_of(layout, set_id, new) == start_of(layout, set_id, master) == 0
        layout.wait_in_step(set_id, [1, 2], via=1)


def test_a_new_slave_begins_with_the_newest_segment_and_counts_when_its_master_keeps_no_more(
    tmp_path: Path,
) -> None:
    with two_nodes(tmp_path, "newest-segment", replicas=1) as layout:
        set_id, master, new = grown(layout)
        begun = start_of(layout, set_id, new)
        assert begun >= SEGMENT_BYTES
        assert layout.replica_set(set_id, via=1)["sync_state_set"] == [master]
        delete_all_records(layout)
        layout.wait_in_step(set_id, [1, 2], via=1)

        def begins_there(one: dict[str, Any]) -> bool:
            return int(member_of(one, master)["log_start_position"]) >= begun

        layout.wait(set_id, begins_there, via=1)  # members report it from time to time
        send_all(layout.bootstrap, TOPIC, [b"on both"])


def test_slaves_of_sets_that_nobody_has_written_to_get_in_step_and_take_over(
    tmp_path: Path,
) -> None:
    with two_nodes(tmp_path, "newest-segment", replicas=2) as layout:
        assert wait_until(lambda: _are_all_in_step(layout), WAIT_SECONDS), layout.tails()
        create_topic(layout.bootstrap, TOPIC, 1)
        send_all(layout.bootstrap, TOPIC, [b"before"])
        found = set_of_topic(layout)
        other = 3 - found["master"]
        layout.do("set", "transfer", str(found["replica_set_id"]), "--to", str(other), via=1)
        send_all(layout.bootstrap, TOPIC, [b"after"])


def _are_all_in_step(layout: Layout) -> bool:
    sets = layout.status(via=1)["sets"]
    return bool(sets) and all(replica_set["sync_state_set"] == [1, 2] for replica_set in sets)


def test_a_wiped_member_that_counts_at_once_leads_with_all_records(tmp_path: Path) -> None:
    """Under `quorum` it may be elected for the end of its log: a part of it would lose the rest."""
    values = [b"%8d" % number + RECORD for number in range(RECORDS)]
    settings = small_segments("newest-segment")
    settings |= {name: settings.get(name, {}) | more for name, more in QUICK_SESSIONS.items()}
    with ClusterProcess(tmp_path, controllers=1, settings=settings) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 1)
        (found,) = [one for one in cluster.status()["sets"] if one["partition_count"]]
        set_id, preferred = found["replica_set_id"], found["members"][0]["broker_id"]
        config = str(cluster.nodes[preferred].config)
        code, said = run_penstock("set", "policy", str(set_id), "quorum", "--config", config)
        assert code == 0, said
        check_all_acked(send(cluster.bootstrap, TOPIC, values, settings=SMALL_BATCHES), values)

        def now() -> dict[str, Any]:
            return next(one for one in cluster.status()["sets"] if one["replica_set_id"] == set_id)

        def comes(holds: Callable[[dict[str, Any]], bool]) -> None:
            assert wait_until(lambda: holds(now()), WAIT_SECONDS), cluster.log_tails()

        cluster.nodes[preferred].kill()
        comes(lambda one: preferred not in one["sync_state_set"] and one["master"] > 0)
        for log in cluster.nodes[preferred].data.glob("set-*"):
            shutil.rmtree(log)
        cluster.nodes[preferred].launch()
        comes(lambda one: preferred in one["sync_state_set"])
        master = now()["master"]
        cluster.nodes[master].kill()
        comes(lambda one: one["master"] not in {-1, master})
        polls = read_all(cluster.bootstrap, TOPIC, 1)
        assert [offset for poll in polls for offset, _ in poll.records] == list(range(RECORDS))
