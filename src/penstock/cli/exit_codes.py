"""Exit codes of every command, which scripts may rely on, and how a program ends.

Where nobody reads its output any more it ends silently, as for `… | head`: the product's commands
and the programs of the repository beside it, such as `python -m benchmarks.peers --list`. Of those
a broken connection stays an error: only the end of the reader of stdout is meant.

Source: the note on SIGPIPE in Python's documentation of `signal`.
"""

import io
import os
import select
import sys
from collections.abc import Callable
from typing import NoReturn

EXIT_OK = 0
EXIT_FAILED = 1
"""The command failed while it ran; trying again may help."""
EXIT_USAGE = 2
"""Arguments or settings are wrong; trying again does not help."""
EXIT_INTERRUPTED = 130
"""Interrupted by the keyboard (128 + SIGINT)."""


def end_with(main: Callable[[], int | None]) -> NoReturn:
    """Run a program and end the process with its exit code."""
    try:
        code = main() or EXIT_OK
        sys.stdout.flush()
    except BrokenPipeError:
        if is_read():
            raise
        drop_output()
        code = EXIT_OK
    sys.exit(code)


def is_read() -> bool:
    """Whether somebody may read stdout; always, where it is no pipe."""
    try:
        descriptor = sys.stdout.fileno()
    except io.UnsupportedOperation:
        return True
    poll = select.poll()
    poll.register(descriptor, 0)  # errors are told without being asked for
    return not any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def drop_output() -> None:
    """Let stdout, with what it still holds, go to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
