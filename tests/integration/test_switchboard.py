"""The network of one machine that can be cut: who dials is found, and nobody waits for that."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.waiting import UNTIL_SECONDS
from reliability.faults import switchboard
from reliability.faults.switchboard import INSIDE, OUTSIDE, Switchboard

NAMES = {os.getpid(): "dialler"}


@contextmanager
def board() -> Iterator[socket.socket]:
    """Yield a listener that a switchboard stands before."""
    with socket.create_server((INSIDE, 0)) as listener:
        listener.settimeout(UNTIL_SECONDS)
        with Switchboard({listener.getsockname()[1]: "listener"}, lambda: NAMES):
            yield listener


def dial(listener: socket.socket) -> socket.socket:
    address = (OUTSIDE, listener.getsockname()[1])
    return socket.create_connection(address, UNTIL_SECONDS)


def test_the_process_that_dials_is_found_by_both_ports() -> None:
    with board() as listener, dial(listener) as dialled:
        port, to = dialled.getsockname()[1], listener.getsockname()[1]
        assert switchboard._owner(port, to, NAMES) == "dialler"
        assert switchboard._owner(port, to + 1, NAMES) == ""
        assert switchboard._owner(port, to, {}) == ""


def test_while_it_looks_who_dials_everything_else_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, may_go_on = threading.Event(), threading.Event()

    def slow(port: int, to: int, names: object) -> str:
        del port, to, names
        asked.set()
        may_go_on.wait(2 * UNTIL_SECONDS)
        return "dialler"

    with board() as listener, dial(listener) as first:
        accepted, _ = listener.accept()
        monkeypatch.setattr(switchboard, "_owner", slow)
        accepted.settimeout(UNTIL_SECONDS)
        with accepted, dial(listener):
            assert asked.wait(UNTIL_SECONDS)
            first.sendall(b"there")
            assert accepted.recv(5) == b"there"
            may_go_on.set()
