"""Which consumers are there, and where groups begin: without a node."""

import pytest

from penstock.grpc.consuming.consumers import HEARD_MS, Consumers, TooManyConsumers
from penstock.remoting.pop.beginning import YOUNG_MAX, Begins, _offset


def test_a_consumer_is_there_while_it_is_heard() -> None:
    consumers = Consumers()
    consumers.hear("a", 0)
    assert not consumers.is_there("a", 0), "of who has told no settings nothing is kept"
    consumers.settle("a", "g", 2, "stream", 100)
    assert consumers.is_known("a", "g")
    assert not consumers.is_known("a", "h")
    assert consumers.is_there("a", 100 + HEARD_MS - 1)
    assert not consumers.is_there("a", 100 + HEARD_MS)
    consumers.hear("a", 200)
    assert consumers.is_there("a", 199 + HEARD_MS)


def test_the_end_of_an_older_stream_takes_nothing_away() -> None:
    consumers = Consumers()
    consumers.settle("a", "g", 2, "older", 0)
    consumers.settle("a", "g", 2, "newer", 0)
    consumers.leave("a", "older")
    assert consumers.is_known("a", "g")
    consumers.leave("a", "newer")
    assert not consumers.is_known("a", "g")
    assert not consumers.is_there("a", 0)
    assert len(consumers) == 0


def test_there_are_so_many_consumers_and_those_that_are_here_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.grpc.consuming.consumers.CONSUMERS_MAX", 1)
    consumers = Consumers()
    consumers.settle("a", "g", 2, "one", 0)
    consumers.settle("a", "g", 2, "two", 0)
    with pytest.raises(TooManyConsumers):
        consumers.settle("b", "g", 2, "three", 0)
    consumers.forget("a")
    consumers.settle("b", "g", 2, "three", 0)


@pytest.mark.parametrize(
    ("start", "end", "position", "begins", "offset"),
    [
        (0, YOUNG_MAX, None, Begins.WHILE_YOUNG, 0),
        (0, YOUNG_MAX + 1, None, Begins.WHILE_YOUNG, YOUNG_MAX + 1),
        (1, 5, None, Begins.WHILE_YOUNG, 5),
        (1, 5, None, Begins.START, 1),
        (0, 5, None, Begins.END, 5),
        (2, 5, 3, Begins.WHILE_YOUNG, 3),
        (2, 5, 1, Begins.END, 2),
        (2, 5, 9, Begins.START, 5),
        (0, 0, 0, Begins.END, 0),
    ],
)
def test_a_group_begins_at_its_position_or_where_its_client_says(
    start: int, end: int, position: int | None, begins: Begins, offset: int
) -> None:
    assert _offset(start, end, position, begins) == offset
