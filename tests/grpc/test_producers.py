"""Which producers of gRPC are known, and who of them is asked next."""

import pytest

from penstock.grpc.producing.producers import HEARD_MS, Producers, TooManyProducers
from penstock.grpc.producing.transactions import half_properties
from penstock.grpc.proto.messages import Duration, SystemProperties
from penstock.remoting.halves.times import IMMUNITY
from penstock.remoting.halves.turns import LOOKED_MAX


def anyone(stream: str) -> bool:
    del stream
    return True


def test_producers_of_a_topic_are_asked_one_after_another() -> None:
    producers: Producers[str] = Producers()
    producers.settle("one", ["t", "u", "t"], "s1", 0)
    producers.settle("two", ["t"], "s2", 0)
    assert [producers.next_of("t", anyone, 0) for _ in range(4)] == ["s1", "s2", "s1", "s2"]
    assert producers.next_of("u", anyone, 0) == "s1"
    assert producers.next_of("none", anyone, 0) is None
    assert producers.next_of("t", lambda stream: stream == "s2", 0) == "s2"
    assert producers.next_of("t", lambda _: False, 0) is None
    assert producers.count == 3


def test_a_question_looks_at_so_many_producers_and_the_next_one_goes_on_behind_them() -> None:
    producers: Producers[int] = Producers()
    for number in range(LOOKED_MAX + 2):
        producers.settle(f"client-{number}", ["t"], number, 0)
    looked: list[int] = []

    def is_the_last(stream: int) -> bool:
        looked.append(stream)
        return stream == LOOKED_MAX + 1

    assert producers.next_of("t", is_the_last, 0) is None
    assert looked == list(range(LOOKED_MAX))
    assert producers.next_of("t", is_the_last, 0) == LOOKED_MAX + 1
    assert looked[LOOKED_MAX:] == [LOOKED_MAX, LOOKED_MAX + 1]


def test_who_is_silent_is_not_asked_until_he_is_heard_again() -> None:
    producers: Producers[str] = Producers()
    producers.settle("one", ["t"], "s1", 0)
    assert producers.next_of("t", anyone, HEARD_MS - 1) == "s1"
    assert producers.next_of("t", anyone, HEARD_MS) is None
    producers.hear("one", HEARD_MS)
    producers.hear("nobody", HEARD_MS)
    assert producers.next_of("t", anyone, HEARD_MS) == "s1"
    assert producers.count == 1


def test_a_producer_that_has_a_newer_stream_stays_when_the_older_one_ends() -> None:
    producers: Producers[str] = Producers()
    producers.settle("one", ["t"], "s1", 0)
    producers.settle("one", ["t", "u"], "s2", 0)
    producers.leave("one", "s1")
    assert (producers.count, producers.next_of("t", anyone, 0)) == (2, "s2")
    producers.leave("one", "s2")
    producers.leave("one", "s2")
    assert (producers.count, producers.next_of("t", anyone, 0)) == (0, None)


def test_topics_that_are_told_no_more_are_left() -> None:
    producers: Producers[str] = Producers()
    producers.settle("one", ["t", "u"], "s1", 0)
    producers.settle("one", ["u", "v"], "s1", 0)
    assert producers.next_of("t", anyone, 0) is None
    assert producers.next_of("v", anyone, 0) == "s1"
    assert producers.count == 2
    producers.settle("one", [], "s1", 0)
    assert (producers.count, producers.next_of("u", anyone, 0)) == (0, None)
    producers.leave("one", "s1")
    assert producers.count == 0


def test_there_are_so_many_topics_and_no_more() -> None:
    producers: Producers[str] = Producers(most=2)
    producers.settle("one", ["t", "u"], "s1", 0)
    with pytest.raises(TooManyProducers):
        producers.settle("two", ["t"], "s2", 0)
    producers.settle("one", ["v", "w"], "s1", 0)
    producers.leave("one", "s1")
    producers.settle("two", ["t", "u"], "s2", 0)
    assert producers.count == 2


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (None, None),
        (Duration(), None),
        (Duration(nanos=1_000_000), "1"),
        (Duration(seconds=1), "1"),
        (Duration(seconds=1, nanos=1_000_000), "2"),
        (Duration(seconds=72 * 3_600), "259200"),
    ],
)
def test_a_transaction_is_asked_for_when_its_message_says_and_not_before(
    told: Duration | None, seconds: str | None
) -> None:
    system = SystemProperties(orphaned_transaction_recovery_duration=told)
    assert half_properties("t", system).get(IMMUNITY) == seconds


def test_users_take_turns_so_a_crowd_of_one_hides_nobody_of_another() -> None:
    producers: Producers[str] = Producers()
    for number in range(LOOKED_MAX + 2):
        producers.settle(f"crowd-{number}", ["t"], "unfit", 0, user="alice")
    producers.settle("one", ["t"], "s1", 0, user="bob")
    looked: list[str] = []

    def is_fit(stream: str) -> bool:
        looked.append(stream)
        return stream != "unfit"

    for _ in range(3):
        assert producers.next_of("t", is_fit, 0) == "s1"
    assert len(looked) <= 3 * LOOKED_MAX


def test_a_user_leaves_a_quarter_of_the_places_to_others() -> None:
    producers: Producers[str] = Producers(most=8)
    producers.settle("one", ["a", "b", "c", "d", "e", "f"], "s1", 0, user="alice")
    with pytest.raises(TooManyProducers):
        producers.settle("two", ["a"], "s2", 0, user="alice")
    producers.settle("two", ["a", "b"], "s3", 0, user="bob")
    producers.leave("one", "s1")
    producers.settle("three", ["a"], "s2", 0, user="alice")
    assert producers.count == 1 + 2
