"""Answers that are kept for who asks again: how many, how large, and how long."""

from types import SimpleNamespace
from typing import Any

from penstock.grpc.consuming.attempts import ATTEMPTS_MAX, BYTES_MAX, Attempt, Attempts, Kept
from penstock.replication.errors import NotMaster
from penstock.shares.state import ShareKey


def attempt(name: str = "one", client: str = "c") -> Attempt:
    return Attempt(client, "g", "t", name)


def kept(nonce: int = 1, size: int = 10, *, is_led: bool = True) -> Kept:
    def check() -> None:
        if not is_led:
            raise NotMaster("elsewhere")

    hosted: Any = SimpleNamespace(check_still_led=check)
    return Kept(hosted, (ShareKey("g", bytes(16), 0), nonce), [bytes(size)], 100)


def test_an_answer_is_the_same_until_the_time_of_its_messages_ends() -> None:
    attempts = Attempts()
    answer = kept()
    attempts.keep(attempt(), answer)
    assert attempts.again(attempt(), 99) is answer
    assert attempts.again(attempt("two"), 0) is None
    assert attempts.again(attempt(client="d"), 0) is None
    assert attempts.again(attempt(), 100) is None
    assert (len(attempts), attempts.bytes_now) == (0, 0)


def test_an_answer_of_a_partition_that_is_led_elsewhere_is_none() -> None:
    attempts = Attempts()
    attempts.keep(attempt(), kept(is_led=False))
    assert attempts.again(attempt(), 0) is None
    assert len(attempts) == 0


def test_what_is_said_of_its_messages_ends_it_and_no_other() -> None:
    attempts = Attempts()
    attempts.keep(attempt("one"), kept(1))
    attempts.keep(attempt("two"), kept(2))
    attempts.said(ShareKey("g", bytes(16), 0), 1)
    attempts.said(ShareKey("g", bytes(16), 1), 2)
    assert attempts.again(attempt("one"), 0) is None
    assert attempts.again(attempt("two"), 0) is not None


def test_a_later_answer_takes_the_place_of_the_one_before() -> None:
    attempts = Attempts()
    attempts.keep(attempt(), kept(1))
    later = kept(2, 30)
    attempts.keep(attempt(), later)
    attempts.said(ShareKey("g", bytes(16), 0), 1)
    assert attempts.again(attempt(), 0) is later
    assert attempts.bytes_now == 30


def test_a_client_that_ends_leaves_nothing() -> None:
    attempts = Attempts()
    attempts.keep(attempt("one"), kept(1))
    attempts.keep(attempt("two", "d"), kept(2))
    attempts.leave("c")
    assert (len(attempts), attempts.bytes_now) == (1, 10)


def test_there_are_so_many_and_so_large_ones_and_the_oldest_goes_first() -> None:
    attempts = Attempts()
    for number in range(ATTEMPTS_MAX + 1):
        attempts.keep(attempt(str(number)), kept(number))
    assert len(attempts) == ATTEMPTS_MAX
    assert attempts.again(attempt("0"), 0) is None
    assert attempts.again(attempt("1"), 0) is not None
    attempts.keep(attempt("large"), kept(-1, BYTES_MAX - 5))
    assert attempts.again(attempt("large"), 0) is not None
    assert attempts.bytes_now <= BYTES_MAX
    attempts.keep(attempt("too large"), kept(-2, BYTES_MAX + 1))
    assert (len(attempts), attempts.bytes_now) == (0, 0)
