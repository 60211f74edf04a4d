"""A gRPC producer tells any of three nodes what becomes of its half message."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from google.protobuf.duration_pb2 import Duration
from rocketmq.grpc_protocol import definition_pb2 as definition

from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.grpc.producing import COMMIT, OK, ROLLBACK, UNKNOWN, Half, Payer
from tests.grpc.receiving import Member
from tests.grpc.served import Caller

pytestmark = pytest.mark.process

PAID, OTHER = "paid", "other"
NOBODY_IS_ASKED = {"orphaned_transaction_recovery_duration": Duration(seconds=600)}
CallerOf = Callable[[int], Caller]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path, has_grpc=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_topics([NewTopic(one, 1, 3) for one in (PAID, OTHER)]).values():
            future.result(UNTIL_SECONDS)
        yield cluster


@pytest.fixture
def caller_of(cluster: ClusterProcess) -> Iterator[CallerOf]:
    with ExitStack() as open_ones:

        def made(node: int) -> Caller:
            caller = Caller(f"127.0.0.1:{cluster.grpc_ports[node]}")
            open_ones.callback(caller.close)
            return caller

        yield made


def others(cluster: ClusterProcess) -> tuple[int, int]:
    """The nodes that do not lead the topic."""
    leader = cluster.leader_of(PAID, 0)
    first, second = (one for one in cluster.grpc_ports if one != leader)
    return first, second


def received(caller: Caller) -> list[str]:
    """What there is now to be received of the topic."""
    bodies: list[str] = []
    while found := Member(caller).receive(PAID, 1).bodies:
        bodies += found
    return bodies


def test_each_decision_counts_whichever_node_it_is_told_to(
    cluster: ClusterProcess, caller_of: CallerOf
) -> None:
    leads = caller_of(cluster.leader_of(PAID, 0))
    first, second = map(caller_of, others(cluster))
    payer = Payer(leads)
    paid, kept, open_one = (payer.half(PAID, body, **NOBODY_IS_ASKED) for body in "abc")
    wrong = Half(OTHER, paid.message_id, paid.transaction_id)
    assert Payer(first).end(wrong) == definition.INVALID_TRANSACTION_ID
    not_it = Payer(first).end(paid, message_id="ID-another")
    assert not_it == definition.INVALID_TRANSACTION_ID
    assert Payer(first).end(open_one, UNKNOWN) == OK
    assert received(leads) == [], "nothing of that is a decision"
    assert Payer(first).end(paid, COMMIT) == OK
    assert Payer(second).end(kept, ROLLBACK) == OK
    assert Payer(second).end(paid, COMMIT) == OK, "it is the same one"
    assert Payer(second).end(paid, ROLLBACK) == definition.BAD_REQUEST
    assert Payer(first).end(kept, COMMIT) == definition.BAD_REQUEST
    assert received(leads) == ["a"]


def test_a_decision_reaches_the_next_master_by_a_node_that_never_led(
    cluster: ClusterProcess, caller_of: CallerOf
) -> None:
    before = cluster.leader_of(PAID, 0)
    half = Payer(caller_of(before)).half(PAID, "a", **NOBODY_IS_ASKED)
    cluster.nodes[before].kill()
    leader = cluster.wait_for_leader(PAID)
    (asked,) = cluster.grpc_ports.keys() - {before, leader}
    payer, told = Payer(caller_of(asked)), set[int]()

    def is_decided() -> bool:
        told.add(payer.end(half))
        return OK in told

    assert wait_until(is_decided, UNTIL_SECONDS)
    assert told <= {OK, definition.HA_NOT_AVAILABLE}
    assert received(caller_of(leader)) == ["a"]
