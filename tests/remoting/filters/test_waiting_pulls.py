"""Pulls with a filter that wait, many of them beside one another, and the tail that they share."""

from collections.abc import Callable, Mapping
from copy import copy
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.remoting.filters import waiting
from penstock.remoting.filters.verdicts import Verdict
from penstock.remoting.filters.waiting import BEHIND_MS, TAIL_BYTES, TAIL_RECORDS, Looked, Tail
from penstock.remoting.handlers import pull as handler
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import decode_messages
from penstock.remoting.wire.properties import write_properties
from tests.broker.cluster import Cluster
from tests.remoting.served import pulled, sent
from tests.remoting.world import SET, Remoting, RemotingWire, remotings

WAIT_MS = 20_000
SUBSCRIBERS = 50
MESSAGES = 4


class Place:
    """One broker with a topic, a client that sends, and pulls that wait."""

    def __init__(self) -> None:
        self.cluster = Cluster(1)
        self.cluster.create("events")
        (self.remoting,) = remotings(self.cluster)
        self.reader: Remoting = copy(self.remoting)
        self.reader.wire = RemotingWire()

    def send(self, properties: Mapping[str, str], body: bytes = b"body") -> None:
        fields = sent("events", n=SET, i=write_properties(properties))
        asked = self.remoting.send(RequestCode.SEND_MESSAGE_V2, fields, body)
        self.cluster.world.run()
        answer = self.remoting.answer(asked)
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS

    def partitions(self) -> list[Any]:
        (topic,) = [self.remoting.node.broker.partitions.by_name[b"events"]]
        return [one for one in topic.partitions if one is not None]

    def wait(self, expression: str, offset: int = 0, **fields: Any) -> int:
        """Begin a pull that waits; return its number."""
        wanted = {"subscription": expression, "expressionType": "SQL92", "bname": SET}
        usual = wanted | {"sysFlag": 2 | 4, "suspendTimeoutMillis": WAIT_MS}
        asked = self.reader.send(11, pulled("events", offset, **usual | fields))
        self.cluster.world.run()
        return asked

    def answer(self, asked: int) -> Command | None:
        return self.reader.answer(asked)

    def found(self, asked: int) -> list[int]:
        """The offsets of what a pull has got; it has to be answered."""
        answer = self.answer(asked)
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS
        return [one.queue_offset for one in decode_messages(memoryview(answer.body))]


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets at which pulls read the log."""
    offsets: list[int] = []
    begin = handler._Pull.read

    def read(pull: Any, what: Any) -> None:
        offsets.append(what.offset)
        begin(pull, what)

    monkeypatch.setattr(handler._Pull, "read", read)
    return offsets


def test_a_message_is_read_once_for_all_who_do_not_want_it(place: Place, reads: list[int]) -> None:
    asked = [place.wait(f"colour = 'c{n}'") for n in range(SUBSCRIBERS)]
    assert not reads, "at the end of the log there is nothing to read"
    for _ in range(MESSAGES):
        place.send({"colour": "none"})
    assert len(reads) == MESSAGES
    assert not any(place.answer(one) for one in asked)
    place.send({"colour": f"c{SUBSCRIBERS - 1}"})
    assert place.found(asked[-1]) == [MESSAGES]
    assert not any(place.answer(one) for one in asked[:-1])
    assert len(reads) == MESSAGES + 2, "once for all, and once for whom it is"
    left_out = place.remoting.front.filtering.left_out
    assert left_out[Verdict.SQL] == SUBSCRIBERS * MESSAGES + SUBSCRIBERS - 1


def test_a_pull_gets_what_it_wants_from_among_what_it_does_not(place: Place) -> None:
    first, second = place.wait("a = 1"), place.wait("a = 2")
    place.send({"a": "2"})
    assert place.found(second) == [0]
    place.send({"a": "1"})
    answer = place.answer(first)
    assert answer is not None
    assert place.found(first) == [1]
    assert answer.fields["nextBeginOffset"] == "2"


def test_a_pull_whose_time_is_over_is_told_how_far_it_has_looked(place: Place) -> None:
    asked = place.wait("a = 1")
    place.send({"a": "2"})
    place.send({"a": "3"})
    place.cluster.world.advance(WAIT_MS // 2)
    assert place.answer(asked) is None
    place.cluster.world.advance(WAIT_MS // 2)
    answer = place.answer(asked)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert answer.fields["nextBeginOffset"] == answer.fields["maxOffset"] == "2"


def test_a_pull_for_which_nothing_came_is_told_so_in_the_end(place: Place) -> None:
    asked = place.wait("a = 1")
    place.cluster.world.advance(WAIT_MS)
    answer = place.answer(asked)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert answer.fields["nextBeginOffset"] == "0"


def test_a_pull_that_may_not_wait_is_told_at_once(place: Place) -> None:
    place.send({"a": "2"})
    answer = place.answer(place.wait("a = 1", sysFlag=4))
    assert answer is not None
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY


def test_a_pull_by_tags_waits_likewise(place: Place, reads: list[int]) -> None:
    asked = [place.wait(f"t{n}", expressionType="TAG") for n in range(3)]
    place.send({"TAGS": "t2"})
    assert place.found(asked[2]) == [0]
    assert not any(place.answer(one) for one in asked[:2])
    assert len(reads) == 2


def test_nothing_is_held_of_pulls_that_are_over(place: Place) -> None:
    front = place.remoting.front
    asked = [place.wait(f"a = {n}") for n in range(3)]
    held = front.held.bytes_now
    assert held > 0
    place.send({"a": "1"})
    assert front.waits.bytes_now > 0
    assert place.found(asked[1]) == [0]
    assert 0 < front.held.bytes_now < held
    place.cluster.world.advance(WAIT_MS)
    assert all(place.answer(one) is not None for one in asked)
    assert (front.held.bytes_now, front.waits.bytes_now) == (0, 0)
    assert not any(one.waiters for one in place.partitions())


def test_a_pull_whose_client_has_gone_ends_with_the_next_message(place: Place) -> None:
    front = place.remoting.front
    asked = place.wait("a = 1")
    place.reader.wire.is_closed = True
    place.send({"a": "1"})
    assert place.answer(asked) is None
    assert front.held.bytes_now == 0


class FrozenWire(RemotingWire):
    """A client that takes no answers: there is no room for any."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[int], int]] = []

    def ask_room(self, most: int, begin: Callable[[int], int]) -> None:
        self.waiting.append(begin)


def test_a_client_that_takes_no_answers_holds_nobody_who_wants_the_same_messages(
    place: Place, reads: list[int]
) -> None:
    good = place.reader
    place.reader = copy(good)
    place.reader.wire = frozen = FrozenWire()
    stuck = place.wait("a = 1")
    place.reader = good
    asked = [place.wait(f"a = {n}") for n in range(3)]
    place.send({"a": "1"})
    assert (len(frozen.waiting), reads) == (1, [0]), "the first one reads for all"
    assert not any(place.answer(one) for one in asked)
    place.cluster.world.advance(BEHIND_MS)
    assert place.found(asked[1]) == [0]
    assert place.answer(asked[0]) is None
    frozen.waiting.pop()(1 << 20)
    place.cluster.world.run()
    place.reader.wire = frozen
    assert place.found(stuck) == [0]


def test_those_who_wait_for_a_read_go_on_when_its_client_has_gone(place: Place) -> None:
    good = place.reader
    place.reader = copy(good)
    place.reader.wire = frozen = FrozenWire()
    place.wait("a = 1")
    place.reader = good
    asked = place.wait("a = 1")
    place.send({"a": "1"})
    assert place.answer(asked) is None
    frozen.is_closed = True
    frozen.waiting.pop()(0)
    place.cluster.world.run()
    assert place.found(asked) == [0]


def test_a_pull_gets_all_that_is_known_to_be_wanted(place: Place) -> None:
    others = [place.wait("a = 8"), place.wait("a = 9")]
    asked = place.wait("a = 1 or a = 3")
    for value in ("0", "1", "2", "3", "4"):
        place.send({"a": value})
    answer = place.answer(asked)
    assert answer is not None
    assert (place.found(asked), answer.fields["nextBeginOffset"]) == ([1], "2")
    assert place.found(place.wait("a = 1 or a = 3", 2)) == [3]
    assert place.found(place.wait("a = 1 or a = 3", 1)) == [1, 3]
    assert not any(place.answer(one) for one in others)


def test_where_too_many_partitions_have_tails_pulls_read_for_themselves(
    place: Place, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "TAILS_MAX", 0)
    asked = [place.wait(f"a = {n}") for n in range(3)]
    place.send({"a": "7"})
    place.send({"a": "1"})
    assert place.found(asked[1]) == [1]
    assert place.answer(asked[0]) is None
    assert len(reads) == 3 + 3


def test_a_pull_that_waits_hears_that_its_broker_is_no_master_any_more() -> None:
    place = Place.__new__(Place)
    place.cluster = Cluster(2)
    place.cluster.create("events")
    place.remoting = place.reader = remotings(place.cluster)[0]
    asked = place.wait("a = 1")
    place.cluster.lead(1)
    place.cluster.world.run()
    answer = place.answer(asked)
    assert answer is not None
    assert answer.code not in {ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND}


# --- the tail ---------------------------------------------------------------------------------


def hosted(log: object = "log", epoch: int = 1) -> Any:
    return SimpleNamespace(log=log, member=SimpleNamespace(leader_epoch=epoch))


def looked(first: int, end: int, size: int = 1) -> list[Looked]:
    return [Looked(offset, {"a": "x" * size}) for offset in range(first, end)]


def offsets(tail: Tail, offset: int) -> list[int] | None:
    found = tail.after(offset)
    return None if found is None else [one.offset for one in found]


def test_a_tail_knows_what_it_was_given_and_no_more() -> None:
    tail = Tail(hosted())
    assert offsets(tail, 0) is None
    tail.add(5, looked(5, 8), 9)
    assert offsets(tail, 4) is None
    assert offsets(tail, 5) == [5, 6, 7]
    assert offsets(tail, 7) == [7]
    assert offsets(tail, 9) == [], "a marker is at 8"
    assert offsets(tail, 10) is None
    tail.add(7, looked(7, 11), 11)
    assert offsets(tail, 6) == [6, 7, 9, 10], "8 was no message when it was looked at"
    tail.add(20, looked(20, 21), 21)
    assert offsets(tail, 6) is None, "it knows nothing of what is between"
    assert offsets(tail, 20) == [20]


@pytest.mark.parametrize(("count", "size"), [(TAIL_RECORDS * 2, 1), (100, TAIL_BYTES // 10)])
def test_a_tail_lets_the_oldest_go(count: int, size: int) -> None:
    tail = Tail(hosted())
    for offset in range(count):
        tail.add(offset, looked(offset, offset + 1, size), offset + 1)
    assert tail.bytes_now <= TAIL_BYTES
    assert offsets(tail, 0) is None
    kept = offsets(tail, tail.first)
    assert kept == list(range(tail.first, count))
    assert 0 < len(kept) <= TAIL_RECORDS


def test_a_tail_does_not_hold_what_is_larger_than_itself() -> None:
    tail = Tail(hosted())
    tail.add(0, looked(0, 1, TAIL_BYTES), 1)
    assert (tail.bytes_now, offsets(tail, 0), offsets(tail, 1)) == (0, None, [])


def test_a_tail_knows_nothing_of_what_a_long_read_has_begun_with() -> None:
    """A read keeps the last of its records alone."""
    tail = Tail(hosted())
    tail.add(0, looked(100, 100 + TAIL_RECORDS), 100 + TAIL_RECORDS)
    assert offsets(tail, 0) is None
    assert offsets(tail, 100) is not None


@pytest.mark.parametrize("change", ["epoch", "log"])
def test_a_tail_is_of_one_mastership_and_one_log(change: str) -> None:
    place = hosted()
    tail = Tail(place)
    tail.add(0, looked(0, 3), 3)
    if change == "epoch":
        place.member.leader_epoch = 2
    else:
        place.log = "another"
    assert offsets(tail, 0) is None
    tail.add(1, looked(1, 2), 2)
    assert (offsets(tail, 0), offsets(tail, 1)) == (None, [1])
