"""The record of a hand-out waits for company for some milliseconds, and nobody waits for it."""

from collections.abc import Callable

import pytest

from penstock.shares.flushing import LINGER_MS, LINGERING_MAX
from penstock.shares.records import decode_update
from penstock.shares.state import Acquired, Began, Moved, Settled, ShareKey, Update
from tests.shares.bench import KEY, offsets
from tests.shares.test_tracing import Heard
from tests.shares.world import World

OTHER = ShareKey("other", KEY.topic_id, KEY.partition)


class Times:
    """Keeps what is to happen later."""

    def __init__(self) -> None:
        self.set: list[Callable[[], None]] = []

    def after(self, delay_ms: int, callback: Callable[[], None]) -> None:
        assert delay_ms == LINGER_MS
        self.set.append(callback)

    def pass_by(self) -> None:
        due, self.set = self.set, []
        for callback in due:
            callback()


class Lingering(World):
    """Tells what is written since it was asked."""

    def __init__(self, times: Times, traces: Heard | None = None) -> None:
        super().__init__(after=times.after, traces=traces)
        self._seen = 0
        self.load().start()
        self.written()

    def written(self) -> list[list[type[Update]]]:
        """Return the kinds of updates of each batch."""
        self.settle()
        batches = self.journal.batches[self._seen :]
        self._seen += len(batches)
        return [
            [type(decode_update(one.value or b"")[1]) for one in each.records] for each in batches
        ]


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def one(times: Times) -> Lingering:
    return Lingering(times)


def test_a_hand_out_is_written_once_its_time_is_over(one: Lingering, times: Times) -> None:
    one.take(3)
    assert one.written() == []
    times.pass_by()
    assert one.written() == [[Acquired]]


def test_a_hand_out_and_its_acknowledgement_are_one_batch(one: Lingering, times: Times) -> None:
    handed = one.take(3)
    assert one.accept(handed).why_not is None
    assert one.written() == [[Acquired, Settled]]
    times.pass_by()
    assert one.written() == [], "nothing is left to be written"


def test_what_another_group_says_takes_a_hand_out_along(one: Lingering) -> None:
    one.start(key=OTHER)
    handed = one.take(3, key=OTHER)
    one.take(2)
    assert one.written() == [[Began, Moved]]
    one.accept(handed, 0, key=OTHER)
    assert one.written() == [[Acquired, Settled, Acquired]]


def test_many_hand_outs_wait_for_the_first_ones_time(one: Lingering, times: Times) -> None:
    one.start(key=OTHER)
    one.written()
    for _ in range(3):
        one.take(2)
        one.take(2, key=OTHER)
    assert len(times.set) == 1
    times.pass_by()
    assert one.written() == [[Acquired] * 6]
    one.take(2)
    assert len(times.set) == 1, "a time of its own"
    times.pass_by()
    assert one.written() == [[Acquired]]


def test_nothing_that_is_handed_out_sets_no_time(one: Lingering, times: Times) -> None:
    one.take(3, visible_end=0)
    assert times.set == []
    assert one.written() == []


def test_with_many_updates_that_are_not_confirmed_nothing_waits(
    one: Lingering, times: Times
) -> None:
    for _ in range(LINGERING_MAX - 1):
        one.take()
    assert one.written() == []
    one.take()
    assert one.written() == [[Acquired] * LINGERING_MAX]


def test_where_a_trace_is_kept_nothing_waits() -> None:
    heard, times = Heard(), Times()
    one = Lingering(times, heard)
    one.take(3)
    assert heard.taken() == [("delivered", [(0, 3)], "a")]
    heard.is_on = False
    one.take(3)
    assert one.written() == [[Acquired]]
    times.pass_by()
    assert one.written() == [[Acquired]]


def test_a_hand_out_that_waited_when_its_master_went_is_made_once_more(one: Lingering) -> None:
    handed = one.take(3)
    other = one.elsewhere()
    assert other.accept(handed, 0).why_not is None, "its receipts hold until then"
    again = other.take(3)
    assert offsets(again.runs) == [1, 2, 3]
    assert [*again.counts] == [1, 1, 1], "nobody knows of it"


def test_a_partition_that_went_meanwhile_is_not_written(one: Lingering, times: Times) -> None:
    one.take(3)
    one.coordinator.runtime.unload(0)
    times.pass_by()
    assert one.written() == []
