"""What a client sees when replicas are gone: the cells of docs/operations/acknowledgements.md.

One cluster with a controller of its own; each policy has a set whose preferred master is broker 1,
and a topic on it.
"""

import contextlib
import http.client
import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.cluster import ClusterProcess
from harness.node import NodeFailed
from harness.waiting import wait_until
from harness.workload import read_all
from tests.integration.clients import PATIENT, acked, errors, send
from tests.integration.layouts import FAST, WAIT_SECONDS, member_of, run_penstock

pytestmark = pytest.mark.process

ACKED, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS = 0, 7, 19
BOTH_SLAVES_GONE = {
    "all": ACKED,
    "all-min-2": NOT_ENOUGH_REPLICAS,
    "adaptive": ACKED,
    "adaptive-min-2": NOT_ENOUGH_REPLICAS,
    "k-of-n": REQUEST_TIMED_OUT,
    "quorum": REQUEST_TIMED_OUT,
    "async-may-lose": ACKED,
}
"""Topic -> the error that a producer with acks=all gets."""
POLICIES = {
    "adaptive": ("adaptive", "--required", "2", "--minimum", "1"),
    "adaptive-min-2": ("adaptive", "--required", "2", "--minimum", "2"),
    "k-of-n": ("k-of-n", "--required", "2"),
    "quorum": ("quorum",),
    "async-may-lose": ("async-may-lose",),
}
"""Topic -> the policy of its set, where it is not `all`."""
TOPICS = tuple(BOTH_SLAVES_GONE)
REQUEST_MS = 1500


class Policies:
    """The cluster with a set for each policy."""

    def __init__(self, cluster: ClusterProcess) -> None:
        self.cluster = cluster
        self.sets: dict[str, int] = {}
        self.acked: dict[str, list[str]] = {topic: [] for topic in TOPICS}
        self._numbers = itertools.count(1)

    def run(self, *command: str) -> tuple[int, str]:
        """Run an operator's command."""
        controller = next(iter(self.cluster.controllers.values()))
        return run_penstock(*command, "--config", str(controller.config))

    def do(self, *command: str) -> str:
        """Run a command that must succeed."""
        code, printed = self.run(*command)
        assert code == 0, printed
        return printed

    def prepare(self) -> None:
        """Make a set and a topic for each policy: a new topic goes where the fewest are."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        for _ in TOPICS:
            self.do("set", "create", "1,2,3")
        for filler in ("on-set-1", "on-set-2", "on-set-3"):
            admin.create_topics([NewTopic(filler, 1, 3)])[filler].result(WAIT_SECONDS)
        for number, topic in enumerate(TOPICS, 4):
            self.wait(number, lambda one: one["sync_state_set"] == [1, 2, 3])
            config = {"min.insync.replicas": "2" if topic == "all-min-2" else "1"}
            new = NewTopic(topic, 1, 3, config=config)
            admin.create_topics([new])[topic].result(WAIT_SECONDS)
            assert self.replica_set(number)["partition_count"] == 1
            self.sets[topic] = number
            if topic in POLICIES:
                self.do("set", "policy", str(number), *POLICIES[topic])

    def replica_set(self, set_id: int) -> dict[str, Any]:
        """Return a set of the status, empty while there is none."""
        with contextlib.suppress(NodeFailed):
            sets = self.cluster.status()["sets"]
            return next(
                replica_set for replica_set in sets if replica_set["replica_set_id"] == set_id
            )
        return {}

    def wait(self, set_id: int, holds: Any) -> None:
        """Wait until a set is as it should be."""
        found: dict[str, Any] = {}

        def is_so() -> bool:
            nonlocal found
            found = self.replica_set(set_id)
            return bool(found and holds(found))

        assert wait_until(is_so, WAIT_SECONDS), f"{found}\n{self.cluster.log_tails()}"

    def wait_for_all(self, holds: Any) -> None:
        """Wait until every policy's set is as it should be."""
        for set_id in self.sets.values():
            self.wait(set_id, holds)

    def produce_to_all(self) -> None:
        """Send a record to every topic with acks=all, as a good client; all have to be taken."""
        self._each(lambda topic: self.produce(topic, PATIENT) == ACKED or pytest.fail(topic))

    def told(self) -> dict[str, int]:
        """Send a record to every topic with acks=all, once; return topic -> error code."""
        settings = {"request.timeout.ms": REQUEST_MS}
        return dict(zip(TOPICS, self._each(lambda one: self.produce(one, settings)), strict=True))

    def _each(self, produce: Callable[[str], int]) -> list[int]:
        with ThreadPoolExecutor(len(TOPICS)) as pool:
            return list(pool.map(produce, TOPICS))

    def produce(self, topic: str, settings: Mapping[str, object]) -> int:
        """Send a record that was not sent before, with acks=all; return the error code."""
        value = f"{topic}-{next(self._numbers)}"
        answers = send(self.cluster.bootstrap, topic, [value.encode()], settings=settings)
        self.acked[topic] += [one.decode() for one in acked(answers)]
        return next(iter(errors(answers)), ACKED)

    def read(self, topic: str) -> list[str]:
        """Return every value in the topic."""
        polls = read_all(self.cluster.bootstrap, topic, 1)
        return [str(value) for poll in polls for _, value in poll.records]

    def back(self, *broker_ids: int) -> None:
        """Start brokers again and wait until all are in step under the preferred master."""
        for broker_id in broker_ids:
            self.cluster.nodes[broker_id].start()
        self.wait_for_all(lambda one: one["sync_state_set"] == [1, 2, 3] and one["master"] == 1)


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Policies]:
    directory = tmp_path_factory.mktemp("policies")
    settings = {**FAST, "controller": {**FAST["controller"], "preferred_master_delay_ms": 500}}
    with ClusterProcess(directory, controllers=1, settings=settings) as cluster:
        found = Policies(cluster)
        found.prepare()
        yield found


def test_what_producers_see_when_members_go_and_come_back(policies: Policies) -> None:
    nodes = policies.cluster.nodes
    policies.produce_to_all()
    nodes[3].kill()
    policies.produce_to_all()
    nodes[2].kill()
    policies.wait_for_all(lambda one: one["sync_state_set"] == [1])
    # The master may hear a moment after the controller that it is alone.
    assert wait_until(lambda: policies.told() == BOTH_SLAVES_GONE, WAIT_SECONDS)
    policies.back(2, 3)
    policies.produce_to_all()

    nodes[1].kill()
    policies.wait_for_all(lambda one: one["master"] in (2, 3))
    policies.produce_to_all()
    for topic in TOPICS:
        assert set(policies.acked[topic]) <= set(policies.read(topic)), topic
    policies.back(1)


def test_policies_that_count_copies_elect_nobody_without_enough_answers(
    policies: Policies,
) -> None:
    policies.cluster.nodes[3].kill()
    policies.wait_for_all(lambda one: one["sync_state_set"] == [1, 2])
    policies.cluster.nodes[1].kill()
    for topic, set_id in policies.sets.items():
        if topic in ("k-of-n", "quorum"):
            policies.wait(set_id, lambda one: one["master"] == -1 and one["reason"])
        else:
            policies.wait(set_id, lambda one: one["master"] == 2)
    policies.cluster.nodes[3].start()
    policies.wait_for_all(lambda one: one["master"] in (2, 3))
    policies.back(1)


def test_an_unclean_election_comes_where_it_is_allowed_and_says_what_was_cut(
    policies: Policies,
) -> None:
    nodes, set_id = policies.cluster.nodes, policies.sets["all"]
    nodes[3].kill()
    nodes[2].kill()
    policies.wait_for_all(lambda one: one["sync_state_set"] == [1])
    assert policies.produce("all", PATIENT) == ACKED
    only_on_1 = policies.acked["all"].pop()
    nodes[1].kill()
    nodes[2].start()
    policies.wait(set_id, lambda one: one["reason"] and member_of(one, 2)["is_live"])

    policies.do("set", "unclean", str(set_id), "on")
    policies.wait(set_id, lambda one: one["master"] == 2)
    assert policies.replica_set(set_id)["cause"].startswith("unclean: broker 2 ends at ")
    policies.do("set", "unclean", str(set_id), "off")
    policies.back(1, 3)
    assert only_on_1 not in policies.read("all")
    assert set(policies.acked["all"]) <= set(policies.read("all"))
    assert _truncated_bytes(nodes[1].metrics_port) > 0
    assert f"set={set_id} epoch=" in nodes[1].log_tail(1000)
    assert "truncates bytes=" in nodes[1].log_tail(1000)


def _truncated_bytes(metrics_port: int) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", metrics_port, timeout=WAIT_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
    lines = [line for line in page.splitlines() if line.startswith("penstock_truncated_bytes")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
