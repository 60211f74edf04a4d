"""Markers for thousands of partitions are asked for in turns, in questions of a bounded size."""

from types import SimpleNamespace
from typing import Any

from penstock.base.ids import CoordinatorEpoch, ProducerEpoch, ProducerId
from penstock.coordinator.calls.asking import Asks, Told
from penstock.coordinator.calls.transactions import MarkersRequest
from penstock.kafka.transactions.marking import ENTRIES_MAX, PARTITIONS_MAX, MarkerSender
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.messages import MarkerDuty
from penstock.transactions.state import TransactionState
from tests.kafka.transacting import add, begin, create
from tests.live_node import LiveNode, RawClient
from tests.turn_calls import CALLS_MAX, Turns

PARTITIONS, IDS = 1_200, 10
"""The partitions of all would be a turn of 40,000 calls."""


def test_markers_of_wide_transactions_take_no_long_turn(node: LiveNode, client: RawClient) -> None:
    create(client, "wide", PARTITIONS)
    names = [f"id-{number}" for number in range(IDS)]
    producers = {name: begin(node, client, name) for name in names}
    for name, producer in producers.items():
        assert add(client, producer, {"wide": range(PARTITIONS)}, name) == {ErrorCode.NONE}
    transactions = node.broker.transactions
    turns = Turns()
    node.call(turns.begin)
    try:
        for name, producer in producers.items():
            fields = {
                "transactional_id": name,
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "committed": True,
            }
            assert client.ask(ApiKey.END_TXN, 1, fields).error_code == ErrorCode.NONE
        assert node.until(lambda: all(is_over(node, name) for name in names))
    finally:
        node.call(turns.end)
    assert transactions.counters.committed == IDS
    assert 0 < turns.longest < CALLS_MAX, turns.begun_in


def is_over(node: LiveNode, name: str) -> bool:
    one = node.broker.transactions.describe(name).transaction
    return one is not None and one.state is TransactionState.COMPLETE_COMMIT


def test_no_question_is_larger_than_its_bounds(node: LiveNode, client: RawClient) -> None:
    server = node.node._calls.server
    asked: list[Asks[Any]] = []
    answer = server._handlers[MarkersRequest]

    async def note(question: Asks[Any]) -> Told:
        asked.append(question)
        return await answer(question)

    node.call(lambda: server._handlers.__setitem__(MarkersRequest, note))
    create(client, "wide", PARTITIONS)
    producer = begin(node, client)
    assert add(client, producer, {"wide": range(PARTITIONS)}) == {ErrorCode.NONE}
    again = {"transactional_id": "x", "transaction_timeout": 60_000}
    client.ask(ApiKey.INIT_PRODUCER_ID, 1, again)
    assert node.until(lambda: not node.broker.transactions.ending_count)
    entries = [one.entries for one in asked if isinstance(one, MarkersRequest)]
    sizes = [sum(len(one.partitions) for one in some) for some in entries]
    assert sum(sizes) >= PARTITIONS
    assert max(sizes) <= PARTITIONS_MAX
    assert max(map(len, entries)) <= ENTRIES_MAX


def test_an_answer_to_an_earlier_mastership_is_none_to_the_next_one() -> None:
    """The partition came back, and the same decision was found: it is told of itself alone."""
    noted: list[MarkerDuty] = []
    transactions = SimpleNamespace(markers_written=lambda duty, _: noted.append(duty))
    broker: Any = SimpleNamespace(transactions=transactions)
    calls: Any = None  # nothing is asked: the work is not begun
    sender = MarkerSender(broker, calls, lambda _, work: work.close())
    before, after = (
        MarkerDuty(
            transactional_id="x",
            producer_id=ProducerId(1),
            producer_epoch=ProducerEpoch(0),
            coordinator_epoch=CoordinatorEpoch(7),
            is_commit=True,
            version=1,
            number=1,
            partitions=frozenset({("t", 0)}),
        )
        for _ in range(2)
    )
    sender.send(0, before)
    sender.cancel(0)
    sender.send(0, after)
    sender._heard(before, [("t", 0)], [ErrorCode.NONE])
    assert (sender.waiting, noted) == (1, [])
    sender._heard(after, [("t", 0)], [ErrorCode.NONE])
    assert (sender.waiting, noted) == (0, [after])
