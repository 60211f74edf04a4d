"""A wiped member copies its sets at a rate that a stock client has set, beside producers."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from harness.cluster import ClusterProcess
from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from penstock.base.token_bucket import BURST_US
from penstock.replica.served_base import PACED_BYTES_MAX
from reliability.faults.trials import QUICK_SESSIONS
from tests.integration.clients import PATIENT, check_all_acked, send
from tests.integration.test_dynamic_configs import alter, comes_to, own
from tests.integration.test_housekeeper import metric

pytestmark = pytest.mark.process

TOPIC = "copied"
KEY = "leader.replication.throttled.rate"
RATE = 1_000_000
RECORD = bytes(range(256)) * 250
RECORDS = 64
"""Four seconds of a copy."""
DYNAMIC_BROKER = 2


class Copies:
    """What each of some brokers has sent to members out of step since now, against the clock."""

    def __init__(self, nodes: list[NodeProcess], copies: int) -> None:
        self._nodes, self._copies = nodes, copies
        self._before = self._sent()
        self._began = time.monotonic()

    def _sent(self) -> list[float]:
        return [metric(node, "penstock_replication_copied_bytes_total") for node in self._nodes]

    def check(self) -> float:
        """Check that no broker has sent more than the rate allows; return the sum."""
        sent = [now - before for now, before in zip(self._sent(), self._before, strict=True)]
        seconds = time.monotonic() - self._began
        at_most = RATE * (seconds + BURST_US / 1e6) + self._copies * PACED_BYTES_MAX
        assert max(sent) <= at_most, f"{sent} after {seconds:.3f} s"
        return sum(sent)


def set_of_topic(cluster: ClusterProcess) -> dict[str, Any]:
    (found,) = [one for one in cluster.status()["sets"] if one["partition_count"]]
    return dict(found)


def test_a_wiped_member_comes_in_step_at_the_rate_while_producers_go_on(tmp_path: Path) -> None:
    values = [b"%8d" % number + RECORD for number in range(RECORDS)]
    with ClusterProcess(tmp_path, controllers=1, settings=QUICK_SESSIONS) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 1)
        check_all_acked(send(cluster.bootstrap, TOPIC, values, settings=PATIENT), values)
        found = set_of_topic(cluster)
        wiped = next(one for one in cluster.nodes if one != found["master"])
        for one in cluster.nodes:
            alter(cluster.bootstrap, own(ResourceType.BROKER, str(one), (KEY, str(RATE))))
            assert comes_to(cluster, one, (str(RATE), DYNAMIC_BROKER), KEY)
        cluster.nodes[wiped].kill()
        assert wait_until(
            lambda: all(wiped not in one["sync_state_set"] for one in cluster.status()["sets"]),
            UNTIL_SECONDS,
        )
        for log in cluster.nodes[wiped].data.glob("set-*"):
            shutil.rmtree(log)

        living = [node for one, node in cluster.nodes.items() if one != wiped]
        copies = Copies(living, len(cluster.status()["sets"]))
        more = 0
        cluster.nodes[wiped].launch()
        began = time.monotonic()
        while wiped not in set_of_topic(cluster)["sync_state_set"]:
            assert time.monotonic() - began < UNTIL_SECONDS, cluster.log_tails()
            value = b"beside %d" % more
            check_all_acked(send(cluster.bootstrap, TOPIC, [value], settings=PATIENT), [value])
            more += 1
            copies.check()
        # The member comes in step between two looks: only a look after that sees the last bytes.
        copied = copies.check()
        assert copied >= RECORDS * len(RECORD)
        assert more > 1
        names = ("copy_bytes_per_second", "copy_rests_total", "copies_resting")
        told = [[metric(node, f"penstock_replication_{name}") for name in names] for node in living]
        assert {rate for rate, *_ in told} == {RATE}
        assert max(rests for _, rests, _ in told) > 0
