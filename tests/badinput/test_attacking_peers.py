"""A peer that attacks goes on where the port has nothing to say."""

import socket

import pytest

from reliability.attacks.attack_peers import take_what_is_there

SECONDS = 0.2


def test_nothing_to_read_is_not_waited_for() -> None:
    # It waited for the connection's time-out, and the attack ended by it.
    one, two = socket.socketpair()
    with one, two:
        one.settimeout(SECONDS)
        take_what_is_there(one)
        assert one.gettimeout() == SECONDS
        two.sendall(b"an answer")
        take_what_is_there(one)
        take_what_is_there(one)


def test_an_end_is_told() -> None:
    one, two = socket.socketpair()
    with one:
        two.close()
        with pytest.raises(ConnectionResetError):
            take_what_is_there(one)
