"""A guard that wants one word before it lets a client be served."""

from penstock.net.connection import Connection
from penstock.net.errors import CloseKind
from tests.net.serving import echo

WORD = b"open sesame"
LONG_FAREWELL = b"farewell.."
"""Who says this is told much, and ended."""
FAREWELL_BYTES = 16 << 20
"""More than the system takes from one side for the other."""


class Asking:
    """See the module."""

    takes_tokens = False
    frame_bytes_max = 1 << 20

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def is_late(self) -> bool:
        return False

    def lets(self, word: memoryview) -> bool:
        if not self.connection.principal and bytes(word) == WORD:
            self.connection.principal = "User:a"
        return bool(self.connection.principal)


def ask(connection: Connection) -> None:
    connection.guard = Asking(connection)


def served(connection: Connection, data: memoryview) -> None:
    """Echo to those without a guard, and those who have said the word."""
    guard = connection.guard
    if not isinstance(guard, Asking) or guard.lets(data):
        echo(connection, data)
    elif bytes(data) == LONG_FAREWELL:
        echo(connection, memoryview(bytes(FAREWELL_BYTES)))
        connection.end(CloseKind.AUTHENTICATION)
