"""Routes: which queues clients are told of, and under which numbers."""

import pytest

from penstock.base.ids import BrokerId
from penstock.grpc.proto.messages import Address, Endpoints, MessageQueue, QueryRouteResponse
from penstock.grpc.routes import encoded_queues, endpoints_of
from penstock.protobuf.codec import decode

UNREACHED = BrokerId(9)


def queues(*leaders: int | None) -> list[tuple[int, str]]:
    """Number and address of each queue of a topic whose partitions have these masters."""

    def endpoints(leader: BrokerId) -> Endpoints | None:
        return None if leader == UNREACHED else endpoints_of(Address(host="h", port=leader))

    masters = [None if one is None else BrokerId(one) for one in leaders]
    told = decode(QueryRouteResponse, encoded_queues("t", masters, endpoints))
    return [(queue.id, address_of(queue)) for queue in told.message_queues]


def address_of(queue: MessageQueue) -> str:
    assert queue.broker is not None
    assert queue.broker.endpoints is not None
    (address,) = queue.broker.endpoints.addresses
    return f"{queue.broker.name} at {address.port}"


@pytest.mark.parametrize(
    ("leaders", "expected"),
    [
        ((1, 1, 1), [(0, 1), (1, 1), (2, 1)]),
        ((1, 2, 3), [(0, 1), (0, 2), (0, 3)]),
        ((2, 1, 2, 1), [(0, 2), (0, 1), (2, 2), (3, 1)]),
        ((None, 1, 1), [(0, 1), (2, 1)]),
        ((9, 1, 9, 2, 2), [(0, 1), (0, 2), (4, 2)]),
        ((None, 9), []),
    ],
)
def test_the_first_queue_of_each_node_has_the_number_0_and_others_that_of_their_partition(
    leaders: tuple[int | None, ...], expected: list[tuple[int, int]]
) -> None:
    """Node's client knows no other than 0: without one of its own a node would be left out."""
    assert queues(*leaders) == [(number, f"node-{node} at {node}") for number, node in expected]
