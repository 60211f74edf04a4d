"""The door of the `penstock` program: streams and Ctrl-C are in order before anything is loaded.

The commands take a tenth of a second or more to load. Ctrl-C ends the process in that time without
a word, as it ends programs that do not ask for it; after it the guard in `program` answers.
"""

import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave the process with its exit code."""
    is_asked = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_asked:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_missing_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name of any letters can be shown
    from penstock.cli.program import guarded

    if is_asked:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(guarded(arguments))


def _open_missing_streams() -> None:
    """Put the null device where the caller closed stdin, stdout or stderr.

    Python has None there, and the next file or connection would get the free descriptor.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode))


if __name__ == "__main__":
    run()
